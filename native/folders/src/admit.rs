//! Checks a request before the 9p library reads it. Folders are read-only, and no name leads out of them.

/// The limit of a message: 256 KiB of data, and the longest header before data.
pub const MESSAGE_BYTES: usize = (256 << 10) + 24;
/// The length of `size[4] type[1] tag[2]`, with which each message begins.
pub const HEADER_BYTES: usize = 7;
/// The limit of names in a walk, as the protocol has it.
const MAX_NAMES: usize = 16;

/// Types of requests, as in Linux's `include/net/9p/9p.h`.
mod kind {
    pub const STATFS: u8 = 8;
    pub const LOPEN: u8 = 12;
    pub const READLINK: u8 = 22;
    pub const GETATTR: u8 = 24;
    pub const XATTRWALK: u8 = 30;
    pub const READDIR: u8 = 40;
    pub const FSYNC: u8 = 50;
    pub const VERSION: u8 = 100;
    pub const ATTACH: u8 = 104;
    pub const FLUSH: u8 = 108;
    pub const WALK: u8 = 110;
    pub const READ: u8 = 116;
    pub const CLUNK: u8 = 120;
}

/// Bits of the flags of an open that write: the access mode, `O_CREAT`, `O_TRUNC` and `O_APPEND`.
const WRITING: u32 = 0o3 | 0o100 | 0o1000 | 0o2000;
/// `O_NONBLOCK`: opening a pipe of the host would otherwise wait for its writer.
const NONBLOCK: u32 = 0o4000;

/// Returns an error number for a request that is refused. The flags of an open may change.
pub fn admit(message: &mut [u8]) -> Result<(), i32> {
    match message[4] {
        kind::WALK => check_walk(message),
        kind::LOPEN => {
            let flags = HEADER_BYTES + 4;
            let wanted = read_u32(message, flags)?;
            if wanted & WRITING != 0 {
                return Err(libc::EROFS);
            }
            message[flags..flags + 4].copy_from_slice(&(wanted | NONBLOCK).to_le_bytes());
            Ok(())
        }
        kind::STATFS
        | kind::READLINK
        | kind::GETATTR
        | kind::XATTRWALK
        | kind::READDIR
        | kind::FSYNC
        | kind::VERSION
        | kind::ATTACH
        | kind::FLUSH
        | kind::READ
        | kind::CLUNK => Ok(()),
        _ => Err(libc::EROFS),
    }
}

/// Each name is an entry of a folder: never the folder above, and never a path.
fn check_walk(message: &[u8]) -> Result<(), i32> {
    let mut at = HEADER_BYTES + 8;
    let count = usize::from(read_u16(message, at)?);
    at += 2;
    if count > MAX_NAMES {
        return Err(libc::EINVAL);
    }
    for _ in 0..count {
        let length = usize::from(read_u16(message, at)?);
        at += 2;
        let name = message.get(at..at + length).ok_or(libc::EINVAL)?;
        at += length;
        if matches!(name, b"" | b"." | b"..") || name.iter().any(|byte| matches!(byte, b'/' | 0)) {
            return Err(libc::EINVAL);
        }
    }
    Ok(())
}

fn read_u16(message: &[u8], at: usize) -> Result<u16, i32> {
    let bytes = message.get(at..at + 2).ok_or(libc::EINVAL)?;
    Ok(u16::from_le_bytes([bytes[0], bytes[1]]))
}

fn read_u32(message: &[u8], at: usize) -> Result<u32, i32> {
    let bytes = message.get(at..at + 4).ok_or(libc::EINVAL)?;
    Ok(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
}
