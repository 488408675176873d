//! Draws pictures as SVG documents: text, lines, bars and areas that follow the light or dark theme
//! of the reader.

use std::fmt::{Display, Write as _};

use super::text::escaped;
use super::theme::{Colour, style};

/// The width of every picture in SVG units. Pages show a picture about 700 pixels wide, so a unit
/// is about a pixel.
pub const WIDTH: f64 = 720.0;
/// The size of all text but the title, in units. On a page that shows the picture 700 pixels wide,
/// this is more than 11 pixels.
pub const TEXT_SIZE: f64 = 12.0;
pub(crate) const TITLE_SIZE: f64 = 17.0;
/// The distance from the middle of a line of text down to its baseline, as a share of the font
/// size.
pub(crate) const BASELINE: f64 = 0.35;

/// The rules after those of the colours.
const STYLE: &str = "\
text{fill:currentColor;font-family:system-ui,-apple-system,'Segoe UI',Roboto,Helvetica,Arial,sans-serif;font-size:12px}
.title{font-size:17px;font-weight:600}.bold{font-weight:600}
.line{fill:none;stroke:currentColor;stroke-width:2;stroke-linejoin:round}.thin{stroke-width:1}
.dashed{stroke-dasharray:6 4}.fill{fill:currentColor;stroke:none}.soft{fill:currentColor;fill-opacity:.13;stroke:none}
";

/// The part of a text that lies at the given position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    Start,
    Middle,
    End,
}

/// The style of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stroke {
    Solid,
    Thin,
    Dashed,
}

/// An unfinished picture. Positions are in units from the upper left corner.
#[derive(Debug)]
pub struct Picture {
    svg: String,
}

impl Picture {
    /// Begins a picture with a visible title and subtitle. Screen readers read `description`.
    pub fn new(height: f64, title: &str, subtitle: &str, description: &str) -> Self {
        let colours = [Colour::Background, Colour::Ink, Colour::Faint, Colour::Grid];
        let rule = |colour: Colour, theme| format!(".{}{{color:{}}}", colour.class(), colour.in_theme(theme));
        let rules = |theme| colours.into_iter().chain(Colour::all_series()).map(|colour| rule(colour, theme)).collect();
        let mut picture = Self { svg: begin(height, title, description, &(style(rules) + STYLE)) };
        picture.element("rect", "back fill", &[("width", WIDTH), ("height", height)]);
        picture.write_text("ink title", (16.0, 20.0), TITLE_SIZE, Anchor::Start, title);
        picture.text(subtitle, (16.0, 43.0), Anchor::Start, Colour::Faint);
        picture
    }

    /// Writes a line of text. The vertical middle of the text is at the height of `at`.
    pub fn text(&mut self, text: &str, at: (f64, f64), anchor: Anchor, colour: Colour) {
        self.write_text(colour.class(), at, TEXT_SIZE, anchor, text);
    }

    /// Writes a line of bold text at the same position as [`Picture::text`].
    pub fn bold_text(&mut self, text: &str, at: (f64, f64), anchor: Anchor, colour: Colour) {
        self.write_text(&format!("{} bold", colour.class()), at, TEXT_SIZE, anchor, text);
    }

    /// Draws straight lines from each point to the next.
    pub fn line(&mut self, points: &[(f64, f64)], stroke: Stroke, colour: Colour) {
        let stroke = match stroke {
            Stroke::Solid => "line",
            Stroke::Thin => "line thin",
            Stroke::Dashed => "line dashed",
        };
        self.path(points, "", &format!("{} {stroke}", colour.class()));
    }

    /// Shades the polygon with these corners.
    pub fn area(&mut self, corners: &[(f64, f64)], colour: Colour) {
        self.path(corners, "Z", &format!("{} soft", colour.class()));
    }

    /// Fills the rectangle between two corners.
    pub fn bar(&mut self, (left, top): (f64, f64), (right, bottom): (f64, f64), colour: Colour) {
        let sizes = [("x", left), ("y", top), ("width", right - left), ("height", bottom - top)];
        self.element("rect", &format!("{} fill", colour.class()), &sizes);
    }

    /// Draws a filled circle.
    pub fn dot(&mut self, (x, y): (f64, f64), radius: f64, colour: Colour) {
        self.element("circle", &format!("{} fill", colour.class()), &[("cx", x), ("cy", y), ("r", radius)]);
    }

    /// Draws a circle whose inside has the colour of the background, so that it hides lines behind
    /// it.
    pub fn ring(&mut self, at: (f64, f64), radius: f64, colour: Colour) {
        self.dot(at, radius, Colour::Background);
        let (x, y) = at;
        self.element("circle", &format!("{} line", colour.class()), &[("cx", x), ("cy", y), ("r", radius)]);
    }

    pub fn finish(mut self) -> String {
        self.svg += "</svg>\n";
        self.svg
    }

    fn write_text(&mut self, class: &str, (x, y): (f64, f64), size: f64, anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        let (x, y, text) = (short(x), short(y + size * BASELINE), escaped(text));
        self.write(format_args!("<text class=\"{class}\" x=\"{x}\" y=\"{y}\"{anchor}>{text}</text>\n"));
    }

    fn path(&mut self, points: &[(f64, f64)], end: &str, class: &str) {
        let steps: Vec<String> = points.iter().map(|&(x, y)| format!("{} {}", short(x), short(y))).collect();
        self.write(format_args!("<path class=\"{class}\" d=\"M{}{end}\"/>\n", steps.join("L")));
    }

    fn element(&mut self, name: &str, class: &str, attributes: &[(&str, f64)]) {
        let attributes: String =
            attributes.iter().map(|(name, value)| format!(" {name}=\"{}\"", short(*value))).collect();
        self.write(format_args!("<{name} class=\"{class}\"{attributes}/>\n"));
    }

    fn write(&mut self, element: impl Display) {
        // Writing to a string does not fail.
        let _ = write!(self.svg, "{element}");
    }
}

/// Returns the beginning of an SVG document with a style sheet. Screen readers read `title` and
/// `description`. The end of the document is `</svg>`.
pub fn begin(height: f64, title: &str, description: &str, style: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
         height=\"{height}\" role=\"img\" aria-labelledby=\"title desc\">\n\
         <title id=\"title\">{}</title>\n<desc id=\"desc\">{}</desc>\n<style>\n{style}</style>\n",
        escaped(title),
        escaped(description)
    )
}

/// Estimates the width of a text of size [`TEXT_SIZE`], in units. Readers have different fonts, so
/// the estimate is for a wide font.
pub fn text_width(text: &str) -> f64 {
    let width = |letter: char| match letter {
        'i' | 'j' | 'l' | 'I' | 't' | 'f' | 'r' | '.' | ',' | ':' | ';' | '\'' | '|' | '!' | '(' | ')' | ' ' | '/' => {
            0.37
        }
        'm' | 'w' | 'M' | 'W' | '%' => 0.95,
        'A'..='Z' => 0.7,
        _ => 0.62,
    };
    text.chars().map(width).sum::<f64>() * TEXT_SIZE
}

/// Formats a number with at most one decimal, which is finer than a pixel.
fn short(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::super::check;
    use super::*;

    #[test]
    fn a_picture_escapes_its_texts() {
        let mut picture = Picture::new(100.0, "a < b", "\"b\" & c", "d");
        picture.text("n > 1", (10.0, 80.0), Anchor::Start, Colour::Ink);
        let svg = picture.finish();
        assert!(svg.contains("a &lt; b") && svg.contains("&quot;b&quot; &amp; c") && svg.contains("n &gt; 1"), "{svg}");
        check::is_readable(&svg);
    }

    #[test]
    #[should_panic(expected = "overlaps")]
    fn overlapping_texts_are_found() {
        let mut picture = Picture::new(100.0, "a", "b", "c");
        picture.text("one", (10.0, 80.0), Anchor::Start, Colour::Ink);
        picture.text("two", (20.0, 85.0), Anchor::Middle, Colour::Ink);
        check::is_readable(&picture.finish());
    }
}
