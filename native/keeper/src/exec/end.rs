//! How an exec ends: by itself, at its deadline, by a client, or with its VM.

use std::rc::Rc;
use std::time::Duration;

use voidbox_protocol::body::{ExecReason, ExecResponse, ExecSignal};
use voidbox_protocol::message::Message;

use super::record::{Outcome, Phase, Reason};
use super::settle::Ending;
use super::{Exec, now_ms};
use crate::error::{Code, Failure};
use crate::guest::link::{Link, Violation};

/// How long a guest may take to end an exec that was killed. After it the VM is killed.
const KILL_GRACE: Duration = Duration::from_secs(10);

impl Exec {
    /// Ends a VM whose guest does not say that the command has started, nor that it cannot: what comes
    /// then is nothing, until a deadline that may be hours away.
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
        let ended = async {
            while self.is_running() {
                let changed = self.changed.notified();
                if self.is_running() {
                    changed.await;
                }
            }
        };
        tokio::select! {
            () = ended => {}
            () = self.disk.sleep(Duration::from_millis(self.start.timeout_ms)) => self.kill(&link, Reason::Timeout),
        }
    }

    /// Kills the guest's whole process group, and the VM when the guest does not obey.
    pub(super) fn kill(&self, link: &Link, reason: Reason) {
        {
            let mut state = self.state.borrow_mut();
            if state.phase != Phase::Running || state.ending.is_some() || state.killed_for.is_some()
            {
                return;
            }
            state.killed_for = Some(reason);
        }
        link.send(
            self.id.get(),
            &Message::ExecSignal(ExecSignal {
                signal: libc::SIGKILL,
            }),
        );
        self.changed.notify_waiters();
    }

    /// Kills the VM when a killed exec does not end. Runs for as long as the exec does.
    pub(super) async fn watch_kill(self: Rc<Self>, link: Rc<Link>) {
        loop {
            let changed = self.changed.notified();
            if !self.is_running() {
                return;
            }
            if self.state.borrow().killed_for.is_some() {
                break;
            }
            changed.await;
        }
        self.disk.sleep(KILL_GRACE).await;
        if !self.is_running() {
            return;
        }
        let reason = self.state.borrow().killed_for.unwrap_or(Reason::Killed);
        let message = "the guest did not end the exec that was killed, so its VM was";
        self.finish(reason, 137, Some(message.into()));
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

    pub(super) fn finish(&self, reason: Reason, exit_code: i32, message: Option<String>) {
        {
            let mut state = self.state.borrow_mut();
            state.stdout.close();
            state.stderr.close();
            state.ending = Some(Ending {
                reason,
                exit_code,
                message,
                ended_at_ms: now_ms(),
            });
        }
        self.settle(None);
        self.owes.notify_one();
        self.changed.notify_waiters();
    }

    /// The outcome, once the exec has ended and its spools are complete.
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

    /// The guest's word on the end, which must agree with what came.
    pub(super) fn on_response(&self, response: ExecResponse) -> Result<(), Violation> {
        let (received, killed_for) = {
            let state = self.state.borrow();
            (
                (state.stdout.received(), state.stderr.received()),
                state.killed_for,
            )
        };
        let said = (response.stdout_bytes, response.stderr_bytes);
        if said != received {
            return Err(Violation::Broken(format!(
                "the guest says it sent {said:?} bytes of output and {received:?} came"
            )));
        }
        let reason = match (killed_for, response.reason) {
            (Some(Reason::OutputLimit), _) => Reason::OutputLimit,
            (Some(reason), ExecReason::Killed) => reason,
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
        self.finish(reason, response.exit_code, message);
        Ok(())
    }

    /// The VM is gone, and with it the command.
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
