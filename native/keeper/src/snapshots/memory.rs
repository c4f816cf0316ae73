//! The memory of a guest: anonymous memory that a VMM maps, and the file from which it is read again.
//!
//! The VMM of a template writes its memory. A snapshot gets a copy with seals: after that no process can change it, not
//! even through a descriptor that is open for writing. VMMs of copies map the sealed memory privately.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::fs::{
    FallocateFlags, MemfdFlags, SealFlags, SeekFrom, fallocate, fcntl_add_seals, fcntl_get_seals,
    ftruncate, memfd_create, seek, sendfile,
};
use rustix::io::Errno;
use sha2::{Digest, Sha256};

use super::key::hex;

/// The name of sealed memory in `/proc/<pid>/fd`.
pub const SEALED_NAME: &str = "voidbox-snapshot";
const TEMPLATE_NAME: &str = "voidbox-guest";
const PAGE_BYTES: usize = 4096;
const ZERO_PAGE: [u8; PAGE_BYTES] = [0; PAGE_BYTES];
/// Small enough for the cache of a CPU: the copy writes what it has just read.
const CHUNK_BYTES: usize = 256 << 10;

/// The seals of a template's memory: its VMM cannot change the size.
const SIZE_SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW);
/// The seals of a snapshot's memory. `SEAL` forbids that a seal is added or removed.
const ALL_SEALS: SealFlags = SIZE_SEALS.union(SealFlags::WRITE).union(SealFlags::SEAL);

/// The pages of a memory that are not zero, as they were copied.
#[derive(Debug, PartialEq, Eq)]
pub struct Pages {
    pub bytes: u64,
    /// The hash of each page behind its offset, as 64 bits, little-endian.
    pub sha256: String,
}

/// Creates memory for a guest that boots.
pub fn create(bytes: u64) -> io::Result<File> {
    let memory = create_memfd(TEMPLATE_NAME, bytes)?;
    fcntl_add_seals(&memory, SIZE_SEALS | SealFlags::SEAL)?;
    Ok(memory)
}

/// Creates memory into which a VMM writes the memory of its guest. [`seal`] ends that.
pub fn create_to_seal(bytes: u64) -> io::Result<File> {
    let memory = create_memfd(SEALED_NAME, bytes)?;
    fcntl_add_seals(&memory, SIZE_SEALS)?;
    Ok(memory)
}

/// Seals memory that a VMM has written. Fails while a process maps it for writing, or if the VMM has forbidden seals.
pub fn seal(memory: &File, bytes: u64) -> io::Result<()> {
    fcntl_add_seals(memory, ALL_SEALS)?;
    match is_sealed(memory, bytes) {
        true => Ok(()),
        false => Err(io::Error::other("the memory has another size")),
    }
}

/// Copies memory, and seals the copy.
pub fn seal_copy(from: &File, bytes: u64) -> io::Result<File> {
    let sealed = create_memfd(SEALED_NAME, bytes)?;
    copy_pages(from, bytes, |page, offset| {
        sealed.write_all_at(page, offset)
    })?;
    fcntl_add_seals(&sealed, ALL_SEALS)?;
    Ok(sealed)
}

/// Reads the file of a memory into sealed memory. The kernel copies, so each byte is copied once.
pub fn load(file: &File, bytes: u64) -> io::Result<File> {
    let sealed = create_memfd(SEALED_NAME, bytes)?;
    for (mut offset, end) in find_data(file, bytes)? {
        seek(&sealed, SeekFrom::Start(offset))?;
        while offset < end {
            let left = usize::try_from(end - offset).unwrap_or(usize::MAX);
            if sendfile(&sealed, file, Some(&mut offset), left)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
    fcntl_add_seals(&sealed, ALL_SEALS)?;
    Ok(sealed)
}

/// Takes the room on the disk that `write_file` needs. A file system that cannot take room ahead is left as it is.
pub fn reserve(memory: &File, bytes: u64, file: &File) -> io::Result<()> {
    for (offset, end) in find_data(memory, bytes)? {
        match fallocate(file, FallocateFlags::empty(), offset, end - offset) {
            Ok(()) => {}
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Writes memory into a file that is empty or reserved, with a hole for each part that is zero.
pub fn write_file(memory: &File, bytes: u64, file: &File) -> io::Result<Pages> {
    let mut hash = Sha256::new();
    let mut written = 0;
    file.set_len(bytes)?;
    copy_pages(memory, bytes, |pages, offset| {
        for (page, at) in pages.chunks(PAGE_BYTES).zip((offset..).step_by(PAGE_BYTES)) {
            hash.update(at.to_le_bytes());
            hash.update(page);
        }
        written += pages.len() as u64;
        file.write_all_at(pages, offset)
    })?;
    Ok(Pages {
        bytes: written,
        sha256: hex(&hash.finalize()),
    })
}

/// Whether a file is memory of this size that no process can change.
pub fn is_sealed(file: &File, bytes: u64) -> bool {
    let has_size = file.metadata().is_ok_and(|found| found.len() == bytes);
    has_size && fcntl_get_seals(file).is_ok_and(|seals| seals.contains(ALL_SEALS))
}

fn create_memfd(name: &str, bytes: u64) -> io::Result<File> {
    let memory = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    ftruncate(&memory, bytes)?;
    Ok(memory.into())
}

/// Passes each run of pages that are not zero to `write`, with its offset.
fn copy_pages(
    from: &File,
    bytes: u64,
    mut write: impl FnMut(&[u8], u64) -> io::Result<()>,
) -> io::Result<()> {
    let mut buffer = vec![0; CHUNK_BYTES];
    for (mut offset, end) in find_data(from, bytes)? {
        while offset < end {
            let count = CHUNK_BYTES.min(usize::try_from(end - offset).unwrap_or(CHUNK_BYTES));
            let chunk = &mut buffer[..count];
            from.read_exact_at(chunk, offset)?;
            for (run, at) in runs_of_data(chunk) {
                write(run, offset + at as u64)?;
            }
            offset += count as u64;
        }
    }
    Ok(())
}

/// Returns the parts of a file that are no holes: begin and end of each, in whole pages.
fn find_data(file: &File, bytes: u64) -> io::Result<Vec<(u64, u64)>> {
    let page = PAGE_BYTES as u64;
    let mut parts = Vec::new();
    let mut offset = 0;
    while offset < bytes {
        let data = match seek(file, SeekFrom::Data(offset)) {
            Ok(data) => data - data % page,
            // The rest is a hole.
            Err(Errno::NXIO) => break,
            Err(error) => return Err(error.into()),
        };
        if data >= bytes {
            break;
        }
        let end = seek(file, SeekFrom::Hole(data))?;
        offset = end.next_multiple_of(page).min(bytes);
        parts.push((data, offset));
    }
    Ok(parts)
}

/// Returns the runs of pages that are not zero, with their offsets.
fn runs_of_data(chunk: &[u8]) -> Vec<(&[u8], usize)> {
    let mut runs = Vec::new();
    let mut start = None;
    for (index, page) in chunk.chunks(PAGE_BYTES).enumerate() {
        let at = index * PAGE_BYTES;
        match (page == &ZERO_PAGE[..page.len()], start) {
            (false, None) => start = Some(at),
            (true, Some(begin)) => {
                runs.push((&chunk[begin..at], begin));
                start = None;
            }
            _ => {}
        }
    }
    if let Some(begin) = start {
        runs.push((&chunk[begin..], begin));
    }
    runs
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::MetadataExt;

    use super::*;

    const BYTES: u64 = 8 << 20;

    fn write_page(file: &File, page: u64, byte: u8) {
        file.write_all_at(&[byte; PAGE_BYTES], page * PAGE_BYTES as u64)
            .unwrap();
    }

    /// Memory with data at its begin and end, behind zeros that take room, and across a chunk.
    fn example() -> File {
        let memory = create(BYTES).unwrap();
        for page in [0, 3, 62, 63, 64, 65, 2047] {
            write_page(&memory, page, 7);
        }
        write_page(&memory, 100, 0);
        memory
    }

    fn content(file: &File) -> Vec<u8> {
        let mut bytes = vec![0; usize::try_from(BYTES).unwrap()];
        file.read_exact_at(&mut bytes, 0).unwrap();
        bytes
    }

    #[test]
    fn a_copy_and_its_file_have_the_same_content_and_no_room_for_zeros() {
        let memory = example();
        let sealed = seal_copy(&memory, BYTES).unwrap();
        assert_eq!(content(&sealed), content(&memory));
        assert_eq!(sealed.metadata().unwrap().blocks() * 512, 7 * 4096);
        let file = tempfile::tempfile().unwrap();
        let pages = write_file(&sealed, BYTES, &file).unwrap();
        assert_eq!(pages.bytes, 7 * 4096);
        assert_eq!(content(&file), content(&memory));
        assert!(file.metadata().unwrap().blocks() * 512 < 1 << 20);
        let again = load(&file, BYTES).unwrap();
        assert_eq!(content(&again), content(&memory));
        assert!(is_sealed(&again, BYTES));
        let other = tempfile::tempfile().unwrap();
        assert_eq!(write_file(&again, BYTES, &other).unwrap(), pages);
        write_page(&memory, 4, 7);
        let third = tempfile::tempfile().unwrap();
        let changed = write_file(&memory, BYTES, &third).unwrap();
        assert_ne!(changed.sha256, pages.sha256);
    }

    #[test]
    fn no_process_can_change_sealed_memory_through_a_descriptor_that_is_open_for_writing() {
        let sealed = seal_copy(&example(), BYTES).unwrap();
        let before = content(&sealed);
        let path = format!("/proc/self/fd/{}", sealed.as_raw_fd());
        let vmm = File::options().read(true).write(true).open(path).unwrap();
        let eperm = |result: io::Result<()>| {
            let error = result.expect_err("it is sealed");
            assert_eq!(error.raw_os_error(), Some(libc::EPERM));
        };
        eperm(vmm.write_all_at(b"x", 0));
        eperm(vmm.set_len(0));
        eperm(vmm.set_len(2 * BYTES));
        let hole = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
        eperm(rustix::fs::fallocate(&vmm, hole, 0, 4096).map_err(Into::into));
        eperm(fcntl_add_seals(&vmm, SealFlags::FUTURE_WRITE).map_err(Into::into));
        eperm(map_shared(&vmm));
        assert_eq!(content(&sealed), before);
        assert!(is_sealed(&vmm, BYTES));
        assert!(!is_sealed(&vmm, BYTES + 1));
        assert!(!is_sealed(&example(), BYTES));
        assert!(!is_sealed(&tempfile::tempfile().unwrap(), 0));
    }

    fn map_shared(file: &File) -> io::Result<()> {
        let (prot, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        // SAFETY: a new mapping that nothing uses.
        let at =
            unsafe { libc::mmap(std::ptr::null_mut(), 4096, prot, flags, file.as_raw_fd(), 0) };
        match at == libc::MAP_FAILED {
            true => Err(io::Error::last_os_error()),
            false => Ok(()),
        }
    }

    #[test]
    fn memory_that_a_vmm_has_written_is_sealed_once_no_process_can_write_it() {
        let memory = create_to_seal(BYTES).unwrap();
        write_page(&memory, 1, 1);
        assert!(memory.set_len(2 * BYTES).is_err());
        // SAFETY: a new mapping of one page, which is unmapped below.
        let mapped = unsafe {
            let (prot, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
            libc::mmap(
                std::ptr::null_mut(),
                4096,
                prot,
                flags,
                memory.as_raw_fd(),
                0,
            )
        };
        assert_ne!(mapped, libc::MAP_FAILED);
        let refused = seal(&memory, BYTES).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::EBUSY));
        // SAFETY: the mapping from above.
        unsafe { libc::munmap(mapped, 4096) };
        seal(&memory, BYTES).unwrap();
        assert!(is_sealed(&memory, BYTES));
        assert!(memory.write_all_at(b"x", 0).is_err());
        let forbidden = create_to_seal(BYTES).unwrap();
        fcntl_add_seals(&forbidden, SealFlags::SEAL).unwrap();
        assert!(seal(&forbidden, BYTES).is_err());
    }

    #[test]
    fn the_vmm_of_a_template_can_write_its_memory_but_not_change_the_size() {
        let memory = create(BYTES).unwrap();
        write_page(&memory, 1, 1);
        assert!(memory.set_len(0).is_err());
        assert!(memory.set_len(2 * BYTES).is_err());
        assert!(!is_sealed(&memory, BYTES));
    }

    #[test]
    fn a_full_disk_is_the_error_of_the_file() {
        let full = File::options().write(true).open("/dev/full").unwrap();
        assert!(write_file(&example(), BYTES, &full).is_err());
        let short = seal_copy(&example(), 2 * BYTES);
        assert_eq!(short.unwrap().metadata().unwrap().len(), 2 * BYTES);
    }
}
