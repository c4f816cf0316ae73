//! A root disk in place of the initramfs's own root: read-only, with a layer of the scratch disk over
//! it that takes what only root writes, such as mount points.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::Instant;

use rustix::fs::Mode;
use rustix::mount::{MountFlags, mount, mount_move};

use super::boot_error::BootError;
use super::mounts::{DEVICE_WAIT, SAFE, make_private};
use crate::disks;

/// For root alone: what is mounted in it has rights of its own.
const PRIVATE: &str = "/run/root-disk";
/// The disk alone.
const DISK: &str = "/run/root-disk/lower";
/// The folder in which the new root is made. It may not be below the mounts that move into it.
const NEW_ROOT: &str = "/mnt";
/// Programs of the initramfs that are in every guest, whatever its root.
const OWN: &str = "/usr/lib/voidbox";
/// Mounted by now, with all that is mounted below them.
const MOVED: [&str; 4] = ["/proc", "/sys", "/dev", "/run"];

/// Makes the disk with this serial number the root of every process.
pub fn switch_to(serial: &str, scratch: &Path) -> Result<(), BootError> {
    let at = |step: &str| {
        let step = format!("{step} (root disk {serial:?})");
        move |error: std::io::Error| BootError::at(step, error)
    };
    let device = wait_for(serial)
        .ok_or_else(|| at("looking for it")(std::io::Error::from(std::io::ErrorKind::NotFound)))?;
    make_private(Path::new(PRIVATE))
        .and_then(|()| make_private(Path::new(DISK)))
        .map_err(at("making its folder"))?;
    let flags = SAFE.union(MountFlags::RDONLY).union(MountFlags::NOATIME);
    mount(&device, DISK, "ext4", flags, c"").map_err(|error| at("mounting it")(error.into()))?;
    lay_over(scratch).map_err(at("laying the scratch disk over it"))?;
    copy_folder(Path::new(OWN), Path::new(&format!("{NEW_ROOT}{OWN}")))
        .map_err(at("copying the guest's own programs into it"))?;
    for view in MOVED {
        mount_move(view, format!("{NEW_ROOT}{view}"))
            .map_err(|error| at("moving a mount into it")(error.into()))?;
    }
    enter().map_err(|error| at("entering it")(error.into()))
}

fn wait_for(serial: &str) -> Option<PathBuf> {
    let since = Instant::now();
    loop {
        let found = disks::by_serial(serial);
        if found.is_some() || since.elapsed() > DEVICE_WAIT {
            return found;
        }
        thread::sleep(std::time::Duration::from_millis(5));
    }
}

fn lay_over(scratch: &Path) -> std::io::Result<()> {
    let upper = scratch.join("root-changes");
    let work = scratch.join("root-work");
    make_private(&work)?;
    make_private(&upper)?;
    // The new root has the rights of this folder, and only root enters the one around it.
    rustix::fs::chmod(&upper, Mode::from_raw_mode(0o755))?;
    let options = format!(
        "lowerdir={DISK},upperdir={},workdir={}",
        upper.display(),
        work.display()
    );
    let options = std::ffi::CString::new(options)?;
    mount("overlay", NEW_ROOT, "overlay", SAFE, options.as_c_str())?;
    Ok(())
}

/// Files, links and folders, as the image of the guest has them. Nothing where there is no such folder.
fn copy_folder(from: &Path, to: &Path) -> std::io::Result<()> {
    let entries = match std::fs::read_dir(from) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    std::fs::create_dir_all(to)?;
    for entry in entries {
        let entry = entry?;
        let (kind, target) = (entry.file_type()?, to.join(entry.file_name()));
        if kind.is_dir() {
            copy_folder(&entry.path(), &target)?;
        } else if kind.is_symlink() {
            std::os::unix::fs::symlink(std::fs::read_link(entry.path())?, target)?;
        } else {
            std::fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

/// The mount itself moves to `/`. After a chroot alone the kernel would refuse user namespaces to every
/// process, since their root would not be that of the mount namespace.
fn enter() -> rustix::io::Result<()> {
    rustix::process::chdir(NEW_ROOT)?;
    mount_move(".", "/")?;
    rustix::process::chroot(".")?;
    rustix::process::chdir("/")
}
