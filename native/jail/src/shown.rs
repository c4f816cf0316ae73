//! The files of the host that a jail shows, read-only.

use std::ffi::CString;
use std::fs::read_link;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStringExt;

use rustix::fs::{CWD, FileType, fstat};
use rustix::mount::{MoveMountFlags, OpenTreeFlags, move_mount, open_tree};

use crate::error::Error;

/// The folder of a jail with what it shows: `0`, `1` and so on, in the order of [`crate::Jail::shown`].
pub const SHOWN: &str = "/mounts";

/// A folder or a file, as a mount that has no place yet.
pub struct Tree {
    mount: OwnedFd,
    pub is_folder: bool,
}

const CLONE: OpenTreeFlags = OpenTreeFlags::OPEN_TREE_CLONE
    .union(OpenTreeFlags::OPEN_TREE_CLOEXEC)
    .union(OpenTreeFlags::AT_RECURSIVE);

/// Copies mounts outside of the jail, which only root may do: its confined process may have to see files whose folders
/// the jail cannot enter. Another user gets nothing, and [`find`] works for it.
pub fn copy_outside(files: &[RawFd]) -> Result<Option<Vec<Tree>>, Error> {
    let copied: Result<Vec<Tree>, Error> = files
        .iter()
        .map(|fd| {
            // SAFETY: the caller of the jail keeps its descriptors open.
            let file = unsafe { BorrowedFd::borrow_raw(*fd) };
            let mount = open_tree(file, c"", CLONE | OpenTreeFlags::AT_EMPTY_PATH)
                .map_err(Error::of("copying a mount"))?;
            Tree::new(mount)
        })
        .collect();
    match copied {
        Err(Error::Forbidden { .. }) => Ok(None),
        trees => trees.map(Some),
    }
}

/// Finds the files in the mounts of this namespace, which are copies of those in which they were opened.
pub fn find(files: &[RawFd]) -> Result<Vec<Tree>, Error> {
    files.iter().map(|fd| find_one(*fd)).collect()
}

fn find_one(fd: RawFd) -> Result<Tree, Error> {
    let step = "finding a shared folder";
    // SAFETY: the caller of the jail keeps its descriptors open.
    let file = unsafe { BorrowedFd::borrow_raw(fd) };
    let path = read_link(format!("/proc/self/fd/{fd}")).map_err(Error::at(step))?;
    let path =
        CString::new(path.into_os_string().into_vec()).map_err(|e| Error::at(step)(e.into()))?;
    let flags = CLONE | OpenTreeFlags::AT_SYMLINK_NOFOLLOW;
    let mount = open_tree(CWD, &path, flags).map_err(Error::of(step))?;
    let (opened, found) = (
        fstat(file).map_err(Error::of(step))?,
        fstat(&mount).map_err(Error::of(step))?,
    );
    // The path may lead to another file by now.
    if (opened.st_dev, opened.st_ino) != (found.st_dev, found.st_ino) {
        return Err(Error::Failed {
            step,
            source: io::Error::other(format!("{path:?} is another one than when it was opened")),
        });
    }
    Tree::new(mount)
}

impl Tree {
    fn new(mount: OwnedFd) -> Result<Self, Error> {
        let stat = fstat(&mount).map_err(Error::of("looking at a shared folder"))?;
        Ok(Self {
            mount,
            is_folder: FileType::from_raw_mode(stat.st_mode) == FileType::Directory,
        })
    }

    /// Puts the mount, and all mounts in it, over `path`, which is of its kind.
    pub fn show(&self, path: &str) -> Result<(), Error> {
        let attributes = libc::mount_attr {
            attr_set: libc::MOUNT_ATTR_RDONLY
                | libc::MOUNT_ATTR_NOSUID
                | libc::MOUNT_ATTR_NODEV
                | libc::MOUNT_ATTR_NOEXEC,
            attr_clr: 0,
            // A mount that the host makes later must not appear here.
            propagation: libc::MS_PRIVATE,
            userns_fd: 0,
        };
        // SAFETY: the path is a string, and the structure has the length that is given.
        let result = unsafe {
            libc::syscall(
                libc::SYS_mount_setattr,
                self.mount.as_raw_fd(),
                c"".as_ptr(),
                libc::AT_EMPTY_PATH | libc::AT_RECURSIVE,
                &raw const attributes,
                size_of::<libc::mount_attr>(),
            )
        };
        if result == -1 {
            return Err(Error::at("making a shared folder read-only")(
                io::Error::last_os_error(),
            ));
        }
        move_mount(
            &self.mount,
            c"",
            CWD,
            path,
            MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH,
        )
        .map_err(Error::of("showing a shared folder"))
    }
}
