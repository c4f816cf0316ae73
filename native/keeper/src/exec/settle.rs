//! Writes an exec's data that had no room on the disk: its output and its outcome.

use std::io;
use std::rc::Rc;

use voidbox_protocol::message::Stream;

use super::outcome::{Interruption, Outcome, Phase, Reason};
use super::{Exec, State};
use crate::disk::is_full;
use crate::error::{Code, Failure};
use crate::guest::link::Link;

impl Exec {
    /// Writes waiting data as soon as the disk has room, as long as the exec lives. Until then, the disk counts as
    /// full, and deadlines are paused.
    pub(super) async fn pay_what_it_owes(self: Rc<Self>, link: Rc<Link>) {
        while self.phase() == Phase::Running {
            if !self.is_owing() {
                self.owes.notified().await;
                continue;
            }
            let _waiting = self.disk.wait_begins();
            while self.is_owing() {
                self.disk.room().await;
                self.settle(Some(&link));
            }
        }
    }

    fn is_owing(&self) -> bool {
        let state = self.state.borrow();
        let waits = state.ending.is_some() || state.stdout.waiting() + state.stderr.waiting() > 0;
        state.phase == Phase::Running && waits
    }

    /// Writes data that fits, and then the end. `link` receives the credit for written output of a running command.
    pub(super) fn settle(&self, link: Option<&Link>) {
        let mut state = self.state.borrow_mut();
        let flushed = flush(&mut state);
        drop(state);
        match flushed {
            Ok(credits) => {
                for (stream, due) in credits {
                    if let (Some(link), Some(due)) = (link, due) {
                        link.credit(self.id.get(), stream, due);
                    }
                }
            }
            Err(error) => {
                let mut state = self.state.borrow_mut();
                state.failure.get_or_insert(self.lost_output(&error));
                drop(state);
                if let Some(link) = link {
                    self.kill(link, Reason::OutputLimit);
                }
            }
        }
        self.conclude();
        self.changed.notify_waiters();
    }

    /// The failure for all later requests for the exec's end. Another VM may have a working disk; in this VM, the
    /// output is lost, however often a client asks for it.
    pub(super) fn lost_output(&self, error: &io::Error) -> Failure {
        Failure::new(
            Code::VmLost,
            format!(
                "the host could not keep the output of {}: {error}",
                self.start.exec_key
            ),
        )
    }

    /// Publishes the end once the output and its record are written.
    fn conclude(&self) {
        let state = self.state.borrow();
        let Some(ending) = &state.ending else { return };
        if state.stdout.waiting() + state.stderr.waiting() > 0 {
            return;
        }
        let outcome = Outcome {
            reason: ending.reason,
            exit_code: ending.exit_code,
            signal: ending.signal,
            cause: match &state.interrupted_by {
                Some(Interruption::Client(cause)) => Some(cause.clone()),
                _ => None,
            },
            message: ending.message.clone(),
            started_at_ms: self.started_at_ms,
            ended_at_ms: ending.ended_at_ms,
            stdout_bytes: state.stdout.len(),
            stderr_bytes: state.stderr.len(),
            dropped_bytes: state.stdout.dropped() + state.stderr.dropped(),
        };
        drop(state);
        if let Err(error) = self.write_record(Phase::Ended, Some(&outcome)) {
            if is_full(&error) {
                return;
            }
            eprintln!("exec {}: writing the record: {error}", self.start.exec_key);
        }
        let mut state = self.state.borrow_mut();
        state.ending = None;
        state.outcome = Some(outcome);
        state.phase = Phase::Ended;
    }
}

/// Returns, for each stream, the credit for written output of a command that still runs. An ended command gets no
/// credit: the guest already had credit for the tail after the limit.
fn flush(state: &mut State) -> io::Result<[(Stream, Option<u32>); 2]> {
    let State { stdout, stderr, .. } = state;
    let written = (stdout.flush()?, stderr.flush()?);
    if state.ending.is_some() {
        return Ok([(Stream::Stdout, None), (Stream::Stderr, None)]);
    }
    Ok([
        (Stream::Stdout, stdout.window.consumed(written.0)),
        (Stream::Stderr, stderr.window.consumed(written.1)),
    ])
}
