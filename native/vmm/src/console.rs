//! The output of COM1: limited in rate, and never waited for.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

/// A guest may write this much at once, and then [`RATE_BYTES_PER_SECOND`].
pub const BURST_BYTES: u32 = 1 << 20;
pub const RATE_BYTES_PER_SECOND: u32 = 256 << 10;
/// The limit of bytes that wait for a reader.
pub const WAITING_LIMIT_BYTES: usize = 64 << 10;
/// Bytes are collected for this long before they are written.
pub const DELAY: Duration = Duration::from_millis(10);

/// The console. It drops bytes beyond its limits, and a line says how many.
pub struct Console {
    file: OwnedFd,
    wake: EventFd,
    state: Mutex<State>,
}

struct State {
    waiting: VecDeque<u8>,
    allowance: Allowance,
    /// Bytes dropped since the last line about it.
    dropped: u64,
}

/// A bucket of bytes that fills with time.
struct Allowance {
    bytes: u32,
    filled: Instant,
}

impl Allowance {
    fn take(&mut self, now: Instant) -> bool {
        if self.bytes == 0 {
            let elapsed = now.saturating_duration_since(self.filled);
            let micros = u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX);
            let earned = micros.saturating_mul(RATE_BYTES_PER_SECOND.into()) / 1_000_000;
            self.bytes = u32::try_from(earned).unwrap_or(u32::MAX).min(BURST_BYTES);
            if self.bytes == 0 {
                return false;
            }
            self.filled = now;
        }
        self.bytes -= 1;
        true
    }
}

impl Console {
    /// Makes a console whose output goes to `file`.
    pub fn new(file: OwnedFd, now: Instant) -> io::Result<Self> {
        set_nonblocking(&file)?;
        Ok(Self {
            file,
            wake: EventFd::new(EFD_NONBLOCK)?,
            state: Mutex::new(State {
                waiting: VecDeque::new(),
                allowance: Allowance {
                    bytes: BURST_BYTES,
                    filled: now,
                },
                dropped: 0,
            }),
        })
    }

    /// Returns a descriptor that is readable when the first byte waits.
    pub fn wake(&self) -> &EventFd {
        &self.wake
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a byte of the guest.
    pub fn push(&self, byte: u8, now: Instant) {
        let mut state = self.state();
        // The line about dropped bytes needs room as well.
        let has_room = state.waiting.len() + 80 < WAITING_LIMIT_BYTES;
        if !has_room || !state.allowance.take(now) {
            state.dropped += 1;
            return;
        }
        let was_empty = state.waiting.is_empty();
        if state.dropped > 0 {
            let dropped = std::mem::take(&mut state.dropped);
            let line = format!("\n[voidbox-vmm dropped {dropped} bytes of this console]\n");
            state.waiting.extend(line.bytes());
        }
        state.waiting.push_back(byte);
        if was_empty {
            // A counter that is full has woken the reader already.
            let _ = self.wake.write(1);
        }
    }

    /// Writes a line of the VMM itself, within the same limits.
    pub fn note(&self, text: &str, now: Instant) {
        for byte in format!("\n[voidbox-vmm: {text}]\n").bytes() {
            self.push(byte, now);
        }
    }

    /// Writes what waits, without waiting for a reader. Returns true if bytes still wait.
    pub fn flush(&self) -> bool {
        let mut state = self.state();
        while !state.waiting.is_empty() {
            let (bytes, _) = state.waiting.as_slices();
            // SAFETY: the pointer and the length belong to one slice.
            let written =
                unsafe { libc::write(self.file.as_raw_fd(), bytes.as_ptr().cast(), bytes.len()) };
            if let Ok(written) = usize::try_from(written) {
                state.waiting.drain(..written);
                continue;
            }
            match io::Error::last_os_error().kind() {
                io::ErrorKind::Interrupted => {}
                io::ErrorKind::WouldBlock => return true,
                // The reader is gone.
                _ => state.waiting.clear(),
            }
        }
        false
    }
}

/// Lets calls on a descriptor return at once.
pub fn set_nonblocking(fd: &impl AsRawFd) -> io::Result<()> {
    // SAFETY: reads and writes the flags of an open descriptor.
    let flags = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFL) };
    if flags < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: as above.
    let set = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, flags | libc::O_NONBLOCK) };
    if set < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    use super::*;

    fn console(now: Instant) -> (Console, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        theirs.set_nonblocking(true).unwrap();
        (Console::new(ours.into(), now).unwrap(), theirs)
    }

    fn push_all(console: &Console, bytes: &[u8], now: Instant) {
        bytes.iter().for_each(|byte| console.push(*byte, now));
    }

    fn read_all(stream: &mut UnixStream) -> Vec<u8> {
        let mut all = Vec::new();
        let _ = stream.read_to_end(&mut all);
        all
    }

    #[test]
    fn bytes_arrive_and_the_first_one_wakes_the_reader() {
        let now = Instant::now();
        let (console, mut reader) = console(now);
        assert!(console.wake().read().is_err());
        push_all(&console, b"hello\n", now);
        assert_eq!(console.wake().read().unwrap(), 1, "one wake for all");
        assert!(!console.flush());
        assert_eq!(read_all(&mut reader), b"hello\n");
    }

    #[test]
    fn a_reader_that_does_not_read_costs_no_more_than_the_limit() {
        let now = Instant::now();
        let (console, mut reader) = console(now);
        for _ in 0..8 {
            push_all(&console, &[b'x'; WAITING_LIMIT_BYTES], now);
            console.flush();
        }
        assert!(console.state().waiting.len() <= WAITING_LIMIT_BYTES);
        let mut read = read_all(&mut reader);
        while console.flush() {
            read.extend(read_all(&mut reader));
        }
        console.push(b'!', now);
        console.flush();
        read.extend(read_all(&mut reader));
        let text = String::from_utf8(read).unwrap();
        assert!(text.ends_with("bytes of this console]\n!"), "{text:?}");
    }

    #[test]
    fn a_flood_gets_its_burst_and_then_its_rate() {
        let start = Instant::now();
        let (console, mut reader) = console(start);
        let mut passed = 0;
        let mut pass = |bytes: u32, now: Instant| {
            for _ in 0..bytes / 1024 {
                push_all(&console, &[b'Q'; 1024], now);
                console.flush();
                passed += read_all(&mut reader).iter().filter(|b| **b == b'Q').count();
            }
            std::mem::take(&mut passed)
        };
        assert_eq!(pass(BURST_BYTES + 4096, start), BURST_BYTES as usize);
        let second = start + Duration::from_secs(1);
        let rate = RATE_BYTES_PER_SECOND;
        assert_eq!(pass(rate + 4096, second), rate as usize);
        assert_eq!(pass(4096, second), 0);
    }

    #[test]
    fn a_reader_that_is_gone_is_no_error() {
        let now = Instant::now();
        let (console, reader) = console(now);
        drop(reader);
        push_all(&console, b"hello", now);
        assert!(!console.flush());
    }
}
