//! The process that serves the folders of a VM. It has no KVM and no memory of the guest: the VMM sends it the guest's
//! requests over a socket, and it sees only the folders.

use std::ffi::OsString;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

use crate::config::{Mount, NativeSettings};
use crate::error::Failure;
use crate::vmm::jail::{Jail, readable, resolve};
use crate::vmm::process::VmmProcess;

/// The paths of the program and of the folders in the jail.
const PROGRAM: &str = "/vm/voidbox-folders";
const ROOT: &str = "/mounts";

/// Starts the server, unless the VM has no mounts. Returns it with the VMM's end of its socket.
pub fn start(
    settings: &NativeSettings,
    mounts: &[Mount],
    keeper: &Path,
    uid: Option<u32>,
) -> Result<Option<(VmmProcess, OwnedFd)>, Failure> {
    let Some(program) = settings.folders.as_deref().filter(|_| !mounts.is_empty()) else {
        return Ok(None);
    };
    let (ours, theirs) = UnixStream::pair()
        .map_err(|error| Failure::io("starting the server of folders", &error))?;
    let words = command(
        program,
        &settings.bwrap,
        mounts,
        keeper,
        uid,
        theirs.as_raw_fd(),
    )?;
    let process = VmmProcess::spawn_helper(&words, theirs.as_fd())?;
    Ok(Some((process, ours.into())))
}

fn command(
    program: &Path,
    bwrap: &Path,
    mounts: &[Mount],
    keeper: &Path,
    uid: Option<u32>,
    socket: RawFd,
) -> Result<Vec<OsString>, Failure> {
    let mut jail = Jail::new(bwrap, uid);
    if uid.is_some() {
        jail.show_libraries();
    }
    jail.make_folder(ROOT);
    jail.show(readable("server of folders", program, uid)?, PROGRAM);
    for (index, mount) in mounts.iter().enumerate() {
        jail.show(resolve(&mount.host_path)?, format!("{ROOT}/{index}"));
    }
    // It opens a file that it has found by the path of its descriptor there.
    jail.show_own_processes();
    let words = [PROGRAM, "--fd", &socket.to_string(), "--root", ROOT];
    jail.command(keeper, words.map(OsString::from).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_sees_the_folders_read_only_and_no_other_file_of_a_user() {
        let mounts = [("/etc", "/data"), ("/etc/hostname", "/name")];
        let mounts = mounts.map(|(host, guest)| Mount {
            host_path: host.into(),
            guest_path: guest.into(),
        });
        let env = Path::new("/usr/bin/env");
        let words = command(env, Path::new("/usr/bin/bwrap"), &mounts, env, None, 9).unwrap();
        let words: Vec<String> = words
            .into_iter()
            .map(|word| word.into_string().unwrap())
            .collect();
        let bound: Vec<[&str; 3]> = words
            .windows(3)
            .filter(|three| three[0].contains("bind"))
            .map(|three| [&*three[0], &*three[1], &*three[2]])
            .collect();
        let env = resolve(env).unwrap();
        let env = env.to_str().unwrap();
        let hostname = resolve(Path::new("/etc/hostname")).unwrap();
        assert_eq!(
            bound,
            [
                ["--ro-bind", env, PROGRAM],
                ["--ro-bind", "/etc", "/mounts/0"],
                ["--ro-bind", hostname.to_str().unwrap(), "/mounts/1"],
                ["--ro-bind", env, "/vm/voidbox-vm"],
            ]
        );
        assert!(words.contains(&"--unshare-net".to_owned()));
        assert_eq!(
            words[words.len() - 5..],
            [PROGRAM, "--fd", "9", "--root", ROOT]
        );
    }
}
