//! The host: its files, processes, networks, names and descriptors.

use std::fs;
use std::io::ErrorKind;
use std::net::TcpStream;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};

use super::expect_errno;

pub fn finds_no_file(_: &[String]) -> Result<(), String> {
    for path in [
        "/etc/passwd",
        "/proc/self/status",
        "/proc",
        "/dev/null",
        "/sys",
        "/bin/sh",
        "/tmp",
        "../etc",
        "../../usr",
    ] {
        match fs::File::open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            other => return Err(format!("{path}: {other:?}")),
        }
    }
    for folder in ["/", ".", ".."] {
        let entries = fs::read_dir(folder).map_err(|error| error.to_string())?;
        let names: Vec<_> = entries
            .map(|entry| entry.map(|it| it.file_name()))
            .collect();
        if !names.is_empty() {
            return Err(format!("{folder} contains {names:?}"));
        }
    }
    match fs::write("/new", "x") {
        Err(error)
            if [ErrorKind::ReadOnlyFilesystem, ErrorKind::PermissionDenied]
                .contains(&error.kind()) =>
        {
            Ok(())
        }
        other => Err(format!("writing a file: {other:?}")),
    }
}

pub fn finds_no_process(_: &[String]) -> Result<(), String> {
    // SAFETY: plain calls.
    let (own, parent) = unsafe { (libc::getpid(), libc::getppid()) };
    if (own, parent) != (2, 1) {
        return Err(format!("it is process {own} of {parent}"));
    }
    for pid in 3..40_000 {
        // SAFETY: a plain call without a signal.
        let result = unsafe { libc::kill(pid, 0) };
        expect_errno(&format!("a signal to {pid}"), result.into(), &[libc::ESRCH])?;
    }
    // PID 1 of a namespace gets no signal of its own processes that it does not handle.
    // SAFETY: plain calls.
    unsafe {
        libc::kill(1, libc::SIGKILL);
        libc::kill(1, libc::SIGTERM);
        let attached = libc::ptrace(libc::PTRACE_ATTACH, 1, 0, 0);
        expect_errno("attaching to PID 1", attached, &[libc::EPERM])
    }
}

/// The arguments are a TCP address and an abstract name on which the host listens.
pub fn reaches_no_network(args: &[String]) -> Result<(), String> {
    if let Ok(found) = TcpStream::connect(&args[0]) {
        return Err(format!("a connection to {found:?}"));
    }
    let name = SocketAddr::from_abstract_name(&args[1]).map_err(|error| error.to_string())?;
    match UnixStream::connect_addr(&name) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
        other => return Err(format!("a connection to an abstract socket: {other:?}")),
    }
    // SAFETY: the structure is zeroed plain data, and the pointer lives across the calls.
    unsafe {
        let socket = libc::socket(libc::AF_INET, libc::SOCK_DGRAM, 0);
        let mut request: libc::ifreq = std::mem::zeroed();
        for (index, byte) in b"lo".iter().enumerate() {
            request.ifr_name[index] = i8::from_ne_bytes([*byte]);
        }
        request.ifr_ifru.ifru_flags = i16::try_from(libc::IFF_UP).expect("a small flag");
        let raised = libc::ioctl(socket, libc::SIOCSIFFLAGS, &raw const request);
        expect_errno("raising a network interface", raised.into(), &[libc::EPERM])
    }
}

/// The argument is the host's name.
pub fn has_own_names(args: &[String]) -> Result<(), String> {
    let name = rustix::system::uname();
    let name = name.nodename().to_string_lossy();
    if name != "vm" || name == args[0] {
        return Err(format!("the host name is {name}"));
    }
    // SAFETY: the pointer is a string of this length.
    let renamed = unsafe { libc::sethostname(c"x".as_ptr(), 1) };
    expect_errno("changing the host name", renamed.into(), &[libc::EPERM])
}

/// The last argument is the kept descriptor.
pub fn has_only_kept_descriptors(args: &[String]) -> Result<(), String> {
    let kept: i32 = args
        .last()
        .and_then(|fd| fd.parse().ok())
        .ok_or("no descriptor")?;
    let open: Vec<i32> = (0..4096)
        // SAFETY: a plain call.
        .filter(|fd| unsafe { libc::fcntl(*fd, libc::F_GETFD) } != -1)
        .collect();
    if open != [0, 1, 2, kept] {
        return Err(format!("{open:?} are open, and {kept} is kept"));
    }
    let mut byte = [0_u8; 1];
    // SAFETY: the buffer has one byte.
    let count = unsafe { libc::read(0, byte.as_mut_ptr().cast(), 1) };
    match count {
        0 => Ok(()),
        _ => Err(format!("standard input has {count} bytes")),
    }
}

/// Says that it runs, and sleeps until it is ended.
pub fn sleeps(_: &[String]) -> Result<(), String> {
    println!("asleep");
    std::thread::sleep(std::time::Duration::from_secs(600));
    Err("it was not ended".into())
}
