//! The command `filterblock`; everything it does is in the library's `cli`.

fn main() -> std::process::ExitCode {
    filterblock::cli::main()
}
