//! Installs the libraries, and compiles and runs C and C++ programs that use them.

use std::sync::OnceLock;

use tempfile::TempDir;

use super::*;

const PREFIX: &str = "/opt/filterblock";

/// The source of each program, and its arguments for the compiler.
const PROGRAMS: [(&str, &[&str]); 3] =
    [("examples/embed.c", &[]), ("examples/embed.cc", &["-pthread"]), ("tests/abi_1/calls.c", &[])];

/// Runs `make` for the libraries of this build.
fn make(target: &str, folder: &Path, prefix: &str, library_folder: Option<&str>) {
    let mut command = command("make", &[target]);
    command.arg(format!("LIBRARIES={}", libraries().display()));
    command.arg(format!("DESTDIR={}", folder.display())).arg(format!("PREFIX={prefix}"));
    run(command.args(library_folder.map(|folder| format!("LIBDIR={folder}"))));
}

/// Installs the libraries once, into a `DESTDIR` that is not the prefix, as packagers do. Returns
/// the `DESTDIR`.
fn installed() -> &'static Path {
    static FOLDER: OnceLock<TempDir> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        make("install", folder.path(), PREFIX, None);
        folder
    });
    folder.path()
}

/// Runs a command and returns the words of its stdout.
fn words(command: &mut Command) -> Vec<String> {
    run(command).split_whitespace().map(str::to_owned).collect()
}

fn library_folder() -> PathBuf {
    installed().join(PREFIX.trim_start_matches('/')).join("lib")
}

fn pkg_config(arguments: &[&str]) -> Vec<String> {
    let path = library_folder().join("pkgconfig");
    let mut command = command("pkg-config", arguments);
    words(command.arg("filterblock").env("PKG_CONFIG_PATH", path).env("PKG_CONFIG_SYSROOT_DIR", installed()))
}

/// Compiles a program. `library` has the arguments that link the library. Returns the path of the
/// program.
fn compile((source, arguments): (&str, &[&str]), more: &[&str], library: &[String], folder: &Path) -> PathBuf {
    let is_cpp = source.ends_with(".cc");
    let (compiler, standard) = if is_cpp { ("c++", "-std=c++17") } else { ("cc", "-std=c11") };
    let program = folder.join("program");
    let mut command = command(compiler, &[standard, "-g", "-Wall", "-Wextra", "-Werror", "-Wpedantic"]);
    command.args(arguments).args(more).args(pkg_config(&["--cflags"])).arg(source).args(library);
    run(command.arg("-o").arg(&program));
    program
}

fn shared() -> Vec<String> {
    let path = format!("-Wl,-rpath,{}", library_folder().display());
    pkg_config(&["--libs"]).into_iter().chain([path]).collect()
}

fn static_library() -> Vec<String> {
    let with_dependencies = pkg_config(&["--static", "--libs"]);
    let file = library_folder().join("libfilterblock.a").display().to_string();
    with_dependencies.into_iter().map(|word| if word == "-lfilterblock" { file.clone() } else { word }).collect()
}

/// Compiles and runs all programs, and checks their output. `runner` is the command that runs a
/// program, or empty to run it directly.
fn run_all(more: &[&str], library: &[String], runner: &[&str], variables: &[(&str, &str)]) {
    for program in PROGRAMS {
        let folder = tempfile::tempdir().unwrap();
        let path = compile(program, more, library, folder.path());
        let scratch = folder.path().join("scratch");
        let mut command = match runner {
            [] => Command::new(path),
            [first, rest @ ..] => {
                let mut command = Command::new(first);
                command.args(rest).arg(path);
                command
            }
        };
        let printed = run(command.arg(scratch).envs(variables.iter().copied()));
        check_output(program.0, &printed);
    }
}

fn check_output(source: &str, printed: &str) {
    let expected: &[&str] = match source {
        "examples/embed.c" => &[
            "apple table 0000000012: read\napple table 0000000013: skip\n",
            "plum  table 0000000012: skip\nplum  table 0000000013: skip\n",
            "table 0000000012: no filter: table id is 7461",
        ],
        "examples/embed.cc" => &[
            "40000 of 40000; false positives: below 0.5 %",
            "prefixes: user 1, item 0\nranges: user5 to user6 1, item to user 0\n",
            "damaged pages 1, keys lost: none",
        ],
        _ => &["ABI 1 works"],
    };
    for part in expected {
        assert!(printed.contains(part), "{source}: expected {part:?} in\n{printed}");
    }
}

const TOOLS: [&str; 4] = ["cc", "c++", "make", "pkg-config"];

#[test]
fn programs_run_with_the_shared_library() {
    if have("programs_run_with_the_shared_library", &TOOLS) {
        run_all(&["-O1"], &shared(), &[], &[]);
    }
}

#[test]
fn programs_run_with_the_static_library() {
    if have("programs_run_with_the_static_library", &TOOLS) {
        run_all(&["-O1"], &static_library(), &[], &[]);
    }
}

#[test]
fn programs_run_under_valgrind() {
    if have("programs_run_under_valgrind", &TOOLS) && have("programs_run_under_valgrind", &["valgrind"]) {
        let valgrind =
            ["valgrind", "-q", "--error-exitcode=9", "--leak-check=full", "--errors-for-leak-kinds=definite"];
        run_all(&["-O1"], &shared(), &valgrind, &[]);
    }
}

#[test]
fn programs_run_under_address_sanitizer() {
    if have("programs_run_under_address_sanitizer", &TOOLS) {
        let sanitizers = ["-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"];
        let leaks = [("ASAN_OPTIONS", "detect_leaks=1")];
        run_all(&sanitizers, &static_library(), &[], &leaks);
        run_all(&sanitizers, &shared(), &[], &leaks);
    }
}

#[test]
fn c_code_of_the_c_api_page_compiles() {
    if !have("c_code_of_the_c_api_page_compiles", &TOOLS) {
        return;
    }
    let page = std::fs::read_to_string(crate_folder().join("../../docs/C_API.md")).unwrap();
    let blocks: Vec<&str> = page.split("```c\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert!(!blocks.is_empty());
    let folder = tempfile::tempdir().unwrap();
    for block in blocks {
        let source = folder.path().join("page.c");
        std::fs::write(&source, block).unwrap();
        let mut command =
            command("cc", &["-std=c11", "-Wall", "-Wextra", "-Werror", "-Wpedantic", "-c", "-o", "/dev/null"]);
        run(command.args(pkg_config(&["--cflags"])).arg(source));
    }
}

#[test]
fn install_respects_destdir_and_uninstall_removes_all() {
    if !have("install_respects_destdir_and_uninstall_removes_all", &["make"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let make = |target| make(target, folder.path(), "/opt/x", Some("/opt/x/lib64"));
    let files = || {
        let mut found = words(command("find", &["-not", "-type", "d"]).current_dir(folder.path()));
        found.sort();
        found
    };
    make("install");
    let expected = [
        "./opt/x/include/filterblock.h",
        "./opt/x/lib64/libfilterblock.a",
        "./opt/x/lib64/libfilterblock.so",
        "./opt/x/lib64/libfilterblock.so.1",
        "./opt/x/lib64/pkgconfig/filterblock.pc",
    ];
    assert_eq!(files(), expected);
    let pc = std::fs::read_to_string(folder.path().join("opt/x/lib64/pkgconfig/filterblock.pc")).unwrap();
    assert!(!pc.contains('@') && pc.contains("libdir=/opt/x/lib64\n"), "{pc}");
    assert!(pc.contains(&format!("Version: {}\n", env!("CARGO_PKG_VERSION"))), "{pc}");
    make("uninstall");
    assert!(files().is_empty(), "{:?}", files());
}

#[test]
fn install_writes_paths_with_spaces_that_pkg_config_reads() {
    if !have("install_writes_paths_with_spaces_that_pkg_config_reads", &["make", "pkg-config"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for (prefix, lib) in [("/opt/my libs", "lib"), ("/opt/a & b|c", "lib of all"), ("/opt/it's", "lib")] {
        let root = folder.path().display();
        make("install", folder.path(), prefix, Some(&format!("{prefix}/{lib}")));
        // A shell takes the words of the output, as the command lines of C_API.md do after `eval`.
        let script = "eval set -- \"$(pkg-config --cflags --libs filterblock)\"; printf '%s\\n' \"$@\"";
        let mut shell = command("sh", &["-c", script]);
        shell
            .env("PKG_CONFIG_PATH", format!("{root}{prefix}/{lib}/pkgconfig"))
            .env("PKG_CONFIG_SYSROOT_DIR", folder.path());
        let output = shell.output().unwrap();
        let told = String::from_utf8(output.stdout).unwrap();
        let expected =
            [format!("-I{root}{prefix}/include"), format!("-L{root}{prefix}/{lib}"), "-lfilterblock".to_owned()];
        assert_eq!(told.lines().collect::<Vec<_>>(), expected, "{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn installed_libraries_have_no_line_tables() {
    if !have("installed_libraries_have_no_line_tables", &["make", "readelf"]) {
        return;
    }
    for name in ["libfilterblock.so.1", "libfilterblock.a"] {
        let sections = words(command("readelf", &["--wide", "--sections"]).arg(library_folder().join(name)));
        assert!(sections.iter().any(|word| word.starts_with(".text")), "{name}");
        let found: Vec<_> = sections.iter().filter(|word| word.starts_with(".debug")).collect();
        assert!(found.is_empty(), "{name}: {found:?}");
    }
}
