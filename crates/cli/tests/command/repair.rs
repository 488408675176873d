//! Tests of `verify`, `db verify` and `db repair` on damaged files.

use std::fs;

use crate::shell::{Shell, flip};

fn pairs() -> String {
    (0..2_000).map(|i| format!("key-{i:05}\tvalue {i}\n")).collect()
}

/// Makes a store with two SST files, one with pairs and one with a tombstone, and a log without
/// records.
fn store(shell: &Shell) {
    shell.run_with(&["db", "load", "store", "-"], pairs().as_bytes()).exits(0);
    shell.run(&["db", "delete", "store", "key-00007"]).exits(0);
}

#[test]
fn verify_detects_a_change_anywhere_in_a_filter_file() {
    let shell = Shell::new();
    shell.write("keys", (0..4_000).map(|i| format!("{i}\n")).collect::<String>());
    shell.run(&["build", "-o", "f", "--filter", "blocked-bloom:10", "keys"]).exits(0);
    shell.run(&["verify", "f", "--against", "keys"]).exits(0);
    let sound = fs::read(shell.path("f")).unwrap();
    let mut tried = 0;
    let mut check = |bytes: Vec<u8>, what: String| {
        assert_ne!(bytes, sound);
        shell.write("bad", &bytes);
        let found = shell.run(&["verify", "bad", "--against", "keys", "--json"]);
        // A file of a newer format is a failure (exit status 2), not damage.
        if found.status != 2 {
            let report = found.json(1);
            assert!(report["damage"].as_str().unwrap().starts_with("bad: "), "{what}: {report}");
        } else {
            assert!(found.stderr.contains("bad: "), "{what}: {found:?}");
        }
        tried += 1;
    };
    for at in (0..sound.len()).step_by(53).chain(sound.len() - 60..sound.len()) {
        let mut bytes = sound.clone();
        bytes[at] ^= 1 << (at % 8);
        check(bytes, format!("bit of byte {at}"));
    }
    for cut in (0..sound.len()).step_by(401).chain([sound.len() - 1]) {
        check(sound[..cut].to_vec(), format!("truncated at {cut}"));
    }
    let mut repeated = sound.clone();
    repeated.copy_within(0..904, 4096);
    check(repeated, "a page repeated".into());
    let mut zeroed = sound.clone();
    zeroed[..4096].fill(0);
    check(zeroed, "a page zeroed".into());
    assert!(tried > 150, "{tried}");
}

#[test]
fn a_damaged_table_is_repaired_and_the_loss_named() {
    let shell = Shell::new();
    store(&shell);
    let whole = shell.run(&["db", "scan", "store"]).exits(0);
    assert!(shell.run(&["db", "repair", "store"]).exits(0).contains("store: sound; "));
    let table = shell.find("store", ".sst");
    flip(&table, 5_000, 0x10);
    let verified = shell.run(&["db", "verify", "store", "--json"]).json(1);
    let name = format!("store/{}", table.file_name().unwrap().to_str().unwrap());
    assert!(verified["damage"][0].as_str().unwrap().starts_with(&name), "{verified}");

    let said = shell.run(&["db", "repair", "store", "--dry-run"]).exits(1);
    assert!(said.contains("would be repaired") && !shell.path("store/lost").exists(), "{said}");
    let said = shell.run(&["db", "repair", "store", "--dry-run", "--json"]).json(1);
    let report = shell.run(&["db", "repair", "store", "--json"]).json(1);
    assert_eq!(said["losses"], report["losses"]);
    assert_eq!((&report["tables_rewritten"], &report["complete"]), (&1.into(), &false.into()), "{report}");
    let loss = &report["losses"][0];
    assert_eq!((&loss["file"], &loss["field"]), (&name.clone().into(), &"data block".into()), "{loss}");
    assert!(loss["offset"].as_u64().unwrap() <= 5_000, "{loss}");
    assert!(loss["keys"].as_str().unwrap().starts_with("above \"key-"), "{loss}");
    assert_eq!(report["set_aside"][0]["file"], name.as_str());
    assert!(shell.path(report["set_aside"][0]["kept_as"].as_str().unwrap()).exists());

    shell.run(&["db", "verify", "store"]).exits(0);
    let left = shell.run(&["db", "scan", "store"]).exits(0);
    assert!(left.lines().count() > 1_600 && left.lines().all(|line| whole.contains(line)));
    assert!(shell.run(&["db", "repair", "store"]).exits(0).contains("sound"));
}

#[test]
fn a_store_without_a_manifest_is_repaired_without_loss() {
    let shell = Shell::new();
    store(&shell);
    let whole = shell.run(&["db", "scan", "store"]).exits(0);
    fs::remove_file(shell.path("store/CURRENT")).unwrap();
    fs::remove_file(shell.find("store", "MANIFEST")).unwrap();
    shell.run(&["db", "scan", "store"]).fails_with(&["store", "holds no store"]);
    let said = shell.run(&["db", "repair", "store"]).exits(0);
    assert!(said.contains("nothing lost") && said.contains("new manifest"), "{said}");
    assert_eq!(shell.run(&["db", "scan", "store"]).exits(0), whole);
    assert_eq!(shell.run(&["db", "get", "store", "key-00007"]).exits(1), "");
}

#[test]
fn the_report_lists_the_set_aside_ssts_that_are_removed() {
    let shell = Shell::new();
    shell.run_with(&["db", "load", "store", "-"], pairs().as_bytes()).exits(0);
    let table = shell.find("store", ".sst");
    let name = format!("store/unnamed-{}", table.file_name().unwrap().to_str().unwrap());
    let aside = shell.path(&name);
    fs::copy(&table, &aside).unwrap();
    let report = shell.run(&["db", "repair", "store", "--json"]).json(0);
    assert_eq!(report["removed"], serde_json::json!([name]), "{report}");
    assert!(!aside.exists() && report["was_sound"] == false, "{report}");
}

#[test]
fn damaged_manifests_and_logs_are_detected_and_repaired() {
    for (kind, at) in [("MANIFEST", 60), ("CURRENT", 3), (".log", 30)] {
        let shell = Shell::new();
        store(&shell);
        let whole = shell.run(&["db", "scan", "store"]).exits(0);
        flip(&shell.find("store", kind), at, 0x10);
        let verified = shell.run(&["db", "verify", "store", "--json"]).json(1);
        assert!(verified["damage"][0].as_str().unwrap().contains(kind), "{verified}");
        shell.run(&["db", "repair", "store"]);
        shell.run(&["db", "verify", "store"]).exits(0);
        assert_eq!(shell.run(&["db", "scan", "store"]).exits(0), whole);
        assert!(shell.path("store/lost").is_dir());
    }
}

#[test]
fn a_directory_without_a_store_is_not_repaired() {
    let shell = Shell::new();
    fs::create_dir(shell.path("other")).unwrap();
    shell.write("other/file", "precious");
    shell.run(&["db", "repair", "other"]).fails_with(&["other", "holds no store", "check the path"]);
    shell.run(&["db", "repair", "missing"]).fails_with(&["missing"]);
    assert_eq!(fs::read_dir(shell.path("other")).unwrap().count(), 1);
    shell.write("secret", "00112233445566778899aabbccddeeff\n");
    shell.run(&["db", "put", "safe", "apple", "red", "--secret-file", "secret"]).exits(0);
    fs::remove_file(shell.path("safe/CURRENT")).unwrap();
    shell.run(&["db", "repair", "safe"]).fails_with(&["safe", "secret"]);
    shell.run(&["db", "repair", "safe", "--secret-file", "secret"]).exits(0);
    assert_eq!(shell.run(&["db", "get", "safe", "apple", "--secret-file", "secret"]).exits(0), "red\n");
    let help = shell.run(&["db", "repair", "--help"]).exits(0);
    assert!(help.contains("lost/") && help.contains("Exit status"), "{help}");
}
