//! The command line of `voidbox-vm`; docs/reference/keeper.md describes it.
fn main() -> std::process::ExitCode {
    voidbox_keeper::commands::run(std::env::args_os().skip(1).collect())
}
