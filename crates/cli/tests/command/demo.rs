//! Tests of `filterblock demo`, and of its picture in docs/.

use std::fs;
use std::process::Command;

use crate::shell::Shell;

/// Returns the commands of the demo with their outputs.
fn steps(text: &str) -> Vec<(String, String)> {
    let parts = text.split("\n$ ").skip(1).map(|part| part.split_once('\n').unwrap());
    // The explanation of the next step follows an empty line.
    let step = |(command, rest): (&str, &str)| {
        let output = rest.split("\n# ").next().unwrap().trim_start_matches('\n');
        (command.to_owned(), output.strip_suffix('\n').unwrap_or(output).to_owned())
    };
    parts.map(step).collect()
}

#[test]
fn the_demo_runs_every_step_and_keeps_its_files() {
    let shell = Shell::new();
    let text = shell.run(&["demo", "--keep", "tour", "--svg", "demo.svg"]).exits(0);
    let steps = steps(&text);
    assert_eq!(steps.len(), 18);
    for part in ["maybe\tchecksum", "absent\tkiwi", "wrong checksum of page", "repaired, nothing lost"] {
        assert!(steps.iter().any(|(_, output)| output.contains(part)), "{part}: {text}");
    }
    assert!(text.contains("All 18 steps behaved as explained") && !text.contains('\x1b'), "{text}");
    assert!(shell.path("tour/words.db/lost").is_dir());
    let svg = fs::read_to_string(shell.path("demo.svg")).unwrap();
    for part in ["<title id=\"title\">", "<desc id=\"desc\">", "prefers-color-scheme: dark", "$ filterblock db repair"]
    {
        assert!(svg.contains(part), "{part}");
    }
    // The picture replaces a file only with --force, and a folder with files is refused.
    shell.run(&["demo", "--svg", "demo.svg"]).fails_with(&["demo.svg", "--force"]);
    shell.run(&["demo", "--keep", "tour"]).fails_with(&["tour", "not empty"]);
    shell.run(&["demo", "--keep", "demo.svg"]).fails_with(&["demo.svg"]);
}

#[test]
fn a_demo_without_keep_leaves_nothing() {
    let shell = Shell::new();
    let mut command = crate::shell::command();
    // TMPDIR names the temporary folder on Unix only.
    let output = command.args(["demo", "--fast"]).env("TMPDIR", shell.dir.path()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(shell.files().is_empty(), "{:?}", shell.files());
}

/// Without bash and a suitable dd, the test checks nothing.
#[test]
fn the_commands_of_the_demo_work_when_typed() {
    if Command::new("bash").arg("-c").arg("printf x | dd status=none").output().is_ok_and(|found| found.stdout == *b"x")
    {
        let shell = Shell::new();
        let text = shell.run(&["demo", "--keep", "tour"]).exits(0);
        fs::create_dir(shell.path("typed")).unwrap();
        for name in ["words.tsv", "other-words.txt"] {
            fs::copy(shell.path("tour").join(name), shell.path("typed").join(name)).unwrap();
        }
        let dir = std::path::Path::new(env!("CARGO_BIN_EXE_filterblock")).parent().unwrap();
        let path = format!("{}:{}", dir.display(), std::env::var("PATH").unwrap());
        for (command, shown) in steps(&text) {
            let mut bash = Command::new("bash");
            bash.args(["-c", &command]).current_dir(shell.path("typed")).env("PATH", &path);
            let output = bash.output().unwrap();
            let typed = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
            assert_eq!(stable(&typed), stable(&shown), "{command}");
        }
    }
}

/// Returns the words of a text, with `#` instead of numbers and checksums. A store draws a random
/// seed, so its checksums and its few false positives differ from run to run.
fn stable(text: &str) -> Vec<&str> {
    let is_number = |word: &str| {
        let bare = word.trim_end_matches([',', ')', ';']);
        bare.starts_with("0x") || bare.chars().all(|letter| letter.is_ascii_digit() || letter == ',')
    };
    text.split_whitespace().map(|word| if is_number(word) { "#" } else { word }).collect()
}

/// The picture in docs/ shows the commands and explanations of this version.
#[test]
fn the_picture_of_the_demo_is_up_to_date() {
    let shell = Shell::new();
    shell.run(&["demo", "--svg", "new.svg"]).exits(0);
    let (old, new) = (crate::repository("docs/demo.svg"), shell.path("new.svg"));
    let [old, new] = [old, new].map(|path| fs::read_to_string(path).unwrap());
    let texts = |svg: &str| {
        let lines = svg.lines().filter(|line| line.contains("class=\"command\"") || line.contains("class=\"faint\""));
        lines.map(|line| line.split_once('>').unwrap().1.to_owned()).collect::<Vec<_>>()
    };
    let (old, new) = (texts(&old), texts(&new));
    assert!(new.len() > 15, "{new:?}");
    assert_eq!(old, new, "docs/demo.svg is out of date; run `filterblock demo --fast --svg docs/demo.svg --force`");
}
