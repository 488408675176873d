//! Chooses the instruction set that the environment variable `FILTERBLOCK_ISA` names, before the
//! first test or bench runs.

// Runs before `main`, and calls only functions that are sound there on the tested platforms.
#[ctor::ctor(unsafe)]
fn choose_instruction_set() {
    let Ok(name) = std::env::var("FILTERBLOCK_ISA") else { return };
    if let Err(error) = filterblock::set_instruction_set(&name) {
        eprintln!("FILTERBLOCK_ISA: {error}");
        std::process::exit(2);
    }
    eprintln!("instruction set: {}", filterblock::instruction_set());
}
