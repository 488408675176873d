/// Chooses the instruction set that the environment variable `FILTERBLOCK_ISA` names. Test programs
/// and benches call it before their first test:
///
/// ```ignore
/// #[ctor::ctor(unsafe)]
/// fn choose_instruction_set() {
///     filterblock_testkit::choose_instruction_set();
/// }
/// ```
pub fn choose_instruction_set() {
    let Ok(name) = std::env::var("FILTERBLOCK_ISA") else { return };
    if let Err(error) = filterblock::set_instruction_set(&name) {
        eprintln!("FILTERBLOCK_ISA: {error}");
        std::process::exit(2);
    }
    eprintln!("instruction set: {}", filterblock::instruction_set());
}
