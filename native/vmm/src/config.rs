//! The configuration of a VM: one line of JSON, parsed once, every part bounded.

use std::collections::BTreeSet;
use std::os::fd::RawFd;

use serde::Deserialize;

/// The limit of the line with the configuration, and of each message of the control.
pub const LINE_LIMIT_BYTES: usize = 64 << 10;
/// The limits of the guest's memory, as the keeper has them.
pub const MEMORY_MIB: std::ops::RangeInclusive<u32> = 64..=1 << 20;
/// The limit of virtual CPUs.
pub const VCPUS: std::ops::RangeInclusive<u32> = 1..=32;
/// The limit of disks: with vsock and rng, each device has an interrupt of its own.
pub const MAX_DISKS: usize = 8;
/// The limit of Linux on x86, without its NUL byte.
pub const COMMAND_LINE_LIMIT_BYTES: usize = 2047;
/// The limit of virtio for a disk's serial number.
pub const SERIAL_LIMIT_BYTES: usize = 20;
/// The limit of the name of shared folders.
pub const TAG_LIMIT_BYTES: usize = 32;
/// CIDs below this have meanings of their own, and the highest means any.
const GUEST_CIDS: std::ops::RangeInclusive<u32> = 3..=u32::MAX - 1;
const PORTS: std::ops::RangeInclusive<u32> = 1..=u32::MAX - 1;
/// The lowest descriptor that may be a file of the VM.
const FIRST_FD: RawFd = 3;

/// A VM. Every file is a descriptor that this process inherited.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Config {
    /// The version of this shape: 1.
    pub version: u32,
    pub kvm_fd: RawFd,
    /// Required, unless the VM is restored.
    #[serde(default)]
    pub kernel_fd: Option<RawFd>,
    #[serde(default)]
    pub initramfs_fd: Option<RawFd>,
    /// Required, unless the VM is restored.
    #[serde(default)]
    pub command_line: Option<String>,
    pub memory_mib: u32,
    pub vcpus: u32,
    /// The output of COM1 goes there.
    pub console_fd: RawFd,
    #[serde(default)]
    pub disks: Vec<DiskConfig>,
    #[serde(default)]
    pub vsock: Option<VsockConfig>,
    #[serde(default)]
    pub folders: Option<FoldersConfig>,
    /// A source of random numbers.
    #[serde(default)]
    pub rng: bool,
    /// The VM may be saved once, into these files.
    #[serde(default)]
    pub save: Option<SnapshotConfig>,
    /// The VM continues from these files. It has no kernel, initramfs or command line of its own.
    #[serde(default)]
    pub restore: Option<SnapshotConfig>,
}

/// The files of a saved VM.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct SnapshotConfig {
    /// The state, from the position of the descriptor on; it may be a pipe.
    pub state_fd: RawFd,
    /// As large as the guest's memory. For a restore it is open for reading only.
    pub memory_fd: RawFd,
}

/// A disk. The first one is `/dev/vda`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct DiskConfig {
    pub fd: RawFd,
    pub serial: String,
    pub read_only: bool,
}

/// The guest port: the bytes of the guest's one connection are the bytes of `fd`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct VsockConfig {
    pub guest_cid: u32,
    pub port: u32,
    pub fd: RawFd,
}

/// Shared folders: requests of 9p go to the server at the other end of `fd`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct FoldersConfig {
    pub fd: RawFd,
    /// The name by which the guest mounts them.
    pub tag: String,
}

/// A part of a configuration that is refused.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {text}")]
pub struct ConfigError {
    /// The name of the part, such as `disks[0].serial`.
    pub key: String,
    pub text: String,
}

fn refuse<T>(key: impl Into<String>, text: impl Into<String>) -> Result<T, ConfigError> {
    Err(ConfigError {
        key: key.into(),
        text: text.into(),
    })
}

impl Config {
    /// Parses and checks a line. `control` is the descriptor of the control, which no file may be.
    pub fn parse(line: &[u8], control: RawFd) -> Result<Self, ConfigError> {
        let config = Self::read(line)?;
        config.check_descriptors(control)?;
        Ok(config)
    }

    /// Parses a line and checks all but its descriptors.
    pub(crate) fn read(line: &[u8]) -> Result<Self, ConfigError> {
        if line.len() > LINE_LIMIT_BYTES {
            return refuse(
                "configuration",
                format!("{} bytes; at most {LINE_LIMIT_BYTES}", line.len()),
            );
        }
        let config: Self = serde_json::from_slice(line).or_else(|e| {
            // The message names the key, or the place of what is no JSON.
            refuse("configuration", e.to_string())
        })?;
        config.check()?;
        Ok(config)
    }

    fn check(&self) -> Result<(), ConfigError> {
        check_range("version", self.version, 1..=1)?;
        check_range("memoryMib", self.memory_mib, MEMORY_MIB)?;
        check_range("vcpus", self.vcpus, VCPUS)?;
        self.check_beginning()?;
        if self.disks.len() > MAX_DISKS {
            return refuse(
                "disks",
                format!("{}; at most {MAX_DISKS}", self.disks.len()),
            );
        }
        let mut serials = BTreeSet::new();
        for (at, disk) in self.disks.iter().enumerate() {
            let key = format!("disks[{at}].serial");
            check_text(&key, &disk.serial, SERIAL_LIMIT_BYTES)?;
            if disk.serial.is_empty() || !serials.insert(&disk.serial) {
                return refuse(
                    key,
                    format!("{:?}; each disk has a name of its own", disk.serial),
                );
            }
        }
        if let Some(vsock) = &self.vsock {
            check_range("vsock.guestCid", vsock.guest_cid, GUEST_CIDS)?;
            check_range("vsock.port", vsock.port, PORTS)?;
        }
        if let Some(folders) = &self.folders {
            check_text("folders.tag", &folders.tag, TAG_LIMIT_BYTES)?;
        }
        Ok(())
    }

    /// A VM boots a kernel or continues from a state.
    fn check_beginning(&self) -> Result<(), ConfigError> {
        let of_boot = [
            ("kernelFd", self.kernel_fd.is_some()),
            ("commandLine", self.command_line.is_some()),
            ("initramfsFd", self.initramfs_fd.is_some()),
        ];
        for (key, is_there) in of_boot {
            match (&self.restore, is_there) {
                (Some(_), true) => return refuse(key, "a restored VM has its own already"),
                (None, false) if key != "initramfsFd" => return refuse(key, "it is missing"),
                _ => {}
            }
        }
        let line = self.command_line.as_deref().unwrap_or_default();
        check_text("commandLine", line, COMMAND_LINE_LIMIT_BYTES)
    }

    /// Each descriptor becomes an owner of its file, so none may have two.
    fn check_descriptors(&self, control: RawFd) -> Result<(), ConfigError> {
        let mut seen = BTreeSet::from([control]);
        for (key, fd) in self.descriptors() {
            if fd < FIRST_FD {
                return refuse(key, format!("{fd}; a descriptor is at least {FIRST_FD}"));
            }
            if !seen.insert(fd) {
                return refuse(key, format!("{fd} has another use already"));
            }
            // SAFETY: reads the flags of a number, which need not be a descriptor.
            if unsafe { libc::fcntl(fd, libc::F_GETFD) } < 0 {
                return refuse(key, format!("{fd} is not open"));
            }
        }
        Ok(())
    }

    fn descriptors(&self) -> Vec<(String, RawFd)> {
        let mut all = vec![
            ("kvmFd".to_owned(), self.kvm_fd),
            ("consoleFd".to_owned(), self.console_fd),
        ];
        all.extend(self.kernel_fd.map(|fd| ("kernelFd".to_owned(), fd)));
        all.extend(self.initramfs_fd.map(|fd| ("initramfsFd".to_owned(), fd)));
        for (at, disk) in self.disks.iter().enumerate() {
            all.push((format!("disks[{at}].fd"), disk.fd));
        }
        all.extend(self.vsock.as_ref().map(|v| ("vsock.fd".to_owned(), v.fd)));
        all.extend(
            self.folders
                .as_ref()
                .map(|folders| ("folders.fd".to_owned(), folders.fd)),
        );
        for (key, files) in [("save", &self.save), ("restore", &self.restore)] {
            if let Some(files) = files {
                all.push((format!("{key}.stateFd"), files.state_fd));
                all.push((format!("{key}.memoryFd"), files.memory_fd));
            }
        }
        all
    }
}

fn check_range(
    key: &str,
    value: u32,
    range: std::ops::RangeInclusive<u32>,
) -> Result<(), ConfigError> {
    if range.contains(&value) {
        return Ok(());
    }
    refuse(
        key,
        format!("{value}; from {} to {}", range.start(), range.end()),
    )
}

/// Printable ASCII: these texts reach the guest as bytes.
fn check_text(key: &str, text: &str, limit: usize) -> Result<(), ConfigError> {
    if text.len() > limit {
        return refuse(key, format!("{} bytes; at most {limit}", text.len()));
    }
    match text.bytes().find(|byte| !(b' '..=b'~').contains(byte)) {
        Some(byte) => refuse(key, format!("has the byte {byte:#04x}; printable ASCII")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsRawFd;

    use serde_json::{Value, json};

    use super::*;

    /// A configuration with open descriptors, and the files behind them.
    fn valid() -> (Value, Vec<File>) {
        let files: Vec<File> = (0..7).map(|_| File::open("/dev/null").unwrap()).collect();
        let fd = |at: usize| files[at].as_raw_fd();
        let config = json!({
            "version": 1, "kvmFd": fd(0), "kernelFd": fd(1), "initramfsFd": fd(2),
            "commandLine": "console=ttyS0", "memoryMib": 256, "vcpus": 1, "consoleFd": fd(3),
            "disks": [{ "fd": fd(4), "serial": "voidbox-scratch", "readOnly": false }],
            "vsock": { "guestCid": 3, "port": 1024, "fd": fd(5) },
            "folders": { "fd": fd(6), "tag": "mounts" },
            "rng": true
        });
        (config, files)
    }

    fn parse(config: &Value) -> Result<Config, ConfigError> {
        Config::parse(config.to_string().as_bytes(), -1)
    }

    #[test]
    fn a_whole_configuration_is_read() {
        let (config, files) = valid();
        let read = parse(&config).unwrap();
        assert_eq!(read.kvm_fd, files[0].as_raw_fd());
        assert_eq!(read.disks[0].serial, "voidbox-scratch");
        assert_eq!(read.vsock.unwrap().guest_cid, 3);
        assert!(read.rng);
    }

    #[test]
    fn each_limit_refuses_the_value_beyond_it_and_takes_the_last_within() {
        let cases: &[(&str, Value, Value)] = &[
            ("version", 1.into(), 2.into()),
            ("memoryMib", 64.into(), 63.into()),
            ("memoryMib", (1 << 20).into(), ((1 << 20) + 1).into()),
            ("vcpus", 1.into(), 0.into()),
            ("vcpus", 32.into(), 33.into()),
            (
                "commandLine",
                "x".repeat(2047).into(),
                "x".repeat(2048).into(),
            ),
            ("commandLine", " ~".into(), "a\nb".into()),
            ("commandLine", "".into(), "a\u{0}b".into()),
        ];
        for (key, good, bad) in cases {
            let (mut config, _files) = valid();
            config[key] = good.clone();
            assert!(parse(&config).is_ok(), "{key} {good}");
            config[key] = bad.clone();
            assert_eq!(&parse(&config).unwrap_err().key, key, "{bad}");
        }
    }

    #[test]
    fn limits_of_disks_and_of_the_guest_port_hold() {
        let cases: &[(&str, &str, Value, Value)] = &[
            (
                "/disks/0/serial",
                "disks[0].serial",
                "s".repeat(20).into(),
                "s".repeat(21).into(),
            ),
            ("/disks/0/serial", "disks[0].serial", "s".into(), "".into()),
            (
                "/folders/tag",
                "folders.tag",
                "t".repeat(32).into(),
                "t".repeat(33).into(),
            ),
            ("/vsock/guestCid", "vsock.guestCid", 3.into(), 2.into()),
            (
                "/vsock/guestCid",
                "vsock.guestCid",
                (u32::MAX - 1).into(),
                u32::MAX.into(),
            ),
            ("/vsock/port", "vsock.port", 1.into(), 0.into()),
            (
                "/vsock/port",
                "vsock.port",
                (u32::MAX - 1).into(),
                u32::MAX.into(),
            ),
        ];
        for (pointer, key, good, bad) in cases {
            let (mut config, _files) = valid();
            *config.pointer_mut(pointer).unwrap() = good.clone();
            assert!(parse(&config).is_ok(), "{key} {good}");
            *config.pointer_mut(pointer).unwrap() = bad.clone();
            assert_eq!(&parse(&config).unwrap_err().key, key, "{bad}");
        }
    }

    #[test]
    fn there_are_at_most_eight_disks_with_names_of_their_own() {
        let (mut config, _files) = valid();
        let more: Vec<File> = (0..9).map(|_| File::open("/dev/null").unwrap()).collect();
        let disk = |at: usize| json!({ "fd": more[at].as_raw_fd(), "serial": format!("d{at}"), "readOnly": true });
        config["disks"] = (0..8).map(disk).collect();
        assert_eq!(parse(&config).unwrap().disks.len(), 8);
        config["disks"] = (0..9).map(disk).collect();
        assert_eq!(parse(&config).unwrap_err().key, "disks");
        config["disks"] =
            json!([disk(0), { "fd": more[1].as_raw_fd(), "serial": "d0", "readOnly": true }]);
        assert_eq!(parse(&config).unwrap_err().key, "disks[1].serial");
    }

    #[test]
    fn unknown_keys_are_refused_by_name_at_every_depth() {
        for pointer in ["", "/disks/0", "/vsock", "/folders"] {
            let (mut config, _files) = valid();
            let object = config.pointer_mut(pointer).unwrap();
            object["surprise"] = 1.into();
            let error = parse(&config).unwrap_err();
            assert!(error.text.contains("surprise"), "{error}");
        }
    }

    #[test]
    fn missing_keys_are_named_and_optional_ones_may_be_absent() {
        for key in [
            "version",
            "kvmFd",
            "kernelFd",
            "commandLine",
            "memoryMib",
            "vcpus",
            "consoleFd",
        ] {
            let (mut config, _files) = valid();
            config.as_object_mut().unwrap().remove(key);
            let error = parse(&config).unwrap_err();
            assert!(error.to_string().contains(key), "{error}");
        }
        let (mut config, _files) = valid();
        for key in ["initramfsFd", "disks", "vsock", "folders", "rng"] {
            config.as_object_mut().unwrap().remove(key);
        }
        let read = parse(&config).unwrap();
        assert!(read.vsock.is_none() && read.disks.is_empty() && !read.rng);
    }

    /// Makes a configuration one of a restored VM, with two files more.
    fn restored() -> (Value, Vec<File>) {
        let (mut config, mut files) = valid();
        files.extend((0..2).map(|_| File::open("/dev/null").unwrap()));
        for key in ["kernelFd", "initramfsFd", "commandLine"] {
            config.as_object_mut().unwrap().remove(key);
        }
        config["restore"] =
            json!({ "stateFd": files[7].as_raw_fd(), "memoryFd": files[8].as_raw_fd() });
        (config, files)
    }

    #[test]
    fn a_restored_vm_has_a_state_and_no_part_of_a_boot() {
        let (config, files) = restored();
        let read = parse(&config).unwrap();
        assert_eq!(read.restore.unwrap().state_fd, files[7].as_raw_fd());
        for (key, value) in [
            ("kernelFd", files[1].as_raw_fd().into()),
            ("initramfsFd", files[2].as_raw_fd().into()),
            ("commandLine", Value::from("")),
        ] {
            let (mut config, _files) = restored();
            config[key] = value;
            assert_eq!(parse(&config).unwrap_err().key, key);
        }
    }

    #[test]
    fn files_of_a_saved_vm_are_descriptors_like_others() {
        for key in ["save", "restore"] {
            let (mut config, files) = restored();
            config[key] = json!({ "stateFd": 2, "memoryFd": files[8].as_raw_fd() });
            if key == "save" {
                config["restore"]["memoryFd"] = files[1].as_raw_fd().into();
            }
            assert_eq!(parse(&config).unwrap_err().key, format!("{key}.stateFd"));
            config[key]["stateFd"] = files[0].as_raw_fd().into();
            assert_eq!(parse(&config).unwrap_err().key, format!("{key}.stateFd"));
            config[key]["surprise"] = 1.into();
            let error = parse(&config).unwrap_err();
            assert!(error.text.contains("surprise"), "{error}");
        }
    }

    #[test]
    fn a_descriptor_is_open_has_one_use_and_is_no_standard_stream() {
        let (mut config, files) = valid();
        config["kernelFd"] = files[0].as_raw_fd().into();
        assert_eq!(parse(&config).unwrap_err().key, "kernelFd");
        let (mut config, _files) = valid();
        config["consoleFd"] = 2.into();
        assert_eq!(parse(&config).unwrap_err().key, "consoleFd");
        let (mut config, _files) = valid();
        config["disks"][0]["fd"] = 1_000_000.into();
        assert_eq!(parse(&config).unwrap_err().key, "disks[0].fd");
        let (config, files) = valid();
        let control = files[5].as_raw_fd();
        let error = Config::parse(config.to_string().as_bytes(), control).unwrap_err();
        assert_eq!(error.key, "vsock.fd");
    }

    #[test]
    fn a_line_beyond_its_limit_and_what_is_no_json_are_refused() {
        let (config, _files) = valid();
        let mut line = config.to_string().into_bytes();
        line.resize(LINE_LIMIT_BYTES, b' ');
        assert!(Config::parse(&line, -1).is_ok());
        line.push(b' ');
        assert_eq!(Config::parse(&line, -1).unwrap_err().key, "configuration");
        for text in ["", "{", "[]", "null", "{\"version\":1e99}"] {
            assert_eq!(
                Config::parse(text.as_bytes(), -1).unwrap_err().key,
                "configuration"
            );
        }
    }
}
