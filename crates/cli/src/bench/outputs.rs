//! Checks and writes the output files of a benchmark of misses.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::super::failure::Outcome;
use super::super::new_file::{NewFile, refuse_same};
use super::super::output;

/// The options for the output files.
#[derive(Debug, clap::Args)]
pub struct OutputArguments {
    /// Write the results as JSON to FILE; `-` prints them instead of the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draw the mean latencies of misses, with and without filters, as SVG
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Also write the results as an HTML page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Replace the files of --json, --svg and --html if they exist
    #[arg(long)]
    force: bool,
}

/// The output files. The command has checked that it can write them.
#[derive(Debug)]
pub struct Outputs {
    json_to_stdout: bool,
    json: Option<NewFile>,
    svg: Option<NewFile>,
    page: Option<NewFile>,
}

impl OutputArguments {
    /// Checks, before a benchmark that may take minutes, that stdout and the files can be written.
    /// Returns an error if two of the files are the same, or if a file is among `inputs`.
    pub fn create(&self, inputs: Option<&Path>) -> Outcome<Outputs> {
        output::check_stdout()?;
        let json_to_stdout = self.json.as_deref().is_some_and(|path| path.as_os_str() == "-");
        let json_path = self.json.as_deref().filter(|_| !json_to_stdout);
        let files = [("--json", json_path), ("--svg", self.svg.as_deref()), ("--html", self.html.as_deref())];
        let files: Vec<_> = files.into_iter().filter_map(|(option, path)| Some((option, path?))).collect();
        refuse_same(&files)?;
        let create = |path: Option<&Path>| path.map(|path| NewFile::create(path, self.force)).transpose();
        let json = create(json_path)?;
        let (svg, page) = (create(self.svg.as_deref())?, create(self.html.as_deref())?);
        [&json, &svg, &page].into_iter().flatten().try_for_each(|file| file.refuse_inputs(inputs))?;
        Ok(Outputs { json_to_stdout, json, svg, page })
    }
}

impl Outputs {
    /// Writes the files, and prints the report as text or as JSON.
    pub fn publish(
        self,
        report: &impl Serialize,
        svg: impl FnOnce() -> String,
        page: impl FnOnce() -> Outcome<String>,
        text: impl FnOnce() -> String,
    ) -> Outcome<()> {
        if let Some(file) = self.svg {
            file.publish(svg().as_bytes())?;
        }
        if let Some(file) = self.page {
            file.publish(page()?.as_bytes())?;
        }
        if let Some(file) = self.json {
            file.publish(output::json(report)?.as_bytes())?;
        }
        match self.json_to_stdout {
            true => output::print_json(report),
            false => output::print(&text()),
        }
    }
}
