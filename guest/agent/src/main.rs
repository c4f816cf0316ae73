//! The guest agent. As PID 1, it boots the guest and serves its keeper over virtio-serial or vsock. For tests it runs as
//! a plain process: with `--socket PATH` it serves the process that listens there, with `--fd N` the process at the
//! other end of that socket. Either may come with a file as its mailbox.

mod block_cache;
mod boot;
mod cgroup;
mod chunk;
mod clock;
mod configure;
mod disk_freeze;
mod disks;
mod door;
mod exec;
mod failure;
mod files;
mod guest;
mod hex;
mod links;
mod lock;
mod log;
mod mailbox;
mod memory_guard;
mod outbox;
mod owner;
mod precedence;
mod procfs;
mod reaper;
mod request;
mod rest;
mod serve;
mod session;
mod stats;
mod tunnel;

use std::error::Error;
use std::fs::File;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::sync::Arc;

use voidbox_protocol::PROTOCOL_VERSION;
use voidbox_protocol::handshake::Hello;

use guest::{Guest, Role};
use mailbox::Mailbox;
use reaper::Reaper;
use session::End;

#[global_allocator]
static ALLOCATOR: block_cache::BlockCache = block_cache::BlockCache::new();

const USAGE: &str = "usage: voidbox-agent --socket PATH [--mailbox FILE] | --fd N [--mailbox-fd N] | --version (without arguments it is PID 1 of a guest)";

fn main() -> ExitCode {
    // The signal is blocked before the first thread starts, so that every thread inherits this.
    reaper::block_sigchld();
    log::catch_panics();
    if std::process::id() == 1 {
        serve_as_init();
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--version"] => {
            println!("voidbox-agent {}", env!("CARGO_PKG_VERSION"));
            ExitCode::SUCCESS
        }
        ["--door", control, ref listeners @ ..] => door::helper::run(control, listeners),
        ["--socket", path] => serve_process(UnixStream::connect(path), None),
        ["--socket", path, "--mailbox", file] => {
            serve_process(UnixStream::connect(path), Some(open_mailbox(file)))
        }
        ["--fd", number] => serve_process(inherited(number).map(UnixStream::from), None),
        ["--fd", number, "--mailbox-fd", mailbox] => serve_process(
            inherited(number).map(UnixStream::from),
            Some(inherited(mailbox).map(File::from)),
        ),
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn hello() -> Hello {
    let since_boot = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let boot_ms = since_boot.tv_sec * 1000 + since_boot.tv_nsec / 1_000_000;
    Hello {
        protocol: PROTOCOL_VERSION,
        agent: env!("CARGO_PKG_VERSION").into(),
        boot_ms: u64::try_from(boot_ms).unwrap_or(0),
    }
}

/// Runs as PID 1: one session, and another one after each rest, then the guest's end. A keeper that lost its guest
/// never reconnects to it.
fn serve_as_init() -> ! {
    match init() {
        Ok(guest) => {
            if let Some(cgroup) = &guest.cgroup {
                cgroup.kill_all();
            }
            let storage = match &guest.role {
                Role::Init(storage) => Some(storage),
                Role::Process => None,
            };
            boot::restart(storage)
        }
        Err(error) => {
            log::line(&format!("the guest can't start: {error}"));
            boot::restart(None)
        }
    }
}

fn init() -> Result<Arc<Guest>, Box<dyn Error>> {
    let booted = boot::boot()?;
    let reaper = Reaper::start()?;
    let role = Role::Init(booted.storage);
    let guest = Arc::new(Guest::new(role, reaper, Some(booted.cgroup)));
    *lock::lock(&guest.made_folders) = booted.made_folders;
    memory_guard::start(&guest);
    let (mut port, mut mailbox) = (booted.port, booted.mailbox);
    loop {
        let writer = port.try_clone()?;
        match session::run(&guest, &port, writer, &hello(), mailbox) {
            Ok(End::Rest) => (port, mailbox) = boot::wake(port, booted.transport)?,
            Ok(end) => {
                log::line(&format!("the session ended: {end:?}"));
                return Ok(guest);
            }
            Err(error) => {
                log::line(&format!("the session ended: {error}"));
                return Ok(guest);
            }
        }
    }
}

fn serve_process(socket: io::Result<UnixStream>, mailbox: Option<io::Result<File>>) -> ExitCode {
    let opened = socket.and_then(|socket| Ok((socket, mailbox.transpose()?.map(Mailbox::new))));
    let served = opened
        .map_err(Into::into)
        .and_then(|(socket, mailbox)| serve_socket(socket, mailbox));
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            log::line(&format!("the session ended: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn open_mailbox(path: &str) -> io::Result<File> {
    File::options().read(true).write(true).open(path)
}

/// Takes the descriptor with that number, which this process inherited.
fn inherited(number: &str) -> io::Result<OwnedFd> {
    let invalid = || io::Error::new(io::ErrorKind::InvalidInput, format!("--fd {number}"));
    let fd: i32 = number.parse().map_err(|_| invalid())?;
    // SAFETY: a plain call, which fails if the descriptor is not open. No other value owns it.
    unsafe {
        if fd < 3 || libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) == -1 {
            return Err(invalid());
        }
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

fn serve_socket(socket: UnixStream, mailbox: Option<Mailbox>) -> Result<(), Box<dyn Error>> {
    // Orphans of execs become children of this process instead of the machine's own init.
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    let reaper = Reaper::start()?;
    let writer = socket.try_clone()?;
    let guest = Arc::new(Guest::new(Role::Process, reaper, None));
    let mut end = session::run(&guest, &socket, writer, &hello(), mailbox)?;
    while end == End::Rest {
        // The machine's clock and its random numbers are not this process's own.
        boot::read_start(&socket)?;
        let writer = socket.try_clone()?;
        end = session::run(&guest, &socket, writer, &hello(), None)?;
    }
    Ok(())
}
