//! Folders outside the user's own: mount points, and places for copies on the scratch disk.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use voidbox_protocol::system_folders::is_system_folder;

use super::access;
use crate::boot::{CREDENTIALS, USER_FOLDERS, bind_scratch_folder};
use crate::disks::Storage;
use crate::failure::Failure;
use crate::guest::{Guest, Role};
use crate::links;
use crate::lock::lock;
use crate::owner::SANDBOX;

/// Ensures that the sandbox user can have a folder at `path`; the request itself makes its parents. The first part of
/// the path that does not exist becomes a folder of the scratch disk, because the root's own memory is not for data. If
/// all of it exists, an empty folder of root, such as `/mnt`, becomes one.
/// Call this as root, before the thread becomes the file user. In a process under test it does nothing.
pub fn make_for_user(guest: &Guest, path: &str) -> Result<(), Failure> {
    let Role::Init(storage) = &guest.role else {
        return Ok(());
    };
    let path = access::checked_path(path)?;
    if is_users_from_the_start(path)? {
        return Ok(());
    }
    let mut made = lock(&guest.made_folders);
    if made.iter().any(|folder| path.starts_with(folder)) {
        return Ok(());
    }
    let real = links::resolve(storage, path).map_err(|error| Failure::io(path.display(), error))?;
    let Some(folder) =
        first_missing(&real).or_else(|| is_empty_of_root(&real).then(|| real.clone()))
    else {
        return Ok(());
    };
    bind_scratch_folder(storage, made.len(), &folder)
        .map_err(|error| Failure::io(folder.display(), error))?;
    made.push(folder);
    Ok(())
}

/// Returns false for a folder that the scratch disk can provide. The only system folder of the user is the one for
/// credentials, without folders below it: a file that is written there replaces a link instead of following it.
fn is_users_from_the_start(path: &Path) -> Result<bool, Failure> {
    let is_users = USER_FOLDERS.iter().any(|folder| path.starts_with(folder));
    if is_users || path == Path::new(CREDENTIALS) {
        return Ok(true);
    }
    refuse_system(path).map(|()| false)
}

fn refuse_system(path: &Path) -> Result<(), Failure> {
    let first = path
        .components()
        .nth(1)
        .and_then(|part| part.as_os_str().to_str());
    match first {
        Some(name) if !is_system_folder(name) => Ok(()),
        _ => Err(Failure::new(
            voidbox_protocol::body::ErrorCode::NotAllowed,
            format!("{}: is a folder of the guest's system", path.display()),
        )),
    }
}

/// Returns true for an empty folder that belongs to root and is not a mount, such as one of the host.
fn is_empty_of_root(path: &Path) -> bool {
    let (Ok(found), Some(Ok(parent))) = (
        fs::symlink_metadata(path),
        path.parent().map(fs::symlink_metadata),
    ) else {
        return false;
    };
    let is_empty = fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none());
    found.is_dir() && found.uid() == 0 && found.dev() == parent.dev() && is_empty
}

/// Returns the shortest prefix of a path that does not exist.
fn first_missing(path: &Path) -> Option<PathBuf> {
    let mut beginning = PathBuf::new();
    path.components().find_map(|part| {
        beginning.push(part);
        fs::symlink_metadata(&beginning)
            .is_err()
            .then(|| beginning.clone())
    })
}

/// Makes the mount point: a folder, or an empty file. It runs before any user process, but the disk may be that of an
/// earlier VM, so links on it are not followed. Folders within the user's own become the user's.
pub fn mount_point(storage: &Storage, path: &str, is_folder: bool) -> Result<PathBuf, Failure> {
    let path = access::checked_path(path)?;
    let is_users = USER_FOLDERS.iter().any(|folder| path.starts_with(folder));
    if !is_users {
        refuse_system(path)?;
    } else if USER_FOLDERS.iter().any(|folder| path == Path::new(folder)) {
        return Err(Failure::new(
            voidbox_protocol::body::ErrorCode::NotAllowed,
            format!("{}: a mount can't replace it", path.display()),
        ));
    }
    let failed = |error| Failure::io(path.display(), error);
    let real = links::resolve(storage, path).map_err(failed)?;
    make_place(&real, is_folder, is_users).map_err(failed)?;
    Ok(real)
}

fn make_place(path: &Path, is_folder: bool, is_users: bool) -> io::Result<()> {
    let mut beginning = PathBuf::new();
    for part in path.components() {
        beginning.push(part);
        if beginning.exists() {
            continue;
        }
        if beginning == path && !is_folder {
            fs::File::create_new(&beginning)?;
        } else {
            fs::create_dir(&beginning)?;
            fs::set_permissions(&beginning, fs::Permissions::from_mode(0o755))?;
        }
        if is_users {
            chown(&beginning, Some(SANDBOX.uid), Some(SANDBOX.gid))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_run_the_user_has_the_folder_for_credentials_alone() {
        let is_users = |path: &str| is_users_from_the_start(Path::new(path)).ok();
        assert_eq!(is_users("/run/credentials"), Some(true));
        assert_eq!(is_users("/workspace/a"), Some(true));
        assert_eq!(is_users("/srv/data"), Some(false));
        for path in [
            "/run",
            "/run/credentials/below",
            "/run/credentials2",
            "/run/scratch",
            "/run/mounts/0",
            "/etc",
            "/",
        ] {
            assert_eq!(is_users(path), None, "{path}");
        }
    }

    #[test]
    fn only_an_empty_folder_of_root_that_is_no_mount_is_replaced() {
        let disk = tempfile::tempdir().unwrap();
        let path = disk.path().join("folder");
        fs::create_dir(&path).unwrap();
        assert_eq!(
            is_empty_of_root(&path),
            rustix::process::geteuid().is_root()
        );
        fs::write(path.join("file"), "").unwrap();
        for other in [&path, &path.join("file"), &path.join("none")] {
            assert!(!is_empty_of_root(other), "{}", other.display());
        }
        std::os::unix::fs::symlink("folder", disk.path().join("link")).unwrap();
        assert!(!is_empty_of_root(&disk.path().join("link")));
        for mount in ["/proc", "/dev", "/"] {
            assert!(!is_empty_of_root(Path::new(mount)), "{mount}");
        }
    }

    #[test]
    fn a_mount_whose_path_has_a_link_of_the_scratch_disk_is_not_allowed() {
        let disk = tempfile::tempdir().unwrap();
        let scratch = disk.path().canonicalize().unwrap();
        std::os::unix::fs::symlink("/etc", scratch.join("link")).unwrap();
        let path = scratch.join("link/new");
        let storage = Storage {
            scratch,
            layer: None,
        };
        // The folder of the test is in a folder that is the user's in a guest.
        let error = mount_point(&storage, path.to_str().unwrap(), true).unwrap_err();
        assert_eq!(
            error.code,
            voidbox_protocol::body::ErrorCode::NotAllowed,
            "{error}"
        );
        assert!(error.to_string().contains("is a link"), "{error}");
        assert!(!Path::new("/etc/new").exists());
    }

    #[test]
    fn nothing_is_mounted_on_credentials() {
        let storage = Storage {
            scratch: "/".into(),
            layer: None,
        };
        let error = mount_point(&storage, "/run/credentials", true).unwrap_err();
        assert!(error.to_string().contains("guest's system"), "{error}");
    }
}
