//! Checks pictures in tests.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "only tests call this")]

use super::picture::{BASELINE, TEXT_SIZE, TITLE_SIZE, WIDTH, text_width};

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
