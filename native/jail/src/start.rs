//! Starts the processes of a jail, in the order in which each gives up its rights.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{OwnedFd, RawFd};

use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{DumpableBehavior, set_dumpable_behavior, setsid};
use rustix::system::sethostname;

use crate::error::Error;
use crate::limits::Limits;
use crate::program::Program;
use crate::root::Contents;
use crate::shown::Tree;
use crate::{capabilities, descriptors, lifeline, root, shown, users};

/// The host name inside.
const HOST_NAME: &[u8] = b"vm";
/// The exit code of a jail that could not be made: the host lacks something.
const NOT_MADE: i32 = 3;

/// The settings of a jail.
#[derive(Debug, Clone, Default)]
pub struct Jail {
    /// The id of the host for the confined process. Only root can give one; without it, the process has the caller's.
    pub uid: Option<u32>,
    /// The descriptors that the confined process has besides standard output and error. Their numbers stay. The caller
    /// gives them up.
    pub kept: Vec<RawFd>,
    /// Open folders and files of the host that the confined process sees read-only, as `/mounts/0` and so on. The
    /// descriptors themselves are not kept. Mounts in them are shown too.
    pub shown: Vec<RawFd>,
    /// Whether the jail has a `/proc`, which contains the confined process only.
    pub processes: bool,
    pub limits: Limits,
}

/// The side of the jail on which [`Jail::enter`] returns.
#[derive(Debug, PartialEq, Eq)]
pub enum Place {
    /// This process is confined. Its standard input is empty.
    Inside,
    /// This process is the caller, and the jail has ended with this exit code: that of the confined process, 128 and its
    /// number for a signal, 137 if the lifeline ended, 3 if the jail could not be made inside.
    Ended(i32),
}

/// A word between the processes: the users of the namespace are written.
type Ready = (File, File);

impl Jail {
    /// Makes the jail. It lives until its process or standard input of the caller ends. The confined process can become
    /// `program`.
    ///
    /// # Safety
    /// The process has one thread, because the jail's processes are made by `fork`.
    pub unsafe fn enter(&self, program: Option<&Program>) -> Result<Place, Error> {
        let ready = make_pipe()?;
        let outside = shown::copy_outside(&self.shown)?;
        // SAFETY: the caller vouches for one thread. Without a new stack, the call returns twice, as fork does.
        let lifeline = unsafe { clone(NAMESPACES)? };
        if lifeline == 0 {
            return match self.inside(ready, outside, program) {
                Ok(Lifeline::Ended(code)) => std::process::exit(code),
                Ok(Lifeline::Confined) => Ok(Place::Inside),
                Err(error) => give_up(&error),
            };
        }
        let mapped = users::write_maps(lifeline, self.uid);
        let (read, mut write) = ready;
        drop(read);
        if mapped.is_ok() {
            // If the other side has ended, its exit code has the reason.
            let _ = write.write_all(&[1]);
        }
        drop(write);
        // Only the confined process may have them, so that their other ends notice its end.
        descriptors::close(&self.kept);
        descriptors::close(&self.shown);
        drop(outside);
        let code = lifeline::exit_code(lifeline).map_err(Error::at("waiting for the jail"));
        mapped?;
        Ok(Place::Ended(code?))
    }

    /// The first process in the namespaces.
    fn inside(
        &self,
        (mut read, write): Ready,
        outside: Option<Vec<Tree>>,
        program: Option<&Program>,
    ) -> Result<Lifeline, Error> {
        drop(write);
        let mut word = [0];
        // Without the word, the caller has failed or ended.
        read.read_exact(&mut word)
            .map_err(Error::at("waiting for the users"))?;
        drop(read);
        users::become_caller()?;
        setsid().map_err(Error::of("starting a session"))?;
        sethostname(HOST_NAME).map_err(Error::of("setting the host name"))?;
        // After the change of the root, there is no file to open.
        let nothing = File::open("/dev/null").map_err(Error::at("opening /dev/null"))?;
        let shown = outside.map_or_else(|| shown::find(&self.shown), Ok)?;
        let processes = self.processes;
        root::enter(&Contents { shown, processes })?;
        descriptors::close(&self.shown);
        // The confined process may have the same user, and must not attach to the process that ends it. This precedes its
        // start, so that there is no moment in which it could.
        set_dumpable_behavior(DumpableBehavior::NotDumpable)
            .map_err(Error::of("guarding the lifeline"))?;
        // SAFETY: this process has one thread, as the caller of `enter` vouches.
        let confined = unsafe { libc::fork() };
        match confined {
            -1 => Err(Error::at("starting the process")(io::Error::last_os_error())),
            0 => self
                .confine(nothing.into(), program)
                .map(|()| Lifeline::Confined),
            _ => {
                drop(nothing);
                lifeline::watch(confined).map(Lifeline::Ended)
            }
        }
    }

    /// The last steps of the confined process.
    fn confine(&self, nothing: OwnedFd, program: Option<&Program>) -> Result<(), Error> {
        rustix::stdio::dup2_stdin(&nothing).map_err(Error::of("emptying standard input"))?;
        drop(nothing);
        let mut kept = self.kept.clone();
        kept.extend(program.map(Program::fd));
        descriptors::close_except(&kept).map_err(Error::at("closing descriptors"))?;
        descriptors::inherit(&self.kept).map_err(Error::at("keeping a descriptor"))?;
        // With another user, the right to do this is gone.
        capabilities::forbid_return()?;
        if self.uid.is_some() {
            users::become_own()?;
        }
        self.limits.apply(self.uid.is_some())?;
        capabilities::drop_present()
    }
}

enum Lifeline {
    Confined,
    Ended(i32),
}

const NAMESPACES: libc::c_int = libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP;

fn make_pipe() -> Result<Ready, Error> {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC).map_err(Error::of("making a pipe"))?;
    Ok((File::from(read), File::from(write)))
}

/// Forks into new namespaces, and returns 0 in the child.
///
/// # Safety
/// The process has one thread.
unsafe fn clone(namespaces: libc::c_int) -> Result<libc::pid_t, Error> {
    let flags = libc::c_long::from(namespaces | libc::SIGCHLD);
    // SAFETY: without CLONE_VM the child has a copy of the memory, and needs no stack of its own.
    let pid = unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) };
    if pid == -1 {
        return Err(Error::at("making the namespaces")(
            io::Error::last_os_error(),
        ));
    }
    Ok(libc::pid_t::try_from(pid).unwrap_or(-1))
}

/// Ends a process of the jail that could not give up its rights. Standard error goes to the VM's console.
fn give_up(error: &Error) -> ! {
    let _ = writeln!(io::stderr(), "{error}");
    std::process::exit(NOT_MADE)
}
