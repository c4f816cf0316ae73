//! Folders of the scratch disk outside the user's own. The disk also has the path of each, so that a VM that starts with
//! the disk of an earlier VM has the same folders.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};

use voidbox_protocol::system_folders::is_system_folder;

use super::mounts::{SAFE, USER_FOLDERS, bind, make_users};
use crate::disks::Storage;
use crate::links;

/// The limit of folders that are bound again.
const MAX_FOLDERS: usize = 1024;
/// The longest path that the kernel accepts, its terminator included.
const MAX_PATH_BYTES: u64 = 4096;

fn folder_of(storage: &Storage, number: usize) -> PathBuf {
    storage.scratch.join(format!("made-{number}"))
}

fn note_of(storage: &Storage, number: usize) -> PathBuf {
    storage.scratch.join(format!("made-{number}.path"))
}

/// Binds a folder of the scratch disk to a path, for the sandbox user.
pub fn bind_scratch_folder(storage: &Storage, number: usize, target: &Path) -> io::Result<()> {
    use std::os::unix::ffi::OsStrExt;
    let source = folder_of(storage, number);
    make_users(&source, 0o755)?;
    let mut note = OpenOptions::new()
        .create(true)
        .truncate(true)
        .write(true)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW)
        .open(note_of(storage, number))?;
    note.write_all(target.as_os_str().as_bytes())?;
    bind(&source, target, SAFE)
}

/// Binds the folders of an earlier VM, and returns their paths. They come from a disk that this VM did not write.
pub fn bind_again(storage: &Storage) -> io::Result<Vec<PathBuf>> {
    let mut bound = Vec::new();
    for number in 0..MAX_FOLDERS {
        let Some(path) = read_note(&note_of(storage, number))? else {
            break;
        };
        let problem = |why: String| {
            let message = format!("{}: {why}", path.display());
            io::Error::new(io::ErrorKind::InvalidData, message)
        };
        if !is_place_of_user(&path) {
            return Err(problem("is no place for a folder of the user".into()));
        }
        let target = links::resolve(storage, &path).map_err(|error| problem(error.to_string()))?;
        let source = folder_of(storage, number);
        make_users(&source, 0o755)
            .and_then(|()| bind(&source, &target, SAFE))
            .map_err(|error| problem(error.to_string()))?;
        bound.push(target);
    }
    Ok(bound)
}

/// Returns `None` if there is no such file.
fn read_note(path: &Path) -> io::Result<Option<PathBuf>> {
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path);
    let file: File = match opened {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    if !file.metadata()?.is_file() {
        let message = format!("{}: is not a file", path.display());
        return Err(io::Error::new(io::ErrorKind::InvalidData, message));
    }
    let mut text = String::new();
    file.take(MAX_PATH_BYTES).read_to_string(&mut text)?;
    Ok(Some(text.into()))
}

/// Returns true for a path where the agent itself would have made a folder.
fn is_place_of_user(path: &Path) -> bool {
    let mut parts = path.components();
    let begins_at_root = parts.next() == Some(Component::RootDir);
    let is_plain = parts
        .clone()
        .all(|part| matches!(part, Component::Normal(_)));
    let is_system = match parts.next() {
        Some(Component::Normal(first)) => first.to_str().is_none_or(is_system_folder),
        _ => true,
    };
    let is_users = USER_FOLDERS.iter().any(|folder| path.starts_with(folder));
    begins_at_root && is_plain && !is_system && !is_users && !path.to_string_lossy().contains('\0')
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_path_on_the_disk_is_never_a_system_folder_or_a_users_own() {
        for path in ["/srv", "/data/a", "/opt/x"] {
            assert!(is_place_of_user(Path::new(path)), "{path}");
        }
        for path in [
            "",
            "/",
            "srv",
            "/etc",
            "/etc/x",
            "/run/scratch",
            "/workspace/x",
            "/tmp",
            "/srv/../etc",
            "/proc/1",
            "/srv\0x",
        ] {
            assert!(!is_place_of_user(Path::new(path)), "{path:?}");
        }
    }

    #[test]
    fn a_note_is_a_short_file_and_never_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("note");
        assert_eq!(read_note(&path).unwrap(), None);
        fs::write(&path, "/srv/data").unwrap();
        assert_eq!(read_note(&path).unwrap(), Some("/srv/data".into()));
        fs::write(&path, "x".repeat(1 << 20)).unwrap();
        let long = read_note(&path).unwrap().unwrap();
        assert_eq!(long.as_os_str().len() as u64, MAX_PATH_BYTES);
        let link = folder.path().join("link");
        symlink(&path, &link).unwrap();
        assert!(read_note(&link).is_err());
        assert!(read_note(folder.path()).is_err());
    }
}
