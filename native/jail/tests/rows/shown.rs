//! The rows about files of the host that a jail shows.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

use super::{Caller, Network, callers, run_probe};

/// A folder to show, with a secret beside it, and the file in it. Every user may read all of them.
struct Host {
    folder: PathBuf,
    shown: String,
    file: String,
}

impl Host {
    fn new() -> Self {
        let folder = std::env::temp_dir().join(format!("voidbox-shown-{}", std::process::id()));
        let shown = folder.join("shared");
        fs::create_dir_all(shown.join("inner")).unwrap();
        fs::write(folder.join("secret"), "secret").unwrap();
        fs::write(shown.join("inner/file"), "content").unwrap();
        // Only that the jail shows it read-only prevents writing.
        fs::set_permissions(shown.join("inner/file"), fs::Permissions::from_mode(0o666)).unwrap();
        symlink("../secret", shown.join("link")).unwrap();
        for path in [&folder, &shown, &shown.join("inner")] {
            // An ordinary user moves the folder away.
            fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
        }
        let text = |path: PathBuf| path.into_os_string().into_string().unwrap();
        Self {
            file: text(shown.join("inner/file")),
            shown: text(shown),
            folder,
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // The folder lies in the folder of temporary files.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Looks around in a jail that shows the host's folder and file.
fn look_around(caller: Caller, host: &Host, away: &str) {
    let network = Network::new();
    let (address, name) = (network.address(), network.name.as_str());
    let words = ["shown", &host.shown, &host.file, away, &address, name];
    let output = run_probe(caller, &words);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{caller:?}: {said}");
}

pub fn only_what_is_shown_is_visible() {
    let host = Host::new();
    for caller in callers() {
        look_around(*caller, &host, "-");
    }
}

pub fn a_folder_that_moves_is_shown() {
    for caller in callers() {
        let host = Host::new();
        let away = host.folder.join("away");
        look_around(*caller, &host, away.to_str().unwrap());
    }
}
