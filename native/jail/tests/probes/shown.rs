//! A jail that shows a folder and a file of the host, and its own `/proc`.

use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io::ErrorKind;
use std::os::fd::{AsRawFd, IntoRawFd, RawFd};
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::path::Path;

use super::expect_errno;
use super::host::reaches_no_network;

/// Opens what the jail shows: a folder and a file in it. With a third path, the folder moves there once it is open, and
/// another one takes its place.
pub fn open(paths: &[String]) -> Vec<RawFd> {
    let place = |path: &String| {
        let mut options = OpenOptions::new();
        let opened = options.read(true).custom_flags(libc::O_PATH).open(path);
        opened.expect("it opens").into_raw_fd()
    };
    let opened = paths[..2].iter().map(place).collect();
    if let Some(away) = paths.get(2).filter(|away| *away != "-") {
        fs::rename(&paths[0], away).expect("it moves");
        fs::create_dir(&paths[0]).expect("another one");
    }
    opened
}

/// The probe of the network gets the arguments behind the paths.
pub fn sees_only_what_is_shown(args: &[String]) -> Result<(), String> {
    reaches_no_network(&args[3..])?;
    let shown = Path::new("/mounts/0");
    for (path, content) in [
        ("/mounts/0/inner/file", "content"),
        ("/mounts/1", "content"),
    ] {
        match fs::read_to_string(path) {
            Ok(text) if text == content => {}
            other => return Err(format!("{path}: {other:?}")),
        }
    }
    for (folder, expected) in [
        ("/", &["mounts", "proc"][..]),
        ("/mounts", &["0", "1"]),
        ("/mounts/0", &["inner", "link"]),
        ("/mounts/0/../..", &["mounts", "proc"]),
    ] {
        let names = names_of(folder)?;
        if names != expected {
            return Err(format!("{folder} has {names:?}"));
        }
    }
    // A link to a file beside the folder leads to nothing.
    for path in [
        "/mounts/0/link",
        "/mounts/secret",
        "/etc/passwd",
        "/mounts/0/../../etc",
    ] {
        match File::open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            other => return Err(format!("{path}: {other:?}")),
        }
    }
    writes_nothing(shown)?;
    sees_only_itself()
}

fn names_of(folder: &str) -> Result<Vec<String>, String> {
    let entries = fs::read_dir(folder).map_err(|error| format!("{folder}: {error}"))?;
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    Ok(names)
}

fn writes_nothing(shown: &Path) -> Result<(), String> {
    let file = shown.join("inner/file");
    let tried = [
        (
            "writing",
            OpenOptions::new().write(true).open(&file).map(drop),
        ),
        (
            "emptying",
            OpenOptions::new()
                .write(true)
                .truncate(true)
                .open(&file)
                .map(drop),
        ),
        ("making a file", fs::write(shown.join("new"), "x")),
        ("making a folder", fs::create_dir(shown.join("new"))),
        ("making a folder beside", fs::create_dir("/mounts/2")),
        ("making a link", symlink("x", shown.join("new"))),
        ("removing", fs::remove_file(&file)),
        ("renaming", fs::rename(&file, shown.join("new"))),
        ("a second name", fs::hard_link(&file, shown.join("new"))),
        (
            "a mode",
            fs::set_permissions(&file, fs::metadata(&file).unwrap().permissions()),
        ),
    ];
    for (what, result) in tried {
        match result {
            Err(error) if error.kind() == ErrorKind::ReadOnlyFilesystem => {}
            other => return Err(format!("{what}: {other:?}")),
        }
    }
    let path = CString::new("/mounts/0").unwrap();
    let flags = libc::MS_REMOUNT | libc::MS_BIND;
    // SAFETY: all pointers are strings or null.
    let remounted = unsafe {
        let none = std::ptr::null();
        libc::mount(none, path.as_ptr(), none, flags, none.cast())
    };
    expect_errno("a writable mount", remounted.into(), &[libc::EPERM])
}

/// `/proc` has this process only, and opens a file by its descriptor.
fn sees_only_itself() -> Result<(), String> {
    // SAFETY: a plain call.
    let own = unsafe { libc::getpid() }.to_string();
    let names = names_of("/proc")?;
    if names != [own.as_str(), "self", "thread-self"] {
        return Err(format!("/proc has {names:?}"));
    }
    for path in [
        "/proc/1/status",
        "/proc/sys",
        "/proc/kcore",
        "/proc/mounts/x",
        "/proc/sysrq-trigger",
    ] {
        if let Ok(found) = File::open(path) {
            return Err(format!("{path}: {found:?}"));
        }
    }
    let file = File::open("/mounts/1").map_err(|error| error.to_string())?;
    let again = format!("/proc/self/fd/{}", file.as_raw_fd());
    match File::open(&again) {
        Ok(_) => Ok(()),
        other => Err(format!("{again}: {other:?}")),
    }
}
