//! Mounts: the kernel's views, the scratch disk, and what the keeper shares.

use std::ffi::CStr;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, Mode, OFlags, fchmod, fchown, mkdirat, openat};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount, mount_bind, mount_remount, unmount};

use super::boot_error::BootError;
use crate::owner::{Owner, SANDBOX};
use crate::procfs;

/// Folders of the scratch disk that exist for user code from the start.
pub const USER_FOLDERS: &[&str] = &["/workspace", "/tmp", "/var/tmp", "/home/sandbox"];

/// Files with keys and logins, which only the sandbox user may read.
pub const CREDENTIALS: &str = "/run/credentials";

/// The whole scratch disk, which only root may enter.
const SCRATCH: &str = "/run/scratch";
/// The tree of all shared folders, which only root may enter.
const SHARED: &str = "/run/mounts";
/// How long a disk may take to appear.
pub(super) const DEVICE_WAIT: Duration = Duration::from_secs(5);

pub(super) const SAFE: MountFlags = MountFlags::NOSUID.union(MountFlags::NODEV);

struct View {
    target: &'static str,
    kind: &'static str,
    flags: MountFlags,
    options: &'static CStr,
}

const VIEWS: &[View] = &[
    View {
        target: "/proc",
        kind: "proc",
        flags: SAFE.union(MountFlags::NOEXEC),
        options: c"hidepid=invisible",
    },
    View {
        target: "/sys",
        kind: "sysfs",
        flags: SAFE.union(MountFlags::NOEXEC).union(MountFlags::RDONLY),
        options: c"",
    },
    View {
        target: "/dev",
        kind: "devtmpfs",
        flags: MountFlags::NOSUID,
        options: c"mode=0755,size=1m",
    },
    View {
        target: "/dev/pts",
        kind: "devpts",
        flags: MountFlags::NOSUID.union(MountFlags::NOEXEC),
        options: c"newinstance,ptmxmode=0666,mode=0620",
    },
    View {
        target: "/dev/shm",
        kind: "tmpfs",
        flags: SAFE,
        options: c"mode=1777,size=25%",
    },
    View {
        target: "/run",
        kind: "tmpfs",
        flags: SAFE,
        options: c"mode=0755,size=16m",
    },
    // This file system is in memory, so that credentials are never written to a disk of the host.
    View {
        target: CREDENTIALS,
        kind: "tmpfs",
        flags: SAFE.union(MountFlags::NOEXEC),
        options: c"mode=0700,uid=1000,gid=1000,size=1m,nr_inodes=64",
    },
];

/// Mounts the kernel's views. All of them are bounded. Users can write only to `/dev/shm` and
/// `/run/credentials`, whose memory counts as theirs.
pub fn mount_kernel_views() -> Result<(), BootError> {
    // The kernel makes an initramfs's root writable for all users, and all of it is memory.
    rustix::fs::chmod("/", Mode::from_raw_mode(0o755))
        .map_err(|error| BootError::at("closing / to users", error))?;
    for view in VIEWS {
        let step = || format!("mounting {} on {}", view.kind, view.target);
        fs::create_dir_all(view.target).map_err(|error| BootError::at(step(), error))?;
        match mount(view.kind, view.target, view.kind, view.flags, view.options) {
            // The kernel may have mounted devtmpfs automatically.
            Ok(()) | Err(Errno::BUSY) => {}
            Err(error) => return Err(BootError::at(step(), error)),
        }
    }
    for (link, target) in [
        ("/dev/fd", "/proc/self/fd"),
        ("/dev/stdin", "/proc/self/fd/0"),
        ("/dev/stdout", "/proc/self/fd/1"),
        ("/dev/stderr", "/proc/self/fd/2"),
    ] {
        // The link already exists if the image has it.
        let _ = std::os::unix::fs::symlink(target, link);
    }
    Ok(())
}

/// `EXT4_IOC_RESIZE_FS` of the kernel's `fs/ext4/ext4.h`: `_IOW('f', 16, __u64)`.
const EXT4_IOC_RESIZE_FS: u32 = 0x4008_6610;

/// Where an ext4 file system has its superblock, and the part of it that says how large the file system is.
const SUPERBLOCK_AT: u64 = 1024;
const SUPERBLOCK_BYTES: usize = 0x154;

/// Mounts the scratch disk. The disk may be larger than its file system, which then grows: it is the disk of an earlier
/// VM, or it became larger while this VM waited.
pub fn mount_scratch(device: &Path) -> Result<PathBuf, BootError> {
    let failed = |error: io::Error| {
        BootError::at(
            format!("mounting the scratch disk {}", device.display()),
            error,
        )
    };
    let since = Instant::now();
    while !device.exists() && since.elapsed() < DEVICE_WAIT {
        thread::sleep(Duration::from_millis(5));
    }
    let scratch = PathBuf::from(SCRATCH);
    make_private(&scratch).map_err(failed)?;
    mount(
        device,
        &scratch,
        "ext4",
        SAFE.union(MountFlags::NOATIME),
        c"",
    )
    .map_err(|error| failed(error.into()))?;
    // The new file system has its own mode.
    make_private(&scratch).map_err(failed)?;
    let grown = match room_behind(device) {
        Ok(true) => grow(&scratch, device),
        other => other.map(drop),
    };
    grown.map_err(|error| {
        BootError::at(
            format!("growing the scratch disk {}", device.display()),
            error,
        )
    })?;
    Ok(scratch)
}

/// Whether a disk is larger than its file system, as the superblock says.
fn room_behind(device: &Path) -> io::Result<bool> {
    let mut disk = File::open(device)?;
    let mut superblock = [0; SUPERBLOCK_BYTES];
    disk.seek(SeekFrom::Start(SUPERBLOCK_AT))?;
    disk.read_exact(&mut superblock)?;
    let word = |at: usize| {
        let bytes = superblock[at..at + 4].try_into().expect("four bytes");
        u64::from(u32::from_le_bytes(bytes))
    };
    // `s_blocks_count_lo`, `s_blocks_count_hi` and `s_log_block_size`; the kernel accepts blocks of at most 64 KiB.
    let blocks = word(0x4) | word(0x150) << 32;
    let block_bytes = 1024_u64 << word(0x18).min(6);
    let used = blocks.saturating_mul(block_bytes);
    Ok(used < disk.seek(SeekFrom::End(0))?)
}

/// Grows a mounted file system to the size of its disk.
fn grow(mounted: &Path, device: &Path) -> io::Result<()> {
    let bytes = File::open(device)?.seek(SeekFrom::End(0))?;
    let folder = File::open(mounted)?;
    let blocks = bytes / rustix::fs::fstatvfs(&folder)?.f_bsize;
    let request = EXT4_IOC_RESIZE_FS as libc::Ioctl;
    // SAFETY: the kernel reads one u64, which outlives the call.
    match unsafe { libc::ioctl(folder.as_raw_fd(), request, &raw const blocks) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Returns the name of a user's folder on the scratch disk.
fn scratch_name(target: &str) -> String {
    target.trim_start_matches('/').replace('/', "-")
}

/// Binds the user's folders from the scratch disk.
pub fn bind_user_folders(scratch: &Path) -> Result<(), BootError> {
    for target in USER_FOLDERS {
        let source = scratch.join(scratch_name(target));
        let mode = if target.ends_with("/tmp") {
            0o1777
        } else {
            0o755
        };
        make_users(&source, mode)
            .and_then(|()| bind(&source, Path::new(target), SAFE))
            .map_err(|error| BootError::at(format!("binding {target}"), error))?;
    }
    Ok(())
}

/// Makes a folder that only root may enter.
pub(super) fn make_private(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o700))
}

/// Makes a folder of the sandbox user on the scratch disk. A folder of an earlier VM keeps its mode.
pub(super) fn make_users(path: &Path, mode: u32) -> io::Result<()> {
    let (folder, is_new) = open_or_make(path)?;
    own(&folder, SANDBOX)?;
    if is_new {
        fchmod(&folder, Mode::from_raw_mode(mode))?;
    }
    Ok(())
}

/// Makes a folder of root on the scratch disk. An earlier VM may have left one with other rights.
pub(super) fn make_roots(path: &Path, mode: u32) -> io::Result<()> {
    let (folder, _) = open_or_make(path)?;
    own(&folder, Owner { uid: 0, gid: 0 })?;
    fchmod(&folder, Mode::from_raw_mode(mode))?;
    Ok(())
}

/// Opens a folder on the scratch disk, and makes it if it does not exist. A link is an error: an earlier VM may
/// have left it, and it leads to another place.
fn open_or_make(path: &Path) -> io::Result<(File, bool)> {
    let is_new = match mkdirat(CWD, path, Mode::RWXU) {
        Ok(()) => true,
        Err(Errno::EXIST) => false,
        Err(error) => return Err(error.into()),
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = openat(CWD, path, flags, Mode::empty())?;
    Ok((folder.into(), is_new))
}

fn own(folder: &File, owner: Owner) -> io::Result<()> {
    use rustix::fs::{Gid, Uid};
    let (uid, gid) = (Uid::from_raw(owner.uid), Gid::from_raw(owner.gid));
    Ok(fchown(folder, Some(uid), Some(gid))?)
}

pub(super) fn bind(source: &Path, target: &Path, flags: MountFlags) -> io::Result<()> {
    if fs::metadata(source)?.is_dir() {
        fs::create_dir_all(target)?;
    }
    mount_bind(source, target)?;
    // A bind mount accepts flags only when it is remounted.
    mount_remount(target, MountFlags::BIND.union(flags), "")?;
    Ok(())
}

/// The name of the 9p device, and the source of its mounts.
const SHARED_DEVICE: &str = "mounts";

/// Mounts the 9p device with all shared folders, which only root may enter.
pub fn mount_shared_tree() -> io::Result<PathBuf> {
    let target = PathBuf::from(SHARED);
    make_private(&target)?;
    mount(
        SHARED_DEVICE,
        &target,
        "9p",
        SAFE.union(MountFlags::RDONLY),
        c"trans=virtio,version=9p2000.L,msize=262144",
    )?;
    Ok(target)
}

/// Unmounts all shared folders and their tree, so that the guest's kernel has no file of the keeper open.
pub fn unmount_shared_tree() -> io::Result<()> {
    let shared = |mount: &procfs::Mounted| mount.source == SHARED_DEVICE;
    for mount in procfs::mounts().into_iter().rev().filter(shared) {
        unmount(Path::new(&mount.target), UnmountFlags::NOFOLLOW)
            .map_err(|error| io::Error::other(format!("unmounting {}: {error}", mount.target)))?;
    }
    Ok(())
}

/// Binds a shared folder or file to a path, read-only.
pub fn bind_read_only(source: &Path, target: &Path) -> io::Result<()> {
    bind(source, target, SAFE.union(MountFlags::RDONLY))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// Makes a file with the file system that the keeper makes.
    fn disk(mib: u64) -> (tempfile::TempDir, PathBuf, File) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk");
        let file = File::create(&path).unwrap();
        file.set_len(mib << 20).unwrap();
        let made = Command::new("/usr/sbin/mke2fs")
            .args(["-q", "-F", "-t", "ext4", "-b", "4096", "-m", "0"])
            .args(["-O", "^has_journal"])
            .arg(&path)
            .status();
        assert!(made.unwrap().success());
        (folder, path, file)
    }

    #[test]
    fn a_disk_has_room_behind_its_file_system_once_it_became_longer() {
        for mib in [64, 2048] {
            let (_folder, path, file) = disk(mib);
            assert!(!room_behind(&path).unwrap(), "{mib} MiB");
            file.set_len((mib << 20) + 4096).unwrap();
            assert!(room_behind(&path).unwrap(), "{mib} MiB");
        }
    }

    #[test]
    fn a_disk_without_a_superblock_is_an_error() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(room_behind(file.path()).is_err());
    }
}
