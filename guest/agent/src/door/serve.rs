//! The listeners for programs, and the helper that accepts their connections.

use std::io;
use std::net::{SocketAddr, SocketAddrV4, TcpListener};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::Signal;
use voidbox_protocol::body::Door;

use super::addresses::{MAX_SERVICES, PROXY, service_address};
use super::connection::{STACK_BYTES, serve_helper};
use super::hosts;
use crate::exec::{CLOSE_ON_EXEC_FROM, drop_bounding_set};
use crate::failure::Failure;
use crate::guest::{Guest, Role};
use crate::lock::lock;
use crate::log;
use crate::owner::Owner;
use crate::reaper::{Leader, Reaper};
use crate::tunnel::Tunnels;

/// The helper's own user, which owns nothing.
const HELPER_USER: Owner = Owner { uid: 990, gid: 990 };
/// The number of times that an ended helper is replaced, and the pause before.
const MAX_HELPERS: u32 = 100;
const HELPER_PAUSE: Duration = Duration::from_millis(200);

/// The door of one session.
pub struct OpenDoor {
    is_closed: Arc<AtomicBool>,
    /// The helper that was started last.
    leader: Arc<Mutex<Arc<Leader>>>,
    reaper: Reaper,
    keeping: JoinHandle<()>,
    is_init: bool,
}

impl OpenDoor {
    /// Ends the helper. The addresses of the listeners are free when this returns.
    pub fn close(self) {
        // A helper that starts after this is ended by the thread that starts it.
        self.is_closed.store(true, Ordering::SeqCst);
        self.reaper.signal_group(&lock(&self.leader), Signal::KILL);
        if self.keeping.join().is_err() {
            log::line("the thread of the door has a bug; its message is above");
        }
        if self.is_init
            && let Err(error) = hosts::write_names(&[])
        {
            log::line(&format!("writing /etc/hosts: {error}"));
        }
    }
}

/// Opens the door to programs of the guest.
pub fn open(guest: &Guest, tunnels: &Arc<Tunnels>, door: &Door) -> Result<OpenDoor, Failure> {
    let is_init = matches!(guest.role, Role::Init(_));
    if door.services.len() > MAX_SERVICES {
        return Err(Failure::bad_request(format!(
            "{} services, at most {MAX_SERVICES}",
            door.services.len()
        )));
    }
    let (listeners, proxy) = listeners(door, is_init)?;
    guest.set_variables(hosts::variables(proxy, &door.services));
    if is_init {
        hosts::write_names(&door.services)
            .map_err(|error| Failure::io("writing /etc/hosts", error))?;
    }
    let first = spawn_helper(&guest.reaper, is_init, &listeners)
        .map_err(|error| Failure::io("starting the door's helper", error))?;
    let is_closed = Arc::new(AtomicBool::new(false));
    let leader = Arc::new(Mutex::new(first.leader.clone()));
    let keeping = {
        let (reaper, tunnels) = (guest.reaper.clone(), tunnels.clone());
        let (is_closed, leader) = (is_closed.clone(), leader.clone());
        let keep = move || {
            let is_closed = || is_closed.load(Ordering::SeqCst);
            let spawn = || spawn_helper(&reaper, is_init, &listeners);
            keep_helpers(first, HELPER_PAUSE, is_closed, spawn, |helper| {
                *lock(&leader) = helper.leader.clone();
                if !is_closed() {
                    serve_helper(&tunnels, &helper.control);
                }
                // A helper that sent a malformed message would otherwise still accept connections.
                reaper.signal_group(&helper.leader, Signal::KILL);
                // The control socket ends before the helper has closed its listeners.
                let _ = helper.has_ended.recv();
            });
        };
        thread::Builder::new()
            .name("door".into())
            .stack_size(STACK_BYTES)
            .spawn(keep)
            .map_err(|error| Failure::io("starting the door", error))?
    };
    Ok(OpenDoor {
        is_closed,
        leader,
        reaper: guest.reaper.clone(),
        keeping,
        is_init,
    })
}

/// Runs one helper after the other, until the door is closed, or too many have ended or failed to start.
fn keep_helpers<Helper>(
    first: Helper,
    pause: Duration,
    is_closed: impl Fn() -> bool,
    mut spawn: impl FnMut() -> io::Result<Helper>,
    mut serve: impl FnMut(&Helper),
) {
    serve(&first);
    drop(first);
    for _ in 0..MAX_HELPERS {
        if is_closed() {
            return;
        }
        log::line("the door's helper ended, and starts again");
        thread::sleep(pause);
        match spawn() {
            Ok(helper) => serve(&helper),
            Err(error) => log::line(&format!("starting the door's helper: {error}")),
        }
    }
    log::line(&format!(
        "the door's helper was replaced {MAX_HELPERS} times: programs of this guest can no longer connect to anything"
    ));
}

type Listeners = Vec<(String, TcpListener)>;

/// Returns the listeners with their names for the helper, and the proxy's address. A name is `-` for the proxy,
/// otherwise a service. Root binds them, because a service may use a port that users cannot bind.
fn listeners(door: &Door, is_init: bool) -> Result<(Listeners, Option<SocketAddr>), Failure> {
    let mut listeners = Vec::new();
    let mut listen = |name: &str, at: SocketAddrV4| {
        let bound = TcpListener::bind(at)
            .and_then(|listener| Ok((listener.local_addr()?, listener)))
            .map_err(|error| Failure::io(format!("listening on {at}"), error));
        let (address, listener) = bound?;
        listeners.push((name.to_owned(), listener));
        Ok(address)
    };
    let mut proxy = None;
    if door.proxy {
        // A process under test shares the loopback with other processes of its machine.
        let port = if is_init { PROXY.port() } else { 0 };
        proxy = Some(listen("-", SocketAddrV4::new(*PROXY.ip(), port))?);
    }
    for (index, service) in door.services.iter().enumerate() {
        listen(
            &service.name,
            SocketAddrV4::new(service_address(index), service.port),
        )?;
    }
    Ok((listeners, proxy))
}

struct Helper {
    /// This process's end of the control socket.
    control: OwnedFd,
    leader: Arc<Leader>,
    has_ended: Receiver<()>,
}

fn spawn_helper(
    reaper: &Reaper,
    is_init: bool,
    listeners: &[(String, TcpListener)],
) -> io::Result<Helper> {
    let (mine, theirs) = socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )?;
    let mut command = Command::new("/proc/self/exe");
    command
        .arg("--door")
        .arg(theirs.as_raw_fd().to_string())
        .args(
            listeners
                .iter()
                .map(|(name, listener)| format!("{}={name}", listener.as_raw_fd())),
        )
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    let kept: Vec<RawFd> = listeners
        .iter()
        .map(|(_, listener)| listener.as_raw_fd())
        .chain([theirs.as_raw_fd()])
        .collect();
    let user = is_init.then_some(HELPER_USER);
    // SAFETY: the closure makes system calls only: no allocation, no lock. The descriptors stay open
    // until the child has started.
    unsafe { command.pre_exec(move || become_helper(&kept, user)) };
    let (ended, has_ended) = channel();
    let (_child, leader) = reaper.spawn(&mut command, move || {
        let _ = ended.send(());
    })?;
    Ok(Helper {
        control: mine,
        leader,
        has_ended,
    })
}

/// Runs in the child between fork and exec.
fn become_helper(kept: &[RawFd], user: Option<Owner>) -> io::Result<()> {
    let check = |result: libc::c_long| match result < 0 {
        true => Err(io::Error::last_os_error()),
        false => Ok(()),
    };
    // SAFETY: the calls are async-signal-safe, and take only integers and null.
    unsafe {
        check(libc::setsid().into())?;
        let marked = libc::CLOSE_RANGE_CLOEXEC;
        check(libc::syscall(
            libc::SYS_close_range,
            CLOSE_ON_EXEC_FROM,
            u32::MAX,
            marked,
        ))?;
        for fd in kept {
            check(libc::fcntl(*fd, libc::F_SETFD, 0).into())?;
        }
        if let Some(Owner { uid, gid }) = user {
            let none: *const libc::gid_t = std::ptr::null();
            drop_bounding_set();
            check(libc::syscall(libc::SYS_setgroups, 0usize, none))?;
            check(libc::syscall(libc::SYS_setresgid, gid, gid, gid))?;
            check(libc::syscall(libc::SYS_setresuid, uid, uid, uid))?;
        }
        check(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_helper_that_ends_is_replaced_at_most_a_hundred_times() {
        let (mut spawned, mut served) = (1, Vec::new());
        let spawn = || {
            spawned += 1;
            match spawned % 10 {
                0 => Err(io::Error::other("no process")),
                _ => Ok(spawned),
            }
        };
        keep_helpers(
            1,
            Duration::ZERO,
            || false,
            spawn,
            |helper| served.push(*helper),
        );
        assert_eq!(spawned, 101);
        let expected: Vec<u32> = (1..=101).filter(|number| number % 10 != 0).collect();
        assert_eq!(served, expected);
    }
}
