//! Loads kernel modules, for kernels that do not have all of them built in.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::Path;

use rustix::io::Errno;
use rustix::system::finit_module;

use crate::log;

/// The devices on the kernel's virtio bus.
const DEVICES: &str = "/sys/bus/virtio/devices";
/// Begins the condition of a module, and is followed by the number of a kind of virtio device.
const NEEDS_DEVICE: &str = "virtio=";

/// Loads the modules in a list, in order; does nothing without a list. Each line is a file, and for a module that only
/// one kind of virtio device needs, ` virtio=` and the number of the kind. A module without its device is not loaded. A
/// module that fails is only logged, because the step that needs it fails with its own error.
pub fn load_all(list: &Path) {
    let Ok(text) = fs::read_to_string(list) else {
        return;
    };
    let folder = list.parent().unwrap_or(Path::new("/"));
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let Some(entry) = Entry::parse(line) else {
            log::line(&format!("{}: {line:?} is no entry", list.display()));
            continue;
        };
        let path = folder.join(entry.name);
        // A driver of a bus finds its devices while it is loaded, so the next entry sees them.
        if entry.is_needed(&devices(Path::new(DEVICES)))
            && let Err(error) = load(&path)
        {
            log::line(&format!("module {}: {error}", entry.name));
        }
        // Files of the initramfs are memory, and the kernel has its own copy of the module.
        let _ = fs::remove_file(path);
    }
}

/// A line of the list.
#[derive(Debug, PartialEq, Eq)]
struct Entry<'a> {
    name: &'a str,
    /// The kind of virtio device without which the module has no use.
    device: Option<u32>,
}

impl<'a> Entry<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let mut words = line.split_ascii_whitespace();
        let name = words.next()?;
        let device = match words.next() {
            Some(word) => Some(word.strip_prefix(NEEDS_DEVICE)?.parse().ok()?),
            None => None,
        };
        words.next().is_none().then_some(Self { name, device })
    }

    fn is_needed(&self, devices: &BTreeSet<u32>) -> bool {
        self.device.is_none_or(|device| devices.contains(&device))
    }
}

/// Returns the kinds of virtio devices that the kernel has found.
fn devices(bus: &Path) -> BTreeSet<u32> {
    let Ok(entries) = fs::read_dir(bus) else {
        return BTreeSet::new();
    };
    let kinds = entries.flatten().filter_map(|device| {
        let text = fs::read_to_string(device.path().join("device")).ok()?;
        u32::from_str_radix(text.trim().strip_prefix("0x")?, 16).ok()
    });
    kinds.collect()
}

fn load(path: &Path) -> io::Result<()> {
    let file = File::open(path)?;
    match finit_module(&file, c"", 0) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_is_needed_only_with_its_device() {
        let bus = tempfile::tempdir().unwrap();
        assert!(devices(bus.path()).is_empty());
        assert!(devices(&bus.path().join("none")).is_empty());
        for (name, kind) in [
            ("virtio0", "0x0002\n"),
            ("virtio1", "0x0013\n"),
            ("odd", "19\n"),
        ] {
            fs::create_dir(bus.path().join(name)).unwrap();
            fs::write(bus.path().join(name).join("device"), kind).unwrap();
        }
        let devices = devices(bus.path());
        assert_eq!(devices, BTreeSet::from([2, 19]));
        let is_needed = |line| Entry::parse(line).unwrap().is_needed(&devices);
        assert!(is_needed("virtio_mmio.ko"));
        assert!(is_needed("vsock.ko virtio=19"));
        assert!(!is_needed("9p.ko virtio=9"));
    }

    #[test]
    fn a_line_with_an_unknown_condition_is_no_entry() {
        for line in [
            "9p.ko 9",
            "9p.ko virtio=",
            "9p.ko virtio=x",
            "9p.ko virtio=9 more",
            " ",
        ] {
            assert_eq!(Entry::parse(line), None, "{line:?}");
        }
    }

    #[test]
    fn files_of_a_list_are_removed_whether_they_were_loaded_or_not() {
        let folder = tempfile::tempdir().unwrap();
        let list = folder.path().join("voidbox.order");
        for name in ["one.ko", "two.ko"] {
            fs::write(folder.path().join(name), "no module").unwrap();
        }
        fs::write(&list, "one.ko\ntwo.ko virtio=4000000000\n").unwrap();
        load_all(&list);
        for name in ["one.ko", "two.ko"] {
            assert!(!folder.path().join(name).exists(), "{name}");
        }
        load_all(&folder.path().join("no list"));
    }
}
