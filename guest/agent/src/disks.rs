//! The guest's disks: their devices by name or by serial number, which the keeper sets, and the scratch disk.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// `BLKROSET` of `<linux/fs.h>`: `_IO(0x12, 93)`.
const BLKROSET: u32 = 0x125d;
/// A disk that is memory of the guest begins with this, before its number.
const MEMORY: &str = "/dev/pmem";

/// The folders of the scratch disk.
pub struct Storage {
    /// The mount point, which only root may enter.
    pub scratch: PathBuf,
    /// The layer over the root image; `None` if the initramfs is the root.
    pub layer: Option<PathBuf>,
}

/// Returns the device of a disk, if it is there. A name without a folder is a serial number.
pub fn find(name: &str) -> Option<PathBuf> {
    match name.starts_with("/dev/") {
        true => Some(PathBuf::from(name)).filter(|device| device.exists()),
        false => by_serial(name),
    }
}

/// Whether a disk is memory of the guest.
pub fn is_memory(device: &Path) -> bool {
    let number = device.to_str().and_then(|name| name.strip_prefix(MEMORY));
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
}

/// Lets the kernel refuse each write to a disk. It cannot see that memory is read-only.
pub fn make_read_only(device: &Path) -> io::Result<()> {
    let (disk, on) = (File::open(device)?, 1_i32);
    // SAFETY: the request reads an int, which outlives the call.
    match unsafe { libc::ioctl(disk.as_raw_fd(), BLKROSET as libc::Ioctl, &raw const on) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Returns the device of the disk with this serial number.
pub fn by_serial(serial: &str) -> Option<PathBuf> {
    in_class(Path::new("/sys/block"), serial)
}

fn in_class(class: &Path, serial: &str) -> Option<PathBuf> {
    let disks = fs::read_dir(class).ok()?;
    disks.flatten().find_map(|disk| {
        let found = fs::read_to_string(disk.path().join("serial")).ok()?;
        (found.trim_end() == serial).then(|| Path::new("/dev").join(disk.file_name()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_with_a_folder_in_its_name_is_a_device_and_memory_has_a_number() {
        assert_eq!(find("/dev/null"), Some("/dev/null".into()));
        assert_eq!(find("/dev/no-such-disk"), None);
        assert_eq!(find("null"), None);
        let memory = [
            "/dev/pmem0",
            "/dev/pmem12",
            "/dev/pmem",
            "/dev/pmem0p1",
            "/dev/vda",
        ];
        let found = memory.map(|device| is_memory(Path::new(device)));
        assert_eq!(found, [true, true, false, false, false]);
    }

    #[test]
    fn the_disk_is_found_by_its_serial_number() {
        let class = tempfile::tempdir().unwrap();
        for (name, serial) in [("vda", ""), ("vdb", "voidbox-mailbox\n"), ("vdc", "other")] {
            fs::create_dir(class.path().join(name)).unwrap();
            fs::write(class.path().join(name).join("serial"), serial).unwrap();
        }
        fs::create_dir(class.path().join("loop0")).unwrap();
        assert_eq!(
            in_class(class.path(), "voidbox-mailbox"),
            Some("/dev/vdb".into())
        );
        fs::remove_dir_all(class.path().join("vdb")).unwrap();
        assert_eq!(in_class(class.path(), "voidbox-mailbox"), None);
    }
}
