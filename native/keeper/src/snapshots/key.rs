//! The key of a snapshot: the hash of all that must be equal for a copy to continue.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The version of the format of snapshots, and of the guest's state while it waits.
const FORMAT: u32 = 4;

/// The words of a file's identity, its path as one word.
const IDENTITY_WORDS: usize = 6;

/// All that must be equal. A file counts by its identity on this host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KeyParts {
    pub format: u32,
    pub protocol: u32,
    pub keeper: String,
    /// The id of this boot of the host: a guest's clock continues only on the TSC from which it was saved.
    pub host_boot: String,
    pub vmm: String,
    /// The host's CPU, its features, and the parameters of KVM's modules. `None` if the VMM emulates another CPU, whose
    /// model is part of the arguments.
    pub host_cpu: Option<String>,
    pub cpu_features: Option<String>,
    pub kvm_modules: Option<String>,
    pub program: String,
    pub kernel: String,
    pub initramfs: String,
    /// The size of the root disk, if there is one.
    pub root_disk_bytes: Option<u64>,
    /// The VMM's arguments without numbers of one launch: memory, vCPUs, devices, the kernel's command line.
    pub arguments: Vec<String>,
}

impl KeyParts {
    pub const FORMAT: u32 = FORMAT;

    /// Whether a program of these parts no longer exists on this host as it was, so that no VM has the key again.
    pub fn has_replaced_file(&self) -> bool {
        [&self.program, &self.kernel, &self.initramfs]
            .into_iter()
            .any(|identity| is_replaced(identity))
    }

    /// Returns the name of the first part that differs, with both values.
    pub fn difference(&self, other: &Self) -> Option<String> {
        let (ours, theirs) = (fields(self), fields(other));
        ours.into_iter().find_map(|(name, value)| {
            let found = theirs.get(&name);
            (found != Some(&value)).then(|| {
                let found = found.map_or_else(|| "nothing".into(), ToString::to_string);
                format!("{name} is {found}, expected {value}")
            })
        })
    }
}

/// Whether the file of an identity was replaced, changed or deleted. False if that is not known: for a file that this
/// process cannot reach, and for an identity that another version wrote.
pub fn is_replaced(identity: &str) -> bool {
    let mut words = identity.rsplitn(IDENTITY_WORDS, ' ');
    let Some(path) = words.nth(IDENTITY_WORDS - 1).map(Path::new) else {
        return false;
    };
    // The text of a path that is not UTF-8 names another path.
    if !path.is_absolute() || identity.contains(char::REPLACEMENT_CHARACTER) {
        return false;
    }
    match file_identity(path) {
        Ok(found) => found != identity,
        Err(error) => matches!(
            error.kind(),
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
        ),
    }
}

fn fields(parts: &KeyParts) -> serde_json::Map<String, serde_json::Value> {
    match serde_json::to_value(parts) {
        Ok(serde_json::Value::Object(fields)) => fields,
        _ => unreachable!("a struct serialises to an object"),
    }
}

/// A key as hex digits, with the parts of which it is the hash.
#[derive(Debug, Clone)]
pub struct Key {
    pub hex: String,
    pub parts: KeyParts,
}

impl Key {
    pub fn new(parts: KeyParts) -> Self {
        let text = serde_json::to_vec(&parts).expect("plain data serialises");
        Self {
            hex: hex(&Sha256::digest(text)),
            parts,
        }
    }
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Identifies a file without reading it: a replaced or changed file has another identity.
pub fn file_identity(path: &Path) -> io::Result<String> {
    let path = path.canonicalize()?;
    let file = fs::metadata(&path)?;
    Ok(format!(
        "{} {}:{} {} bytes, changed {}.{:09}",
        path.display(),
        file.dev(),
        file.ino(),
        file.size(),
        file.mtime(),
        file.mtime_nsec()
    ))
}

/// Parts for tests.
#[cfg(test)]
pub fn example_parts() -> KeyParts {
    KeyParts {
        format: FORMAT,
        protocol: 1,
        keeper: "1.0.0".into(),
        host_boot: "boot".into(),
        vmm: "qemu kvm".into(),
        host_cpu: Some("cpu".into()),
        cpu_features: Some("sse2".into()),
        kvm_modules: Some("kvm.nested=1".into()),
        program: "/q".into(),
        kernel: "/k".into(),
        initramfs: "/i".into(),
        root_disk_bytes: None,
        arguments: vec!["-m".into(), "256M".into()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_changes_the_key_and_is_named() {
        let one = Key::new(example_parts());
        assert_eq!(one.hex.len(), 64);
        assert_eq!(one.hex, Key::new(example_parts()).hex);
        type Change = fn(&mut KeyParts);
        let changes: [(&str, Change); 13] = [
            ("format", |parts| parts.format += 1),
            ("protocol", |parts| parts.protocol += 1),
            ("keeper", |parts| parts.keeper = "1.0.1".into()),
            ("hostBoot", |parts| parts.host_boot = "later".into()),
            ("vmm", |parts| parts.vmm = "qemu tcg".into()),
            ("hostCpu", |parts| parts.host_cpu = Some("other".into())),
            ("cpuFeatures", |parts| parts.cpu_features = None),
            ("kvmModules", |parts| {
                parts.kvm_modules = Some(String::new())
            }),
            ("program", |parts| parts.program = "/other".into()),
            ("kernel", |parts| parts.kernel = "/other".into()),
            ("initramfs", |parts| parts.initramfs = "/other".into()),
            ("rootDiskBytes", |parts| parts.root_disk_bytes = Some(1)),
            ("arguments", |parts| parts.arguments[1] = "512M".into()),
        ];
        let mut untried = fields(&one.parts);
        for (name, change) in changes {
            let mut other = example_parts();
            change(&mut other);
            assert_ne!(one.hex, Key::new(other.clone()).hex, "{name}");
            let (ours, theirs) = (untried.remove(name).unwrap(), fields(&other));
            let difference = one.parts.difference(&other).unwrap();
            let expected = format!("{name} is {}, expected {ours}", theirs[name]);
            assert_eq!(difference, expected);
        }
        assert!(untried.is_empty(), "{untried:?}");
        assert_eq!(one.parts.difference(&example_parts()), None);
    }

    #[test]
    fn a_changed_file_has_another_identity() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "one").unwrap();
        let one = file_identity(&path).unwrap();
        assert_eq!(one, file_identity(&path).unwrap());
        fs::write(&path, "more").unwrap();
        assert_ne!(one, file_identity(&path).unwrap());
        assert!(file_identity(&folder.path().join("none")).is_err());
    }

    #[test]
    fn a_file_is_replaced_if_its_path_size_inode_or_time_is_another_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a file");
        type Change = fn(&Path);
        let changes: [(&str, Change); 5] = [
            ("size", |path| fs::write(path, "more").unwrap()),
            ("inode", |path| {
                let other = path.with_extension("new");
                fs::copy(path, &other).unwrap();
                let time = fs::metadata(path).unwrap().modified().unwrap();
                fs::File::options()
                    .write(true)
                    .open(&other)
                    .and_then(|file| file.set_modified(time))
                    .unwrap();
                fs::rename(other, path).unwrap();
            }),
            ("time", |path| {
                fs::File::options()
                    .write(true)
                    .open(path)
                    .and_then(|file| file.set_modified(std::time::SystemTime::UNIX_EPOCH))
                    .unwrap();
            }),
            ("deleted", |path| fs::remove_file(path).unwrap()),
            ("a folder", |path| {
                fs::remove_file(path).unwrap();
                fs::create_dir(path).unwrap();
            }),
        ];
        for (name, change) in changes {
            let _ = fs::remove_file(&path);
            fs::write(&path, "one").unwrap();
            let identity = file_identity(&path).unwrap();
            assert!(!is_replaced(&identity), "{name}");
            change(&path);
            assert!(is_replaced(&identity), "{name}");
        }
        let below = folder.path().join("file");
        fs::write(&below, "").unwrap();
        let identity = file_identity(&below).unwrap();
        assert!(is_replaced(&identity.replacen("file ", "file/x ", 1)));
    }

    #[test]
    fn an_identity_that_another_version_wrote_is_not_replaced() {
        for identity in [
            "",
            "/k",
            "a b c d e f",
            "/a\u{fffd} 1:2 3 bytes, changed 4.5",
        ] {
            assert!(!is_replaced(identity), "{identity}");
        }
    }
}
