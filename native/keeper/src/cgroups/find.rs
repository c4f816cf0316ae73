//! Finds the group below which the keeper may make groups of VMs.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access, getxattr};

/// A kind of limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Controller {
    Cpu,
    Memory,
}

pub const CONTROLLERS: [Controller; 2] = [Controller::Cpu, Controller::Memory];

/// systemd marks groups whose content is another program's.
const MARKS: [&str; 2] = ["trusted.delegate", "user.delegate"];
/// A keeper in a group of this name makes groups beside it: a group of version 2 has processes or limits, never both.
const OWN_NAME: &str = "voidbox";

impl Controller {
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
        }
    }
}

/// The version of the kernel's interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    One,
    Two,
}

/// A group below which the keeper may make others.
#[derive(Debug, PartialEq, Eq)]
pub struct Parent {
    pub version: Version,
    pub folder: PathBuf,
}

/// The groups of this process, and the mounts through which it sees them.
pub struct Machine {
    /// `/proc/self/cgroup`.
    pub(super) groups: String,
    /// `/proc/self/mountinfo`.
    pub(super) mounts: String,
}

impl Machine {
    pub fn read() -> io::Result<Self> {
        Ok(Self {
            groups: fs::read_to_string("/proc/self/cgroup")?,
            mounts: fs::read_to_string("/proc/self/mountinfo")?,
        })
    }

    /// Finds the parent for groups with a limit. The error says why no group fits.
    pub fn find(&self, controller: Controller) -> Result<Parent, String> {
        let name = controller.name();
        let parent = self.find_any(name)?;
        let shown = parent.folder.display();
        if !is_delegated(&parent.folder) {
            return Err(format!(
                "the control group {shown} is not delegated to this user"
            ));
        }
        if access(&parent.folder, Access::WRITE_OK | Access::EXEC_OK).is_err() {
            return Err(format!("the control group {shown} cannot be written"));
        }
        let is_new = parent.version == Version::Two
            && !has_word(&parent.folder.join("cgroup.subtree_control"), name);
        if is_new && has_processes(&parent.folder) {
            return Err(format!(
                "the control group {shown} has processes: start Voidbox in a group below it that is named {OWN_NAME}"
            ));
        }
        Ok(parent)
    }

    fn find_any(&self, name: &str) -> Result<Parent, String> {
        let lines = || self.groups.lines().filter_map(split_group);
        let of_version_one = lines().find(|(list, _)| list.split(',').any(|word| word == name));
        if let Some((_, path)) = of_version_one {
            let folder = self.folder_of("cgroup", Some(name), path)?;
            return Ok(Parent {
                version: Version::One,
                folder,
            });
        }
        let (_, path) = lines()
            .find(|(list, _)| list.is_empty())
            .ok_or_else(|| format!("this kernel has no controller {name}"))?;
        let own = self.folder_of("cgroup2", None, path)?;
        let folder = match own.parent() {
            Some(parent) if own.file_name().is_some_and(|own| own == OWN_NAME) => parent.into(),
            _ => own,
        };
        if !has_word(&folder.join("cgroup.controllers"), name) {
            let shown = folder.display();
            return Err(format!(
                "the control group {shown} has no controller {name}"
            ));
        }
        Ok(Parent {
            version: Version::Two,
            folder,
        })
    }

    /// Returns the folder of a group in the file system of its version.
    fn folder_of(&self, kind: &str, option: Option<&str>, path: &str) -> Result<PathBuf, String> {
        let mount = self.mounts.lines().find_map(|line| {
            let (place, source) = line.split_once(" - ")?;
            let mut source = source.split(' ');
            let is_kind = source.next() == Some(kind);
            let options = source.nth(1).unwrap_or_default();
            let has_option = option.is_none_or(|name| options.split(',').any(|word| word == name));
            let mut place = place.split(' ').skip(3);
            let (root, point) = (place.next()?, place.next()?);
            (is_kind && has_option).then_some((root, point))
        });
        let (root, point) = mount.ok_or("the file system of control groups is not mounted")?;
        let below = Path::new(path)
            .strip_prefix(root)
            .ok()
            .filter(|_| !path.contains("/.."))
            .ok_or_else(|| format!("the control group {path} of this process is not visible"))?;
        Ok(Path::new(point)
            .components()
            .chain(below.components())
            .collect())
    }
}

/// Splits a line of `/proc/self/cgroup` into its controllers and its path.
fn split_group(line: &str) -> Option<(&str, &str)> {
    line.split_once(':')?.1.split_once(':')
}

/// Root may write each group, also those of other programs, so it needs a mark.
fn is_delegated(folder: &Path) -> bool {
    let own = rustix::process::geteuid().as_raw();
    let owner = fs::metadata(folder).map(|found| found.uid());
    (own != 0 && owner.is_ok_and(|owner| owner == own)) || MARKS.iter().any(|m| has_mark(folder, m))
}

fn has_mark(folder: &Path, mark: &str) -> bool {
    let mut value = [0; 2];
    matches!(getxattr(folder, mark, &mut value), Ok(1) if value[0] == b'1')
}

pub(super) fn has_word(file: &Path, word: &str) -> bool {
    fs::read_to_string(file).is_ok_and(|text| text.split_whitespace().any(|found| found == word))
}

fn has_processes(folder: &Path) -> bool {
    fs::read_to_string(folder.join("cgroup.procs")).is_ok_and(|text| !text.trim().is_empty())
}

/// Marks a group as delegated. False on a file system without such marks.
#[cfg(test)]
pub fn delegate(folder: &Path) -> bool {
    MARKS.iter().any(|mark| {
        rustix::fs::setxattr(folder, *mark, b"1", rustix::fs::XattrFlags::empty()).is_ok()
    })
}

/// A host of version 2 on which this process is in a group of this path.
#[cfg(test)]
pub fn version_two(root: &Path, path: &str) -> Machine {
    let own = root.join(path.trim_start_matches('/'));
    fs::create_dir_all(&own).unwrap();
    Machine {
        groups: format!("0::{path}\n"),
        mounts: format!(
            "31 23 0:28 / {} rw,relatime - cgroup2 cgroup2 rw\n",
            root.display()
        ),
    }
}

/// A host of version 1: both controllers in file systems of their own.
#[cfg(test)]
pub fn version_one(root: &Path) -> Machine {
    let mut mounts = String::new();
    for name in ["cpu,cpuacct", "memory"] {
        let point = root.join(name);
        fs::create_dir_all(point.join("a/b")).unwrap();
        mounts += &format!(
            "32 31 0:29 /a {} rw shared:9 - cgroup cgroup rw,{name}\n",
            point.join("a").display()
        );
    }
    Machine {
        groups: "4:memory:/a/b\n1:cpu,cpuacct:/a/b\n0::/\n".into(),
        mounts,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run_dir::tests::TempDir;

    #[test]
    fn each_controller_of_version_one_has_its_own_file_system() {
        let root = TempDir::new("cgroups-one");
        let machine = version_one(&root.0);
        for (controller, name) in [
            (Controller::Cpu, "cpu,cpuacct"),
            (Controller::Memory, "memory"),
        ] {
            let folder = root.0.join(name).join("a/b");
            delegate(&folder);
            let parent = Parent {
                version: Version::One,
                folder,
            };
            assert_eq!(machine.find(controller), Ok(parent));
        }
    }

    #[test]
    fn a_group_of_version_two_has_the_controller_and_no_process() {
        let root = TempDir::new("cgroups-two");
        let machine = version_two(&root.0, "/s");
        let own = root.0.join("s");
        let find = || machine.find(Controller::Memory);
        assert!(find().unwrap_err().contains("no controller memory"));
        fs::write(own.join("cgroup.controllers"), "cpu memory pids\n").unwrap();
        delegate(&own);
        assert_eq!(find().unwrap().folder, own);
        fs::write(own.join("cgroup.procs"), "17\n").unwrap();
        let why = find().unwrap_err();
        assert!(
            why.contains("has processes") && why.contains("named voidbox"),
            "{why}"
        );
        fs::write(own.join("cgroup.subtree_control"), "memory\n").unwrap();
        assert_eq!(find().unwrap().folder, own);
        assert!(machine.find(Controller::Cpu).is_err());
    }

    #[test]
    fn a_keeper_in_the_group_voidbox_uses_the_group_around_it() {
        let root = TempDir::new("cgroups-around");
        let machine = version_two(&root.0, "/s/voidbox");
        let around = root.0.join("s");
        fs::write(around.join("cgroup.controllers"), "cpu memory\n").unwrap();
        fs::write(around.join("voidbox/cgroup.procs"), "17\n").unwrap();
        delegate(&around);
        assert_eq!(machine.find(Controller::Cpu).unwrap().folder, around);
    }

    #[test]
    fn groups_that_are_not_there_or_not_visible_are_named() {
        let root = TempDir::new("cgroups-none");
        let machine = |groups: &str, mounts: String| Machine {
            groups: groups.into(),
            mounts,
        };
        let point = root.0.display();
        let below = format!("1 2 0:3 /docker/x {point} rw - cgroup2 cgroup2 rw\n");
        for (machine, text) in [
            (
                machine("", String::new()),
                "this kernel has no controller cpu",
            ),
            (machine("0::/\n", String::new()), "is not mounted"),
            (
                machine("0::/user\n", below.clone()),
                "/user of this process is not visible",
            ),
            (machine("0::/docker/x/../y\n", below), "is not visible"),
        ] {
            let why = machine.find(Controller::Cpu).unwrap_err();
            assert!(why.contains(text), "{why}");
        }
    }

    #[test]
    fn root_needs_a_mark_and_another_user_owns_the_group() {
        let root = TempDir::new("cgroups-mark");
        let is_root = rustix::process::geteuid().is_root();
        assert_eq!(is_delegated(&root.0), !is_root);
        if delegate(&root.0) {
            assert!(is_delegated(&root.0));
        }
    }
}
