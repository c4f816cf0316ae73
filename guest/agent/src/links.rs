//! Paths that root uses, on disks that an earlier VM wrote. Its users, or a guest that was taken over, may have left links
//! there, which root must not follow.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use crate::disks::Storage;

/// The kernel's own limit of links in one path.
const MAX_LINKS: usize = 40;

/// Returns the path without links. Links of the root image are followed; a link that was written to the scratch disk is
/// an error. The end of the path need not exist.
pub fn resolve(storage: &Storage, path: &Path) -> io::Result<PathBuf> {
    let scratch = std::fs::symlink_metadata(&storage.scratch)?.dev();
    let mut left = names(path);
    let mut real = PathBuf::from("/");
    let mut links = 0;
    while let Some(name) = left.pop_front() {
        if name == ".." {
            real.pop();
            continue;
        }
        let next = real.join(&name);
        match std::fs::symlink_metadata(&next) {
            Ok(found) if found.is_symlink() => {
                links += 1;
                if links > MAX_LINKS || found.dev() == scratch || is_changed(storage, &next) {
                    let message = format!("{}: is a link on the scratch disk", next.display());
                    return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
                }
                let target = std::fs::read_link(&next)?;
                if target.is_absolute() {
                    real = PathBuf::from("/");
                }
                for name in names(&target).into_iter().rev() {
                    left.push_front(name);
                }
            }
            _ => real = next,
        }
    }
    Ok(real)
}

/// Returns true if the path is in the layer over the root image, and not from the image itself.
fn is_changed(storage: &Storage, path: &Path) -> bool {
    let inside = path.strip_prefix("/").unwrap_or(path);
    let layer = storage.layer.as_deref();
    layer.is_some_and(|layer| layer.join(inside).symlink_metadata().is_ok())
}

fn names(path: &Path) -> VecDeque<OsString> {
    path.components()
        .filter_map(|part| match part {
            Component::Normal(name) => Some(name.to_owned()),
            Component::ParentDir => Some("..".into()),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_of_the_image_are_followed_and_links_of_the_disk_are_refused() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let image = root.join("image");
        fs::create_dir_all(image.join("real/deep")).unwrap();
        symlink("real", image.join("relative")).unwrap();
        symlink(image.join("real"), image.join("absolute")).unwrap();
        symlink("loop", image.join("loop")).unwrap();
        symlink("../image/real", image.join("up")).unwrap();
        let layer = root.join("layer");
        // No file system has this number, so no link counts as one of the scratch disk.
        let storage = Storage {
            scratch: "/proc".into(),
            layer: Some(layer.clone()),
        };
        for link in ["relative", "absolute", "up"] {
            let path = image.join(link).join("deep/none/file");
            assert_eq!(
                resolve(&storage, &path).unwrap(),
                image.join("real/deep/none/file"),
                "{link}"
            );
        }
        assert!(resolve(&storage, &image.join("loop")).is_err());

        let changed = layer.join(image.strip_prefix("/").unwrap());
        fs::create_dir_all(&changed).unwrap();
        symlink("real", changed.join("relative")).unwrap();
        let error = resolve(&storage, &image.join("relative/deep")).unwrap_err();
        assert!(error.to_string().contains("relative: is a link"), "{error}");

        let on_disk = Storage {
            scratch: root.clone(),
            layer: None,
        };
        let error = resolve(&on_disk, &image.join("absolute")).unwrap_err();
        assert!(error.to_string().contains("absolute: is a link"), "{error}");
        assert_eq!(
            resolve(&on_disk, &image.join("real/x")).unwrap(),
            image.join("real/x")
        );
    }
}
