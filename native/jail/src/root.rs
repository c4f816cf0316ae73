//! The root of the jail: empty, except for what the jail shows.

use rustix::fs::{Mode, OFlags, mkdir, open};
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_change, mount_remount, unmount,
};
use rustix::process::{chdir, chroot, pivot_root, umask};

use crate::error::Error;
use crate::shown::{SHOWN, Tree};

/// The folder over which the new root is mounted, until the old root is gone. Every host that can make a jail has it.
const MOUNT_POINT: &str = "/proc";

/// The folder of the new root in which the confined process is.
const INSIDE: &str = "/empty";

/// The mounts of the new root.
pub struct Contents {
    pub shown: Vec<Tree>,
    /// Whether it has a `/proc`, which contains the confined processes only.
    pub processes: bool,
}

impl Contents {
    /// The inodes of the root, of the folder inside, and of each place of a mount.
    fn inodes(&self) -> usize {
        let shown = match self.shown.len() {
            0 => 0,
            count => count + 1,
        };
        2 + shown + usize::from(self.processes)
    }
}

/// Replaces the root by a folder that cannot be written. The other mounts of the host are gone afterwards.
pub fn enter(contents: &Contents) -> Result<(), Error> {
    mount_change(
        "/",
        MountPropagationFlags::PRIVATE | MountPropagationFlags::REC,
    )
    .map_err(Error::of("making the mounts private"))?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    // The inodes are those that the jail makes, so not even a process with all rights could make a file.
    let options = format!("size=4k,nr_inodes={},mode=0555", contents.inodes());
    let options = std::ffi::CString::new(options).expect("the options have no zero");
    mount(
        "jail",
        MOUNT_POINT,
        "tmpfs",
        flags,
        Some(options.as_c_str()),
    )
    .map_err(Error::of("mounting the empty root"))?;
    chdir(MOUNT_POINT).map_err(Error::of("entering the empty root"))?;
    fill(contents, flags)?;
    // The old root is then mounted over the new one, at the same place.
    pivot_root(".", ".").map_err(Error::of("changing the root"))?;
    unmount(".", UnmountFlags::DETACH).map_err(Error::of("leaving the old root"))?;
    chdir("/").map_err(Error::of("entering the new root"))?;
    mount_remount("/", flags | MountFlags::RDONLY | MountFlags::BIND, "")
        .map_err(Error::of("making the root read-only"))?;
    // A process whose root is not the root of its mounts cannot make a user namespace, in which it would have all
    // capabilities.
    chroot(INSIDE).map_err(Error::of("entering the empty folder"))?;
    chdir("/").map_err(Error::of("entering the empty folder"))?;
    umask(Mode::from_raw_mode(0o077));
    Ok(())
}

/// Makes the folders of the new root, which is the working folder. The old root is still there: a `/proc` may only be
/// mounted where another one is visible.
fn fill(contents: &Contents, flags: MountFlags) -> Result<(), Error> {
    let make = |path: &str| {
        mkdir(path, Mode::from_raw_mode(0o555)).map_err(Error::of("making a folder of the jail"))
    };
    // The confined process may be another user, and must be able to enter.
    umask(Mode::empty());
    let inside = format!(".{INSIDE}");
    make(&inside)?;
    if contents.processes {
        let proc = format!("{inside}/proc");
        make(&proc)?;
        // Only processes of the jail that the confined one could trace, and nothing else that the kernel tells.
        let options = Some(c"hidepid=ptraceable,subset=pid");
        mount("proc", &proc, "proc", flags, options).map_err(Error::of("mounting /proc"))?;
    }
    if !contents.shown.is_empty() {
        make(&format!("{inside}{SHOWN}"))?;
    }
    for (index, tree) in contents.shown.iter().enumerate() {
        let place = format!("{inside}{SHOWN}/{index}");
        if tree.is_folder {
            make(&place)?;
        } else {
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
            open(&place, flags, Mode::from_raw_mode(0o444))
                .map_err(Error::of("making a file of the jail"))?;
        }
        tree.show(&place)?;
    }
    Ok(())
}
