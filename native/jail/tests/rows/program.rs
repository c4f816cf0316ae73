//! A static program of a few bytes, so that no compiler for static programs is needed.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

const BASE: u64 = 0x40_0000;
const HEADERS: u64 = 64 + 56;

/// `exit(environment is empty ? number of words : 99)`.
const CODE: [u8; 34] = [
    0x48, 0x8B, 0x3C, 0x24, // mov rdi, [rsp]: the number of words
    0x48, 0x8D, 0x74, 0xFC, 0x10, // lea rsi, [rsp + rdi * 8 + 16]: the environment
    0x48, 0x83, 0x3E, 0x00, // cmp qword [rsi], 0
    0x74, 0x05, // je over the next
    0xBF, 0x63, 0x00, 0x00, 0x00, // mov edi, 99
    0xB8, 0xE7, 0x00, 0x00, 0x00, // mov eax, exit_group
    0x0F, 0x05, // syscall
    0x0F, 0x0B, 0x0F, 0x0B, 0x0F, 0x0B, 0x0F, // ud2
];

/// Writes the program where every user may read it.
pub fn write() -> PathBuf {
    let mut elf = Vec::new();
    elf.extend(*b"\x7FELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
    for half in [2_u16, 62] {
        elf.extend(half.to_le_bytes());
    }
    elf.extend(1_u32.to_le_bytes());
    for long in [BASE + HEADERS, 64, 0] {
        elf.extend(long.to_le_bytes());
    }
    elf.extend(0_u32.to_le_bytes());
    for half in [64_u16, 56, 1, 64, 0, 0] {
        elf.extend(half.to_le_bytes());
    }
    // One segment, which is read and executed.
    for word in [1_u32, 5] {
        elf.extend(word.to_le_bytes());
    }
    let bytes = HEADERS + CODE.len() as u64;
    for long in [0, BASE, BASE, bytes, bytes, 0x1000] {
        elf.extend(long.to_le_bytes());
    }
    elf.extend(CODE);
    let path = std::env::temp_dir().join(format!("voidbox-jail-{}", std::process::id()));
    fs::write(&path, elf).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}
