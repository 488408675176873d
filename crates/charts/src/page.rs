//! Makes pages in HTML. A page is one file, loads nothing, and follows the light or dark theme.

use super::text::escaped;
use super::theme::{Colour, Theme};

/// The rules after those of the colours. Tables with the class `sorts` are sorted by [`SCRIPT`].
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// Returns a page with a title. `body` is its content in HTML, below the heading.
pub fn page(title: &str, body: &str) -> String {
    let named = || [Colour::Background, Colour::Ink, Colour::Faint, Colour::Border, Colour::Panel];
    let colours = || named().into_iter().chain(Colour::all_series());
    let variables = |theme| {
        let variable = |colour: Colour| format!("--{}:{}", colour.class(), colour.in_theme(theme));
        format!(":root{{{}}}", colours().map(variable).collect::<Vec<_>>().join(";"))
    };
    let (light, dark) = (variables(Theme::Light), variables(Theme::Dark));
    let fill = |colour: Colour| format!(".fill.{0},.dot.{0},.key.{0}{{background:var(--{0})}}", colour.class());
    let fills: String = colours().map(fill).collect();
    let title = escaped(title);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; \
         script-src 'unsafe-inline'\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{title}</title>\n<style>\n{light}\n@media (prefers-color-scheme:dark){{{dark}}}\n{STYLE}{fills}\n</style>\n\
         </head>\n<body>\n<main>\n<h1>{title}</h1>\n{body}</main>\n<script>\n{SCRIPT}</script>\n</body>\n</html>\n",
    )
}
