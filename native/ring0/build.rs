//! Compiles the crate once more: as a kernel, without the standard library.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A target for kernels. Its library need not be installed.
const BARE: &str = "x86_64-unknown-none";

fn main() {
    println!("cargo::rustc-check-cfg=cfg(ring0)");
    println!("cargo::rerun-if-changed=src");
    println!("cargo::rerun-if-changed=program.ld");
    if env::var("CARGO_CFG_TARGET_ARCH").as_deref() != Ok("x86_64") {
        return;
    }
    let output = PathBuf::from(env::var_os("OUT_DIR").unwrap()).join("ring0");
    let compiler = env::var_os("RUSTC").unwrap();
    let host = env::var("HOST").unwrap();
    let script = Path::new(&env::var_os("CARGO_MANIFEST_DIR").unwrap()).join("program.ld");
    let is_bare = has_library(&compiler);
    let mut command = Command::new(compiler);
    command
        .args(["src/lib.rs", "--crate-name=ring0", "--crate-type=bin"])
        .args(["--edition=2024", "--cfg=ring0", "--cap-lints=warn"])
        .args(["-Copt-level=s", "-Cpanic=abort", "-Cno-redzone=yes"])
        .args(["-Crelocation-model=static", "-Ccodegen-units=1"])
        .args(["-Cforce-unwind-tables=no", "-Cstrip=symbols"])
        .arg("-o")
        .arg(&output);
    if is_bare {
        command.args(["--target", BARE]);
        command.arg(format!("-Clink-arg=-T{}", script.display()));
    } else {
        // An emulated KVM has no SSE in ring 0. The compiler warns of the ABI of floats, which the kernel does not use.
        command.args(["--target", &host, "-Ctarget-feature=-sse,-sse2"]);
        for word in ["-nostdlib", "-static", "-no-pie", "-Wl,--build-id=none"] {
            command.arg(format!("-Clink-arg={word}"));
        }
        command.arg(format!("-Clink-arg=-Wl,-T,{}", script.display()));
        // The library of the host's target names them, and nothing calls them.
        for symbol in ["rust_eh_personality", "_Unwind_Resume"] {
            command.arg(format!("-Clink-arg=-Wl,--defsym={symbol}=0"));
        }
    }
    let result = command.output().unwrap();
    let text = String::from_utf8_lossy(&result.stderr);
    assert!(result.status.success(), "{command:?}: {text}");
}

fn has_library(compiler: &std::ffi::OsStr) -> bool {
    let result = Command::new(compiler)
        .args(["--print=target-libdir", "--target", BARE])
        .output();
    result.is_ok_and(|result| {
        let path = String::from_utf8_lossy(&result.stdout).into_owned();
        Path::new(path.trim()).is_dir()
    })
}
