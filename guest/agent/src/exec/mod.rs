//! One exec: start, stream, end.

mod freeze;
mod missing;
mod pace;
mod pump;
mod spawn;
mod tree;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use voidbox_protocol::body::{ExecReason, ExecRequest, ExecResponse, ExecStarted};
use voidbox_protocol::message::{Message, Stream};

use crate::failure::Failure;
use crate::guest::Guest;
use crate::reaper::Exit;
use crate::request::Request;
use pace::Pace;
use pump::{Output, Pump, Stdin};
use spawn::{CannotStart, Started};
use tree::Tree;

pub use freeze::freeze;
pub use spawn::{CLOSE_ON_EXEC_FROM, drop_bounding_set};

/// Runs a program to its end, and sends its output. The response is returned, because the caller sends it after the
/// last byte of output.
pub fn run(
    guest: &Guest,
    request: &Arc<Request>,
    exec: &ExecRequest,
) -> Result<ExecResponse, Failure> {
    // This precedes the program's start: a short program writes all its output before a thread without precedence reads
    // for the first time.
    let pace = Pace::new(&guest.precedences, Instant::now());
    match spawn::start(guest, request, exec) {
        Ok(started) => {
            request.send_ahead(&Message::ExecStarted(ExecStarted { pid: started.pid() }))?;
            Run::new(guest, request, exec, pace, started).finish()
        }
        Err(CannotStart { exit_code, message }) => Ok(ExecResponse {
            exit_code,
            signal: None,
            reason: ExecReason::CannotStart,
            message: Some(message),
            stdout_bytes: 0,
            stderr_bytes: 0,
        }),
    }
}

/// The state of an exec that has started.
struct Run<'a> {
    guest: &'a Guest,
    request: &'a Request,
    tree: Tree,
    pump: Pump<'a>,
    timeout: Option<(Instant, u64)>,
    /// Set when the agent kills the tree, with the reason.
    killed: Option<(ExecReason, String)>,
    exec: &'a ExecRequest,
}

impl<'a> Run<'a> {
    fn new(
        guest: &'a Guest,
        request: &'a Request,
        exec: &'a ExecRequest,
        pace: Pace<'a>,
        started: Started,
    ) -> Self {
        let timeout = exec.timeout_ms.and_then(|timeout_ms| {
            let at = Instant::now().checked_add(Duration::from_millis(timeout_ms))?;
            Some((at, timeout_ms))
        });
        Self {
            guest,
            request,
            tree: started.tree,
            pump: Pump::new(
                request,
                pace,
                Stdin::new(started.stdin),
                Output::new(Stream::Stdout, started.stdout),
                Output::new(Stream::Stderr, started.stderr),
            ),
            timeout,
            killed: None,
            exec,
        }
    }

    fn finish(mut self) -> Result<ExecResponse, Failure> {
        let streamed = self.stream();
        // No process of the tree may outlive the exec, whatever ended the loop.
        self.tree.kill(&self.guest.reaper);
        streamed?;
        Ok(self.response())
    }

    /// Moves bytes until the leader has ended and both outputs are complete.
    fn stream(&mut self) -> Result<(), Failure> {
        loop {
            self.act_on_request();
            if self.tree.exit().is_some() && !self.pump.is_draining() {
                self.tree.kill(&self.guest.reaper);
                self.pump.start_draining();
            }
            if self.pump.is_draining() && self.request.is_cancelled() {
                self.pump.abandon();
            }
            if self.pump.is_drained() {
                return Ok(());
            }
            let deadline = self.timeout.map(|(at, _)| at);
            self.pump.turn(deadline)?;
        }
    }

    /// Acts on signals, cancellation and the deadline, unless the leader has ended.
    fn act_on_request(&mut self) {
        while let Some(signal) = self.request.next_signal() {
            if self.tree.exit().is_some() {
                continue;
            }
            if signal == Signal::KILL.as_raw() {
                self.kill(ExecReason::Killed, "killed on request".into());
            } else if let Some(signal) = Signal::from_named_raw(signal) {
                self.tree.signal(&self.guest.reaper, signal);
            }
        }
        if self.request.is_cancelled() {
            self.kill(ExecReason::Killed, "cancelled".into());
        }
        if let Some((_, timeout_ms)) = self.timeout.take_if(|(at, _)| *at <= Instant::now()) {
            self.kill(
                ExecReason::Timeout,
                format!("killed after its timeout of {timeout_ms} ms"),
            );
        }
    }

    fn kill(&mut self, reason: ExecReason, message: String) {
        if self.killed.is_none() && self.tree.exit().is_none() {
            self.killed = Some((reason, message));
            self.tree.kill(&self.guest.reaper);
        }
    }

    /// Describes a line end that breaks a script such as `#!/usr/bin/env node`: `env` does not find the interpreter,
    /// and fails with 127.
    fn describe_line_end(&self, exit_code: i32) -> Option<String> {
        let ExecRequest { program, cwd, .. } = self.exec;
        let path = spawn::path_of(self.guest, self.exec);
        (exit_code == 127)
            .then(|| missing::describe_line_end(program, &path, cwd))
            .flatten()
            .map(|line_end| format!("{program}: {line_end}"))
    }

    fn response(self) -> ExecResponse {
        let (exit_code, signal) = match self.tree.exit() {
            Some(Exit::Code(code)) => (code, None),
            Some(Exit::Signal(signal)) => (128 + signal, Some(signal)),
            None => (255, None),
        };
        let out_of_memory = || {
            let kills = self.tree.oom_kills();
            (kills > 0).then(|| {
                format!("the guest killed {kills} of its processes: its memory for users is full")
            })
        };
        let (reason, message) = match self.killed.clone() {
            // A kill after the leader's own end does not change the result.
            Some((reason, message)) if signal.is_some() => (reason, Some(message)),
            _ if exit_code == 0 => (ExecReason::Exited, out_of_memory()),
            _ => (
                ExecReason::Exited,
                out_of_memory()
                    .or_else(|| describe_full_disk(self.guest.disk()))
                    .or_else(|| self.describe_line_end(exit_code)),
            ),
        };
        ExecResponse {
            exit_code,
            signal,
            reason,
            message,
            stdout_bytes: self.pump.sent_bytes(Stream::Stdout),
            stderr_bytes: self.pump.sent_bytes(Stream::Stderr),
        }
    }
}

/// If fewer bytes are free, a command counts as having failed for a full disk.
const FULL_DISK_BYTES: u64 = 256 << 10;

/// Describes a full disk that may have failed a command: it has no blocks or no inodes for users.
fn describe_full_disk(disk: &Path) -> Option<String> {
    let stat = rustix::fs::statvfs(disk).ok()?;
    let is_full =
        stat.f_bavail * stat.f_frsize < FULL_DISK_BYTES || stat.f_files > 0 && stat.f_favail == 0;
    is_full.then(|| {
        let free = stat.f_bavail * stat.f_frsize;
        let files = stat.f_favail;
        format!("the guest's disk is full: {free} bytes and {files} files are left")
    })
}
