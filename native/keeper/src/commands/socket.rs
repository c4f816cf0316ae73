//! A connection to the keeper of a run directory.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

use crate::run_dir::{RunDir, SOCKET};

/// Connects through the directory's descriptor, because a socket's path may have only 107 bytes.
pub(super) fn connect(dir: &RunDir) -> io::Result<UnixStream> {
    let folder = File::open(dir.path())?;
    UnixStream::connect(format!("/proc/self/fd/{}/{SOCKET}", folder.as_raw_fd()))
}
