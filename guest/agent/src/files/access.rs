//! The rights of file requests, and the only functions that open their paths.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, mkdirat, openat2};
use rustix::io::Errno;

use crate::failure::Failure;
use crate::owner::Owner;

/// The longest path that the kernel accepts, its terminator included.
const MAX_PATH_BYTES: usize = 4096;
/// Attempts to open a path that concurrent renames disturb.
const OPEN_TRIES: usize = 64;

/// Makes this thread open and create files as `owner`. The thread never changes back, because it ends with its
/// request. Changing the file user away from root also drops its file capabilities.
pub fn become_file_user(owner: Option<Owner>) -> Result<(), Failure> {
    let Some(Owner { uid, gid }) = owner else {
        return Ok(());
    };
    // SAFETY: raw system calls with plain numbers and an empty list. Raw calls change only this thread; libc's wrappers
    // would change every thread.
    let (groups, file_uid, file_gid) = unsafe {
        let groups = libc::syscall(libc::SYS_setgroups, 0usize, std::ptr::null::<libc::gid_t>());
        libc::syscall(libc::SYS_setfsgid, gid);
        libc::syscall(libc::SYS_setfsuid, uid);
        // An invalid id changes nothing and returns the current one.
        (
            groups,
            libc::syscall(libc::SYS_setfsuid, u32::MAX),
            libc::syscall(libc::SYS_setfsgid, u32::MAX),
        )
    };
    if groups != 0 || file_uid != i64::from(uid) || file_gid != i64::from(gid) {
        return Err(Failure::io(
            "becoming the sandbox user for files",
            io::Error::from(Errno::PERM),
        ));
    }
    Ok(())
}

/// Checks the path of a request: absolute, without `..`, and not longer than the kernel accepts.
pub fn checked_path(path: &str) -> Result<&Path, Failure> {
    let checked = Path::new(path);
    let is_plain = checked
        .components()
        .all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    if !checked.is_absolute() || !is_plain || path.contains('\0') || path.len() >= MAX_PATH_BYTES {
        return Err(Failure::bad_request(format!(
            "{path:?} is not an absolute path without `..`"
        )));
    }
    Ok(checked)
}

/// Opens a path of the guest and follows links, except those of /proc, which lead anywhere.
pub fn open(path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    open_with(CWD, path, flags, Mode::empty(), ResolveFlags::NO_MAGICLINKS)
}

/// Opens a path beneath a folder without following links.
pub fn open_beneath(
    folder: BorrowedFd<'_>,
    path: &Path,
    flags: OFlags,
    mode: Mode,
) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    open_with(folder, path, flags, mode, resolve)
}

fn open_with(
    folder: BorrowedFd<'_>,
    path: &Path,
    flags: OFlags,
    mode: Mode,
    resolve: ResolveFlags,
) -> Result<OwnedFd, Errno> {
    let mut tries = 0;
    loop {
        match openat2(folder, path, flags | OFlags::CLOEXEC, mode, resolve) {
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) if tries < OPEN_TRIES => tries += 1,
            result => return result,
        }
    }
}

/// Opens the folder at a path, and makes missing folders.
pub fn open_or_make_folder(path: &Path) -> Result<OwnedFd, Failure> {
    let flags = OFlags::PATH | OFlags::DIRECTORY;
    let failed = |error: Errno| Failure::io(path.display(), error);
    let mut folder = open(Path::new("/"), flags).map_err(failed)?;
    for part in path.components() {
        if let Component::Normal(name) = part {
            folder =
                step_into(folder.as_fd(), name, ResolveFlags::NO_MAGICLINKS).map_err(failed)?;
        }
    }
    Ok(folder)
}

/// Opens the folder at a relative path beneath another, makes missing folders, and follows no link.
pub fn open_or_make_beneath(top: BorrowedFd<'_>, path: &Path) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    let mut folder = open_with(
        top,
        Path::new("."),
        OFlags::PATH | OFlags::DIRECTORY,
        Mode::empty(),
        resolve,
    )?;
    for part in path.components() {
        if let Component::Normal(name) = part {
            folder = step_into(folder.as_fd(), name, resolve)?;
        }
    }
    Ok(folder)
}

fn step_into(
    folder: BorrowedFd<'_>,
    name: &OsStr,
    resolve: ResolveFlags,
) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY;
    let step = || open_with(folder, Path::new(name), flags, Mode::empty(), resolve);
    match step() {
        Err(Errno::NOENT) => match mkdirat(folder, name, Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(Errno::EXIST) => step(),
            Err(error) => Err(error),
        },
        result => result,
    }
}
