//! An exec's output: from the guest into its spools, from there to readers, and its deletion.

use voidbox_protocol::message::Stream;

use super::Exec;
use super::order::Place;
use super::outcome::{Phase, Reason};
use crate::disk::is_full;
use crate::error::{Code, Failure};
use crate::guest::link::{Link, Violation};

impl Exec {
    /// Spools output and grants the guest the same number of bytes again; kills an exec that has reached its limit.
    /// Bytes for which the disk has no room give no credit, so the guest waits too.
    pub(super) fn on_output(
        &self,
        link: &Link,
        id: u32,
        stream: Stream,
        bytes: &[u8],
    ) -> Result<(), Violation> {
        let mut state = self.state.borrow_mut();
        let taken = state.stdout.taken() + state.stderr.taken();
        let own_room = self.start.max_output_bytes.saturating_sub(taken);
        let spool = if stream == Stream::Stderr {
            &mut state.stderr
        } else {
            &mut state.stdout
        };
        spool.window.received(bytes.len())?;
        let waited = spool.waiting();
        let kept = spool.append(bytes, own_room, &self.budget);
        let waits = spool.waiting() - waited;
        let due = spool.window.consumed(bytes.len() - waits);
        let end = spool.taken();
        state.order.push(stream, end);
        let limited = match kept {
            Ok(all_kept) => !all_kept,
            Err(error) => {
                state.failure.get_or_insert(self.lost_output(&error));
                true
            }
        };
        drop(state);
        if let Some(due) = due {
            link.credit(id, stream, due);
        }
        if waits > 0 {
            self.owes.notify_one();
        }
        if limited {
            self.kill(link, Reason::OutputLimit);
        }
        self.changed.notify_waiters();
        Ok(())
    }

    /// Reads spooled output at `offset` into `buffer`, waiting for more of it; 0 at the end.
    pub async fn read_output(
        &self,
        stream: Stream,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<usize, Failure> {
        loop {
            let changed = self.changed.notified();
            {
                let state = self.state.borrow();
                let spool = if stream == Stream::Stderr {
                    &state.stderr
                } else {
                    &state.stdout
                };
                let count = spool
                    .read_at(offset, buffer)
                    .map_err(|error| Failure::run_dir("reading the spool", &error))?;
                if count > 0 {
                    return Ok(count);
                }
                match state.phase {
                    Phase::Running => {}
                    Phase::Ended | Phase::Acknowledged => return Ok(0),
                    Phase::Lost => {
                        return Err(state
                            .failure
                            .clone()
                            .unwrap_or_else(|| Failure::new(Code::VmLost, "the VM is gone")));
                    }
                }
            }
            changed.await;
        }
    }

    /// Reads both outputs in the order of their arrival, waiting for more; `None` at the end of both. Bytes after a
    /// limit have no order.
    pub async fn read_outputs(
        &self,
        place: &mut Place,
        buffer: &mut [u8],
    ) -> Result<Option<(Stream, usize)>, Failure> {
        loop {
            let changed = self.changed.notified();
            {
                let state = self.state.borrow();
                let is_over = state.phase != Phase::Running;
                let ordered = state.order.next(place);
                let candidates = match ordered {
                    Some((stream, left)) => [Some((stream, left)), None],
                    None if is_over || state.order.is_full() => [
                        Some((Stream::Stdout, u64::MAX)),
                        Some((Stream::Stderr, u64::MAX)),
                    ],
                    None => [None, None],
                };
                for (stream, left) in candidates.into_iter().flatten() {
                    let spool = match stream {
                        Stream::Stderr => &state.stderr,
                        _ => &state.stdout,
                    };
                    let most = usize::try_from(left)
                        .unwrap_or(usize::MAX)
                        .min(buffer.len());
                    let count = spool
                        .read_at(place.at(stream), &mut buffer[..most])
                        .map_err(|error| Failure::run_dir("reading the spool", &error))?;
                    if count > 0 {
                        place.advance(stream, count as u64);
                        return Ok(Some((stream, count)));
                    }
                }
                match state.phase {
                    Phase::Running => {}
                    Phase::Ended | Phase::Acknowledged => return Ok(None),
                    Phase::Lost => {
                        return Err(state
                            .failure
                            .clone()
                            .unwrap_or_else(|| Failure::new(Code::VmLost, "the VM is gone")));
                    }
                }
            }
            changed.await;
        }
    }

    pub fn output_len(&self, stream: Stream) -> u64 {
        let state = self.state.borrow();
        if stream == Stream::Stderr {
            state.stderr.len()
        } else {
            state.stdout.len()
        }
    }

    /// Deletes the output. The record stays, so that the key stays taken.
    pub fn acknowledge(&self) -> Result<(), Failure> {
        {
            let mut state = self.state.borrow_mut();
            if state.phase == Phase::Running {
                return Err(Failure::bad_request(format!(
                    "exec {} has not ended",
                    self.start.exec_key
                )));
            }
            if state.phase == Phase::Acknowledged {
                return Ok(());
            }
            state.phase = Phase::Acknowledged;
            state.stdout.discard(&self.budget);
            state.stderr.discard(&self.budget);
        }
        self.changed.notify_waiters();
        match self.write_record(Phase::Acknowledged, self.outcome().as_ref()) {
            // The record then still contains `ended`, which is also true, and the key stays taken.
            Err(error) if !is_full(&error) => {
                Err(Failure::run_dir("writing the exec record", &error))
            }
            _ => Ok(()),
        }
    }
}
