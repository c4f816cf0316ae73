//! Uses a root disk instead of the initramfs's root. The disk is read-only; a layer of the scratch disk over it stores
//! files that only root writes, such as mount points.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Instant;

use rustix::mount::{MountFlags, mount, mount_move};

use super::boot_error::BootError;
use super::mounts::{DEVICE_WAIT, SAFE, make_private, make_roots};
use crate::disks;
use crate::log;

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

/// Folders in which the agent, as root, mounts or writes. In the layer of an earlier VM they are root's folders, or do
/// not exist.
const SKELETON: [&str; 11] = [
    "dev",
    "etc",
    "home/sandbox",
    "mnt",
    "opt/agents",
    "proc",
    "run",
    "sys",
    "usr/lib",
    "var/tmp",
    "workspace",
];
/// Entries that the agent of an earlier VM wrote to the layer. This agent writes its own.
const WRITTEN: [&str; 2] = ["usr/lib/voidbox", "etc/hosts"];

/// Makes the disk with this device or serial number the root of every process. Returns the layer over it.
pub fn switch_to(name: &str, scratch: &Path) -> Result<PathBuf, BootError> {
    let at = |step: &str| {
        let step = format!("{step} (root disk {name:?})");
        move |error: std::io::Error| BootError::at(step, error)
    };
    let device = wait_for(name)
        .ok_or_else(|| at("looking for it")(std::io::Error::from(std::io::ErrorKind::NotFound)))?;
    make_private(Path::new(PRIVATE))
        .and_then(|()| make_private(Path::new(DISK)))
        .map_err(at("making its folder"))?;
    mount_disk(&device).map_err(at("mounting it"))?;
    let layer = lay_over(scratch).map_err(at("laying the scratch disk over it"))?;
    copy_folder(Path::new(OWN), Path::new(&format!("{NEW_ROOT}{OWN}")))
        .map_err(at("copying the guest's own programs into it"))?;
    for view in MOVED {
        mount_move(view, format!("{NEW_ROOT}{view}"))
            .map_err(|error| at("moving a mount into it")(error.into()))?;
    }
    enter().map_err(|error| at("entering it")(error.into()))?;
    Ok(layer)
}

/// Mounts the disk read-only. Memory is mapped directly into programs (DAX), without copies in the page cache.
fn mount_disk(device: &Path) -> io::Result<()> {
    let flags = SAFE.union(MountFlags::RDONLY).union(MountFlags::NOATIME);
    if disks::is_memory(device) {
        disks::make_read_only(device)?;
        match mount(device, DISK, "ext4", flags, c"dax") {
            Ok(()) => return Ok(()),
            Err(error) => log::line(&format!("the root disk is not mapped directly: {error}")),
        }
    }
    Ok(mount(device, DISK, "ext4", flags, c"")?)
}

fn wait_for(name: &str) -> Option<PathBuf> {
    let since = Instant::now();
    loop {
        let found = disks::find(name);
        if found.is_some() || since.elapsed() > DEVICE_WAIT {
            return found;
        }
        thread::sleep(std::time::Duration::from_millis(5));
    }
}

fn lay_over(scratch: &Path) -> std::io::Result<PathBuf> {
    let upper = scratch.join("root-changes");
    let work = scratch.join("root-work");
    make_roots(&work, 0o700)?;
    // The new root gets the mode of this folder; only root may enter the folder around it.
    make_roots(&upper, 0o755)?;
    check_skeleton(&upper)?;
    for written in WRITTEN {
        remove(&upper.join(written))?;
    }
    let options = format!(
        "lowerdir={DISK},upperdir={},workdir={}",
        upper.display(),
        work.display()
    );
    let options = std::ffi::CString::new(options)?;
    mount("overlay", NEW_ROOT, "overlay", SAFE, options.as_c_str())?;
    Ok(upper)
}

/// Refuses a layer that leads the agent to other places. Only a guest that was taken over makes such a layer: the users
/// of a guest cannot write to these folders.
fn check_skeleton(upper: &Path) -> io::Result<()> {
    let root = rustix::process::geteuid().as_raw();
    for path in SKELETON {
        let mut at = upper.to_owned();
        for name in Path::new(path) {
            at.push(name);
            match at.symlink_metadata() {
                Err(error) if error.kind() == io::ErrorKind::NotFound => break,
                Ok(found) if found.is_dir() && found.uid() == root => {}
                Ok(_) => {
                    let message = format!("{}: is not a folder of root", at.display());
                    return Err(io::Error::new(io::ErrorKind::InvalidData, message));
                }
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

/// Removes a file, a link or a folder, without following links.
fn remove(path: &Path) -> io::Result<()> {
    let removed = match path.symlink_metadata() {
        Ok(found) if found.is_dir() => std::fs::remove_dir_all(path),
        Ok(_) => std::fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_layer_with_a_link_in_the_place_of_a_folder_is_refused() {
        let layer = tempfile::tempdir().unwrap();
        let upper = layer.path();
        check_skeleton(upper).unwrap();
        fs::create_dir_all(upper.join("usr/lib/voidbox/mock-agents")).unwrap();
        fs::create_dir(upper.join("etc")).unwrap();
        symlink("/nowhere", upper.join("etc/hosts")).unwrap();
        check_skeleton(upper).unwrap();
        for written in WRITTEN {
            remove(&upper.join(written)).unwrap();
            remove(&upper.join(written)).unwrap();
            assert!(upper.join(written).symlink_metadata().is_err());
        }
        for path in ["proc", "var", "home/sandbox"] {
            let link = upper.join(path);
            fs::create_dir_all(link.parent().unwrap()).unwrap();
            symlink("/etc", &link).unwrap();
            let error = check_skeleton(upper).unwrap_err();
            assert!(error.to_string().contains(path), "{error}");
            fs::remove_file(link).unwrap();
        }
        fs::write(upper.join("sys"), "").unwrap();
        assert!(check_skeleton(upper).is_err());
    }
}
