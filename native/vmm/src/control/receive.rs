//! Bytes of a socket, with the descriptors that came with them.

use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// More than a request has: two.
pub const MAX_DESCRIPTORS: usize = 3;

const DESCRIPTOR_BYTES: usize = size_of::<RawFd>();
/// The bytes of so many descriptors.
const ALL_BYTES: u32 = 12;
/// Room for the header of a message and its descriptors, in words.
const SPACE_WORDS: usize = 8;

const _: () = assert!(MAX_DESCRIPTORS * DESCRIPTOR_BYTES == ALL_BYTES as usize);

/// Reads bytes, and adds the descriptors that came with them. The kernel closes those beyond the limit.
pub fn receive(
    socket: &File,
    bytes: &mut [u8],
    descriptors: &mut Vec<OwnedFd>,
) -> io::Result<usize> {
    let mut space = [0u64; SPACE_WORDS];
    let mut vector = libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: bytes.len(),
    };
    // SAFETY: zeros are a message without any part.
    let mut message: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    message.msg_iov = &raw mut vector;
    message.msg_iovlen = 1;
    message.msg_control = space.as_mut_ptr().cast();
    // SAFETY: a calculation.
    let room = unsafe { libc::CMSG_SPACE(ALL_BYTES) };
    message.msg_controllen = room as _;
    // SAFETY: the message points to live buffers with their lengths; `space` has more bytes than `room`.
    let count =
        unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_CMSG_CLOEXEC) };
    let count = usize::try_from(count).map_err(|_| io::Error::last_os_error())?;
    // SAFETY: the kernel has filled the message, and the headers lie in `space`.
    let mut header = unsafe { libc::CMSG_FIRSTHDR(&raw const message) };
    // SAFETY: the header is one that the kernel wrote, if it is not null.
    while let Some(part) = unsafe { header.as_ref() } {
        if part.cmsg_level == libc::SOL_SOCKET && part.cmsg_type == libc::SCM_RIGHTS {
            // SAFETY: a calculation.
            let start = unsafe { libc::CMSG_LEN(0) } as usize;
            #[allow(clippy::unnecessary_cast)] // The C libraries have different types.
            let length = part.cmsg_len as usize - start;
            // SAFETY: the descriptors lie behind the header.
            let data = unsafe { libc::CMSG_DATA(header) }.cast::<RawFd>();
            for at in 0..length / DESCRIPTOR_BYTES {
                // SAFETY: the kernel has made a descriptor for this process, whose only owner this is.
                descriptors.push(unsafe { OwnedFd::from_raw_fd(data.add(at).read_unaligned()) });
            }
        }
        // SAFETY: both pointers are valid, as above.
        header = unsafe { libc::CMSG_NXTHDR(&raw const message, header) };
    }
    Ok(count)
}
