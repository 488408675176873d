//! `filterblock man` and `filterblock completions`: make the manual pages of the command and its
//! subcommands from their help, and print the completion script of a shell.

use std::path::{Path, PathBuf};

use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use crate::new_file::NewFile;
use crate::prelude::*;

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  filterblock completions bash > ~/.local/share/bash-completion/completions/filterblock
  filterblock completions zsh > ~/.zfunc/_filterblock
  filterblock completions fish > ~/.config/fish/completions/filterblock.fish
  filterblock completions powershell >> $PROFILE

For zsh, the folder must be in fpath before compinit runs: fpath+=~/.zfunc in ~/.zshrc.

To try the completions in a running bash:
  source <(filterblock completions bash)

Exit status: 0 printed; 2 an error.";

/// Print the completion script of a shell
#[derive(clap::Args)]
#[command(after_long_help = COMPLETIONS_EXAMPLES)]
pub struct CompletionsArguments {
    /// The shell
    #[arg(value_enum, value_name = "SHELL")]
    shell: Shell,
}

pub fn complete(arguments: &CompletionsArguments, mut command: clap::Command) -> Outcome {
    let mut script = Vec::new();
    let name = command.get_name().to_owned();
    clap_complete::generate(arguments.shell, &mut command, name, &mut script);
    output::print_as_is(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Success)
}

const EXAMPLES: &str = "\
Examples:
  filterblock man | man -l -
  filterblock man --out ~/.local/share/man/man1
  man filterblock-db-repair

Without --out the command prints the main page. With --out it writes a file for `filterblock` and a file for each \
subcommand, such as filterblock.1 and filterblock-db-get.1. It creates the directory if it is missing.

Exit status: 0 done; 2 an error. After an error some of the pages may be written.";

/// Print the manual page, or write a page for each subcommand
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Arguments {
    /// Write all pages into this directory
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Replace the files of --out if they exist
    #[arg(long, requires = "out")]
    force: bool,
}

struct Page {
    file_name: String,
    roff: Vec<u8>,
}

pub fn run(arguments: &Arguments, command: clap::Command) -> Outcome {
    // The `help` subcommands would only repeat the pages.
    let mut command = command.disable_help_subcommand(true);
    command.build();
    match &arguments.out {
        Some(dir) => write_all(&command, dir, arguments.force)?,
        None => output::print_as_is(&String::from_utf8_lossy(&page(&command, &[])?.roff))?,
    }
    Ok(Exit::Success)
}

/// Writes the pages of the command and its subcommands into `dir`. Checks first that all files can
/// be created.
fn write_all(command: &clap::Command, dir: &Path, force: bool) -> Outcome<()> {
    let mut pages = Vec::new();
    let mut open = vec![(command, Vec::new())];
    while let Some((command, mut above)) = open.pop() {
        pages.push(page(command, &above)?);
        above.push(name(command).to_owned());
        let subcommands = command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set());
        open.extend(subcommands.map(|subcommand| (subcommand, above.clone())));
    }
    std::fs::create_dir_all(dir).map_err(|error| Failure::file(dir, error))?;
    let files = pages.iter().map(|page| Ok((NewFile::create(&dir.join(&page.file_name), force)?, page)));
    for (file, page) in files.collect::<Outcome<Vec<_>>>()? {
        file.publish(&page.roff)?;
    }
    message(format_args!("wrote {} into {}", count(pages.len() as u64, "manual page"), dir.display()));
    Ok(())
}

/// Returns the full name of a command, such as `filterblock-db-get`.
fn name(command: &clap::Command) -> &str {
    command.get_display_name().unwrap_or_else(|| command.get_name())
}

/// Makes the page of one command. `above` has the full names of its parent commands, the main
/// command first.
fn page(command: &clap::Command, above: &[String]) -> Outcome<Page> {
    let name = name(command);
    let source = concat!("filterblock ", env!("CARGO_PKG_VERSION"));
    let man = Man::new(command.clone()).title(name.to_uppercase()).source(source);
    let mut roff = Vec::new();
    let rendered = (|| {
        man.render_title(&mut roff)?;
        man.render_name_section(&mut roff)?;
        man.render_synopsis_section(&mut roff)?;
        man.render_description_section(&mut roff)?;
        if command.get_arguments().any(|argument| !argument.is_hide_set()) {
            man.render_options_section(&mut roff)?;
        }
        if command.has_subcommands() {
            man.render_subcommands_section(&mut roff)?;
        }
        if let Some(text) = command.get_after_long_help() {
            sections(&text.to_string()).to_writer(&mut roff)?;
        }
        see_also(above).to_writer(&mut roff)
    })();
    rendered.map_err(|error: std::io::Error| Failure::Message(format!("manual page of {name}: {error}")))?;
    Ok(Page { file_name: format!("{name}.1"), roff })
}

/// Converts the help text after the options to sections. A paragraph with a heading, such as
/// `Exit status:`, begins a section. A paragraph without a heading continues the section before it.
/// If it is the first paragraph or follows the examples, it begins the section NOTES instead.
fn sections(text: &str) -> Roff {
    let mut roff = Roff::new();
    let mut title = "NOTES".to_owned();
    let mut is_open = false;
    for paragraph in text.split("\n\n") {
        let (heading, rest) = heading(paragraph);
        if let Some(heading) = heading {
            title = heading.to_uppercase();
            roff.control("SH", [title.as_str()]);
        } else if !is_open || title == "EXAMPLES" {
            title = "NOTES".to_owned();
            roff.control("SH", [title.as_str()]);
        } else {
            roff.control("PP", []);
        }
        is_open = true;
        for line in rest.lines() {
            add_line(&mut roff, line, title == "EXAMPLES");
        }
    }
    roff
}

/// Splits the heading from a paragraph. A heading is the words `Exit status:`, or a first line that
/// ends with a colon and stands above an indented line.
fn heading(paragraph: &str) -> (Option<&str>, &str) {
    if let Some(rest) = paragraph.strip_prefix("Exit status: ") {
        return (Some("Exit status"), rest);
    }
    match paragraph.split_once(":\n") {
        Some((heading, rest)) if !heading.contains('\n') && rest.starts_with(' ') => (Some(heading), rest),
        _ => (None, paragraph),
    }
}

/// Adds a line of a section. An indented line of two columns becomes a term and its explanation.
fn add_line(roff: &mut Roff, line: &str, is_example: bool) {
    let text = line.trim_start();
    let is_indented = text.len() < line.len();
    match text.split_once("  ") {
        Some((term, explanation)) if is_indented => {
            roff.control("TP", ["16"]);
            roff.text([bold(term)]);
            roff.text([roman(explanation.trim_start())]);
        }
        _ => {
            if is_example {
                roff.control("EX", []);
            } else if is_indented {
                roff.control("PP", []);
            }
            roff.text([roman(text)]);
            if is_example {
                roff.control("EE", []);
            }
        }
    }
}

/// Returns the section SEE ALSO, which names the pages of the parent commands in `above`. It is
/// empty for the main command.
fn see_also(above: &[String]) -> Roff {
    let mut roff = Roff::new();
    if !above.is_empty() {
        let pages: Vec<String> = above.iter().map(|page| format!("{page}(1)")).collect();
        roff.control("SH", ["SEE ALSO"]);
        roff.text([roman(pages.join(", "))]);
    }
    roff
}
