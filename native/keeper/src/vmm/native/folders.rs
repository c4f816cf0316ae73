//! The process that serves the folders of a VM. It has no KVM and no memory of the guest: the VMM sends it the guest's
//! requests over a socket, and it sees only the folders.

use std::ffi::OsString;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

use rustix::fs::{Mode, OFlags, open};
use voidbox_jail::SHOWN;

use crate::config::{Mount, NativeSettings};
use crate::error::Failure;
use crate::vmm::jail::resolve;
use crate::vmm::process::VmmProcess;

/// The name of the program in its own command line.
const NAME: &str = "voidbox-folders";
/// The limit of the server's descriptors: one for each file that the guest knows or has opened.
const OPEN_FILES: u64 = 16_384;

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
    let opened = mounts.iter().map(|mount| open_shared(&mount.host_path));
    let opened: Vec<OwnedFd> = opened.collect::<Result<_, Failure>>()?;
    let shown = opened.iter().map(AsRawFd::as_raw_fd);
    let words = command(program, keeper, uid, theirs.as_raw_fd(), shown)?;
    let inherited: Vec<BorrowedFd> = std::iter::once(theirs.as_fd())
        .chain(opened.iter().map(AsFd::as_fd))
        .collect();
    let process = VmmProcess::spawn_helper(&words, &inherited)?;
    Ok(Some((process, ours.into())))
}

/// Opens a folder or a file only as a place.
fn open_shared(path: &Path) -> Result<OwnedFd, Failure> {
    let path = resolve(path)?;
    open(&path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
        .map_err(|errno| Failure::io(path.display(), &errno.into()))
}

/// Returns the whole command: the keeper's own binary makes the jail, and becomes the server in it.
fn command(
    program: &Path,
    keeper: &Path,
    uid: Option<u32>,
    socket: RawFd,
    shown: impl Iterator<Item = RawFd>,
) -> Result<Vec<OsString>, Failure> {
    let mut words: Vec<OsString> = vec![keeper.into(), "jail".into(), "--program".into()];
    words.push(resolve(program)?.into());
    if let Some(uid) = uid {
        words.extend(["--uid".into(), uid.to_string().into()]);
    }
    let socket = socket.to_string();
    let shown: Vec<String> = shown.map(|fd| fd.to_string()).collect();
    words.extend(["--keep".into(), OsString::from(&socket)]);
    words.extend(["--show".into(), shown.join(",").into()]);
    words.extend(["--open-files".into(), OPEN_FILES.to_string().into()]);
    // The server opens a file that it has found by the path of its descriptor there.
    words.extend(
        [
            "--proc", "own", "--", NAME, "--fd", &socket, "--root", SHOWN,
        ]
        .map(OsString::from),
    );
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(uid: Option<u32>) -> String {
        let env = Path::new("/usr/bin/env");
        let words = command(env, Path::new("/k"), uid, 9, [5, 7].into_iter()).unwrap();
        let words: Vec<String> = words
            .into_iter()
            .map(|word| word.into_string().unwrap())
            .collect();
        words.join(" ")
    }

    #[test]
    fn the_server_keeps_its_socket_and_sees_only_the_folders() {
        let env = Path::new("/usr/bin/env").canonicalize().unwrap();
        let expected = format!(
            "/k jail --program {} --keep 9 --show 5,7 --open-files 16384 --proc own -- voidbox-folders --fd 9 --root /mounts",
            env.display()
        );
        assert_eq!(words(None), expected);
    }

    #[test]
    fn root_gives_the_server_the_user_of_its_vm() {
        assert!(words(Some(1_900_000_000)).contains(" --uid 1900000000 --keep 9 "));
    }

    #[test]
    fn a_folder_that_is_not_there_is_named() {
        let error = open_shared(Path::new("/no/folder")).unwrap_err();
        assert!(error.message.contains("/no/folder"), "{error}");
    }
}
