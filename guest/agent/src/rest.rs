//! Makes an idle guest ready to be saved with its memory: nothing of its session is left, but the files of its users.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

use crate::boot::{CREDENTIALS, unmount_shared_tree};
use crate::failure::Failure;
use crate::guest::{Guest, Role};
use crate::lock::lock;

const PIECE_BYTES: usize = 64 << 10;

/// Fails if this guest cannot rest. Nothing has changed then.
pub fn check(guest: &Guest, has_requests: bool) -> Result<(), Failure> {
    if has_requests {
        return Err(Failure::bad_request("another request is open"));
    }
    match guest.is_configured() {
        true => Ok(()),
        false => Err(Failure::bad_request("the guest is not configured yet")),
    }
}

/// Ends users' processes, forgets files with keys, and leaves the keeper's folders. A failure leaves the guest without
/// a part that its programs expect, so its caller ends the guest.
pub fn prepare(guest: &Guest) -> io::Result<()> {
    if let Role::Init(storage) = &guest.role {
        if let Some(users) = &guest.cgroup {
            users.end_all()?;
        }
        unmount_shared_tree()?;
        wipe_folder(Path::new(CREDENTIALS))?;
        rustix::fs::syncfs(File::open(&storage.scratch)?)?;
    }
    let close_door = lock(&guest.close_door).take();
    if let Some(close) = close_door {
        close();
        guest.set_variables(Vec::new());
    }
    guest.forget_configuration();
    Ok(())
}

/// Overwrites and removes all in a folder. A file that is only removed would leave its bytes in the guest's memory.
fn wipe_folder(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let kind = path.symlink_metadata()?.file_type();
        if kind.is_dir() {
            wipe_folder(&path)?;
            fs::remove_dir(&path)?;
            continue;
        }
        if kind.is_file() {
            overwrite(&path)?;
        }
        fs::remove_file(&path)?;
    }
    Ok(())
}

/// Writes zeros over the data of a file, but not into its holes, which may be larger than the memory.
fn overwrite(path: &Path) -> io::Result<()> {
    let file = OpenOptions::new()
        .write(true)
        .custom_flags(libc::O_NOFOLLOW)
        .open(path)?;
    let zeros = [0; PIECE_BYTES];
    let mut at = 0;
    loop {
        at = match seek(&file, SeekFrom::Data(at)) {
            Ok(data) => data,
            Err(Errno::NXIO) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let end = seek(&file, SeekFrom::Hole(at))?;
        while at < end {
            let piece = zeros
                .len()
                .min(usize::try_from(end - at).unwrap_or(usize::MAX));
            at += file.write_at(&zeros[..piece], at)? as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek};
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_wiped_folder_is_empty_and_an_open_file_of_it_has_zeros() {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let outside = tempfile::NamedTempFile::new().unwrap();
        fs::write(outside.path(), "kept").unwrap();
        let (key, below) = (folder.path().join("key"), folder.path().join("a/b"));
        fs::write(&key, "secret").unwrap();
        fs::create_dir_all(&below).unwrap();
        let sparse = File::create(below.join("sparse")).unwrap();
        sparse.write_at(b"end", 1 << 40).unwrap();
        symlink(outside.path(), folder.path().join("link")).unwrap();
        let mut open = File::open(&key).unwrap();

        wipe_folder(folder.path()).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        assert_eq!(fs::read_to_string(outside.path()).unwrap(), "kept");
        let mut bytes = Vec::new();
        open.rewind().unwrap();
        open.read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes, [0; 6]);
    }
}
