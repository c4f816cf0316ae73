//! The folder in which an exec stores its output and its record.

use std::path::{Path, PathBuf};

/// Returns the folder name of an exec key; keys may have any characters and any length.
pub fn folder_name(exec_key: &str) -> String {
    // FNV-1a twice, with different starts: 128 bits. The record contains the key itself.
    let hash = |start: u64| {
        exec_key.bytes().fold(start, |sum, byte| {
            (sum ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3)
        })
    };
    format!(
        "{:016x}{:016x}",
        hash(0xCBF2_9CE4_8422_2325),
        hash(0x6C62_272E_07BB_0142)
    )
}

/// Returns the folder of an exec key below a run directory.
pub fn folder(execs: &Path, exec_key: &str) -> PathBuf {
    execs.join(folder_name(exec_key))
}
