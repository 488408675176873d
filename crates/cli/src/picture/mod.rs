//! Draws pictures as SVG documents: text, lines, bars and areas that follow the light or dark theme
//! of the reader.
//!
//! The command, `benches/peers` and `benches/stores` draw with this module. The module depends on
//! none of them.

pub mod bars;
pub mod frame;

use std::fmt::{Display, Write as _};

/// The width of every picture in SVG units. Pages show a picture about 700 pixels wide, so a unit
/// is about a pixel.
pub const WIDTH: f64 = 720.0;
/// The size of all text but the title, in units. On a page that shows the picture 700 pixels wide,
/// this is more than 11 pixels.
pub const TEXT_SIZE: f64 = 12.0;
const TITLE_SIZE: f64 = 17.0;
/// The distance from the middle of a line of text down to its baseline, as a share of the font
/// size.
const BASELINE: f64 = 0.35;

/// The style sheet. The colours of texts and series have a contrast ratio of at least 4.5:1 to the
/// background.
const STYLE: &str = "\
.back{color:#ffffff}.ink{color:#1f2328}.faint{color:#59636e}.grid{color:#d8dee4}\
.c0{color:#0969da}.c1{color:#bc4c00}.c2{color:#1a7f37}.c3{color:#8250df}.c4{color:#bf3989}.c5{color:#1b7c83}\
.c6{color:#9a6700}
@media (prefers-color-scheme: dark){\
.back{color:#0d1117}.ink{color:#e6edf3}.faint{color:#9198a1}.grid{color:#30363d}\
.c0{color:#58a6ff}.c1{color:#f0883e}.c2{color:#3fb950}.c3{color:#bc8cff}.c4{color:#f778ba}.c5{color:#39c5cf}\
.c6{color:#d29922}}
text{fill:currentColor;font-family:system-ui,-apple-system,'Segoe UI',Roboto,Helvetica,Arial,sans-serif;font-size:12px}
.title{font-size:17px;font-weight:600}.bold{font-weight:600}
.line{fill:none;stroke:currentColor;stroke-width:2;stroke-linejoin:round}.thin{stroke-width:1}
.dashed{stroke-dasharray:6 4}.fill{fill:currentColor;stroke:none}.soft{fill:currentColor;fill-opacity:.13;stroke:none}
";

/// A colour of the theme.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colour {
    Background,
    Ink,
    Faint,
    Grid,
    /// The colour of a series, counted from 0. There are [`Colour::SERIES`] colours, and higher
    /// numbers start again with the first.
    Series(usize),
}

impl Colour {
    /// The number of different colours of series.
    pub const SERIES: usize = 7;

    fn class(self) -> String {
        match self {
            Self::Background => "back".into(),
            Self::Ink => "ink".into(),
            Self::Faint => "faint".into(),
            Self::Grid => "grid".into(),
            Self::Series(number) => format!("c{}", number % Self::SERIES),
        }
    }
}

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
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
             height=\"{height}\" role=\"img\" aria-labelledby=\"title desc\">\n"
        );
        svg += &format!("<title id=\"title\">{}</title>\n", escaped(title));
        svg += &format!("<desc id=\"desc\">{}</desc>\n<style>\n{STYLE}</style>\n", escaped(description));
        let mut picture = Self { svg };
        picture.element("rect", "back fill", &[("width", WIDTH), ("height", height)]);
        picture.write_text("ink title", (16.0, 20.0), TITLE_SIZE, Anchor::Start, title);
        picture.text(subtitle, (16.0, 43.0), Anchor::Start, Colour::Faint);
        picture
    }

    /// Writes a line of text. The vertical middle of the text is at the height of `at`.
    pub fn text(&mut self, text: &str, at: (f64, f64), anchor: Anchor, colour: Colour) {
        self.write_text(&colour.class(), at, TEXT_SIZE, anchor, text);
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

    /// Returns the finished document.
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

/// Escapes a text for the content or a double-quoted attribute of an element.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Formats a number with at most one decimal, which is finer than a pixel.
fn short(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

#[cfg(test)]
pub mod check {
    //! Checks pictures in tests.

    use super::*;

    struct Label {
        left: f64,
        right: f64,
        middle: f64,
        size: f64,
        text: String,
    }

    fn attribute<'a>(element: &'a str, name: &str) -> Option<&'a str> {
        element.split_once(&format!(" {name}=\"")).and_then(|(_, rest)| rest.split_once('"')).map(|(value, _)| value)
    }

    fn labels(svg: &str) -> Vec<Label> {
        let label = |element: &str| {
            let (attributes, rest) = element.split_once('>').unwrap();
            let text = rest.split_once("</text>").unwrap().0.replace("&lt;", "<").replace("&gt;", ">");
            let number = |name| attribute(attributes, name).unwrap().parse::<f64>().unwrap();
            let size = if attribute(attributes, "class").unwrap().contains("title") { TITLE_SIZE } else { TEXT_SIZE };
            let width = text_width(&text) * size / TEXT_SIZE;
            let left = match attribute(attributes, "text-anchor") {
                None => number("x"),
                Some("middle") => number("x") - width / 2.0,
                Some(_) => number("x") - width,
            };
            Label { left, right: left + width, middle: number("y") - size * BASELINE, size, text }
        };
        svg.split("<text").skip(1).map(label).collect()
    }

    /// Asserts that a picture is complete, and that its texts lie inside it and do not overlap.
    pub fn is_readable(svg: &str) {
        for part in ["role=\"img\"", "<title id=\"title\">", "<desc id=\"desc\">", "prefers-color-scheme: dark"] {
            assert!(svg.contains(part), "{part} is missing");
        }
        assert!(svg.trim_end().ends_with("</svg>"));
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "a position is not a number");
        const { assert!(TEXT_SIZE * 700.0 / WIDTH >= 11.0) };
        let height: f64 = attribute(svg, "height").unwrap().parse().unwrap();
        let labels = labels(svg);
        assert!(labels.len() > 2);
        for (number, label) in labels.iter().enumerate() {
            let is_inside = label.left >= 0.0 && label.right <= WIDTH && label.middle > 0.0 && label.middle < height;
            assert!(is_inside, "{:?} leaves the picture: {} to {}", label.text, label.left, label.right);
            for other in &labels[..number] {
                let is_beside = label.left >= other.right || other.left >= label.right;
                let is_apart = (label.middle - other.middle).abs() >= (label.size + other.size) / 2.0 - 0.5;
                assert!(is_beside || is_apart, "{:?} overlaps {:?}", label.text, other.text);
            }
        }
    }
}

#[cfg(test)]
mod tests {
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
