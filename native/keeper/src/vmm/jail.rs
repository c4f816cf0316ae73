//! The jail: what of the host QEMU sees, and as whom it runs.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::config::{Accelerator, LaunchConfig};
use crate::error::{Code, Failure};
use crate::host::HostTsc;
use crate::run_dir::{RunDir, SCRATCH};
use crate::vmm::command::{self, Descriptors};

/// First of the user ids that QEMU runs as when the keeper is root: above those of systemd's
/// containers and of subuid files. Each VM has its own.
const FIRST_UID: u32 = 1_900_000_000;
const UIDS: u32 = 65_536;

const SETPRIV: &str = "/usr/bin/setpriv";
/// Beside QEMU's binary: its libraries and the firmware that the machine starts with.
const READ_ONLY: [&str; 5] = [
    "/usr/lib",
    "/usr/lib64",
    "/usr/share/qemu",
    "/usr/share/seabios",
    "/etc/ld.so.cache",
];

/// Who QEMU runs as, when that is not who the keeper runs as.
pub fn vmm_uid(dir: &RunDir) -> Option<u32> {
    rustix::process::geteuid().is_root().then(|| {
        let name = dir.path().as_os_str().as_encoded_bytes();
        let hash = name.iter().fold(0x811C_9DC5_u32, |sum, byte| {
            (sum ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
        });
        FIRST_UID + hash % UIDS
    })
}

/// How the run says what keeps this VMM in.
pub fn description(config: &LaunchConfig, uid: Option<u32>) -> String {
    match (config.is_jailed(), uid) {
        (false, _) => "none".into(),
        (true, Some(uid)) => format!("bwrap, uid {uid}"),
        (true, None) => "bwrap, user namespace".into(),
    }
}

/// The whole command: bwrap, what it shows, and QEMU inside it behind the lifeline of `keeper`.
pub fn command(
    config: &LaunchConfig,
    dir: &RunDir,
    keeper: &Path,
    uid: Option<u32>,
    fds: Descriptors,
    tsc: HostTsc,
) -> Result<Vec<OsString>, Failure> {
    let mut args: Vec<OsString> = vec![config.bwrap.clone().into()];
    let flags = [
        "--unshare-pid",
        "--unshare-net",
        "--unshare-ipc",
        "--unshare-uts",
        "--unshare-cgroup-try",
    ];
    args.extend(flags.map(OsString::from));
    if uid.is_none() {
        args.push("--unshare-user".into());
    }
    args.extend(
        [
            // The lifeline is PID 1, so its end is everything's. `--die-with-parent` would kill bwrap
            // between its fork and the moment in which its child is tied to it.
            "--as-pid-1",
            "--new-session",
            "--clearenv",
            "--hostname",
            "vm",
        ]
        .map(OsString::from),
    );
    let qemu = resolve(&config.qemu)?;
    make_folders(&mut args, &qemu);
    show_system(&mut args);
    args.extend(["--dev", "/dev"].map(OsString::from));
    show_qemu(&mut args, &qemu);
    if uid.is_some() {
        args.extend(["--ro-bind-try", SETPRIV, SETPRIV].map(OsString::from));
    }
    let mut show = |how: &str, from: PathBuf, at: String| {
        args.extend([how.into(), from.into_os_string(), at.into()]);
    };
    show("--ro-bind", resolve(keeper)?, command::KEEPER.into());
    for (what, path, at) in [
        ("kernel", &config.kernel.path, command::KERNEL),
        ("initramfs", &config.initramfs, command::INITRAMFS),
    ] {
        show("--ro-bind", readable(what, path, uid)?, at.into());
    }
    if let Some(disk) = &config.root_disk {
        let disk = readable("root disk", disk, uid)?;
        show("--ro-bind", disk, command::ROOT_DISK.into());
    }
    show("--bind", dir.file(SCRATCH), command::SCRATCH.into());
    for (index, mount) in config.mounts.iter().enumerate() {
        show(
            "--ro-bind",
            resolve(&mount.host_path)?,
            format!("{}/{index}", command::MOUNTS),
        );
    }
    if config.accelerator == Accelerator::Kvm {
        show("--dev-bind", "/dev/kvm".into(), "/dev/kvm".into());
    }
    args.extend(["--remount-ro", "/", "--chdir", "/", "--"].map(OsString::from));
    // Before privileges are dropped: a QEMU of another user cannot reach it.
    args.extend([command::KEEPER, "lifeline", "--"].map(OsString::from));
    if let Some(uid) = uid {
        args.extend(drop_privileges(config, uid)?);
    }
    args.push(qemu.into());
    args.extend(command::qemu_args(config, fds, tsc));
    Ok(args)
}

/// The folders above what is shown. Left to itself bwrap makes some of them 0700, and QEMU may be
/// another user.
fn make_folders(args: &mut Vec<OsString>, qemu: &Path) {
    let mut folders: Vec<&Path> = [
        "/etc",
        "/usr",
        "/usr/bin",
        "/usr/share",
        "/vm",
        command::MOUNTS,
    ]
    .map(Path::new)
    .into();
    let above_qemu: Vec<&Path> = qemu
        .ancestors()
        .skip(1)
        .filter(|above| *above != Path::new("/"))
        .collect();
    folders.extend(above_qemu.into_iter().rev());
    for folder in folders {
        args.extend([
            "--perms".into(),
            "0755".into(),
            "--dir".into(),
            folder.into(),
        ]);
    }
}

fn show_system(args: &mut Vec<OsString>) {
    for path in READ_ONLY {
        args.extend(["--ro-bind-try", path, path].map(OsString::from));
    }
    for name in ["/lib", "/lib64"] {
        match fs::read_link(name) {
            Ok(target) => args.extend(["--symlink".into(), target.into_os_string(), name.into()]),
            Err(_) => args.extend(["--ro-bind-try", name, name].map(OsString::from)),
        }
    }
}

/// QEMU's binary, and what a build outside `/usr` has around it.
fn show_qemu(args: &mut Vec<OsString>, qemu: &Path) {
    let prefix = qemu.parent().and_then(Path::parent);
    let shown = match prefix {
        Some(prefix) if prefix != Path::new("/usr") && prefix != Path::new("/") => prefix,
        _ => qemu,
    };
    args.extend(["--ro-bind".into(), shown.into(), shown.into()]);
}

/// What starts QEMU as nobody of this host, when the keeper is root.
fn drop_privileges(config: &LaunchConfig, uid: u32) -> Result<Vec<OsString>, Failure> {
    if !Path::new(SETPRIV).is_file() {
        return Err(Failure::new(
            Code::HostNotReady,
            format!("no {SETPRIV}, and QEMU never runs as root: apt install util-linux"),
        ));
    }
    let groups = match config.accelerator {
        Accelerator::Kvm => format!("--groups={}", kvm_group()?),
        _ => "--clear-groups".into(),
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
            "/dev/kvm has mode {mode:o}, and QEMU never runs as root: chgrp kvm /dev/kvm && chmod 660 /dev/kvm"
        );
        return Err(Failure::new(Code::HostNotReady, message));
    }
    Ok(metadata.gid())
}

fn resolve(path: &Path) -> Result<PathBuf, Failure> {
    path.canonicalize()
        .map_err(|error| Failure::io(path.display(), &error))
}

/// A file that QEMU, as another user, can read once the jail shows it.
fn readable(what: &str, path: &Path, uid: Option<u32>) -> Result<PathBuf, Failure> {
    let path = resolve(path)?;
    let metadata = fs::metadata(&path).map_err(|error| Failure::io(path.display(), &error))?;
    if uid.is_some() && metadata.permissions().mode() & 0o004 == 0 {
        let message = format!(
            "the {what} {0} is not readable by others, and QEMU never runs as root: chmod o+r {0}",
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
        let config: LaunchConfig = serde_json::from_value(serde_json::json!({
            "v": 1, "vmKey": "k", "memoryMib": 256, "vcpus": 1, "diskMib": 64,
            "kernel": { "path": "/etc/hostname", "kind": "debian" }, "initramfs": "/etc/hostname",
            "accelerator": "tcg", "qemu": "/usr/bin/env", "bwrap": "/usr/bin/bwrap",
            "mounts": [{ "hostPath": "/etc", "guestPath": "/data" }],
        }))
        .unwrap();
        let dir = RunDir::at("/state/vms/0123");
        let fds = Descriptors {
            port: 7,
            console: 8,
            mailbox: 9,
            control: 10,
        };
        let tsc = HostTsc {
            khz: 1,
            trusted: false,
        };
        let args = command(&config, &dir, Path::new("/usr/bin/env"), uid, fds, tsc).unwrap();
        args.into_iter()
            .map(|arg| arg.into_string().unwrap())
            .collect()
    }

    #[test]
    fn root_gives_its_rights_up_inside_the_jail() {
        let words = words(Some(FIRST_UID));
        assert!(!words.contains(&"--unshare-user".to_owned()));
        let inside = words.iter().position(|word| word == "--").unwrap() + 1;
        let lifeline = [command::KEEPER, "lifeline", "--"];
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
    fn only_the_scratch_disk_can_be_written() {
        let words = words(None);
        let writable: Vec<&String> = words
            .iter()
            .zip(&words[1..])
            .filter(|(how, _)| *how == "--bind")
            .map(|(_, from)| from)
            .collect();
        assert_eq!(writable, ["/state/vms/0123/scratch.img"]);
        assert!(
            words
                .windows(3)
                .any(|three| three == ["--ro-bind", "/etc", "/mounts/0"])
        );
    }

    #[test]
    fn the_lifeline_is_all_that_ties_a_jail_to_its_keeper() {
        let words = words(None);
        assert!(words.contains(&"--as-pid-1".to_owned()));
        assert!(!words.contains(&"--die-with-parent".to_owned()));
        let inside = words.iter().position(|word| word == "--").unwrap() + 1;
        assert_eq!(
            words[inside..inside + 3],
            [command::KEEPER, "lifeline", "--"]
        );
    }
}
