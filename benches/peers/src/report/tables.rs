//! Makes the Markdown tables of filters that are built once.

use charts::markdown::{none, table as markdown, unknown, wrapped};
use charts::text::{distinct, short, short_percent, thousands};

use crate::ours;
use crate::record::Row;
use crate::run::SAME_RATE;

/// The mark after the name of a filter that hashes keys itself.
const NOTE_OWN: &str = " †";

/// Filters that the page leaves out: other sizes of a design that the page shows, and filters that
/// are slower than another filter that is not larger.
pub const LEFT_OUT: [&str; 14] = [
    "bumped-ribbon:fpr=0.00390625:compact",
    "set of bumped-ribbon:fpr=0.00390625:compact",
    "cached set of bumped-ribbon:fpr=0.00390625:compact",
    "fastbloom:fpr=0.01",
    "fastbloom:fpr=0.01 own hash",
    "bloomfilter:fpr=0.01",
    "lsm-tree:10",
    "xorf Xor8",
    "qfilter:fpr=0.01",
    "qfilter:fpr=0.0039",
    "cuckoofilter",
    "pleat Ribbon<7>",
    "ribbon-filter w=128 r=7",
    "parquet Sbbf:fpr=0.01",
];

/// The names of the tables, with the numbers of keys that follow them.
const TABLES: [&str; 8] =
    ["machine", "queries N", "queries N key", "same-rate", "many", "sizes N...", "build N...", "extras"];

/// Returns the table that `what` names. `what` is the text of a marker or of `--table`: a name, and
/// for some tables numbers of keys.
pub fn table(what: &str, machine: &str, rows: &[Row]) -> Result<String, String> {
    let (name, rest) = what.split_once(' ').unwrap_or((what, ""));
    let sizes: Vec<usize> = rest.split(' ').filter_map(|n| n.parse().ok()).collect();
    match name {
        "machine" => Ok(machine_line(machine, rows)),
        "queries" => {
            let forms = if rest.ends_with(" key") { &["key"] } else { &FORMS[..] };
            Ok(queries(rows, sizes.first().copied().unwrap_or_default(), forms))
        }
        "same-rate" => Ok(same_rate(rows)),
        "many" => Ok(many(rows)),
        "sizes" => Ok(by_size(rows, &sizes, &[("bits per key", bits_cell), ("absent", |row| Some(short(row.ns_min)))])),
        "build" => Ok(by_size(rows, &sizes, &[("build", build_cell)])),
        "extras" => Ok(extras(rows)),
        _ => unknown(&TABLES),
    }
}

fn machine_line(machine: &str, rows: &[Row]) -> String {
    let passes = rows.iter().map(|row| row.passes).max().unwrap_or(0);
    let single = rows.iter().filter(|row| row.mode == "single");
    let queries = single.map(|row| row.queries).max().unwrap_or(0);
    wrapped(&format!("{machine}; {passes} passes of {} queries.", thousands(queries)))
}

/// Returns the names of the filters in the order of the record. Leaves out the fastbloom filters
/// that were sized to the FPR of another filter, and the extras (see [`ours::is_extra`]).
fn filters(rows: &[Row]) -> Vec<&str> {
    let is_listed = |name: &&str| !name.starts_with(SAME_RATE) && !ours::is_extra(name);
    distinct(rows.iter().map(|row| row.filter.as_str()).filter(is_listed))
}

/// Selects rows of the record.
#[derive(Clone, Copy)]
struct At<'a> {
    filter: &'a str,
    n: usize,
    many: bool,
    form: &'a str,
}

fn find<'a>(rows: &'a [Row], at: At<'_>, mix: &str, mode: &str) -> Option<&'a Row> {
    rows.iter().find(|row| {
        row.filter == at.filter
            && row.n == at.n
            && (row.filters_asked > 1) == at.many
            && row.key_form == at.form
            && row.mix == mix
            && row.mode == mode
    })
}

fn any<'a>(rows: &'a [Row], at: At<'_>) -> Option<&'a Row> {
    rows.iter().find(|row| row.filter == at.filter && row.n == at.n && (row.filters_asked > 1) == at.many)
}

const SETTINGS: [(&str, &str); 6] = [
    ("negative", "single"),
    ("positive", "single"),
    ("mixed", "single"),
    ("negative", "batch"),
    ("positive", "batch"),
    ("negative", "chain"),
];

/// The forms of keys: ready hashes, and keys for filters that hash keys themselves.
const FORMS: [&str; 2] = ["hash", "key"];
/// The headings of the columns of [`space_and_rate`].
const SPACE: [&str; 3] = ["bits per key", "over the lower bound", "FPR, %"];
/// The headings of the columns of [`SETTINGS`].
const TIMES: [&str; 6] = ["absent", "present", "mixed", "absent, batch", "present, batch", "absent, chain"];

fn times(rows: &[Row], at: At<'_>) -> Vec<String> {
    let cell = |(mix, mode): (&str, &str)| find(rows, at, mix, mode).map_or(none(), |row| short(row.ns_min));
    SETTINGS.into_iter().map(cell).collect()
}

/// Returns the table of space, FPR and times of all filters with `n` keys. Each filter is asked in
/// the first of `forms` in which it was measured.
fn queries(rows: &[Row], n: usize, forms: &[&str]) -> String {
    let line = |filter: &&str| {
        let row = absent(rows, filter, n, forms)?;
        let mut line = vec![named(row)];
        line.extend(space_and_rate(row));
        line.extend(times(rows, At { filter, n, many: false, form: &row.key_form }));
        Some(line)
    };
    let lines: Vec<_> = filters(rows).iter().filter_map(line).collect();
    markdown(&[&["Filter"], &SPACE[..], &TIMES].concat(), &lines)
}

/// Returns the row of single queries for absent keys, in the first of `forms` that has one.
fn absent<'a>(rows: &'a [Row], filter: &str, n: usize, forms: &[&str]) -> Option<&'a Row> {
    forms.iter().find_map(|form| find(rows, At { filter, n, many: false, form }, "negative", "single"))
}

/// Returns the name of a filter for a table. For a filter of another crate, adds the version, and a
/// mark if the filter hashes keys itself. Also adds the crate's name, unless the filter's name
/// begins with the crate's name.
fn named(row: &Row) -> String {
    let own = if row.build_form == "key" { NOTE_OWN } else { "" };
    match row.krate.as_str() {
        "filterblock" => format!("**`{}`**", row.filter),
        "none" => "*empty loop*".into(),
        krate => {
            let of = if row.filter.starts_with(krate) { String::new() } else { format!("{krate} ") };
            format!("{} ({of}{}){own}", row.filter, row.version)
        }
    }
}

fn space_and_rate(row: &Row) -> [String; 3] {
    let rate = match (row.rate, row.rate_low, row.rate_high) {
        (Some(rate), Some(low), Some(high)) => {
            let reach = (high - low) / 2.0 * 100.0;
            let digits = if reach > 0.0 { (-reach.log10()).ceil().clamp(2.0, 6.0) } else { 4.0 };
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "2 to 6")]
            let digits = digits as usize;
            format!("{:.digits$} ± {reach:.digits$}", rate * 100.0)
        }
        _ => none(),
    };
    [bits_cell(row).unwrap_or_else(none), row.overhead_bare.map_or(none(), short_percent), rate]
}

/// Returns the table that compares filters of filterblock with fastbloom filters of about the same
/// measured FPR: FPRs, bits per key, and ratios of query times.
fn same_rate(rows: &[Row]) -> String {
    let ours = filters(rows).into_iter().filter(|filter| rows.iter().any(|row| rival_of(row) == Some(filter)));
    let mut lines = Vec::new();
    for filter in ours {
        for n in sizes(rows) {
            let at = At { filter, n, many: false, form: "hash" };
            let rival_name = format!("{SAME_RATE}{filter}");
            let rival = At { filter: &rival_name, ..at };
            let (Some(row), Some(other)) = (any(rows, at), any(rows, rival)) else { continue };
            let mut line = vec![format!("`{filter}`"), thousands(n)];
            line.extend([row, other].map(|row| row.rate.map_or(none(), |rate| format!("{:.4}", rate * 100.0))));
            line.extend([row, other].map(|row| bits_cell(row).unwrap_or_else(none)));
            for (mix, mode) in SETTINGS {
                // fastbloom has no batches, so batches are compared with its single queries.
                let rival_mode = if mode == "batch" { "single" } else { mode };
                let pair = find(rows, at, mix, mode).zip(find(rows, rival, mix, rival_mode));
                line.push(pair.map_or(none(), |(a, b)| format!("{:.2}", a.ns_min / b.ns_min)));
            }
            lines.push(line);
        }
    }
    let space = ["Filter", "keys", "FPR, %", "fastbloom's", "bits per key", "fastbloom's"];
    markdown(&[&space[..], &TIMES].concat(), &lines)
}

fn rival_of(row: &Row) -> Option<&str> {
    row.filter.strip_prefix(SAME_RATE)
}

/// Returns the table of the times of queries that each ask a random filter of many.
fn many(rows: &[Row]) -> String {
    let Some(n) = rows.iter().find(|row| row.filters_asked > 1).map(|row| row.n) else {
        return markdown(&[""], &[]);
    };
    let line = |filter: &&str| {
        let row = any(rows, At { filter, n, many: true, form: "" })?;
        let mut line = vec![named(row), bits_cell(row).unwrap_or_else(none)];
        line.extend(times(rows, At { filter, n, many: true, form: "hash" }));
        Some(line)
    };
    let lines: Vec<_> = filters(rows).iter().filter_map(line).collect();
    markdown(&[&["Filter", SPACE[0]], &TIMES[..]].concat(), &lines)
}

/// Returns the table of build times with and without the self-check, and of query times with
/// aligned and unaligned bytes.
fn extras(rows: &[Row]) -> String {
    let line = |spec: &&str| {
        let (checked, unaligned) = (format!("{spec}{}", ours::SELF_CHECK), format!("{spec}{}", ours::UNALIGNED));
        let n = rows.iter().find(|row| row.filter == checked)?.n;
        let at = |filter| At { filter, n, many: false, form: "hash" };
        let build = |filter| any(rows, at(filter)).and_then(build_cell).unwrap_or_else(none);
        let query = |filter, mix| find(rows, at(filter), mix, "single").map_or_else(none, |row| short(row.ns_min));
        Some(vec![
            format!("**`{spec}`**"),
            thousands(n),
            build(spec),
            build(&checked),
            query(spec, "negative"),
            query(&unaligned, "negative"),
            query(spec, "positive"),
            query(&unaligned, "positive"),
        ])
    };
    let lines: Vec<_> = ours::EXTRA_SPECS.iter().filter_map(line).collect();
    let build = ["Filter", "keys", "build", "build, self-check"];
    let times = ["absent", "absent, unaligned", "present", "present, unaligned"];
    markdown(&[build, times].concat(), &lines)
}

/// A column: its heading, and the text of a row.
type Cell<'a> = (&'a str, fn(&Row) -> Option<String>);

/// Returns a table with a line for each filter. For each of `sizes`, it has the columns of `cells`.
/// It has no empty loop.
fn by_size(rows: &[Row], sizes: &[usize], cells: &[Cell<'_>]) -> String {
    let columns = || sizes.iter().flat_map(|&n| cells.iter().map(move |&(name, cell)| (n, name, cell)));
    let line = |filter: &&str| {
        let found = |n| absent(rows, filter, n, &FORMS);
        let first = sizes.iter().find_map(|&n| found(n)).filter(|row| row.krate != "none")?;
        let cells = columns().map(|(n, _, cell)| found(n).and_then(cell).unwrap_or_else(none));
        Some(std::iter::once(named(first)).chain(cells).collect::<Vec<_>>())
    };
    let lines: Vec<_> = filters(rows).iter().filter_map(line).collect();
    let heads = columns().map(|(n, name, _)| format!("{}: {name}", thousands(n)));
    let heads: Vec<_> = std::iter::once("Filter".to_owned()).chain(heads).collect();
    markdown(&heads.iter().map(String::as_str).collect::<Vec<_>>(), &lines)
}

fn bits_cell(row: &Row) -> Option<String> {
    row.bits_per_key.map(|bits| format!("{bits:.2}"))
}

fn build_cell(row: &Row) -> Option<String> {
    row.build_ns.map(short)
}

fn sizes(rows: &[Row]) -> Vec<usize> {
    let mut sizes: Vec<_> = rows.iter().filter(|row| row.filters_asked == 1).map(|row| row.n).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}
