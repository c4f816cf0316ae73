//! The groups of one VM: made before its VMM starts, and removed at its end.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use super::find::{CONTROLLERS, Controller, Machine, Parent, Version, has_word};
#[cfg(test)]
use super::find::{delegate, version_one, version_two};

/// The beginning of the name of each group of a VM.
const PREFIX: &str = "voidbox-vm-";
const PERIOD_US: u64 = 100_000;
/// The time within which the processes of a VM leave its groups after their end.
const REMOVE_TRIES: u32 = 100;
const REMOVE_PAUSE: Duration = Duration::from_millis(10);

/// The limits of a VM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    pub cpus: u32,
    pub memory_mib: u64,
}

/// The groups of a VM. A limit that has no group says why.
#[derive(Debug)]
pub struct Group {
    limits: Limits,
    folders: BTreeSet<PathBuf>,
    missing: Vec<(Controller, String)>,
}

impl Group {
    /// Makes the groups of a VM. A name is of one VM only.
    pub fn make(machine: io::Result<Machine>, name: &str, limits: Limits) -> Self {
        let mut group = Self {
            limits,
            folders: BTreeSet::new(),
            missing: Vec::new(),
        };
        for controller in CONTROLLERS {
            let machine = machine.as_ref().map_err(ToString::to_string);
            let made = machine
                .and_then(|machine| machine.find(controller))
                .and_then(|parent| limit(&parent, controller, name, limits));
            match made {
                Ok(folder) => _ = group.folders.insert(folder),
                Err(why) => group.missing.push((controller, why)),
            }
        }
        group
    }

    /// Moves processes, and those that they start until then, into the groups. `list` returns all of them.
    pub fn adopt(&self, list: impl Fn() -> Vec<u32>) -> io::Result<()> {
        if self.folders.is_empty() {
            return Ok(());
        }
        let mut moved = BTreeSet::new();
        loop {
            let left: Vec<u32> = list()
                .into_iter()
                .filter(|pid| !moved.contains(pid))
                .collect();
            if left.is_empty() {
                return Ok(());
            }
            for pid in left {
                for folder in &self.folders {
                    match fs::write(folder.join("cgroup.procs"), pid.to_string()) {
                        // The process has ended.
                        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                        written => written?,
                    }
                }
                moved.insert(pid);
            }
        }
    }

    /// Returns the folders, for the record of the VM.
    pub fn folders(&self) -> impl Iterator<Item = &Path> {
        self.folders.iter().map(PathBuf::as_path)
    }

    /// Returns the part of `status`: `{ cpus, memoryMib, note }`. A limit that does not exist is null, and the note says
    /// why.
    pub fn describe(&self) -> Value {
        let has = |wanted| {
            self.missing
                .iter()
                .all(|(controller, _)| *controller != wanted)
        };
        let notes: BTreeSet<&str> = self.missing.iter().map(|(_, why)| why.as_str()).collect();
        let note = notes.into_iter().collect::<Vec<_>>().join("; ");
        json!({
            "cpus": has(Controller::Cpu).then_some(self.limits.cpus),
            "memoryMib": has(Controller::Memory).then_some(self.limits.memory_mib),
            "note": (!note.is_empty()).then_some(note),
        })
    }

    /// Removes the groups. Their processes have ended, or end soon.
    pub fn remove(&self) {
        for folder in &self.folders {
            let mut tries = 0..REMOVE_TRIES;
            while !is_gone(fs::remove_dir(folder)) && tries.next().is_some() {
                std::thread::sleep(REMOVE_PAUSE);
            }
        }
    }
}

fn is_gone(removed: io::Result<()>) -> bool {
    removed.map_or_else(|error| error.kind() == io::ErrorKind::NotFound, |()| true)
}

/// Makes a group with a limit.
fn limit(
    parent: &Parent,
    controller: Controller,
    name: &str,
    limits: Limits,
) -> Result<PathBuf, String> {
    let folder = parent.folder.join(format!("{PREFIX}{name}"));
    let write = |file: &Path, text: String| {
        fs::write(file, text).map_err(|error| format!("{}: {error}", file.display()))
    };
    if parent.version == Version::Two {
        let enabled = parent.folder.join("cgroup.subtree_control");
        if !has_word(&enabled, controller.name()) {
            write(&enabled, format!("+{}", controller.name()))?;
        }
    }
    remove_orphans(&parent.folder);
    match fs::create_dir(&folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(format!("{}: {error}", folder.display()));
        }
        _ => {}
    }
    let quota = u64::from(limits.cpus) * PERIOD_US;
    let bytes = limits.memory_mib << 20;
    let set: &[(&str, String)] = match (parent.version, controller) {
        (Version::One, Controller::Cpu) => &[
            ("cpu.cfs_period_us", PERIOD_US.to_string()),
            ("cpu.cfs_quota_us", quota.to_string()),
        ],
        (Version::One, Controller::Memory) => &[("memory.limit_in_bytes", bytes.to_string())],
        (Version::Two, Controller::Cpu) => &[("cpu.max", format!("{quota} {PERIOD_US}"))],
        (Version::Two, Controller::Memory) => &[("memory.max", bytes.to_string())],
    };
    for (file, text) in set {
        write(&folder.join(file), text.clone()).inspect_err(|_| _ = fs::remove_dir(&folder))?;
    }
    Ok(folder)
}

/// Removes empty groups of keepers that were killed, and whose run directories may be gone too. A name begins with the
/// process of its keeper.
fn remove_orphans(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let keeper = name
            .to_str()
            .and_then(|name| name.strip_prefix(PREFIX)?.split('-').next())
            .and_then(|pid| pid.parse::<u32>().ok());
        if keeper.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            // The kernel refuses this for a group with processes.
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// Removes groups that a keeper has left. A group with processes stays, and so does each other folder.
pub fn remove_left(folders: &[PathBuf]) {
    for folder in folders {
        let name = folder.file_name().and_then(|name| name.to_str());
        if name.is_some_and(|name| name.starts_with(PREFIX)) {
            // The kernel refuses this for a group with processes.
            let _ = fs::remove_dir(folder);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::process::Command;

    use super::*;
    use crate::run_dir::tests::TempDir;

    const LIMITS: Limits = Limits {
        cpus: 3,
        memory_mib: 300,
    };

    #[test]
    fn a_vm_has_its_limits_in_each_file_system_of_version_one() {
        let root = TempDir::new("group-one");
        let machine = version_one(&root.0);
        let [cpu, memory] = ["cpu,cpuacct", "memory"].map(|name| root.0.join(name).join("a/b"));
        delegate(&cpu);
        delegate(&memory);
        let group = Group::make(Ok(machine), "x", LIMITS);
        let read = |folder: &Path, file: &str| {
            fs::read_to_string(folder.join("voidbox-vm-x").join(file)).unwrap()
        };
        assert_eq!(read(&cpu, "cpu.cfs_quota_us"), "300000");
        assert_eq!(read(&cpu, "cpu.cfs_period_us"), "100000");
        assert_eq!(read(&memory, "memory.limit_in_bytes"), "314572800");
        let lists = RefCell::new(vec![vec![7, 8, 9], vec![7, 8]]);
        group
            .adopt(|| lists.borrow_mut().pop().unwrap_or_else(|| vec![7, 9]))
            .unwrap();
        // A real group takes each process; the file of this test has the last one.
        assert_eq!(read(&cpu, "cgroup.procs"), "9");
        assert_eq!(read(&memory, "cgroup.procs"), "9");
        assert_eq!(
            group.describe(),
            json!({ "cpus": 3, "memoryMib": 300, "note": null })
        );
        assert_eq!(group.folders().count(), 2);
    }

    #[test]
    fn a_vm_has_one_group_of_version_two_and_a_missing_limit_says_why() {
        let root = TempDir::new("group-two");
        let machine = version_two(&root.0, "/s/voidbox");
        let around = root.0.join("s");
        fs::write(around.join("cgroup.controllers"), "memory\n").unwrap();
        delegate(&around);
        let group = Group::make(Ok(machine), "x", LIMITS);
        let own = around.join("voidbox-vm-x");
        assert_eq!(
            fs::read_to_string(own.join("memory.max")).unwrap(),
            "314572800"
        );
        let enabled = fs::read_to_string(around.join("cgroup.subtree_control")).unwrap();
        assert_eq!(enabled, "+memory");
        assert!(!own.join("cpu.max").exists());
        let told = group.describe();
        assert_eq!(
            (&told["cpus"], &told["memoryMib"]),
            (&json!(null), &json!(300))
        );
        assert!(
            told["note"]
                .as_str()
                .unwrap()
                .contains("has no controller cpu"),
            "{told}"
        );
    }

    #[test]
    fn a_host_without_groups_limits_nothing_and_a_vm_still_runs() {
        let missing = io::Error::from(io::ErrorKind::NotFound);
        let group = Group::make(Err(missing), "x", LIMITS);
        group.adopt(|| panic!("no process is moved")).unwrap();
        let told = group.describe();
        assert_eq!(
            (&told["cpus"], &told["memoryMib"]),
            (&json!(null), &json!(null))
        );
        assert!(told["note"].is_string());
    }

    #[test]
    fn only_empty_groups_of_vms_are_removed_later() {
        let root = TempDir::new("group-left");
        let folders = ["voidbox-vm-a", "voidbox-vm-b", "other"].map(|name| root.0.join(name));
        for folder in &folders {
            fs::create_dir(folder).unwrap();
        }
        fs::write(folders[1].join("cgroup.procs"), "7").unwrap();
        remove_left(&folders);
        assert_eq!(folders.map(|folder| folder.exists()), [false, true, true]);
    }

    #[test]
    fn a_keeper_removes_empty_groups_of_keepers_that_are_gone() {
        let root = TempDir::new("group-orphans");
        let own = std::process::id();
        let names = [
            format!("{PREFIX}4194305-1"),
            format!("{PREFIX}4194305-2"),
            format!("{PREFIX}{own}-3"),
            format!("{PREFIX}x"),
            "4194305".into(),
        ];
        let folders = names.map(|name| root.0.join(name));
        for folder in &folders {
            fs::create_dir(folder).unwrap();
        }
        fs::write(folders[1].join("cgroup.procs"), "7").unwrap();
        remove_orphans(&root.0);
        let left = folders.map(|folder| folder.exists());
        assert_eq!(left, [false, true, true, true, true]);
    }

    /// Makes groups below one of this test in each file system of version 1 that it may write.
    #[test]
    fn the_kernel_limits_the_processes_of_a_group() {
        let name = format!("voidbox-test-{}", std::process::id());
        let tops = ["cpu", "memory"].map(|kind| Path::new("/sys/fs/cgroup").join(kind).join(&name));
        let made = tops.iter().all(|top| fs::create_dir(top).is_ok());
        if !made || !tops.iter().all(|top| delegate(top)) {
            tops.iter().for_each(|top| _ = fs::remove_dir(top));
            eprintln!("skipped: this user may make no groups of version 1");
            return;
        }
        let machine = Machine {
            groups: format!("1:cpu:/{name}\n2:memory:/{name}\n"),
            mounts: ["cpu", "memory"]
                .map(|kind| {
                    format!("1 2 0:3 / /sys/fs/cgroup/{kind} rw - cgroup cgroup rw,{kind}\n")
                })
                .concat(),
        };
        let group = Group::make(Ok(machine), "x", LIMITS);
        assert_eq!(group.describe()["note"], json!(null));
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        group.adopt(|| vec![child.id()]).unwrap();
        let inside = fs::read_to_string(format!("/proc/{}/cgroup", child.id())).unwrap();
        let of_vm = format!("/{name}/voidbox-vm-x");
        assert_eq!(
            inside.lines().filter(|line| line.ends_with(&of_vm)).count(),
            2,
            "{inside}"
        );
        let folders: Vec<PathBuf> = group.folders().map(Path::to_owned).collect();
        remove_left(&folders);
        assert!(
            folders.iter().all(|folder| folder.exists()),
            "it has a process"
        );
        child.kill().unwrap();
        child.wait().unwrap();
        group.remove();
        assert!(folders.iter().all(|folder| !folder.exists()));
        tops.iter().for_each(|top| fs::remove_dir(top).unwrap());
    }
}
