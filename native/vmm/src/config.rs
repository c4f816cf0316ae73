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
/// The limit of disks and of files as memory together: each device of a VM has an interrupt of its own.
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
/// The limit of each list of [`PagesConfig`].
pub const MAX_PAGE_RUNS: usize = 1024;
/// The limit of differences behind a base.
pub const MAX_DIFFS: usize = 7;
/// The pages of a MiB.
const MIB_PAGES: u64 = 256;
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
    #[serde(default)]
    pub cpu: CpuTemplate,
    /// The output of COM1 goes there.
    pub console_fd: RawFd,
    #[serde(default)]
    pub disks: Vec<DiskConfig>,
    /// Files that the guest has as memory, and can only read.
    #[serde(default)]
    pub pmem: Vec<PmemConfig>,
    #[serde(default)]
    pub vsock: Option<VsockConfig>,
    #[serde(default)]
    pub folders: Option<FoldersConfig>,
    /// A source of random numbers.
    #[serde(default)]
    pub rng: bool,
    /// A balloon of size zero, by which the guest gives back memory that it does not use.
    #[serde(default)]
    pub balloon: bool,
    /// The VM may be saved once, into these files.
    #[serde(default)]
    pub save: Option<SnapshotConfig>,
    /// The VM may be saved in full, as often as its keeper sends files for it.
    #[serde(default)]
    pub full_saves: bool,
    /// The VM continues from these files. It has no kernel, initramfs or command line of its own.
    #[serde(default)]
    pub restore: Option<RestoreConfig>,
}

/// The features of the host's CPU that the guest sees.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum CpuTemplate {
    /// All that KVM supports. A saved guest continues on the same kind of CPU only.
    #[default]
    Host,
    /// Those that most CPUs have. A saved guest also continues on another CPU that has the same of them.
    Portable,
}

impl CpuTemplate {
    /// Returns the name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Portable => "portable",
        }
    }
}

/// The files into which a VM is saved.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct SnapshotConfig {
    /// The state goes there; it may be a pipe.
    pub state_fd: RawFd,
    /// As large as the guest's memory, and empty.
    pub memory_fd: RawFd,
}

/// The files of a saved VM, from which another one continues.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct RestoreConfig {
    /// The state, from the position of the descriptor on; it may be a pipe.
    pub state_fd: RawFd,
    /// As large as the guest's memory, and open for reading only.
    pub memory_fd: RawFd,
    /// The differences to that state, in order. The VM continues from the last one.
    #[serde(default)]
    pub diffs: Vec<SnapshotConfig>,
    /// The pages that earlier copies used first.
    #[serde(default)]
    pub pages: PagesConfig,
}

/// A run of pages: the number of its first page in the memory file, and its length.
pub type PageRun = (u32, u32);

/// Pages that a copy gets before its guest runs. They change when a page is there, and nothing else.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct PagesConfig {
    /// Pages that the guest will write.
    #[serde(default)]
    pub written: Vec<PageRun>,
    /// Pages that the guest will only read.
    #[serde(default)]
    pub read: Vec<PageRun>,
}

/// A disk. The first one is `/dev/vda`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct DiskConfig {
    pub fd: RawFd,
    pub serial: String,
    pub read_only: bool,
}

/// A file as memory. The first one is `/dev/pmem0`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PmemConfig {
    /// Open for reading only.
    pub fd: RawFd,
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
        if self.pmem.len() > MAX_DISKS - self.disks.len() {
            let (files, disks) = (self.pmem.len(), self.disks.len());
            return refuse(
                "pmem",
                format!("{files}; at most {MAX_DISKS} with the {disks} disks"),
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
        if let Some(RestoreConfig { pages, diffs, .. }) = &self.restore {
            if diffs.len() > MAX_DIFFS {
                let text = format!("{}; at most {MAX_DIFFS}", diffs.len());
                return refuse("restore.diffs", text);
            }
            let all = u64::from(self.memory_mib) * MIB_PAGES;
            check_runs("restore.pages.written", &pages.written, all)?;
            check_runs("restore.pages.read", &pages.read, all)?;
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

    fn check_descriptors(&self, control: RawFd) -> Result<(), ConfigError> {
        check_descriptors(self.descriptors(), control)
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
        for (at, file) in self.pmem.iter().enumerate() {
            all.push((format!("pmem[{at}].fd"), file.fd));
        }
        all.extend(self.vsock.as_ref().map(|v| ("vsock.fd".to_owned(), v.fd)));
        all.extend(
            self.folders
                .as_ref()
                .map(|folders| ("folders.fd".to_owned(), folders.fd)),
        );
        let save = self
            .save
            .as_ref()
            .map(|files| (files.state_fd, files.memory_fd));
        let restore = self
            .restore
            .as_ref()
            .map(|files| (files.state_fd, files.memory_fd));
        for (key, files) in [("save", save), ("restore", restore)] {
            if let Some((state, memory)) = files {
                all.push((format!("{key}.stateFd"), state));
                all.push((format!("{key}.memoryFd"), memory));
            }
        }
        let diffs = self.restore.iter().flat_map(|restore| &restore.diffs);
        all.extend(files_of("restore.diffs", diffs));
        all
    }
}

/// A chain of saved states that becomes a base.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct MergeConfig {
    /// The version of this shape: 1.
    pub version: u32,
    /// A base and its differences, in order, for reading.
    pub chain: Vec<SnapshotConfig>,
    /// The result.
    pub into: SnapshotConfig,
}

impl MergeConfig {
    /// Parses and checks a line, as [`Config::parse`].
    pub fn parse(line: &[u8], control: RawFd) -> Result<Self, ConfigError> {
        let config: Self =
            serde_json::from_slice(line).or_else(|e| refuse("configuration", e.to_string()))?;
        check_range("version", config.version, 1..=1)?;
        let links = config.chain.len();
        if !(1..=MAX_DIFFS + 1).contains(&links) {
            return refuse("chain", format!("{links}; from 1 to {}", MAX_DIFFS + 1));
        }
        let mut all: Vec<_> = files_of("chain", &config.chain).collect();
        all.push(("into.stateFd".into(), config.into.state_fd));
        all.push(("into.memoryFd".into(), config.into.memory_fd));
        check_descriptors(all, control)?;
        Ok(config)
    }
}

fn files_of<'a>(
    key: &'a str,
    files: impl IntoIterator<Item = &'a SnapshotConfig>,
) -> impl Iterator<Item = (String, RawFd)> {
    files.into_iter().enumerate().flat_map(move |(at, files)| {
        [
            (format!("{key}[{at}].stateFd"), files.state_fd),
            (format!("{key}[{at}].memoryFd"), files.memory_fd),
        ]
    })
}

/// Each descriptor becomes an owner of its file, so none may have two.
fn check_descriptors(all: Vec<(String, RawFd)>, control: RawFd) -> Result<(), ConfigError> {
    let mut seen = BTreeSet::from([control]);
    for (key, fd) in all {
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

/// Runs are in order, and lie in the memory.
fn check_runs(key: &str, runs: &[PageRun], pages: u64) -> Result<(), ConfigError> {
    if runs.len() > MAX_PAGE_RUNS {
        return refuse(key, format!("{} runs; at most {MAX_PAGE_RUNS}", runs.len()));
    }
    let mut end = 0;
    for (first, count) in runs {
        let (first, count) = (u64::from(*first), u64::from(*count));
        if first < end || count == 0 || first + count > pages {
            return refuse(
                key,
                format!("{count} pages from {first}; runs in order, of {pages} pages"),
            );
        }
        end = first + count;
    }
    Ok(())
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
        let files: Vec<File> = (0..8).map(|_| File::open("/dev/null").unwrap()).collect();
        let fd = |at: usize| files[at].as_raw_fd();
        let config = json!({
            "version": 1, "kvmFd": fd(0), "kernelFd": fd(1), "initramfsFd": fd(2),
            "commandLine": "console=ttyS0", "memoryMib": 256, "vcpus": 1, "consoleFd": fd(3),
            "disks": [{ "fd": fd(4), "serial": "voidbox-scratch", "readOnly": false }],
            "vsock": { "guestCid": 3, "port": 1024, "fd": fd(5) },
            "folders": { "fd": fd(6), "tag": "mounts" },
            "pmem": [{ "fd": fd(7) }], "rng": true, "balloon": true
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
        assert_eq!(read.pmem[0].fd, files[7].as_raw_fd());
        assert!(read.rng && read.balloon);
    }

    #[test]
    fn a_cpu_template_is_host_or_portable_and_host_without_one() {
        let (mut config, _files) = valid();
        assert_eq!(parse(&config).unwrap().cpu, CpuTemplate::Host);
        for template in [CpuTemplate::Host, CpuTemplate::Portable] {
            config["cpu"] = template.name().into();
            assert_eq!(parse(&config).unwrap().cpu, template);
        }
        for wrong in ["", "Host", "haswell"] {
            config["cpu"] = wrong.into();
            assert_eq!(parse(&config).unwrap_err().key, "configuration", "{wrong}");
        }
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
    fn there_are_at_most_eight_disks_and_files_as_memory_and_disks_have_names_of_their_own() {
        let (mut config, _files) = valid();
        let more: Vec<File> = (0..9).map(|_| File::open("/dev/null").unwrap()).collect();
        let disk = |at: usize| json!({ "fd": more[at].as_raw_fd(), "serial": format!("d{at}"), "readOnly": true });
        config["disks"] = (0..8).map(disk).collect();
        assert_eq!(parse(&config).unwrap_err().key, "pmem");
        config["pmem"] = json!([]);
        assert_eq!(parse(&config).unwrap().disks.len(), 8);
        config["disks"] = (0..9).map(disk).collect();
        assert_eq!(parse(&config).unwrap_err().key, "disks");
        config["disks"] =
            json!([disk(0), { "fd": more[1].as_raw_fd(), "serial": "d0", "readOnly": true }]);
        assert_eq!(parse(&config).unwrap_err().key, "disks[1].serial");
    }

    #[test]
    fn unknown_keys_are_refused_by_name_at_every_depth() {
        for pointer in ["", "/disks/0", "/pmem/0", "/vsock", "/folders"] {
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
        for key in [
            "initramfsFd",
            "disks",
            "pmem",
            "vsock",
            "folders",
            "rng",
            "balloon",
        ] {
            config.as_object_mut().unwrap().remove(key);
        }
        let read = parse(&config).unwrap();
        assert!(read.vsock.is_none() && read.disks.is_empty() && read.pmem.is_empty());
        assert!(!read.rng && !read.balloon);
    }

    /// Makes a configuration one of a restored VM, with two files more.
    fn restored() -> (Value, Vec<File>) {
        let (mut config, mut files) = valid();
        files.extend((0..2).map(|_| File::open("/dev/null").unwrap()));
        for key in ["kernelFd", "initramfsFd", "commandLine"] {
            config.as_object_mut().unwrap().remove(key);
        }
        config["restore"] =
            json!({ "stateFd": files[8].as_raw_fd(), "memoryFd": files[9].as_raw_fd() });
        (config, files)
    }

    #[test]
    fn a_restored_vm_has_a_state_and_no_part_of_a_boot() {
        let (config, files) = restored();
        let read = parse(&config).unwrap();
        assert_eq!(read.restore.unwrap().state_fd, files[8].as_raw_fd());
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
    fn pages_of_a_copy_are_runs_in_order_within_its_memory() {
        let last = 256 * 256 - 1;
        let many = |count: u32| -> Value { (0..count).map(|at| json!([2 * at, 1])).collect() };
        for list in ["written", "read"] {
            let of = |runs: Value| {
                let (mut config, _files) = restored();
                config["restore"]["pages"] = json!({ list: runs });
                parse(&config)
            };
            let read = of(json!([[0, 1], [1, 2], [last, 1]])).unwrap();
            assert_ne!(read.restore.unwrap().pages, PagesConfig::default());
            assert!(of(many(1024)).is_ok());
            for wrong in [
                many(1025),
                json!([[1, 0]]),
                json!([[1, 2], [2, 1]]),
                json!([[last, 2]]),
                json!([[last, u32::MAX]]),
                json!([[u32::MAX, u32::MAX]]),
            ] {
                let error = of(wrong).unwrap_err();
                assert_eq!(error.key, format!("restore.pages.{list}"));
            }
            for wrong in [json!([[1]]), json!([[-1, 1]]), json!([1, 1])] {
                assert_eq!(of(wrong).unwrap_err().key, "configuration");
            }
        }
    }

    #[test]
    fn files_of_a_saved_vm_are_descriptors_like_others() {
        for key in ["save", "restore"] {
            let (mut config, files) = restored();
            config[key] = json!({ "stateFd": 2, "memoryFd": files[9].as_raw_fd() });
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
    fn a_restored_vm_has_at_most_7_differences_with_files_of_their_own() {
        let with = |count: usize| {
            let (mut config, files) = restored();
            let more: Vec<File> = (0..2 * count)
                .map(|_| File::open("/dev/null").unwrap())
                .collect();
            let files_of = |at: usize| {
                let [state, memory] = [2 * at, 2 * at + 1].map(|at| more[at].as_raw_fd());
                json!({ "stateFd": state, "memoryFd": memory })
            };
            config["restore"]["diffs"] = (0..count).map(files_of).collect();
            (config, files.into_iter().chain(more).collect::<Vec<File>>())
        };
        let (config, _files) = with(7);
        assert_eq!(parse(&config).unwrap().restore.unwrap().diffs.len(), 7);
        let (config, _files) = with(8);
        assert_eq!(parse(&config).unwrap_err().key, "restore.diffs");
        let (mut config, _files) = with(2);
        config["restore"]["diffs"][1]["memoryFd"] = config["restore"]["stateFd"].clone();
        let key = parse(&config).unwrap_err().key;
        assert_eq!(key, "restore.diffs[1].memoryFd");
    }

    #[test]
    fn a_merge_has_1_to_8_links_and_each_file_one_use() {
        let files: Vec<File> = (0..20).map(|_| File::open("/dev/null").unwrap()).collect();
        let link = |at: usize| {
            let [state, memory] = [2 * at, 2 * at + 1].map(|at| files[at].as_raw_fd());
            json!({ "stateFd": state, "memoryFd": memory })
        };
        let parse = |config: &Value| MergeConfig::parse(config.to_string().as_bytes(), -1);
        let merge = |links: usize| {
            let chain: Vec<Value> = (1..=links).map(link).collect();
            json!({ "version": 1, "chain": chain, "into": link(0) })
        };
        for links in [1, 8] {
            assert_eq!(parse(&merge(links)).unwrap().chain.len(), links);
        }
        for links in [0, 9] {
            assert_eq!(parse(&merge(links)).unwrap_err().key, "chain");
        }
        let mut twice = merge(2);
        twice["into"] = link(2);
        assert_eq!(parse(&twice).unwrap_err().key, "into.stateFd");
        let mut closed = merge(2);
        closed["chain"][1]["memoryFd"] = 1_000_000.into();
        assert_eq!(parse(&closed).unwrap_err().key, "chain[1].memoryFd");
        for (key, value) in [("surprise", json!(1)), ("version", json!(2))] {
            let mut wrong = merge(1);
            wrong[key] = value;
            assert!(parse(&wrong).unwrap_err().to_string().contains(key));
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
