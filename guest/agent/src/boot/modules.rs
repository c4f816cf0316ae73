//! Loads kernel modules, for kernels that do not have all of them built in.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use rustix::io::Errno;
use rustix::system::finit_module;

use crate::log;

/// Loads the modules in a list, one path on each line, in order. Does nothing without a list. A module that fails is
/// only logged, because the step that needs it fails with its own error.
pub fn load_all(list: &Path) {
    let Ok(text) = fs::read_to_string(list) else {
        return;
    };
    let folder = list.parent().unwrap_or(Path::new("/"));
    for name in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let path = folder.join(name);
        if let Err(error) = load(&path) {
            log::line(&format!("module {name}: {error}"));
        }
        // Files of the initramfs are memory, and the kernel has its own copy of the module.
        let _ = fs::remove_file(path);
    }
}

fn load(path: &Path) -> io::Result<()> {
    let file = File::open(path)?;
    match finit_module(&file, c"", 0) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
