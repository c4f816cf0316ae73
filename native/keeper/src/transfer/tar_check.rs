//! Reads a hostile tar entry by entry: only regular files, folders and links that stay inside. Headers, names and
//! counts are limited before anything is kept.

use std::collections::HashSet;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use tar::{Archive, EntryType};

const MAX_ENTRIES: u64 = 1_000_000;
const MAX_PATH_BYTES: usize = 4096;
const MAX_NAME_BYTES: usize = 255;
/// The limit of a PAX or GNU header with a long name.
const MAX_EXTENSION_BYTES: u64 = 64 << 10;
/// The limit for names of links, which are kept to prevent writing through them.
const MAX_LINK_NAMES_BYTES: usize = 16 << 20;

#[derive(Debug, thiserror::Error)]
pub enum TarError {
    #[error("the tar: {0}")]
    Io(#[from] io::Error),
    #[error("{path:?} is a {kind}, only regular files, folders and links are allowed")]
    Kind { path: PathBuf, kind: String },
    #[error("the path {0:?} does not stay inside")]
    Path(PathBuf),
    #[error("the link {path:?} -> {target:?} does not stay inside")]
    Link { path: PathBuf, target: PathBuf },
    #[error("{0:?} is below a link")]
    BehindLink(PathBuf),
    #[error("more than {0}")]
    Limit(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    Dir,
    File { size: u64 },
    Link { target: PathBuf },
}

/// One checked entry. `path` is relative, without `.` or `..`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub path: PathBuf,
    pub kind: Kind,
    /// Permission bits; never setuid, setgid or sticky.
    pub mode: u32,
    pub modified_s: u64,
}

/// Long names, which are in separate entries before the entry that they belong to.
#[derive(Default)]
struct Extension {
    path: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    size: Option<u64>,
}

/// Calls `visit` for every entry, with a reader of a file's contents.
pub fn read_checked(
    reader: impl Read,
    max_bytes: u64,
    mut visit: impl FnMut(&Entry, &mut dyn Read) -> Result<(), TarError>,
) -> Result<(), TarError> {
    let mut archive = Archive::new(reader);
    let (mut entries, mut bytes) = (0u64, 0u64);
    let mut extension = Extension::default();
    let mut links = Links::default();
    for raw in archive.entries()?.raw(true) {
        let mut raw = raw?;
        let kind = raw.header().entry_type();
        if read_extension(kind, &mut raw, &mut extension)? {
            continue;
        }
        let taken = std::mem::take(&mut extension);
        if taken
            .size
            .is_some_and(|size| raw.header().entry_size().ok() != Some(size))
        {
            return Err(TarError::Limit("8 GiB in one file".into()));
        }
        let Some(entry) = check_entry(raw.header(), taken)? else {
            continue;
        };
        entries += 1;
        if entries > MAX_ENTRIES {
            return Err(TarError::Limit(format!("{MAX_ENTRIES} entries")));
        }
        if let Kind::File { size } = entry.kind {
            bytes = bytes.saturating_add(size);
            if bytes > max_bytes {
                return Err(TarError::Limit(format!("{max_bytes} bytes")));
            }
        }
        links.check(&entry)?;
        visit(&entry, &mut raw)?;
    }
    Ok(())
}

/// Reads an entry that only contains names of the next one; returns false for any other entry.
fn read_extension(
    kind: EntryType,
    raw: &mut impl Read,
    extension: &mut Extension,
) -> Result<bool, TarError> {
    if !matches!(
        kind,
        EntryType::GNULongName
            | EntryType::GNULongLink
            | EntryType::XHeader
            | EntryType::XGlobalHeader
    ) {
        return Ok(false);
    }
    let mut bytes = Vec::new();
    raw.take(MAX_EXTENSION_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_EXTENSION_BYTES {
        return Err(TarError::Limit(format!(
            "{MAX_EXTENSION_BYTES} bytes of names"
        )));
    }
    match kind {
        EntryType::GNULongName => extension.path = Some(until_nul(&bytes)),
        EntryType::GNULongLink => extension.link = Some(until_nul(&bytes)),
        EntryType::XHeader => {
            for record in tar::PaxExtensions::new(&bytes) {
                let record = record?;
                match record.key_bytes() {
                    b"path" => extension.path = Some(record.value_bytes().to_vec()),
                    b"linkpath" => extension.link = Some(record.value_bytes().to_vec()),
                    b"size" => {
                        extension.size = record.value().ok().and_then(|size| size.parse().ok())
                    }
                    _ => {}
                }
            }
        }
        _ => {}
    }
    Ok(true)
}

fn until_nul(bytes: &[u8]) -> Vec<u8> {
    bytes
        .split(|byte| *byte == 0)
        .next()
        .unwrap_or_default()
        .to_vec()
}

fn to_path(bytes: &[u8]) -> PathBuf {
    PathBuf::from(std::ffi::OsStr::from_bytes(bytes))
}

/// Checks an entry; returns `None` for the root itself.
fn check_entry(header: &tar::Header, extension: Extension) -> Result<Option<Entry>, TarError> {
    let named = extension
        .path
        .unwrap_or_else(|| header.path_bytes().into_owned());
    let named = to_path(&named);
    let Some(path) = clean_path(&named)? else {
        return Ok(None);
    };
    let kind = match header.entry_type() {
        EntryType::Directory => Kind::Dir,
        EntryType::Regular | EntryType::Continuous => Kind::File {
            size: header.entry_size()?,
        },
        EntryType::Symlink => {
            let target = extension
                .link
                .or_else(|| header.link_name_bytes().map(|name| name.into_owned()));
            let target = to_path(&target.unwrap_or_default());
            if !link_stays_inside(&path, &target) {
                return Err(TarError::Link { path, target });
            }
            Kind::Link { target }
        }
        other => {
            let kind = match other {
                EntryType::Link => "hard link".to_owned(),
                EntryType::Char | EntryType::Block => "device".into(),
                EntryType::Fifo => "pipe".into(),
                _ => format!("entry of type {:?}", char::from(other.as_byte())),
            };
            return Err(TarError::Kind { path, kind });
        }
    };
    Ok(Some(Entry {
        path,
        kind,
        mode: header.mode()? & 0o777,
        modified_s: header.mtime().unwrap_or(0),
    }))
}

/// Returns the path without `.`; `None` if nothing is left of it.
fn clean_path(named: &Path) -> Result<Option<PathBuf>, TarError> {
    let refuse = || TarError::Path(named.to_owned());
    let bytes = named.as_os_str().as_bytes();
    if bytes.is_empty() || bytes.len() > MAX_PATH_BYTES || bytes.contains(&0) {
        return Err(refuse());
    }
    let mut path = PathBuf::new();
    for component in named.components() {
        match component {
            Component::CurDir => {}
            Component::Normal(name) if name.len() <= MAX_NAME_BYTES => path.push(name),
            _ => return Err(refuse()),
        }
    }
    Ok((!path.as_os_str().is_empty()).then_some(path))
}

/// Returns true for a relative target whose `..` are all at its front, and are not more than the folders above the
/// link. A `..` after a name could climb out of the target of another link.
fn link_stays_inside(path: &Path, target: &Path) -> bool {
    let bytes = target.as_os_str().as_bytes();
    if bytes.is_empty() || bytes.len() > MAX_PATH_BYTES || bytes.contains(&0) {
        return false;
    }
    let mut above = path.components().count().saturating_sub(1);
    let mut named = false;
    for component in target.components() {
        match component {
            Component::CurDir => {}
            Component::Normal(_) => named = true,
            Component::ParentDir if !named && above > 0 => above -= 1,
            _ => return false,
        }
    }
    true
}

/// The links so far. No later entry may be below a link, or replace it.
#[derive(Default)]
struct Links {
    paths: HashSet<PathBuf>,
    bytes: usize,
}

impl Links {
    fn check(&mut self, entry: &Entry) -> Result<(), TarError> {
        if !self.paths.is_empty()
            && entry
                .path
                .ancestors()
                .any(|above| self.paths.contains(above))
        {
            return Err(TarError::BehindLink(entry.path.clone()));
        }
        if matches!(entry.kind, Kind::Link { .. }) {
            self.bytes += entry.path.as_os_str().len();
            if self.bytes > MAX_LINK_NAMES_BYTES {
                return Err(TarError::Limit(format!(
                    "{MAX_LINK_NAMES_BYTES} bytes of link names"
                )));
            }
            self.paths.insert(entry.path.clone());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Made(tar::Builder<Vec<u8>>);

    impl Made {
        fn new() -> Self {
            Self(tar::Builder::new(Vec::new()))
        }

        /// Writes names unchanged, even invalid ones.
        fn raw(mut self, kind: EntryType, path: &[u8], link: &[u8], data: &[u8]) -> Self {
            let mut header = tar::Header::new_ustar();
            header.set_entry_type(kind);
            header.set_mode(0o4755);
            header.set_size(data.len() as u64);
            let bytes = header.as_mut_bytes();
            bytes[..path.len()].copy_from_slice(path);
            bytes[157..157 + link.len()].copy_from_slice(link);
            header.set_cksum();
            self.0.append(&header, data).unwrap();
            self
        }

        fn read(self) -> Result<Vec<(Entry, Vec<u8>)>, TarError> {
            let bytes = self.0.into_inner().unwrap();
            let mut found = Vec::new();
            read_checked(bytes.as_slice(), 1 << 20, |entry, reader| {
                let mut data = Vec::new();
                reader.read_to_end(&mut data)?;
                found.push((entry.clone(), data));
                Ok(())
            })?;
            Ok(found)
        }
    }

    #[test]
    fn files_folders_and_inner_links_pass_without_setuid() {
        let found = Made::new()
            .raw(EntryType::Directory, b"./", b"", b"")
            .raw(EntryType::Directory, b"./a/", b"", b"")
            .raw(EntryType::Regular, b"a/f", b"", b"hello")
            .raw(EntryType::Symlink, b"a/up", b"../a/f", b"")
            .read()
            .unwrap();
        let paths: Vec<_> = found
            .iter()
            .map(|(entry, _)| entry.path.to_str().unwrap())
            .collect();
        assert_eq!(paths, ["a", "a/f", "a/up"]);
        assert_eq!(found[1].0.mode, 0o755);
        assert_eq!(found[1].1, b"hello");
    }

    #[test]
    fn hostile_entries_are_refused() {
        let cases: [(EntryType, &[u8], &[u8]); 12] = [
            (EntryType::Regular, b"../evil", b""),
            (EntryType::Regular, b"a/../../evil", b""),
            (EntryType::Regular, b"/etc/passwd", b""),
            (EntryType::Symlink, b"l", b"/etc/shadow"),
            (EntryType::Symlink, b"l", b"../x"),
            (EntryType::Symlink, b"l", b"d/../../x"),
            (EntryType::Symlink, b"d/l", b"x/.."),
            (EntryType::Symlink, b"l", b""),
            (EntryType::Link, b"h", b"../x"),
            (EntryType::Fifo, b"p", b""),
            (EntryType::Char, b"c", b""),
            (EntryType::Block, b"b", b""),
        ];
        for (kind, path, link) in cases {
            let found = Made::new().raw(kind, path, link, b"").read();
            assert!(
                found.is_err(),
                "{kind:?} {path:?} -> {link:?} gave {found:?}"
            );
        }
    }

    #[test]
    fn nothing_goes_through_a_link() {
        let through = Made::new().raw(EntryType::Symlink, b"l", b"d", b"").raw(
            EntryType::Regular,
            b"l/f",
            b"",
            b"",
        );
        assert!(matches!(through.read(), Err(TarError::BehindLink(_))));
        let over = Made::new().raw(EntryType::Symlink, b"l", b"d", b"").raw(
            EntryType::Regular,
            b"l",
            b"",
            b"",
        );
        assert!(matches!(over.read(), Err(TarError::BehindLink(_))));
    }

    #[test]
    fn long_names_are_taken_and_endless_ones_are_not() {
        let mut builder = tar::Builder::new(Vec::new());
        let long = "d/".repeat(80) + "file";
        let mut header = tar::Header::new_gnu();
        header.set_size(1);
        header.set_mode(0o644);
        header.set_entry_type(EntryType::Regular);
        builder
            .append_data(&mut header, &long, b"x".as_slice())
            .unwrap();
        let found = Made(builder).read().unwrap();
        assert_eq!(found[0].0.path.to_str().unwrap(), long);

        let endless = Made::new().raw(EntryType::GNULongName, b"n", b"", &vec![b'a'; 70_000]);
        assert!(matches!(endless.read(), Err(TarError::Limit(_))));
    }

    #[test]
    fn bytes_are_bounded_before_they_are_read() {
        let mut header = tar::Header::new_ustar();
        header.set_path("f").unwrap();
        header.set_mode(0o644);
        header.set_size(1 << 40);
        header.set_entry_type(EntryType::Regular);
        header.set_cksum();
        let result = read_checked(header.as_bytes().as_slice(), 1 << 20, |_, _| {
            panic!("visited")
        });
        assert!(matches!(result, Err(TarError::Limit(_))));
    }
}
