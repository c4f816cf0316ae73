//! `voidbox-folders --fd N --root FOLDER`: serves the folder over the inherited stream socket N until that ends.

use std::os::fd::FromRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;

/// The limit of files that the guest has open or knows, each of which is a descriptor here.
const MAX_FILES: libc::rlim_t = 16_384;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (fd, root) = match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--fd", fd, "--root", root] => (fd.parse::<i32>(), root),
        _ => {
            eprintln!("usage: voidbox-folders --fd N --root FOLDER");
            return ExitCode::from(2);
        }
    };
    let Some(fd) = fd.ok().filter(|fd| *fd > 2) else {
        eprintln!("voidbox-folders: --fd is not the number of an inherited socket");
        return ExitCode::from(2);
    };
    limit_files();
    // SAFETY: the process that started this one passes the descriptor, and no other value owns it.
    let socket = unsafe { UnixStream::from_raw_fd(fd) };
    match voidbox_folders::serve(socket, Path::new(root)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("voidbox-folders: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Sets the limit, or keeps a lower one of the host.
fn limit_files() {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: plain calls on a value that outlives them. A failure keeps the limit of the host.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0 {
            limit.rlim_max = limit.rlim_max.min(MAX_FILES);
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        }
    }
}
