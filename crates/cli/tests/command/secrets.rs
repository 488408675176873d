//! Tests of secrets on the command line: they come from files only, and errors never show them.

use crate::shell::Shell;

const SECRET: &str = "00112233445566778899aabbccddeeff";
const OTHER: &str = "ffeeddccbbaa99887766554433221100ffeeddccbbaa99887766554433221100";

fn shell() -> Shell {
    let shell = Shell::new();
    shell.write("keys", "apple\npear\nplum\n");
    shell.write("secret", format!("{SECRET}\n"));
    shell.write("other", OTHER);
    shell
}

#[test]
fn a_filter_with_a_secret_is_inspected_without_the_secret() {
    let shell = shell();
    for hash in ["xxh3-secret", "siphash-1-3"] {
        let built = shell.run(&["build", "-o", hash, "--hash", hash, "--secret-file", "secret", "--json", "keys"]);
        assert_eq!(built.json(0)["hash"], hash);
        let asked = shell.run(&["query", hash, "--secret-file", "secret", "apple", "quux"]).exits(0);
        assert_eq!(asked, "maybe\tapple\nabsent\tquux\n");
        let verified = shell.run(&["verify", hash, "--against", "keys", "--secret-file", "secret", "--json"]).json(0);
        assert_eq!((&verified["keys_asked"], &verified["false_negatives"]), (&3.into(), &0.into()));
        assert!(shell.run(&["verify", hash]).exits(0).contains("sound"));
        let inspected = shell.run(&["inspect", hash, "--json"]).json(0);
        assert_eq!(inspected["hash"], hash);
        let fingerprint = inspected["secret_fingerprint"].as_str().unwrap();
        assert_eq!(fingerprint.len(), 16);
        let text = shell.run(&["inspect", hash]).exits(0);
        assert!(text.contains(&format!("{hash} with the secret of fingerprint {fingerprint}")), "{text}");
        shell.run(&["query", hash, "apple"]).fails_with(&[hash, "under a secret", "--secret-file"]);
        shell.run(&["verify", hash, "--against", "keys"]).fails_with(&[hash, "under a secret", "--secret-file"]);
        let wrong = shell.run(&["query", hash, "--secret-file", "other", "apple"]);
        wrong.fails_with(&[hash, "under another secret", fingerprint, "--secret-file other"]);
    }
    // With a secret and without --hash, the default is siphash-1-3.
    let built = shell.run(&["build", "-o", "default", "--secret-file", "secret", "--json", "keys"]).json(0);
    assert_eq!(built["hash"], "siphash-1-3");
    shell.run(&["build", "-o", "plain", "keys"]).exits(0);
    let plain = shell.run(&["inspect", "plain", "--json"]).json(0);
    assert_eq!((&plain["hash"], plain.get("secret_fingerprint")), (&"xxh3".into(), None));
    shell.run(&["query", "plain", "--secret-file", "secret", "apple"]).fails_with(&[
        "plain",
        "takes no secret",
        "secret",
    ]);
}

#[test]
fn a_file_without_a_secret_is_named_and_not_shown() {
    let shell = shell();
    let build = |file: &str| shell.run(&["build", "-o", "out", "--secret-file", file, "keys"]);
    for (name, content) in [
        ("empty", String::new()),
        ("short", SECRET[2..].to_owned()),
        ("odd", SECRET[1..].to_owned()),
        ("middle", SECRET.repeat(2)[..48].to_owned()),
        ("long", SECRET.repeat(3)),
        ("words", "correct horse battery staple!!!!".to_owned()),
        ("huge", SECRET.repeat(100_000)),
        ("followed", format!("{SECRET}{}not hexadecimal", " ".repeat(1_000))),
    ] {
        shell.write(name, &content);
        let run = build(name);
        assert!(content.is_empty() || !run.stderr.contains(&content[..8]), "{}", run.stderr);
        run.fails_with(&[name, "32 or 64 hexadecimal digits"]);
    }
    build("missing").fails_with(&["missing"]);
    build(".").fails_with(&["."]);
    shell.run(&["build", "-o", "out", "--hash", "siphash-1-3", "keys"]).fails_with(&["siphash-1-3", "--secret-file"]);
    shell
        .run(&["build", "-o", "out", "--hash", "xxh3", "--secret-file", "secret", "keys"])
        .fails_with(&["takes no secret"]);
    shell.run(&["build", "-o", "out", "--hash", "md5", "keys"]).fails_with(&["md5", "siphash-1-3"]);
    assert!(!shell.files().contains(&"out".to_owned()));
}

#[test]
fn a_store_made_with_a_secret_needs_it_each_time() {
    let shell = shell();
    let with = |arguments: &[&str]| shell.run(&[arguments, &["--secret-file", "secret"]].concat());
    with(&["db", "put", "store", "apple", "red"]).exits(0);
    assert_eq!(with(&["db", "get", "store", "apple"]).exits(0), "red\n");
    with(&["db", "put", "store", "pear", "green", "--hash", "siphash-1-3"]).exits(0);
    with(&["db", "compact", "store"]).exits(0);
    assert_eq!(with(&["db", "scan", "store"]).exits(0), "apple\tred\npear\tgreen\n");
    assert!(with(&["db", "verify", "store"]).exits(0).contains("sound"));
    with(&["db", "stats", "store"]).exits(0);
    for command in ["get", "delete"] {
        shell.run(&["db", command, "store", "apple"]).fails_with(&["MANIFEST-", "under a secret", "--secret-file"]);
        let wrong = shell.run(&["db", command, "store", "apple", "--secret-file", "other"]);
        wrong.fails_with(&["MANIFEST-", "under another secret", "--secret-file other"]);
    }
    // A missing secret is a failure to run, not a result of `verify`.
    shell.run(&["db", "verify", "store"]).fails_with(&["--secret-file"]);
    with(&["db", "put", "store", "plum", "blue", "--hash", "xxh3-secret"])
        .fails_with(&["store: the store hashes keys by siphash-1-3, not by xxh3-secret; omit --hash"]);
    shell.run(&["db", "put", "plain", "apple", "red"]).exits(0);
    with(&["db", "get", "plain", "apple"]).fails_with(&["takes no secret", "omit --secret-file secret"]);
    shell.run(&["db", "put", "new", "apple", "red", "--hash", "siphash-1-3"]).fails_with(&["--secret-file"]);
    assert!(!shell.files().contains(&"new".to_owned()));
}
