//! Tests docs/EMBEDDING.md and its example.

#[allow(dead_code, reason = "the main function of the example is unused")]
#[path = "../../examples/embed_in_an_sst.rs"]
mod embed_in_an_sst;

/// Returns the indented lines after a title.
fn section<'a>(output: &'a str, title: &str) -> Vec<&'a str> {
    let mut lines = output.lines();
    assert!(lines.by_ref().any(|line| line == title), "no {title} in\n{output}");
    lines.map_while(|line| line.strip_prefix("  ")).collect()
}

/// Returns the numbers after `start` in the first line that begins with `start`.
fn numbers(lines: &[&str], start: &str) -> Vec<u64> {
    let line =
        lines.iter().find_map(|line| line.strip_prefix(start)).unwrap_or_else(|| panic!("no {start}: {lines:#?}"));
    line.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse().ok()).collect()
}

#[test]
fn embedded_filters_answer_maybe_after_each_mistake() {
    let mut output = Vec::new();
    embed_in_an_sst::run(&mut output).unwrap();
    let output = String::from_utf8(output).unwrap();
    let mistakes: [(&str, u64, &str); 5] = [
        ("no mistake:", 0, ""),
        ("another seed:", 3, "hash seed is 1, but 2 is expected"),
        ("a flipped bit:", 1, "checksum of page at offset"),
        ("a stale filter:", 1, "checksum is 0x"),
        ("the filter of SST 3:", 1, "table id is 03"),
    ];
    for (title, degraded, reason) in mistakes {
        let lines = section(&output, title);
        let reasons: Vec<_> = lines.iter().filter(|line| line.contains("filter not used: ")).collect();
        assert_eq!(reasons.len() as u64, degraded, "{title} {lines:#?}");
        assert!(reasons.iter().all(|line| line.contains(reason)), "{title} {reasons:#?}");
        assert_eq!(numbers(&lines, "filters: "), [3 - degraded, degraded], "{title}");
        assert_eq!(numbers(&lines, "3000 present keys: "), [3_000], "{title} loses keys");
        let [reads, saved] = numbers(&lines, "3000 absent keys: ")[..] else { panic!("{lines:#?}") };
        assert_eq!(reads + saved, 9_000);
        // A degraded filter saves no reads. A ready filter answers "maybe" for about one absent key
        // in a hundred.
        assert!((degraded * 3_000..degraded * 3_000 + 200).contains(&reads), "{title} {reads} reads");
    }
    assert_eq!(output.lines().filter(|line| !line.starts_with(' ')).count(), mistakes.len(), "{output}");
}

#[test]
fn the_embedding_example_is_as_short_as_its_page_says() {
    let page = include_str!("../../docs/EMBEDDING.md");
    assert!(page.contains("in under 120 lines"));
    assert!(include_str!("../../examples/embed_in_an_sst.rs").lines().count() < 120);
}

/// Rustdoc checks links to items, but not links to sections.
#[test]
fn the_front_page_links_all_sections_of_the_embedding_page() {
    let page = include_str!("../../docs/EMBEDDING.md");
    let anchor = |title: &str| {
        let is_kept = |c: &char| c.is_alphanumeric() || " -".contains(*c);
        title.to_lowercase().chars().filter(is_kept).collect::<String>().replace(' ', "-")
    };
    let sections: Vec<String> = page.lines().filter_map(|line| line.strip_prefix("## ")).map(anchor).collect();
    let front_page = include_str!("../../src/lib.rs");
    let links: Vec<&str> =
        front_page.split("(embedding#").skip(1).filter_map(|rest| rest.split_once(')')).map(|(link, _)| link).collect();
    assert_eq!(links, sections);
}
