//! The empty root of the jail.

use rustix::fs::{Mode, mkdir};
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_change, mount_remount, unmount,
};
use rustix::process::{chdir, chroot, pivot_root, umask};

use crate::error::Error;

/// The folder over which the new root is mounted, until the old root is gone. Every host that can make a jail has it.
const MOUNT_POINT: &str = "/proc";

/// The folder of the new root in which the confined process is.
const EMPTY: &str = "/empty";

/// Replaces the root by an empty folder that cannot be written. The mounts of the host are gone afterwards.
pub fn enter_empty() -> Result<(), Error> {
    mount_change(
        "/",
        MountPropagationFlags::PRIVATE | MountPropagationFlags::REC,
    )
    .map_err(Error::of("making the mounts private"))?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    // The inodes are the root and its folder, so not even a process with all rights could make a file.
    mount(
        "jail",
        MOUNT_POINT,
        "tmpfs",
        flags,
        Some(c"size=4k,nr_inodes=2,mode=0555"),
    )
    .map_err(Error::of("mounting the empty root"))?;
    chdir(MOUNT_POINT).map_err(Error::of("entering the empty root"))?;
    // The old root is then mounted over the new one, at the same place.
    pivot_root(".", ".").map_err(Error::of("changing the root"))?;
    unmount(".", UnmountFlags::DETACH).map_err(Error::of("leaving the old root"))?;
    chdir("/").map_err(Error::of("entering the new root"))?;
    mkdir(EMPTY, Mode::from_raw_mode(0o555)).map_err(Error::of("making the empty folder"))?;
    mount_remount("/", flags | MountFlags::RDONLY | MountFlags::BIND, "")
        .map_err(Error::of("making the root read-only"))?;
    // A process whose root is not the root of its mounts cannot make a user namespace, in which it would have all
    // capabilities.
    chroot(EMPTY).map_err(Error::of("entering the empty folder"))?;
    chdir("/").map_err(Error::of("entering the empty folder"))?;
    umask(Mode::from_raw_mode(0o077));
    Ok(())
}
