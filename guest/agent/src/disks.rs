//! The guest's disks: their devices by serial number, which the keeper sets, and the scratch disk.

use std::fs;
use std::path::{Path, PathBuf};

/// The folders of the scratch disk.
pub struct Storage {
    /// The mount point, which only root may enter.
    pub scratch: PathBuf,
    /// The layer over the root image; `None` if the initramfs is the root.
    pub layer: Option<PathBuf>,
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
