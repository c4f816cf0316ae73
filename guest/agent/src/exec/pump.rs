//! Moves bytes between a process's pipes and its request's streams, within their credit.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use voidbox_protocol::frame::MAX_CHUNK_BYTES;
use voidbox_protocol::message::{Stream, encode_output};

use super::pace::Pace;
use crate::failure::Failure;
use crate::request::{Inbound, Request};

/// The time for which a pipe may be empty after the tree was killed before it counts as ended: a process outside of the
/// tree may hold its other end.
const DRAIN_IDLE: Duration = Duration::from_secs(1);
/// The limit of bytes that are read after the tree was killed: more than any pipe can hold.
const DRAIN_BYTES: u64 = 8 << 20;

/// The write end of a process's standard input, and the chunk that is being written.
pub struct Stdin {
    pipe: Option<OwnedFd>,
    chunk: Vec<u8>,
    written: usize,
    ended: bool,
}

impl Stdin {
    pub fn new(pipe: Option<OwnedFd>) -> Self {
        Self {
            pipe,
            chunk: Vec::new(),
            written: 0,
            ended: false,
        }
    }

    fn has_bytes(&self) -> bool {
        self.written < self.chunk.len()
    }

    /// Writes as many bytes as possible. If the process no longer reads, bytes are dropped, but still count as
    /// consumed.
    fn push(&mut self, request: &Request) -> Result<(), Failure> {
        loop {
            if !self.has_bytes() && !self.take_chunk(request) {
                return Ok(());
            }
            let rest = &self.chunk[self.written..];
            let count = match &self.pipe {
                None => rest.len(),
                Some(pipe) => match rustix::io::write(pipe, rest) {
                    Ok(count) => count,
                    Err(Errno::AGAIN) => return Ok(()),
                    Err(Errno::INTR) => 0,
                    Err(_) => {
                        self.pipe = None;
                        rest.len()
                    }
                },
            };
            self.written += count;
            request.consumed(count)?;
        }
    }

    /// Takes the next chunk; closes the pipe at the stream's end.
    fn take_chunk(&mut self, request: &Request) -> bool {
        match request.poll_inbound() {
            Inbound::Chunk(bytes) => {
                self.chunk = bytes;
                self.written = 0;
                true
            }
            Inbound::End(_) => {
                self.pipe = None;
                self.ended = true;
                false
            }
            Inbound::Nothing => false,
        }
    }
}

/// The read end of one output.
pub struct Output {
    stream: Stream,
    pipe: Option<OwnedFd>,
    sent_bytes: u64,
}

impl Output {
    pub fn new(stream: Stream, pipe: OwnedFd) -> Self {
        Self {
            stream,
            pipe: Some(pipe),
            sent_bytes: 0,
        }
    }

    /// Sends the bytes of one read. Returns true if the pipe had bytes.
    fn pull(&mut self, request: &Request, buffer: &mut [u8]) -> Result<bool, Failure> {
        let room = request.send_room(self.stream).min(buffer.len());
        let Some(pipe) = self.pipe.as_ref().filter(|_| room > 0) else {
            return Ok(false);
        };
        match rustix::io::read(pipe, &mut buffer[..room]) {
            Ok(0) => self.pipe = None,
            Ok(count) => {
                request.take_room(self.stream, count);
                self.sent_bytes += count as u64;
                let frame = encode_output(request.id, self.stream, &buffer[..count])
                    .map_err(|error| Failure::bad_request(error.to_string()))?;
                request.send_behind(frame)?;
                return Ok(true);
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => self.pipe = None,
        }
        Ok(false)
    }
}

struct Draining {
    from_bytes: u64,
    idle_since: Instant,
}

/// The three pipes of one exec.
pub struct Pump<'a> {
    request: &'a Request,
    pace: Pace<'a>,
    stdin: Stdin,
    outputs: [Output; 2],
    draining: Option<Draining>,
    buffer: Vec<u8>,
}

impl<'a> Pump<'a> {
    pub fn new(
        request: &'a Request,
        pace: Pace<'a>,
        stdin: Stdin,
        stdout: Output,
        stderr: Output,
    ) -> Self {
        Self {
            request,
            pace,
            stdin,
            outputs: [stdout, stderr],
            draining: None,
            buffer: vec![0; MAX_CHUNK_BYTES],
        }
    }

    pub fn sent_bytes(&self, stream: Stream) -> u64 {
        self.outputs
            .iter()
            .filter(|output| output.stream == stream)
            .map(|output| output.sent_bytes)
            .sum()
    }

    /// Records that the tree is dead: from here on, outputs are read to their end, within limits.
    pub fn start_draining(&mut self) {
        self.draining = Some(Draining {
            from_bytes: self.total_bytes(),
            idle_since: Instant::now(),
        });
        self.stdin.pipe = None;
    }

    pub fn is_draining(&self) -> bool {
        self.draining.is_some()
    }

    /// Returns true if the tree is dead and no output is left.
    pub fn is_drained(&self) -> bool {
        self.draining.is_some() && self.outputs.iter().all(|output| output.pipe.is_none())
    }

    fn total_bytes(&self) -> u64 {
        self.outputs.iter().map(|output| output.sent_bytes).sum()
    }

    /// Waits for a pipe, the request or the deadline, and moves available bytes.
    pub fn turn(&mut self, deadline: Option<Instant>) -> Result<(), Failure> {
        self.stdin.push(self.request)?;
        self.wait(deadline)?;
        self.pace.count();
        self.request.clear_wake();
        let mut moved = false;
        for output in &mut self.outputs {
            moved |= output.pull(self.request, &mut self.buffer)?;
        }
        self.bound_draining(moved);
        Ok(())
    }

    /// Gives up on outputs that a process outside of the tree keeps open.
    fn bound_draining(&mut self, moved: bool) {
        let total = self.total_bytes();
        let starved = self
            .outputs
            .iter()
            .any(|output| output.pipe.is_some() && self.request.send_room(output.stream) == 0);
        let Some(draining) = &mut self.draining else {
            return;
        };
        // Waiting for credit is not idling: the bytes exist and will be requested.
        if moved || starved {
            draining.idle_since = Instant::now();
        }
        if draining.idle_since.elapsed() >= DRAIN_IDLE || total - draining.from_bytes >= DRAIN_BYTES
        {
            self.abandon();
        }
    }

    /// Stops reading and drops the bytes that are left in the outputs.
    pub fn abandon(&mut self) {
        for output in &mut self.outputs {
            output.pipe = None;
        }
    }

    fn wait(&mut self, deadline: Option<Instant>) -> Result<(), Failure> {
        let now = Instant::now();
        let paced = self.pace.before_wait(now).map(|left| now + left);
        let mut fds = vec![PollFd::from_borrowed_fd(
            self.request.wake_fd(),
            PollFlags::IN,
        )];
        if let Some(pipe) = &self.stdin.pipe
            && self.stdin.has_bytes()
        {
            fds.push(PollFd::from_borrowed_fd(pipe.as_fd(), PollFlags::OUT));
        }
        for output in &self.outputs {
            // A pipe without credit must not be polled, because its hang-up would make the loop spin.
            if let Some(pipe) = &output.pipe
                && self.request.send_room(output.stream) > 0
            {
                fds.push(PollFd::from_borrowed_fd(pipe.as_fd(), PollFlags::IN));
            }
        }
        let deadline = match self.draining {
            Some(_) => Some(Instant::now() + DRAIN_IDLE),
            None => deadline,
        };
        let deadline = [deadline, paced].into_iter().flatten().min();
        let timeout = deadline.map(|at| timespec(at.saturating_duration_since(Instant::now())));
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(Failure::io("waiting for pipes", io::Error::from(error))),
        }
    }
}

fn timespec(duration: Duration) -> Timespec {
    Timespec {
        // The durations come from a u64 of milliseconds, far below i64 seconds.
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: duration.subsec_nanos().into(),
    }
}
