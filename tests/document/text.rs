//! Reads docs/FORMAT.md: the cells of its tables, its constants and its lists of numbers.
#![allow(dead_code, reason = "every test file uses its own part")]

pub const DOCUMENT: &str = include_str!("../../docs/FORMAT.md");

/// Returns whether the document contains `sentence`. Line breaks count as spaces.
pub fn says(sentence: &str) -> bool {
    DOCUMENT.split_whitespace().collect::<Vec<_>>().join(" ").contains(sentence)
}

/// Returns the cells of the rows of the table whose header begins with `header`.
pub fn table(header: &[&str]) -> Vec<Vec<String>> {
    let cells = |line: &str| -> Vec<String> {
        line.trim().trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()
    };
    let mut lines = DOCUMENT.lines().skip_while(|line| {
        let found = cells(line);
        !line.starts_with('|') || found.len() < header.len() || found[..header.len()] != *header
    });
    assert!(lines.next().is_some(), "no table {header:?}");
    lines.skip(1).take_while(|line| line.starts_with('|')).map(cells).collect()
}

/// Returns the numbers after `NAME =`, up to the first word that is not a number.
pub fn numbers(name: &str) -> Vec<u64> {
    let start = DOCUMENT.find(&format!("\n{name} ")).unwrap_or_else(|| panic!("no {name}")) + name.len() + 1;
    let text = &DOCUMENT[start..];
    let mut found = Vec::new();
    for word in text.split_whitespace().skip(1) {
        match word.strip_prefix("0x") {
            Some(hex) => found.push(u64::from_str_radix(hex, 16).unwrap()),
            None if word.bytes().all(|byte| byte.is_ascii_digit()) => found.push(word.parse().unwrap()),
            None => break,
        }
    }
    found
}

pub fn constant(name: &str) -> u64 {
    let rows = table(&["Constant", "Made from", "Value"]);
    let row = rows.iter().find(|row| row[0] == name).unwrap();
    u64::from_str_radix(row[2].strip_prefix("0x").unwrap(), 16).unwrap()
}
