//! Confines the server before it reads a request of its guest. The jail comes first, and this is a second wall. It is the
//! first one for a program that is started by hand.

use std::io;
use std::path::Path;

use landlock::{
    ABI, Access, AccessFs, AccessNet, LandlockStatus, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetStatus, Scope,
};
use voidbox_jail::filter::{Call, Check, Filter, RUNTIME, Table};

/// The rights that a newer kernel may refuse too; an older one refuses those that it knows.
const RIGHTS: ABI = ABI::V6;

/// Flags of an open that write, create or change a file. `O_TMPFILE` has a bit of its own and that of folders. The static
/// build's `O_ACCMODE` has the bit of `O_PATH` too.
const WRITES: u64 = (libc::O_WRONLY
    | libc::O_RDWR
    | libc::O_CREAT
    | libc::O_TRUNC
    | libc::O_APPEND
    | (libc::O_TMPFILE & !libc::O_DIRECTORY)) as u64;

const _: () = assert!(
    WRITES & (libc::O_PATH | libc::O_DIRECTORY) as u64 == 0,
    "places and folders are opened"
);

const SERVER: Table = Table {
    role: "folders",
    calls: &[
        RUNTIME,
        &[
            Call::any(libc::SYS_read, "requests of the guest, and files"),
            Call::any(libc::SYS_recvfrom, "requests of the guest"),
            Call::any(libc::SYS_sendto, "answers to the guest"),
            Call::checked(
                libc::SYS_openat,
                &[Check::Without(2, WRITES)],
                "finds a file by its name, and opens it for reading",
            ),
            Call::any(libc::SYS_close, "a file that the guest forgets"),
            Call::any(libc::SYS_newfstatat, "the attributes of a file"),
            Call::any(
                libc::SYS_fstat,
                "the same, as another C library asks for them",
            ),
            Call::any(libc::SYS_statx, "the same, as newer libraries ask for them"),
            Call::any(libc::SYS_fstatfs, "the size of the file system"),
            Call::any(libc::SYS_readlinkat, "the target of a link"),
            Call::any(libc::SYS_pread64, "reads a file"),
            Call::any(libc::SYS_lseek, "the place in a list of a folder"),
            Call::any(libc::SYS_getdents64, "the names in a folder"),
            Call::any(libc::SYS_fsync, "a request without effect for a reader"),
            Call::any(libc::SYS_fdatasync, "the same"),
            Call::checked(
                libc::SYS_fcntl,
                &[Check::Is(1, libc::F_DUPFD_CLOEXEC as u32)],
                "a file that the guest knows by a second number",
            ),
            Call::checked(
                libc::SYS_fcntl,
                &[Check::Is(1, libc::F_GETFL as u32)],
                "a check before a folder is listed",
            ),
            Call::checked(
                libc::SYS_fcntl,
                &[Check::Is(1, libc::F_SETFD as u32)],
                "a flag of a folder that is listed, with another C library",
            ),
            Call::checked(
                libc::SYS_fcntl,
                &[Check::Is(1, libc::F_GETFD as u32)],
                "a check before a descriptor is closed, in builds for tests",
            ),
        ],
    ],
};

static FILTER: Filter = SERVER.compile();

/// Confines the calling thread for good: it may open files beneath `root` for reading, and nothing else. A kernel without
/// Landlock has only the filter of calls, and the result is false.
pub fn confine(root: &Path) -> io::Result<bool> {
    let is_restricted = restrict(root)?;
    FILTER.install().map_err(io::Error::other)?;
    Ok(is_restricted)
}

/// Fails if the kernel has Landlock and does not enforce it.
fn restrict(root: &Path) -> io::Result<bool> {
    let folder = PathFd::new(root).map_err(io::Error::other)?;
    let reading = AccessFs::ReadFile | AccessFs::ReadDir;
    let enforced = || {
        Ruleset::default()
            .handle_access(AccessFs::from_all(RIGHTS))?
            .handle_access(AccessNet::from_all(RIGHTS))?
            .scope(Scope::from_all(RIGHTS))?
            .create()?
            .add_rule(PathBeneath::new(folder, reading))?
            .restrict_self()
    };
    let status = enforced().map_err(io::Error::other)?;
    let is_absent = matches!(
        status.landlock,
        LandlockStatus::NotEnabled | LandlockStatus::NotImplemented
    );
    match status.ruleset {
        RulesetStatus::NotEnforced if !is_absent => Err(io::Error::other(
            "the kernel has Landlock and does not enforce its rules",
        )),
        RulesetStatus::NotEnforced => Ok(false),
        _ => Ok(true),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::ErrorKind;

    use super::*;

    #[test]
    fn a_confined_thread_reads_beneath_its_folder_and_nowhere_else() {
        let folder = tempfile::tempdir().unwrap();
        let shared = folder.path().join("shared");
        fs::create_dir(&shared).unwrap();
        fs::write(shared.join("file"), "content").unwrap();
        fs::write(folder.path().join("secret"), "secret").unwrap();
        std::thread::spawn(move || {
            let is_restricted = confine(&shared).unwrap();
            assert_eq!(fs::read(shared.join("file")).unwrap(), b"content");
            if !is_restricted {
                return eprintln!("skipped: this kernel has no Landlock");
            }
            for outside in ["../secret", "../../../../../../../../etc/passwd", ".."] {
                let error = fs::File::open(shared.join(outside)).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{outside}");
            }
            let error = fs::read("/proc/self/status").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::PermissionDenied);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn the_server_may_not_write_start_a_program_or_reach_a_network() {
        let calls = || SERVER.calls.iter().copied().flatten();
        for call in calls() {
            let refused = [
                libc::SYS_open,
                libc::SYS_openat2,
                libc::SYS_socket,
                libc::SYS_connect,
                libc::SYS_execve,
                libc::SYS_execveat,
                libc::SYS_clone,
                libc::SYS_clone3,
                libc::SYS_ptrace,
                libc::SYS_unlinkat,
                libc::SYS_renameat2,
                libc::SYS_pwrite64,
                libc::SYS_ioctl,
            ];
            assert!(!refused.contains(&call.number), "{}", call.number);
            if [libc::SYS_openat, libc::SYS_fcntl, libc::SYS_mmap].contains(&call.number) {
                assert!(!call.checks.is_empty(), "{}", call.number);
            }
        }
        assert_eq!(
            calls()
                .filter(|call| call.number == libc::SYS_openat)
                .count(),
            1
        );
    }
}
