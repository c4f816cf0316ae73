//! Runs a program to its end. It starts by `posix_spawn`, which copies no page table of Node's process.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// A program and its limits.
pub struct Task {
    /// Its id for [`stop`].
    pub id: u32,
    pub program: String,
    pub args: Vec<String>,
    /// Each as `NAME=value`.
    pub env: Vec<String>,
    pub input: Vec<u8>,
    pub limit: Duration,
    pub most_bytes: usize,
}

pub enum Outcome {
    Ended {
        status: ExitStatus,
        stdout: Vec<u8>,
        stderr: Vec<u8>,
    },
    TimeOver,
    TooLong,
    Stopped,
}

const STDERR_BYTES: usize = 8 * 1024;
const CHUNK_BYTES: usize = 64 * 1024;
const POLL: Duration = Duration::from_millis(1);

/// Programs that are wanted or run, by id. A child in it is not reaped yet, so its process id is still its own.
static WANTED: LazyLock<Mutex<HashMap<u32, Option<Child>>>> = LazyLock::new(Mutex::default);

fn wanted() -> MutexGuard<'static, HashMap<u32, Option<Child>>> {
    WANTED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Announces a program, which [`stop`] can stop from now on.
pub fn announce(id: u32) {
    wanted().insert(id, None);
}

/// Kills the program, or prevents its start.
pub fn stop(id: u32) {
    let mut wanted = wanted();
    match wanted.get_mut(&id) {
        Some(Some(child)) => {
            let _ = child.kill();
        }
        Some(None) => {
            wanted.remove(&id);
        }
        None => {}
    }
}

/// Gives the started program to [`stop`]; a program that was stopped during its start is killed.
fn hand_over(id: u32, mut child: Child) -> io::Result<bool> {
    if let Some(place) = wanted().get_mut(&id) {
        *place = Some(child);
        return Ok(true);
    }
    let _ = child.kill();
    child.wait().map(|_| false)
}

/// Fails only if the program cannot be started, or if its pipes fail.
pub fn run(task: &Task) -> io::Result<Outcome> {
    if !wanted().contains_key(&task.id) {
        return Ok(Outcome::Stopped);
    }
    let outcome = start_and_wait(task);
    wanted().remove(&task.id);
    outcome
}

fn start_and_wait(task: &Task) -> io::Result<Outcome> {
    let deadline = Instant::now() + task.limit;
    let vars = task.env.iter().filter_map(|pair| pair.split_once('='));
    let mut child = Command::new(&task.program)
        .args(&task.args)
        .env_clear()
        .envs(vars)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut pipes = Pipes {
        stdin: child.stdin.take(),
        stdout: child.stdout.take(),
        stderr: child.stderr.take(),
        written: 0,
        out: Vec::new(),
        err: Vec::new(),
    };
    if !hand_over(task.id, child)? {
        return Ok(Outcome::Stopped);
    }
    let moved = pipes.move_all(task, deadline);
    let is_whole = matches!(moved, Ok(None));
    let reaped = reap(task.id, is_whole.then_some(deadline));
    if let Some(early) = moved? {
        return Ok(early);
    }
    Ok(match reaped? {
        None => Outcome::TimeOver,
        Some(status) => Outcome::Ended {
            status,
            stdout: pipes.out,
            stderr: pipes.err,
        },
    })
}

/// Waits until the deadline; without one, or after it, kills the child and waits for its death. `None`: it was killed.
fn reap(id: u32, deadline: Option<Instant>) -> io::Result<Option<ExitStatus>> {
    let mut is_killed = false;
    loop {
        if !is_killed && deadline.is_none_or(|deadline| Instant::now() > deadline) {
            stop(id);
            is_killed = true;
        }
        // The thread of JavaScript takes this lock too, so no wait holds it.
        let mut wanted = wanted();
        let place = wanted.get_mut(&id).and_then(Option::as_mut);
        let ended = place
            .expect("only this thread removes a child")
            .try_wait()?;
        if ended.is_some() {
            wanted.remove(&id);
            return Ok(if is_killed { None } else { ended });
        }
        drop(wanted);
        thread::sleep(POLL);
    }
}

struct Pipes {
    stdin: Option<std::process::ChildStdin>,
    stdout: Option<std::process::ChildStdout>,
    stderr: Option<std::process::ChildStderr>,
    written: usize,
    out: Vec<u8>,
    err: Vec<u8>,
}

impl Pipes {
    /// Feeds and drains the child until it has closed its output.
    fn move_all(&mut self, task: &Task, deadline: Instant) -> io::Result<Option<Outcome>> {
        if task.input.is_empty() {
            self.stdin = None;
        }
        let files = [
            raw(self.stdin.as_ref()),
            raw(self.stdout.as_ref()),
            raw(self.stderr.as_ref()),
        ];
        for fd in files.into_iter().filter(|fd| *fd >= 0) {
            set_nonblocking(fd)?;
        }
        while self.stdout.is_some() || self.stderr.is_some() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(Some(Outcome::TimeOver));
            }
            let [can_write, can_read, can_read_errors] = self.poll(left)?;
            if can_write {
                self.write(&task.input);
            }
            if can_read && drain(self.stdout.as_mut(), &mut self.out)? {
                self.stdout = None;
            }
            if can_read_errors && drain(self.stderr.as_mut(), &mut self.err)? {
                self.stderr = None;
            }
            if self.out.len() > task.most_bytes {
                return Ok(Some(Outcome::TooLong));
            }
            let surplus = self.err.len().saturating_sub(STDERR_BYTES);
            self.err.drain(..surplus);
        }
        Ok(None)
    }

    fn poll(&self, left: Duration) -> io::Result<[bool; 3]> {
        let of = |fd, events| libc::pollfd {
            fd,
            events,
            revents: 0,
        };
        let mut waited = [
            of(raw(self.stdin.as_ref()), libc::POLLOUT),
            of(raw(self.stdout.as_ref()), libc::POLLIN),
            of(raw(self.stderr.as_ref()), libc::POLLIN),
        ];
        let ms = i32::try_from(left.as_millis().max(1)).unwrap_or(i32::MAX);
        // SAFETY: the array lives across the call; negative descriptors are ignored.
        if unsafe { libc::poll(waited.as_mut_ptr(), 3, ms) } == -1 {
            let error = io::Error::last_os_error();
            return match error.kind() {
                io::ErrorKind::Interrupted => Ok([false; 3]),
                _ => Err(error),
            };
        }
        Ok(waited.map(|each| each.revents != 0))
    }

    /// The program may end before it has read its input; its exit code then explains why.
    fn write(&mut self, input: &[u8]) {
        let Some(pipe) = self.stdin.as_mut() else {
            return;
        };
        match pipe.write(&input[self.written..]) {
            Ok(count) => self.written += count,
            Err(error) if is_early(&error) => {}
            Err(_) => self.written = input.len(),
        }
        if self.written == input.len() {
            self.stdin = None;
        }
    }
}

fn raw(file: Option<&impl AsRawFd>) -> RawFd {
    file.map_or(-1, AsRawFd::as_raw_fd)
}

/// Reads once; returns true at the end.
fn drain(from: Option<&mut impl Read>, into: &mut Vec<u8>) -> io::Result<bool> {
    let Some(from) = from else { return Ok(true) };
    let start = into.len();
    into.resize(start + CHUNK_BYTES, 0);
    let read = from.read(&mut into[start..]);
    into.truncate(start + *read.as_ref().unwrap_or(&0));
    match read {
        Ok(count) => Ok(count == 0),
        Err(error) if is_early(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

fn is_early(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}

fn set_nonblocking(fd: RawFd) -> io::Result<()> {
    // SAFETY: both calls take an open descriptor and integers.
    let done = unsafe {
        let flags = libc::fcntl(fd, libc::F_GETFL);
        flags != -1 && libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK) != -1
    };
    if done {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(id: u32, script: &str) -> Task {
        announce(id);
        Task {
            id,
            program: "/bin/sh".into(),
            args: vec!["-c".into(), script.into()],
            env: vec!["PATH=/usr/bin:/bin".into(), "WORD=a=b".into()],
            input: Vec::new(),
            limit: Duration::from_secs(120),
            most_bytes: 1024 * 1024,
        }
    }

    fn ended(task: &Task) -> (Option<i32>, Vec<u8>, Vec<u8>) {
        match run(task).unwrap() {
            Outcome::Ended {
                status,
                stdout,
                stderr,
            } => (status.code(), stdout, stderr),
            _ => panic!("it has no end"),
        }
    }

    #[test]
    fn a_program_gets_its_variables_and_its_input_and_gives_all_output() {
        let mut wanted = task(1, "cat; echo $WORD >&2; exit 3");
        wanted.input = vec![b'x'; 500_000];
        assert_eq!(
            ended(&wanted),
            (Some(3), vec![b'x'; 500_000], b"a=b\n".to_vec())
        );
    }

    #[test]
    fn a_program_that_leaves_its_input_unread_ends() {
        let mut wanted = task(2, "exit 0");
        wanted.input = vec![b'x'; 500_000];
        assert_eq!(ended(&wanted).0, Some(0));
    }

    #[test]
    fn a_program_over_a_limit_is_killed() {
        let mut slow = task(3, "exec sleep 1000");
        slow.limit = Duration::from_millis(100);
        assert!(matches!(run(&slow), Ok(Outcome::TimeOver)));
        let mut silent = task(4, "exec >&- 2>&-; exec sleep 1000");
        silent.limit = Duration::from_millis(100);
        assert!(matches!(run(&silent), Ok(Outcome::TimeOver)));
        let long = task(5, "exec cat /dev/zero");
        assert!(matches!(run(&long), Ok(Outcome::TooLong)));
        assert!(!super::wanted().contains_key(&5));
    }

    #[test]
    fn a_program_that_is_stopped_ends_at_any_moment() {
        let early = task(6, "exit 0");
        stop(6);
        assert!(matches!(run(&early), Ok(Outcome::Stopped)));
        let running = task(7, "exec sleep 1000");
        let work = thread::spawn(move || run(&running).unwrap());
        while !matches!(super::wanted().get(&7), Some(Some(_))) {
            thread::sleep(POLL);
        }
        stop(7);
        assert!(
            matches!(work.join().unwrap(), Outcome::Ended { status, .. } if status.code().is_none())
        );
    }

    #[test]
    fn a_program_that_does_not_exist_is_an_error_with_its_number() {
        let mut absent = task(8, "");
        absent.program = "/nowhere/program".into();
        let error = run(&absent).err().expect("an error");
        assert_eq!(error.raw_os_error(), Some(libc::ENOENT));
    }
}
