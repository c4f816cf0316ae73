//! Uses a root disk instead of the initramfs's root. The disk is read-only; a layer of the scratch disk over it stores
//! files that only root writes, such as mount points.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::Instant;

use rustix::fs::Mode;
use rustix::mount::{MountFlags, mount, mount_move};

use super::boot_error::BootError;
use super::mounts::{DEVICE_WAIT, SAFE, make_private};
use crate::disks;

/// A folder that only root may enter, because mounts in it have their own modes.
const PRIVATE: &str = "/run/root-disk";
/// The disk without the layer over it.
const DISK: &str = "/run/root-disk/lower";
/// The folder in which the new root is made. It may not be below the mounts that move into it.
const NEW_ROOT: &str = "/mnt";
/// Programs of the initramfs that are in every guest, whatever its root.
const OWN: &str = "/usr/lib/voidbox";
/// Mounts that exist before the switch and move with all mounts below them.
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
    // The new root gets the mode of this folder; only root may enter the folder around it.
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

/// Copies files, links and folders of the guest's image. Does nothing if the folder does not exist.
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

/// Moves the mount to `/`. After only a chroot, the kernel would refuse user namespaces to every process, because its
/// root would differ from the root of the mount namespace.
fn enter() -> rustix::io::Result<()> {
    rustix::process::chdir(NEW_ROOT)?;
    mount_move(".", "/")?;
    rustix::process::chroot(".")?;
    rustix::process::chdir("/")
}
