//! Tests of `inspect --what-if`: the filters of the file's engine, and filter blocks of each kind.

use crate::foreign_files::close;
use crate::shell::Shell;
use filterblock_testkit::foreign;

#[test]
fn what_if_shows_the_engines_filters_and_every_native_kind() {
    for (folder, name) in
        [("rocksdb-7.8.3", "fv5-bloom-n2500.sst"), ("leveldb", "tbl-n10000.ldb"), ("parquet", "rs.parquet")]
    {
        let shell = Shell::new();
        shell.write("file", foreign::file(folder, name));
        let report = shell.run(&["inspect", "file", "--what-if", "--json"]).json(0);
        let what_if = &report["what_if"];
        let rate = what_if["false_positive_rate"].as_f64().unwrap();
        let filters = what_if["filters"].as_array().unwrap();
        assert_eq!(filters[0]["is_present"], true);
        assert_eq!(filters[0]["len_bytes"], report["summary"]["len_bytes"]);
        for kind in
            ["bloom", "blocked-bloom", "split-block", "split-block-512", "bumped-ribbon", "ribbon", "binary-fuse"]
        {
            let row = filters.iter().find(|row| row["filter"].as_str().unwrap().starts_with(&format!("{kind}:")));
            let row = row.unwrap_or_else(|| panic!("no {kind} in {what_if}"));
            assert!(row["expected_false_positive_rate"].as_f64().unwrap() <= rate * 1.01, "{name}: {row}");
            // The FPR of a spec is the present FPR rounded down to three digits.
            if let Some((_, given)) = row["filter"].as_str().unwrap().split_once("fpr=") {
                let given: f64 = given.parse().unwrap();
                assert!(given <= rate && given > rate * 0.985 && row["filter"].to_string().len() < 40, "{row} {rate}");
            }
        }
        // The setting that the engine used gives the present filters again.
        let setting = match folder {
            "leveldb" => "leveldb NewBloomFilterPolicy(10)",
            "parquet" => "parquet fpp=0.01",
            _ => "rocksdb NewBloomFilterPolicy(10)",
        };
        let same = filters.iter().find(|row| row["filter"] == setting).unwrap_or_else(|| panic!("{what_if}"));
        assert!(close(&same["share_of_present_len"], 1.0, 0.03), "{name}: {same}");
        assert!(close(&same["expected_false_positive_rate"], rate, 0.4), "{name}: {same}");
        let text = shell.run(&["inspect", "file", "--what-if"]).exits(0);
        assert!(text.contains("of current size") && text.contains("(current)"), "{text}");
    }
    let shell = Shell::new();
    shell.write("keys", (0..5000).map(|i| format!("key-{i}\n")).collect::<String>());
    shell.run(&["build", "-o", "block", "--filter", "blocked-bloom:10", "keys"]).exits(0);
    let report = shell.run(&["inspect", "block", "--what-if", "--json"]).json(0);
    let filters = report["what_if"]["filters"].as_array().unwrap();
    let ribbon = filters.iter().find(|row| row["filter"].as_str().unwrap().starts_with("bumped-ribbon:")).unwrap();
    // The reported size is within 2 % of the size of a built block.
    let spec = ribbon["filter"].as_str().unwrap();
    let built = shell.run(&["build", "-o", "ribbon", "--filter", spec, "--json", "keys"]).json(0);
    assert!(close(&built["block_len_bytes"], ribbon["len_bytes"].as_f64().unwrap(), 0.02), "{ribbon} {built}");
    assert!(close(&ribbon["share_of_present_len"], 0.69, 0.06), "{ribbon}");
}
