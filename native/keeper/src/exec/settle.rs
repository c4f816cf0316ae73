//! What an exec has to write and the disk has no room for: output that came, and how it ended.

use std::io;
use std::rc::Rc;

use voidbox_protocol::message::Stream;

use super::outcome::{Interruption, Outcome, Phase, Reason};
use super::{Exec, State};
use crate::disk::is_full;
use crate::error::{Code, Failure};
use crate::guest::link::Link;

impl Exec {
    /// Writes what waits for room as soon as there is some, for as long as the exec lives. Meanwhile
    /// the disk counts as full, and deadlines stand still.
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

    /// Writes what there is room for, and behind all of it the end. `link` gets the credit for what was
    /// written of a command that runs.
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

    /// The answer to all that ask for the exec's end from here on. Another VM may find a disk that works; in
    /// this one the output is lost, however often it is asked for.
    pub(super) fn lost_output(&self, error: &io::Error) -> Failure {
        Failure::new(
            Code::VmLost,
            format!(
                "the host could not keep the output of {}: {error}",
                self.start.exec_key
            ),
        )
    }

    /// Makes the end known once the output and the record of it are written.
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

/// Per stream, the credit that is due for what was written of a command that goes on. At its end the
/// guest has had credit for some of what waits: the end of what came after the limit.
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
