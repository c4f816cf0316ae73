//! The helper process: accepts connections of programs and speaks HTTP with them.
//!
//! It runs as a user of its own without rights. It requests each connection from PID 1, and PID 1 requests it from the
//! keeper. So a program that takes over this process can only send requests.

mod asker;
mod authority;
mod body;
mod client;
mod forward;
mod head;
mod problem;
mod proxy;

use std::io::{self, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::{FromRawFd, OwnedFd};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use voidbox_protocol::body::Connect;

use super::socket::reset;
use crate::log;
use asker::{Asker, hand_over};
use problem::Problem;

/// The limit of programs' open connections; further ones are closed at once.
const MAX_CONNECTIONS: usize = 128;
const STACK_BYTES: usize = 128 << 10;

struct Listener {
    /// `None` means the proxy.
    service: Option<String>,
    socket: TcpListener,
}

/// Runs until PID 1 has ended. `listeners` are descriptors with names: `5=db`, and `-` for the proxy.
pub fn run(control: &str, listeners: &[&str]) -> ExitCode {
    let parsed = || -> Option<(OwnedFd, Vec<Listener>)> {
        let control = inherited(control)?;
        let listeners = listeners.iter().map(|text| {
            let (fd, name) = text.split_once('=')?;
            let socket = TcpListener::from(inherited(fd)?);
            socket.set_nonblocking(true).ok()?;
            let service = (name != "-").then(|| name.to_owned());
            Some(Listener { service, socket })
        });
        Some((control, listeners.collect::<Option<_>>()?))
    };
    let Some((control, listeners)) = parsed() else {
        eprintln!("--door is for the agent itself");
        return ExitCode::from(2);
    };
    let asker = Arc::new(Asker {
        control,
        open: AtomicUsize::new(0),
    });
    match accept_all(&asker, &listeners) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            log::line(&format!("the door's helper: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn inherited(number: &str) -> Option<OwnedFd> {
    let fd: i32 = number.parse().ok().filter(|fd| *fd >= 3)?;
    // SAFETY: a plain call, which fails if the descriptor is not open. No other value owns it.
    unsafe {
        if libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) == -1 {
            return None;
        }
        Some(OwnedFd::from_raw_fd(fd))
    }
}

fn accept_all(asker: &Arc<Asker>, listeners: &[Listener]) -> io::Result<()> {
    loop {
        let mut fds: Vec<PollFd<'_>> = listeners
            .iter()
            .map(|listener| PollFd::new(&listener.socket, PollFlags::IN))
            .collect();
        // PID 1 sends nothing on this socket, so a readable socket means its end.
        fds.push(PollFd::new(&asker.control, PollFlags::IN));
        match poll(&mut fds, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let mut ready = fds.iter().map(|fd| !fd.revents().is_empty());
        for listener in listeners {
            if ready.next() == Some(true) {
                accept(asker, listener);
            }
        }
        if ready.next() == Some(true) {
            return Ok(());
        }
    }
}

fn accept(asker: &Arc<Asker>, listener: &Listener) {
    let client = match listener.socket.accept() {
        Ok((client, _)) => client,
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
        Err(error) => {
            // The process has no free descriptors or memory: closing open connections frees some.
            log::line(&format!("the door's helper: accepting: {error}"));
            return thread::sleep(Duration::from_millis(50));
        }
    };
    if asker.open.load(Ordering::Acquire) >= MAX_CONNECTIONS {
        return turn_away(client, listener);
    }
    asker.open.fetch_add(1, Ordering::AcqRel);
    let (held, service) = (Held(asker.clone()), listener.service.clone());
    let started = thread::Builder::new()
        .stack_size(STACK_BYTES)
        .spawn(move || serve(&held.0, service, client));
    if let Err(error) = started {
        log::line(&format!("the door's helper: no thread: {error}"));
    }
}

/// Counts a connection while it is open.
struct Held(Arc<Asker>);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::AcqRel);
    }
}

fn turn_away(mut client: TcpStream, listener: &Listener) {
    if listener.service.is_some() {
        return reset(&client);
    }
    let problem = Problem::new(
        503,
        format!("{MAX_CONNECTIONS} connections are open, which is the limit of a guest"),
    );
    let _ = client.set_nonblocking(true);
    let _ = client.write(&problem.response());
    let _ = client.shutdown(Shutdown::Write);
}

fn serve(asker: &Asker, service: Option<String>, client: TcpStream) {
    let _ = client.set_nonblocking(false);
    let _ = client.set_nodelay(true);
    match service {
        None => proxy::serve(asker, client),
        Some(name) => match asker.ask(&Connect::Service { name }) {
            Ok(line) => {
                let _ = hand_over(line, client, &[]);
            }
            Err(_) => reset(&client),
        },
    }
}
