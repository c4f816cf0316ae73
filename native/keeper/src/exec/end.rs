//! Ends an exec: on its own, at its deadline, by a client, or with its VM.

use std::rc::Rc;
use std::time::Duration;

use voidbox_protocol::body::{ExecReason, ExecResponse, ExecSignal};
use voidbox_protocol::message::Message;

use super::outcome::{Cause, Ending, Interruption, Outcome, Phase, Reason};
use super::{Exec, now_ms};
use crate::error::{Code, Failure};
use crate::guest::link::{Link, Violation};

/// The time between SIGTERM and SIGKILL at a command's deadline.
const DEADLINE_GRACE: Duration = Duration::from_secs(2);

impl Exec {
    /// Ends a VM whose guest reports neither that the command has started nor that it cannot start. Without this, a
    /// client would wait until a deadline that may be hours away.
    pub(super) async fn watch_start(self: Rc<Self>, link: Rc<Link>) {
        let begun = async {
            loop {
                let changed = self.changed.notified();
                if self.is_begun.get() || !self.is_running() {
                    return;
                }
                changed.await;
            }
        };
        if link.patience.wait(begun).await.is_none() {
            link.end(Failure::new(
                Code::VmProtocol,
                format!(
                    "the guest went silent: exec {} was not started within {} ms",
                    self.start.exec_key,
                    link.patience.limit().as_millis()
                ),
            ));
        }
    }

    pub(super) async fn keep_deadline(self: Rc<Self>, link: Rc<Link>) {
        tokio::select! {
            () = self.until_ended() => {}
            () = self.disk.sleep(Duration::from_millis(self.start.timeout_ms)) => {
                self.interrupt(&link, Interruption::Keeper(Reason::Timeout), DEADLINE_GRACE);
            }
        }
    }

    /// Ends the command for a client: SIGTERM, and SIGKILL after `grace`. A command that has ended keeps its outcome,
    /// and only the first cause counts. Both are recorded before the signal leaves the keeper.
    pub fn end(self: &Rc<Self>, link: &Rc<Link>, cause: Cause, grace: Duration) {
        self.interrupt(link, Interruption::Client(cause), grace);
    }

    fn interrupt(self: &Rc<Self>, link: &Rc<Link>, by: Interruption, grace: Duration) {
        if !self.record_interruption(by) {
            return;
        }
        self.signal(link, libc::SIGTERM);
        let (exec, link) = (self.clone(), link.clone());
        tokio::task::spawn_local(async move {
            tokio::select! {
                () = exec.until_ended() => {}
                () = exec.disk.sleep(grace) => exec.send_kill(&link),
            }
        });
    }

    /// Returns false if the command has ended before.
    fn record_interruption(&self, by: Interruption) -> bool {
        let mut state = self.state.borrow_mut();
        if state.phase != Phase::Running || state.ending.is_some() {
            return false;
        }
        state.interrupted_by.get_or_insert(by);
        true
    }

    /// Kills the guest's whole process group, and the VM if the guest does not obey.
    pub(super) fn kill(&self, link: &Link, reason: Reason) {
        if self.record_interruption(Interruption::Keeper(reason)) {
            self.send_kill(link);
        }
    }

    fn send_kill(&self, link: &Link) {
        if !self.is_running() || std::mem::replace(&mut self.state.borrow_mut().is_killed, true) {
            return;
        }
        self.signal(link, libc::SIGKILL);
        self.changed.notify_waiters();
    }

    async fn until_ended(&self) {
        while self.is_running() {
            let changed = self.changed.notified();
            if self.is_running() {
                changed.await;
            }
        }
    }

    /// Kills the VM if a killed exec does not end. Its end is an answer that the guest owes: a guest under emulation on
    /// a busy host needs long to end thousands of processes. Runs as long as the exec does.
    pub(super) async fn watch_kill(self: Rc<Self>, link: Rc<Link>) {
        loop {
            let changed = self.changed.notified();
            if !self.is_running() {
                return;
            }
            if self.state.borrow().is_killed {
                break;
            }
            changed.await;
        }
        if link.patience.wait(self.until_ended()).await.is_some() {
            return;
        }
        let reason = match self.state.borrow().interrupted_by {
            Some(Interruption::Keeper(reason)) => reason,
            _ => Reason::Killed,
        };
        let message = format!(
            "the guest did not end the killed exec within {} ms, so its VM was killed",
            link.patience.limit().as_millis()
        );
        self.finish(reason, 137, None, Some(message.clone()));
        link.end(Failure::new(
            Code::VmProtocol,
            format!("exec {}: {message}", self.start.exec_key),
        ));
    }

    pub fn signal(&self, link: &Link, signal: i32) {
        if self.is_running() {
            link.send(self.id.get(), &Message::ExecSignal(ExecSignal { signal }));
        }
    }

    pub(super) fn finish(
        &self,
        reason: Reason,
        exit_code: i32,
        signal: Option<i32>,
        message: Option<String>,
    ) {
        {
            let mut state = self.state.borrow_mut();
            state.stdout.close();
            state.stderr.close();
            state.ending = Some(Ending {
                reason,
                exit_code,
                signal,
                message,
                ended_at_ms: now_ms(),
            });
        }
        self.settle(None);
        self.owes.notify_one();
        self.changed.notify_waiters();
    }

    /// Returns the outcome, once the exec has ended and its spools are complete.
    pub async fn wait(&self) -> Result<Outcome, Failure> {
        loop {
            let changed = self.changed.notified();
            {
                let state = self.state.borrow();
                if let Some(failure) = &state.failure {
                    return Err(failure.clone());
                }
                if let Some(outcome) = &state.outcome {
                    return Ok(outcome.clone());
                }
            }
            changed.await;
        }
    }

    /// Checks the guest's response, which must match the received output.
    pub(super) fn on_response(&self, response: ExecResponse) -> Result<(), Violation> {
        let (received, interrupted_by) = {
            let state = self.state.borrow();
            (
                (state.stdout.received(), state.stderr.received()),
                state.interrupted_by.clone(),
            )
        };
        let said = (response.stdout_bytes, response.stderr_bytes);
        if said != received {
            return Err(Violation::Broken(format!(
                "the guest reports {said:?} bytes of output, and {received:?} arrived"
            )));
        }
        if let Some(signal) = response.signal
            && response.exit_code != 128 + signal
        {
            return Err(Violation::Broken(format!(
                "the guest reports that signal {signal} ended a command with exit code {}",
                response.exit_code
            )));
        }
        // The signal was sent before this message arrived, so it decides, whatever the exit code is.
        let reason = match (interrupted_by, response.reason) {
            (Some(Interruption::Keeper(reason)), _) => reason,
            (_, ExecReason::Exited) => Reason::Exited,
            (_, ExecReason::Timeout) => Reason::Timeout,
            (_, ExecReason::Killed) => Reason::Killed,
            (_, ExecReason::CannotStart) => Reason::CannotStart,
        };
        let message = match reason {
            Reason::Timeout => Some(format!(
                "it ran longer than its {} ms",
                self.start.timeout_ms
            )),
            Reason::OutputLimit => Some(format!(
                "it wrote more than its {} bytes of output",
                self.start.max_output_bytes
            )),
            _ => response.message,
        };
        self.finish(reason, response.exit_code, response.signal, message);
        Ok(())
    }

    /// Records that the VM has ended, and the command with it.
    pub(super) fn lose(&self, failure: &Failure) {
        let mut state = self.state.borrow_mut();
        if state.phase != Phase::Running {
            return;
        }
        state.phase = Phase::Lost;
        state.ending = None;
        state.failure.get_or_insert_with(|| failure.clone());
        drop(state);
        if let Err(error) = self.write_record(Phase::Lost, None) {
            eprintln!("exec {}: writing the record: {error}", self.start.exec_key);
        }
        self.owes.notify_one();
        self.changed.notify_waiters();
    }
}
