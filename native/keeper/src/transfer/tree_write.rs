//! A hostile tar onto the host: every name is resolved beneath one folder's descriptor and never
//! through a link.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, Mode, OFlags, ResolveFlags, mkdirat, openat2, renameat, symlinkat, unlinkat,
};
use rustix::io::Errno;

use crate::transfer::tar_check::{Counted, Entry, Kind, TarError, read_checked};

/// A file is written under this name in its folder and renamed when it is whole.
const PARTIAL: &str = ".voidbox-partial";

/// Writes a tar below `host_path`, or its one file to `host_path`. What is there already is
/// replaced name by name; nothing is removed.
pub fn write(
    reader: impl Read,
    host_path: &Path,
    is_file: bool,
    max_bytes: u64,
) -> Result<Counted, TarError> {
    let root_error = |source: io::Error| TarError::Write {
        what: "opening",
        path: host_path.to_owned(),
        source,
    };
    let (root, only) = match (is_file, host_path.parent(), host_path.file_name()) {
        (false, ..) => (host_path, None),
        (true, Some(parent), Some(name)) => (parent, Some(PathBuf::from(name))),
        (true, ..) => return Err(root_error(io::ErrorKind::InvalidInput.into())),
    };
    std::fs::create_dir_all(root).map_err(root_error)?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root =
        rustix::fs::open(root, flags, Mode::empty()).map_err(|error| root_error(error.into()))?;
    let tree = Tree { root };
    read_checked(reader, max_bytes, |entry, contents| match &only {
        None => tree.put(entry, contents),
        Some(name) => match entry.kind {
            Kind::File { .. } => tree.put(
                &Entry {
                    path: name.clone(),
                    ..entry.clone()
                },
                contents,
            ),
            _ => Err(TarError::Kind {
                path: entry.path.clone(),
                kind: "folder or link where one file was asked for".into(),
            }),
        },
    })
}

struct Tree {
    root: OwnedFd,
}

impl Tree {
    fn put(&self, entry: &Entry, contents: &mut dyn Read) -> Result<(), TarError> {
        let (Some(above), Some(name)) = (entry.path.parent(), entry.path.file_name()) else {
            return Err(TarError::Path(entry.path.clone()));
        };
        let name = Path::new(name);
        let mut done = match self.folder(above) {
            Ok(folder) => match &entry.kind {
                Kind::Dir => self.put_folder(&folder, name, entry.mode),
                Kind::File { .. } => return put_file(&folder, name, entry, contents),
                Kind::Link { target } => put_link(&folder, name, target),
            },
            Err(error) => Err(error),
        };
        if done
            .as_ref()
            .is_err_and(|error| error.raw_os_error() == Some(libc::ELOOP))
        {
            done = Err(io::Error::other("a link of the host stands in its way"));
        }
        done.map_err(|source| TarError::Write {
            what: "writing",
            path: entry.path.clone(),
            source,
        })
    }

    /// The folder at `path`, made with its parents where it is missing.
    fn folder(&self, path: &Path) -> io::Result<OwnedFd> {
        let mut folder = self.beneath(&self.root, Path::new("."))?;
        for name in path.components() {
            let name: &Path = name.as_ref();
            folder = match self.beneath(&folder, name) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    ignore_existing(mkdirat(&folder, name, Mode::from(0o755)))?;
                    self.beneath(&folder, name)?
                }
                other => other?,
            };
        }
        Ok(folder)
    }

    fn beneath(&self, folder: &OwnedFd, name: &Path) -> io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(openat2(folder, name, flags, Mode::empty(), RESOLVE)?)
    }

    fn put_folder(&self, folder: &OwnedFd, name: &Path, mode: u32) -> io::Result<()> {
        ignore_existing(mkdirat(folder, name, Mode::from(0o755)))?;
        let made = self.beneath(folder, name)?;
        // Its owner can always go on writing in it.
        Ok(rustix::fs::fchmod(&made, Mode::from(mode | 0o700))?)
    }
}

const RESOLVE: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS);

fn ignore_existing(result: Result<(), Errno>) -> io::Result<()> {
    match result {
        Err(Errno::EXIST) => Ok(()),
        other => Ok(other?),
    }
}

fn put_file(
    folder: &OwnedFd,
    name: &Path,
    entry: &Entry,
    contents: &mut dyn Read,
) -> Result<(), TarError> {
    let failed = |what: &'static str| {
        let path = entry.path.clone();
        move |source: io::Error| TarError::Write { what, path, source }
    };
    let create = || -> io::Result<File> {
        match unlinkat(folder, PARTIAL, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(File::from(openat2(
            folder,
            PARTIAL,
            flags,
            Mode::from(0o600),
            RESOLVE,
        )?))
    };
    let mut file = create().map_err(failed("making"))?;
    let mut buffer = [0u8; 64 << 10];
    loop {
        // What cannot be read is the guest's doing, what cannot be written the host's.
        let count = contents.read(&mut buffer)?;
        if count == 0 {
            break;
        }
        file.write_all(&buffer[..count])
            .map_err(failed("writing"))?;
    }
    let finish = || -> io::Result<()> {
        rustix::fs::fchmod(&file, Mode::from(entry.mode))?;
        Ok(renameat(folder, PARTIAL, folder, name)?)
    };
    finish().map_err(failed("placing"))
}

/// Makes a link, over a file or a link that is there.
fn put_link(folder: &OwnedFd, name: &Path, target: &Path) -> io::Result<()> {
    match unlinkat(folder, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(symlinkat(target, folder, name)?)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use super::*;
    use crate::run_dir::tests::TempDir;

    fn tar_of(entries: &[(tar::EntryType, &str, &str, u32)]) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        for (kind, path, text, mode) in entries {
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(*kind);
            header.set_mode(*mode);
            if *kind == tar::EntryType::Symlink {
                header.set_size(0);
                builder.append_link(&mut header, path, text).unwrap();
            } else {
                header.set_size(text.len() as u64);
                builder
                    .append_data(&mut header, path, text.as_bytes())
                    .unwrap();
            }
        }
        builder.into_inner().unwrap()
    }

    #[test]
    fn a_tree_is_written_without_setuid_and_replaces_names() {
        use tar::EntryType::{Directory, Regular, Symlink};
        let temp = TempDir::new("tree-write");
        fs::write(temp.0.join("f"), "old").unwrap();
        fs::write(temp.0.join("kept"), "kept").unwrap();
        let bytes = tar_of(&[
            (Regular, "f", "new", 0o6755),
            (Directory, "d/", "", 0o000),
            (Regular, "d/deep/g", "g", 0o644),
            (Symlink, "d/l", "../f", 0o777),
        ]);
        let counted = write(bytes.as_slice(), &temp.0, false, 1000).unwrap();
        assert_eq!(
            counted,
            Counted {
                entries: 4,
                bytes: 4
            }
        );
        assert_eq!(fs::read_to_string(temp.0.join("d/l")).unwrap(), "new");
        assert_eq!(
            fs::metadata(temp.0.join("f")).unwrap().mode() & 0o7777,
            0o755
        );
        assert_eq!(
            fs::metadata(temp.0.join("d")).unwrap().permissions().mode() & 0o777,
            0o700
        );
        assert_eq!(fs::read_to_string(temp.0.join("kept")).unwrap(), "kept");
    }

    #[test]
    fn a_link_of_the_host_is_replaced_or_refused_but_never_followed() {
        use tar::EntryType::Regular;
        let (temp, outside) = (TempDir::new("tree-link"), TempDir::new("tree-outside"));
        fs::write(outside.0.join("f"), "safe").unwrap();
        symlink(outside.0.join("f"), temp.0.join("f")).unwrap();
        symlink(&outside.0, temp.0.join("d")).unwrap();
        write(
            tar_of(&[(Regular, "f", "guest", 0o644)]).as_slice(),
            &temp.0,
            false,
            1000,
        )
        .unwrap();
        assert_eq!(fs::read_to_string(outside.0.join("f")).unwrap(), "safe");
        assert!(!temp.0.join("f").is_symlink());
        let through = write(
            tar_of(&[(Regular, "d/g", "guest", 0o644)]).as_slice(),
            &temp.0,
            false,
            1000,
        );
        assert!(
            matches!(through, Err(TarError::Write { .. })),
            "{through:?}"
        );
        assert!(!outside.0.join("g").exists());
    }

    #[test]
    fn one_file_goes_to_the_path_that_was_asked_for() {
        use tar::EntryType::{Directory, Regular};
        let temp = TempDir::new("tree-file");
        let target = temp.0.join("out.json");
        write(
            tar_of(&[(Regular, "output.json", "{}", 0o644)]).as_slice(),
            &target,
            true,
            1000,
        )
        .unwrap();
        assert_eq!(fs::read_to_string(target).unwrap(), "{}");
        let folder = write(
            tar_of(&[(Directory, "d", "", 0o755)]).as_slice(),
            &temp.0.join("x"),
            true,
            1000,
        );
        assert!(folder.is_err());
    }
}
