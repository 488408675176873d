//! Implements the page of filterblock, compiled to WebAssembly: a calculator, an inspector of files
//! and a picture of bits. The scripts of the page send requests in JSON and get answers in JSON.
//!
//! ```text
//! border             memory that the scripts share; slices of the file that the page has opened
//! plan  textbook     the calculator
//! picture  ribbon    keys that set bits; the equations of a small ribbon
//! map  report  ask   regions of a file; what `inspect` and `verify` say; what `query` says
//! file               the opened file, whole or in slices
//! ```

mod ask;
#[cfg(target_family = "wasm")]
mod border;
mod file;
mod map;
mod picture;
mod plan;
mod report;
mod ribbon;
mod textbook;

use std::rc::Rc;

use serde::Deserialize;
use serde_json::{Value, json};

pub use file::{Opened, Options};
pub use filterblock_parquet::index::{InMemory, ReadAt};

/// A request of the page.
#[derive(Debug, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
enum Request {
    /// The plans of all kinds, as `filterblock plan --json` prints them.
    Plan(plan::Question),
    /// The textbook formulas, solved for one of four numbers.
    Textbook(textbook::Question),
    /// The points of the plots.
    Curves(plan::CurvesQuestion),
    /// The steps in which keys set bits.
    Picture(picture::Question),
    /// Opens the file and reports on it.
    Open { name: String, options: Options },
    /// Verifies the opened file, as `filterblock verify` does.
    Verify,
    /// Looks up keys.
    Ask(ask::Question),
}

/// The state between requests: the opened file.
#[derive(Debug, Default)]
pub struct Page {
    opened: Option<Opened>,
}

impl Page {
    /// Answers a request. An answer with an error is an object with the field `error`. `source` is
    /// the file that the user has chosen, if any.
    pub fn answer(&mut self, request: &str, source: Option<Rc<dyn ReadAt>>) -> String {
        let answer = match serde_json::from_str(request) {
            Ok(request) => self.dispatch(request, source),
            Err(error) => Err(format!("the request cannot be read: {error}; reload the page")),
        };
        answer.unwrap_or_else(|error| json!({ "error": error })).to_string()
    }

    fn dispatch(&mut self, request: Request, source: Option<Rc<dyn ReadAt>>) -> Result<Value, String> {
        const NO_FILE: &str = "no file is open; choose one";
        let opened = || self.opened.as_ref().ok_or_else(|| NO_FILE.to_owned());
        match request {
            Request::Plan(question) => plan::answer(&question),
            Request::Textbook(question) => textbook::answer(&question),
            Request::Curves(question) => plan::curves(&question),
            Request::Picture(question) => picture::answer(&question),
            Request::Verify => Ok(report::verify(opened()?)),
            Request::Ask(question) => ask::answer(opened()?, &question),
            Request::Open { name, options } => {
                self.opened = None;
                let opened = Opened::open(source.ok_or(NO_FILE)?, &name, &options)?;
                let mut report = report::inspect(&opened);
                report["map"] = map::of(&opened);
                self.opened = Some(opened);
                Ok(report)
            }
        }
    }
}
