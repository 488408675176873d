//! Draws the most important steps of the demo as a terminal shows them. The SVG document follows
//! the light or dark theme of the reader.

use super::step::{Ran, Step};
use crate::prelude::*;
use charts::picture::{self, WIDTH};
use charts::text::escaped;
use charts::theme::{Colour, style};

/// The maximum number of characters in a line of a command or of its output. The widest common
/// monospaced font takes 7.25 SVG units per character.
const COLUMNS: usize = 94;
/// The distance between two lines in SVG units.
const LINE_STEP: f64 = 16.0;
const LEFT: f64 = 18.0;
const TOP: f64 = 64.0;

/// The rules after those of the colours.
const STYLE: &str = "\
text{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;font-size:12px;white-space:pre}
.title{font-family:system-ui,-apple-system,'Segoe UI',Roboto,Helvetica,Arial,sans-serif;font-size:17px;font-weight:600}
.plain{font-family:system-ui,-apple-system,'Segoe UI',Roboto,Helvetica,Arial,sans-serif}.command{font-weight:600}
";

struct Line {
    class: &'static str,
    text: String,
}

pub fn draw(all: &[(Step, Ran)]) -> String {
    let shown: Vec<&(Step, Ran)> = all.iter().filter(|(step, _)| step.is_drawn).collect();
    let mut lines: Vec<Line> = Vec::new();
    for (step, ran) in &shown {
        if !lines.is_empty() {
            lines.push(Line { class: "ink", text: String::new() });
        }
        lines.push(Line { class: "faint", text: format!("# {}", step.explanation) });
        add(&mut lines, "command", &format!("$ {}", step.command));
        ran.text.lines().for_each(|line| add(&mut lines, "ink", line));
    }
    let title = "filterblock demo: a damaged filter, and a store damaged and repaired";
    let subtitle = format!("{} of {}, with their real output", shown.len(), count(all.len() as u64, "step"));
    let described: Vec<String> =
        shown.iter().map(|(step, _)| format!("{} {}", step.explanation, step.command)).collect();
    let height = TOP + lines.len() as f64 * LINE_STEP + 22.0;
    let colours = style(|theme| {
        let [back, panel, border, ink, faint, command] =
            [Colour::Background, Colour::Panel, Colour::Border, Colour::Ink, Colour::Faint, Colour::Command]
                .map(|colour| colour.in_theme(theme));
        format!(
            ".back{{fill:{back}}}.screen{{fill:{panel};stroke:{border}}}.ink{{fill:{ink}}}.faint{{fill:{faint}}}\
             .command{{fill:{command}}}"
        )
    });
    let mut svg = picture::begin(height, title, &described.join(" "), &(colours + STYLE));
    svg += &format!(
        "<rect class=\"back\" width=\"{WIDTH}\" height=\"{height}\"/>\n\
         <text class=\"title ink\" x=\"16\" y=\"26\">{title}</text>\n\
         <text class=\"plain faint\" x=\"16\" y=\"43\">{subtitle}</text>\n\
         <rect class=\"screen\" x=\"8.5\" y=\"52.5\" width=\"{}\" height=\"{}\" rx=\"6\"/>\n",
        WIDTH - 17.0,
        height - 61.0,
    );
    for (line, number) in lines.iter().zip(1..) {
        let y = TOP + f64::from(number) * LINE_STEP;
        let (class, text) = (line.class, escaped(&line.text));
        if !text.is_empty() {
            svg += &format!("<text class=\"{class}\" x=\"{LEFT}\" y=\"{y}\" xml:space=\"preserve\">{text}</text>\n");
        }
    }
    svg + "</svg>\n"
}

/// Adds a command or a line of output, broken into lines of at most [`COLUMNS`] characters. Breaks
/// at the last space in the second half of the line, if there is one.
fn add(lines: &mut Vec<Line>, class: &'static str, text: &str) {
    let text = without_controls(text);
    let mut rest = text.as_str();
    let mut indent = "";
    while rest.chars().count() + indent.len() > COLUMNS {
        let most = rest.char_indices().nth(COLUMNS - indent.len()).map_or(rest.len(), |(at, _)| at);
        let (line, _) = rest.split_at(most);
        let end = line.rfind(' ').filter(|&end| end > COLUMNS / 2).unwrap_or(most);
        let (line, next) = rest.split_at(end);
        lines.push(Line { class, text: format!("{indent}{line}") });
        (rest, indent) = (next.trim_start(), "    ");
    }
    lines.push(Line { class, text: format!("{indent}{rest}") });
}

/// Replaces tabs by spaces up to the next multiple of 8 columns, as a terminal does. Removes other
/// control characters, because XML does not allow most of them.
fn without_controls(text: &str) -> String {
    let mut shown = String::new();
    let mut column = 0;
    for letter in text.chars() {
        let width = if letter == '\t' { 8 - column % 8 } else { usize::from(!letter.is_control()) };
        if letter == '\t' {
            shown += &" ".repeat(width);
        } else if width > 0 {
            shown.push(letter);
        }
        column += width;
    }
    shown
}
