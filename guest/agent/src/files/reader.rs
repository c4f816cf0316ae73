//! Opens files for the host with the user's rights. If only the mode of a file that the user owns prevents this, it
//! opens the file as root.
//!
//! An owner can grant itself each right by chmod, so root's rights give no access that the user could not get.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, StatVfsMountFlags, fstat, fstatfs, fstatvfs, open};
use rustix::io::Errno;

use super::access;
use crate::owner::Owner;

/// `PROC_SUPER_MAGIC`: the owner of an entry of /proc cannot change its rights.
const PROC_MAGIC: i64 = 0x9fa0;

/// The rights of a request that reads.
#[derive(Debug, Clone, Copy)]
pub struct Reader {
    /// The user that the thread has become; `None` if the agent is not root.
    owner: Option<Owner>,
}

impl Reader {
    pub fn new(owner: Option<Owner>) -> Self {
        Self { owner }
    }

    /// Opens a path of the guest. Links are followed, except those of /proc, and those in folders that the user owns
    /// and may not search.
    pub fn open(self, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        match access::open(path, flags) {
            Err(Errno::ACCESS) => {}
            result => return result,
        }
        let found = match access::open(path, OFlags::PATH) {
            Err(Errno::ACCESS) => {
                let root = access::open(Path::new("/"), OFlags::PATH | OFlags::DIRECTORY)?;
                self.walk(root.as_fd(), path)?
            }
            result => result?,
        };
        self.reopen(found.as_fd(), flags)
    }

    /// Opens a path beneath a folder without following links.
    pub fn open_beneath(
        self,
        folder: BorrowedFd<'_>,
        path: &Path,
        flags: OFlags,
    ) -> Result<OwnedFd, Errno> {
        match access::open_beneath(folder, path, flags, Mode::empty()) {
            Err(Errno::ACCESS) => {}
            result => return result,
        }
        let found = self.walk(folder, path)?;
        match flags.contains(OFlags::PATH) {
            true => Ok(found),
            false => self.reopen(found.as_fd(), flags),
        }
    }

    /// Runs an operation in a folder or on a file. If only its mode prevents it and the user owns it, repeats the
    /// operation as root.
    pub fn within<T>(
        self,
        place: BorrowedFd<'_>,
        work: impl Fn() -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        match (work(), self.owner) {
            (Err(Errno::ACCESS), Some(owner)) if is_owned(place, owner)? => {
                let _root = Root::become_for(owner);
                work()
            }
            (result, _) => result,
        }
    }

    /// Opens one name after the other, so that the owner of each folder is checked.
    fn walk(self, start: BorrowedFd<'_>, path: &Path) -> Result<OwnedFd, Errno> {
        let step = |folder: BorrowedFd<'_>, name: &Path| {
            let found = self.within(folder, || {
                let flags = OFlags::PATH | OFlags::NOFOLLOW;
                access::open_beneath(folder, name, flags, Mode::empty())
            })?;
            match FileType::from_raw_mode(fstat(&found)?.st_mode) {
                FileType::Symlink => Err(Errno::LOOP),
                _ => Ok(found),
            }
        };
        let mut found = step(start, Path::new("."))?;
        for part in path.components() {
            if let Component::Normal(name) = part {
                found = step(found.as_fd(), Path::new(name))?;
            }
        }
        Ok(found)
    }

    /// Opens the file of a descriptor without rights, even if its name has changed.
    fn reopen(self, found: BorrowedFd<'_>, flags: OFlags) -> Result<OwnedFd, Errno> {
        let path = PathBuf::from(format!("/proc/self/fd/{}", found.as_raw_fd()));
        let flags = flags.difference(OFlags::NOFOLLOW) | OFlags::CLOEXEC;
        self.within(found, || open(&path, flags, Mode::empty()))
    }
}

/// Returns true for a regular file or folder whose owner could change its mode.
fn is_owned(place: BorrowedFd<'_>, owner: Owner) -> Result<bool, Errno> {
    let stat = fstat(place)?;
    let kind = FileType::from_raw_mode(stat.st_mode);
    if stat.st_uid != owner.uid || !matches!(kind, FileType::RegularFile | FileType::Directory) {
        return Ok(false);
    }
    let is_read_only = fstatvfs(place)?.f_flag.contains(StatVfsMountFlags::RDONLY);
    Ok(!is_read_only && fstatfs(place)?.f_type != PROC_MAGIC)
}

/// While this value lives, the thread opens files as root.
struct Root {
    owner: Owner,
}

impl Root {
    fn become_for(owner: Owner) -> Self {
        set_file_user(0);
        Self { owner }
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        set_file_user(self.owner.uid);
    }
}

/// Sets the file user. A change to root restores the file capabilities that the change from root dropped.
fn set_file_user(uid: u32) {
    // SAFETY: a raw system call with a plain number. A raw call changes only this thread.
    unsafe {
        libc::syscall(libc::SYS_setfsuid, uid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner_of(path: &str) -> Owner {
        let fd = access::open(Path::new(path), OFlags::PATH).unwrap();
        let stat = fstat(&fd).unwrap();
        Owner {
            uid: stat.st_uid,
            gid: stat.st_gid,
        }
    }

    #[test]
    fn only_files_and_folders_of_the_user_count_as_owned() {
        let own = owner_of("/proc/self");
        let folder = std::env::temp_dir().join(format!("voidbox-owned-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("file"), "x").unwrap();
        std::os::unix::fs::symlink("file", folder.join("link")).unwrap();
        let open = |path: &Path| {
            let flags = OFlags::PATH | OFlags::NOFOLLOW;
            open(path, flags, Mode::empty()).unwrap()
        };
        let is_owned_by = |path: &Path, owner: Owner| is_owned(open(path).as_fd(), owner).unwrap();
        assert!(is_owned_by(&folder, own));
        assert!(is_owned_by(&folder.join("file"), own));
        let other = Owner {
            uid: own.uid + 1,
            gid: own.gid,
        };
        assert!(!is_owned_by(&folder.join("file"), other));
        assert!(!is_owned_by(&folder.join("link"), own));
        assert!(!is_owned_by(Path::new("/proc/self/environ"), own));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
