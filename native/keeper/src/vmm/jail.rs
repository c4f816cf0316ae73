//! The jail of a VMM: its own namespaces, the files of the host that it sees, and its user.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::error::{Code, Failure};
use crate::run_dir::RunDir;

/// The path of the keeper's binary in the jail, where it starts the VMM.
const KEEPER: &str = "/vm/voidbox-vm";
/// The first of the user ids of VMMs when the keeper is root: above those of systemd's containers and of subuid files.
/// Each VM has its own id.
const FIRST_UID: u32 = 1_900_000_000;
const UIDS: u32 = 65_536;

const SETPRIV: &str = "/usr/bin/setpriv";

/// Returns the user of the VMM, if it differs from the keeper's user.
pub fn vmm_uid(dir: &RunDir) -> Option<u32> {
    rustix::process::geteuid().is_root().then(|| {
        let name = dir.path().as_os_str().as_encoded_bytes();
        let hash = name.iter().fold(0x811C_9DC5_u32, |sum, byte| {
            (sum ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
        });
        FIRST_UID + hash % UIDS
    })
}

/// Describes the confinement of this VMM for the run.
pub fn description(uid: Option<u32>) -> String {
    match uid {
        Some(uid) => format!("bwrap, uid {uid}"),
        None => "bwrap, user namespace".into(),
    }
}

/// Builds the command line of bubblewrap. The jail contains only files of the host that are added here.
pub struct Jail {
    args: Vec<OsString>,
    uid: Option<u32>,
    has_kvm: bool,
}

impl Jail {
    /// Creates a jail that contains only devices.
    pub fn new(bwrap: &Path, uid: Option<u32>) -> Self {
        let mut jail = Self {
            args: vec![bwrap.into()],
            uid,
            has_kvm: false,
        };
        jail.add([
            "--unshare-pid",
            "--unshare-net",
            "--unshare-ipc",
            "--unshare-uts",
            "--unshare-cgroup-try",
        ]);
        if uid.is_none() {
            jail.add(["--unshare-user"]);
        }
        jail.add([
            // The lifeline is PID 1, so every process ends with it. `--die-with-parent` would leave a gap: bwrap may be
            // killed between its fork and the moment in which its child is tied to it.
            "--as-pid-1",
            "--new-session",
            "--clearenv",
            "--hostname",
            "vm",
        ]);
        jail.add(["--dev", "/dev"]);
        // The folders of the keeper's binary and of setpriv.
        for folder in ["/vm", "/usr", "/usr/bin"] {
            jail.make_folder(folder);
        }
        jail
    }

    fn add<T: Into<OsString>>(&mut self, args: impl IntoIterator<Item = T>) {
        self.args.extend(args.into_iter().map(Into::into));
    }

    /// Adds an empty folder. By default, bwrap makes some parent folders with mode 0700, and the VMM may run as another
    /// user.
    pub fn make_folder(&mut self, at: impl AsRef<Path>) {
        self.add(["--perms", "0755", "--dir"]);
        self.add([at.as_ref()]);
    }

    /// Adds a file or a folder, read-only.
    pub fn show(&mut self, from: impl AsRef<Path>, at: impl AsRef<Path>) {
        self.bind("--ro-bind", from.as_ref(), at.as_ref());
    }

    /// Adds a file or a folder at its path on the host, if the host has it.
    pub fn show_if_there(&mut self, path: impl AsRef<Path>) {
        self.bind("--ro-bind-try", path.as_ref(), path.as_ref());
    }

    /// Adds the libraries of dynamic programs.
    pub fn show_libraries(&mut self) {
        self.make_folder("/etc");
        for path in ["/usr/lib", "/usr/lib64", "/etc/ld.so.cache"] {
            self.show_if_there(path);
        }
        for name in ["/lib", "/lib64"] {
            match fs::read_link(name) {
                Ok(target) => self.link(target, name),
                Err(_) => self.show_if_there(name),
            }
        }
    }

    fn link(&mut self, target: impl AsRef<Path>, at: impl AsRef<Path>) {
        self.bind("--symlink", target.as_ref(), at.as_ref());
    }

    /// Adds a file that the VMM can write.
    pub fn show_writable(&mut self, from: impl AsRef<Path>, at: impl AsRef<Path>) {
        self.bind("--bind", from.as_ref(), at.as_ref());
    }

    /// Adds a `/proc` that contains only the processes of the jail.
    pub fn show_own_processes(&mut self) {
        self.add(["--proc", "/proc"]);
    }

    pub fn show_kvm(&mut self) {
        self.has_kvm = true;
        self.bind("--dev-bind", Path::new("/dev/kvm"), Path::new("/dev/kvm"));
    }

    fn bind(&mut self, how: &str, from: &Path, at: &Path) {
        self.add([how.as_ref(), from.as_os_str(), at.as_os_str()]);
    }

    /// Returns the whole command: bwrap with its arguments, and `words` inside it under the lifeline of `keeper`.
    pub fn command(
        mut self,
        keeper: &Path,
        words: Vec<OsString>,
    ) -> Result<Vec<OsString>, Failure> {
        if self.uid.is_some() {
            self.show_if_there(SETPRIV);
        }
        self.show(resolve(keeper)?, KEEPER);
        self.add(["--remount-ro", "/", "--chdir", "/", "--"]);
        // The lifeline precedes the drop of privileges, so that a VMM of another user cannot reach it.
        self.add([KEEPER, "lifeline", "--"]);
        if let Some(uid) = self.uid {
            self.args.extend(drop_privileges(uid, self.has_kvm)?);
        }
        self.args.extend(words);
        Ok(self.args)
    }
}

/// Returns the command that starts the VMM as a user that the host does not have, when the keeper is root.
fn drop_privileges(uid: u32, has_kvm: bool) -> Result<Vec<OsString>, Failure> {
    if !Path::new(SETPRIV).is_file() {
        return Err(Failure::new(
            Code::HostNotReady,
            format!("no {SETPRIV}, and a VMM never runs as root: apt install util-linux"),
        ));
    }
    let groups = match has_kvm {
        true => format!("--groups={}", kvm_group()?),
        false => "--clear-groups".into(),
    };
    let id = uid.to_string();
    Ok(vec![
        SETPRIV.into(),
        format!("--reuid={id}").into(),
        format!("--regid={id}").into(),
        groups.into(),
        "--no-new-privs".into(),
        "--inh-caps=-all".into(),
        "--bounding-set=-all".into(),
        "--".into(),
    ])
}

fn kvm_group() -> Result<u32, Failure> {
    let metadata = fs::metadata("/dev/kvm").map_err(|error| Failure::io("/dev/kvm", &error))?;
    if metadata.mode() & 0o060 != 0o060 {
        let mode = metadata.mode() & 0o777;
        let message = format!(
            "/dev/kvm has mode {mode:o}, and a VMM never runs as root: chgrp kvm /dev/kvm && chmod 660 /dev/kvm"
        );
        return Err(Failure::new(Code::HostNotReady, message));
    }
    Ok(metadata.gid())
}

/// Returns the path without links, because bwrap binds the target of a link.
pub fn resolve(path: &Path) -> Result<PathBuf, Failure> {
    path.canonicalize()
        .map_err(|error| Failure::io(path.display(), &error))
}

/// Checks that the VMM, as another user, can read a file once it is in the jail.
pub fn readable(what: &str, path: &Path, uid: Option<u32>) -> Result<PathBuf, Failure> {
    let path = resolve(path)?;
    let metadata = fs::metadata(&path).map_err(|error| Failure::io(path.display(), &error))?;
    if uid.is_some() && metadata.permissions().mode() & 0o004 == 0 {
        let message = format!(
            "the {what} {0} is not readable by others, and a VMM never runs as root: chmod o+r {0}",
            path.display()
        );
        return Err(Failure::new(Code::HostNotReady, message));
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(uid: Option<u32>) -> Vec<String> {
        let jail = Jail::new(Path::new("/usr/bin/bwrap"), uid);
        let args = jail.command(Path::new("/usr/bin/env"), vec!["vmm".into()]);
        args.unwrap()
            .into_iter()
            .map(|arg| arg.into_string().unwrap())
            .collect()
    }

    #[test]
    fn root_gives_its_rights_up_inside_the_jail() {
        let words = words(Some(FIRST_UID));
        assert!(!words.contains(&"--unshare-user".to_owned()));
        let inside = words.iter().position(|word| word == "--").unwrap() + 1;
        let lifeline = [KEEPER, "lifeline", "--"];
        assert_eq!(
            words[inside..inside + 4],
            [&lifeline[..], &[SETPRIV]].concat()
        );
        assert!(words.contains(&format!("--reuid={FIRST_UID}")));
        assert!(words.contains(&"--bounding-set=-all".to_owned()));
    }

    #[test]
    fn anybody_else_gets_a_user_namespace() {
        let words = words(None);
        assert!(words.contains(&"--unshare-user".to_owned()));
        assert!(!words.iter().any(|word| word.starts_with("--reuid")));
    }

    #[test]
    fn the_lifeline_is_all_that_ties_a_jail_to_its_keeper() {
        let words = words(None);
        assert!(words.contains(&"--as-pid-1".to_owned()));
        assert!(!words.contains(&"--die-with-parent".to_owned()));
        let inside = words.iter().position(|word| word == "--").unwrap() + 1;
        assert_eq!(words[inside..inside + 3], [KEEPER, "lifeline", "--"]);
    }
}
