//! The colours of pictures and pages in the light and in the dark theme. Texts and series have a
//! contrast ratio of at least 4.5:1 to the background.

/// A colour of the theme.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colour {
    Background,
    Ink,
    Faint,
    Grid,
    /// The borders of panels.
    Border,
    /// The background of terminals and code.
    Panel,
    /// A command in a terminal.
    Command,
    /// The colour of a series, counted from 0. There are [`Colour::SERIES`] colours, and higher
    /// numbers start again with the first.
    Series(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Theme {
    Light,
    Dark,
}

const SERIES: [(&str, &str, &str); Colour::SERIES] = [
    ("c0", "#0969da", "#58a6ff"),
    ("c1", "#bc4c00", "#f0883e"),
    ("c2", "#1a7f37", "#3fb950"),
    ("c3", "#8250df", "#bc8cff"),
    ("c4", "#bf3989", "#f778ba"),
    ("c5", "#1b7c83", "#39c5cf"),
    ("c6", "#9a6700", "#d29922"),
];

impl Colour {
    /// The number of different colours of series.
    pub const SERIES: usize = 7;

    /// Returns the name in style sheets, and the colours of the light and the dark theme.
    #[expect(clippy::indexing_slicing, reason = "the remainder is below the length")]
    fn row(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Background => ("back", "#ffffff", "#0d1117"),
            Self::Ink => ("ink", "#1f2328", "#e6edf3"),
            Self::Faint => ("faint", "#59636e", "#9198a1"),
            Self::Grid => ("grid", "#d8dee4", "#30363d"),
            Self::Border => ("line", "#d1d9e0", "#3d444d"),
            Self::Panel => ("panel", "#f6f8fa", "#151b23"),
            Self::Command => ("command", "#0550ae", "#79c0ff"),
            Self::Series(number) => SERIES[number % Self::SERIES],
        }
    }

    pub fn class(self) -> &'static str {
        self.row().0
    }

    pub fn in_theme(self, theme: Theme) -> &'static str {
        let (_, light, dark) = self.row();
        if theme == Theme::Light { light } else { dark }
    }

    pub fn all_series() -> impl Iterator<Item = Self> {
        (0..Self::SERIES).map(Self::Series)
    }
}

/// Returns the rules of a style sheet for both themes. The reader's browser chooses one.
pub fn style(rules: impl Fn(Theme) -> String) -> String {
    format!("{}\n@media (prefers-color-scheme: dark){{{}}}\n", rules(Theme::Light), rules(Theme::Dark))
}
