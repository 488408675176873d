//! Tests of `filterblock db get --keys`.

use crate::shell::Shell;

/// Returns a shell with a store of the even numbers below 2,000, and files of even and odd numbers.
fn store() -> Shell {
    let shell = Shell::new();
    let numbers = |from: u32| (from..2_000).step_by(2).map(|number| format!("{number:04}\n")).collect::<String>();
    shell.write("even", numbers(0));
    shell.write("odd", numbers(1));
    let pairs: String = (0..2_000).step_by(2).map(|number| format!("{number:04}\tvalue {number}\n")).collect();
    shell.write("pairs", pairs);
    shell.run(&["db", "load", "store", "pairs", "--filter", "bloom:12"]).exits(0);
    shell
}

#[test]
fn all_pairs_of_a_file_of_keys_are_printed() {
    let shell = store();
    let pairs = std::fs::read_to_string(shell.path("pairs")).unwrap();
    assert_eq!(shell.run(&["db", "get", "store", "--keys", "even"]).exits(0), pairs);
    assert_eq!(shell.run(&["db", "get", "store", "--keys", "odd"]).exits(1), "");
    let mixed = shell.run_with(&["db", "get", "store", "--keys", "-"], b"0002\n\n0003\r\n0004");
    // The message names no option that this command lacks.
    assert!(mixed.stderr.ends_with("standard input: skipped 1 empty line\n"), "{mixed:?}");
    assert_eq!(mixed.exits(1), "0002\tvalue 2\n0004\tvalue 4\n");
    let hex = shell.run_with(&["db", "get", "store", "--hex", "--keys", "-"], b"30303032\n");
    assert_eq!(hex.exits(0), "30303032\t76616c75652032\n");
}

#[test]
fn counts_show_what_filters_save() {
    let shell = store();
    let count =
        |more: &[&str], status| shell.run(&[&["db", "get", "store", "--count", "--json"], more].concat()).json(status);
    let absent = count(&["--keys", "odd"], 1);
    assert_eq!((&absent["keys"], &absent["found"], &absent["absent"]), (&1000.into(), &0.into(), &1000.into()));
    // The largest odd number is beyond the range of the SST file.
    assert_eq!(absent["filter_queries"], 999);
    let (no, passed) = (absent["filters_said_no"].as_u64().unwrap(), absent["false_positives"].as_u64().unwrap());
    assert_eq!(no + passed, 999);
    // Keys of one batch that the filter does not deny share the read of a block. Without filters,
    // each key reads its block.
    let read = absent["data_blocks_read"].as_u64().unwrap();
    assert!(read <= passed && (read > 0) == (passed > 0) && passed < 30, "{absent}");
    let without = count(&["--keys", "odd", "--ignore-filters"], 1);
    assert_eq!((&without["filter_queries"], &without["data_blocks_read"]), (&0.into(), &999.into()));
    let present = count(&["--keys", "even"], 0);
    assert_eq!(present["found"], 1000);
    let read = present["data_blocks_read"].as_u64().unwrap();
    assert!((1_000 / 32..100).contains(&read), "{present}");
    let text = shell.run(&["db", "get", "store", "--keys", "even", "--count"]).exits(0);
    assert!(
        text.starts_with("keys                1,000\nfound               1,000\nabsent                  0\n"),
        "{text}"
    );
    assert_eq!(text.lines().count(), 8);
    assert_eq!(shell.run(&["db", "get", "store", "0004", "--ignore-filters"]).exits(0), "value 4\n");
}

#[test]
fn options_of_a_file_of_keys_are_checked() {
    let shell = store();
    shell.run(&["db", "get", "store"]).fails_with(&["KEY"]);
    shell.run(&["db", "get", "store", "0002", "--keys", "even"]).fails_with(&["--keys"]);
    assert_eq!(shell.run(&["db", "get", "store", "0002", "0001"]).exits(1), "0002\tvalue 2\n");
    assert!(shell.run(&["db", "get", "store", "0002", "--count"]).exits(0).contains("found                   1\n"));
    shell.run(&["db", "get", "store", "--keys", "nothing"]).fails_with(&["nothing"]);
    shell.run(&["db", "get", "nowhere", "--keys", "even"]).fails_with(&["no store"]);
}

#[test]
fn json_has_a_line_for_each_key() {
    let shell = store();
    let get = |more: &[&str]| shell.run(&[&["db", "get", "store", "--json"], more].concat());
    assert_eq!(get(&["0002"]).exits(0), "{\"key\":\"0002\",\"value\":\"value 2\"}\n");
    assert_eq!(get(&["0003"]).exits(1), "{\"key\":\"0003\",\"value\":null}\n");
    assert_eq!(get(&["--hex", "30303032"]).exits(0), "{\"key_hex\":\"30303032\",\"value_hex\":\"76616c75652032\"}\n");
    shell.write("some", "0004\n0005\n");
    assert_eq!(
        get(&["--keys", "some"]).exits(1),
        "{\"key\":\"0004\",\"value\":\"value 4\"}\n{\"key\":\"0005\",\"value\":null}\n"
    );
    shell.run_with(&["db", "load", "store"], b"raw\t\xff\n").exits(0);
    assert_eq!(get(&["raw"]).exits(0), "{\"key\":\"raw\",\"value_hex\":\"ff\"}\n");
    assert_eq!(get(&["--keys", "some", "--count"]).json(1)["absent"], 1);
}
