//! `filterblock completions`: prints the completion script of a shell.

use clap_complete::Shell;

use super::failure::{Exit, Outcome};
use super::output;

const EXAMPLES: &str = "\
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
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Arguments {
    /// The shell
    #[arg(value_enum, value_name = "SHELL")]
    shell: Shell,
}

/// Runs `filterblock completions`. `command` defines all subcommands and options.
pub fn run(arguments: &Arguments, mut command: clap::Command) -> Outcome {
    let mut script = Vec::new();
    let name = command.get_name().to_owned();
    clap_complete::generate(arguments.shell, &mut command, name, &mut script);
    output::print(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Success)
}
