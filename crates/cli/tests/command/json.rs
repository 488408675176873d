//! Tests that docs/JSON.md names each field of each report.

use std::collections::BTreeSet;

use serde_json::{Deserializer, Value};

use crate::shell::Shell;
use crate::{parquet_add, repository};

/// Adds the names of all fields. The fields of `properties` depend on the file.
fn add_fields(value: &Value, fields: &mut BTreeSet<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| add_fields(item, fields)),
        Value::Object(object) => object.iter().for_each(|(name, value)| {
            fields.insert(name.clone());
            if name != "properties" {
                add_fields(value, fields);
            }
        }),
        _ => {}
    }
}

#[test]
fn the_page_names_each_field() {
    let page = std::fs::read_to_string(repository("docs/JSON.md")).unwrap();
    let shell = Shell::new();
    let sst = repository("tests/golden/foreign/rocksdb-9.8.4/fv6-bloom-n100.sst");
    shell.write("keys", "apple\npear\n");
    shell.write("a.parquet", parquet_add::parquet_file(true));
    for (section, line) in [
        ("Filters", "build -o a.filter keys --json"),
        ("Filters", "convert -o b.filter SST --json"),
        ("Filters", "query a.filter apple --json"),
        ("Filters", "query a.filter apple --json --count"),
        ("Filters", "verify a.filter --against keys --json"),
        ("Filters", "verify SST --json"),
        ("Filters", "merge -o all.filter a.filter a.filter --json"),
        ("Filters", "diff a.filter all.filter --json"),
        ("Filters", "export a.filter -o bare --json"),
        ("Filters", "plan --keys 1e6 --fpr 0.01 --json"),
        ("Filters", "inspect a.filter --json --what-if"),
        ("Filters", "inspect SST --json --what-if"),
        ("Filters", "inspect a.parquet --json"),
        ("Parquet files", "parquet add a.parquet --column id,kind --replace -o b.parquet --json"),
        ("Parquet files", "parquet check a.parquet --json"),
        ("Index", "index build -o index --column id a.parquet --json"),
        ("Index", "index query index 1 --json"),
        ("Index", "index query index 1 --json --count"),
        ("Index", "index verify index --json"),
        ("Store", "db load store keys"),
        ("Store", "db get store apple --json"),
        ("Store", "db get store --keys keys --json --count"),
        ("Store", "db stats store --json"),
        ("Store", "db verify store --json"),
        ("Store", "db repair store --json"),
        ("Benchmarks", "bench point-miss --count 1000 --lookups 10 --rounds 1 --filter-memory 1MB --dir . --json -"),
        ("Benchmarks", "bench range-miss --count 1000 --queries 10 --rounds 1 --dir . --json -"),
        ("Benchmarks", "bench load --count 1000 --dir . --json -"),
    ] {
        let (_, text) = page.split_once(&format!("\n## {section}\n")).unwrap();
        let text = text.split("\n## ").next().unwrap();
        let line = line.replace("SST", sst.to_str().unwrap());
        let printed = shell.run(&line.split(' ').collect::<Vec<_>>()).stdout;
        let mut fields = BTreeSet::new();
        Deserializer::from_slice(&printed).into_iter().for_each(|value| add_fields(&value.unwrap(), &mut fields));
        fields.retain(|field| !text.contains(&format!("`{field}`")));
        assert!(fields.is_empty(), "{line}: docs/JSON.md lacks {fields:?} in the section {section}");
    }
}
