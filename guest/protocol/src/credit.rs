//! The bytes that each stream may still send, counted on both of its sides.

use thiserror::Error;

/// The number of bytes that a stream may have in flight when it starts.
pub const WINDOW_BYTES: u32 = 512 << 10;
/// A receiver grants only when this much is free, so that small reads do not cause small grants.
pub const GRANT_BYTES: u32 = WINDOW_BYTES / 8;
/// The window of one direction of a tunnel. It is smaller, because a guest may have many tunnels whose other ends do
/// not read.
pub const TUNNEL_WINDOW_BYTES: u32 = 128 << 10;
/// The window if bytes of tunnels pass through the mailbox: a slot's worth.
pub const TUNNEL_MAIL_WINDOW_BYTES: u32 = 256 << 10;

/// A receiver of mail grants at least half a window at once: each piece costs both sides the same, whatever its size,
/// and pieces become as small as grants.
pub const TUNNEL_MAIL_GRANT_BYTES: u32 = TUNNEL_MAIL_WINDOW_BYTES / 2;

/// Returns the window of one direction of a tunnel.
pub fn tunnel_window(has_mail: bool) -> u32 {
    match has_mail {
        true => TUNNEL_MAIL_WINDOW_BYTES,
        false => TUNNEL_WINDOW_BYTES,
    }
}

/// The peer has exceeded its window. This ends the connection.
#[derive(Debug, Error, Clone, Copy, PartialEq, Eq)]
pub enum CreditError {
    #[error("{got} bytes came with {left} left in the window")]
    Overrun { got: usize, left: u32 },
    #[error("a grant of {granted} bytes lifts the window of {left} above {window}")]
    Overgrant {
        granted: u32,
        left: u32,
        window: u32,
    },
}

/// The sender's side of a stream's window.
#[derive(Debug, Clone)]
pub struct SendWindow {
    left: u32,
    window: u32,
}

impl Default for SendWindow {
    fn default() -> Self {
        Self::of(WINDOW_BYTES)
    }
}

impl SendWindow {
    /// Creates the window of a stream with another size than the usual one.
    pub fn of(window: u32) -> Self {
        Self {
            left: window,
            window,
        }
    }

    /// Returns the number of bytes that may be sent now.
    pub fn left(&self) -> usize {
        self.left as usize
    }

    /// Takes up to `want` bytes out of the window, and returns how many may be sent.
    pub fn take(&mut self, want: usize) -> usize {
        let count = u32::try_from(want).unwrap_or(u32::MAX).min(self.left);
        self.left -= count;
        count as usize
    }

    /// Adds a `Credit` of the other side. A grant of more bytes than were sent is an error of the peer.
    pub fn grant(&mut self, bytes: u32) -> Result<(), CreditError> {
        let left = self.left;
        self.left = left
            .checked_add(bytes)
            .filter(|sum| *sum <= self.window)
            .ok_or(CreditError::Overgrant {
                granted: bytes,
                left,
                window: self.window,
            })?;
        Ok(())
    }
}

/// The receiver's side of a stream's window.
#[derive(Debug, Clone)]
pub struct ReceiveWindow {
    left: u32,
    freed: u32,
    window: u32,
    grant: u32,
}

impl Default for ReceiveWindow {
    fn default() -> Self {
        Self {
            left: WINDOW_BYTES,
            freed: 0,
            window: WINDOW_BYTES,
            grant: GRANT_BYTES,
        }
    }
}

impl ReceiveWindow {
    /// Creates the window of one direction of a tunnel.
    pub fn of_tunnel(has_mail: bool) -> Self {
        let window = tunnel_window(has_mail);
        Self {
            left: window,
            freed: 0,
            window,
            grant: match has_mail {
                true => TUNNEL_MAIL_GRANT_BYTES,
                false => window / (WINDOW_BYTES / GRANT_BYTES),
            },
        }
    }

    /// Counts bytes that arrived; more than the window allows is an error of the peer.
    pub fn received(&mut self, bytes: usize) -> Result<(), CreditError> {
        let left = self.left;
        self.left = u32::try_from(bytes)
            .ok()
            .and_then(|count| left.checked_sub(count))
            .ok_or(CreditError::Overrun { got: bytes, left })?;
        Ok(())
    }

    /// Counts bytes that left this side's memory. Returns `Some(n)` if a `Credit` of `n` is due.
    ///
    /// The sum of all calls must never exceed the received bytes.
    pub fn consumed(&mut self, bytes: usize) -> Option<u32> {
        let held = self.window - self.left - self.freed;
        debug_assert!(
            bytes <= held as usize,
            "consumed {bytes} of {held} held bytes"
        );
        self.freed += u32::try_from(bytes).unwrap_or(u32::MAX).min(held);
        if self.freed < self.grant {
            return None;
        }
        let due = self.freed;
        self.freed = 0;
        self.left += due;
        Some(due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sender_stops_at_the_window_and_goes_on_with_the_grant() {
        let mut sender = SendWindow::default();
        assert_eq!(sender.take(400 << 10), 400 << 10);
        assert_eq!(sender.take(400 << 10), 112 << 10);
        assert_eq!(sender.take(1), 0);
        sender.grant(10).unwrap();
        assert_eq!(sender.take(100), 10);
    }

    #[test]
    fn a_grant_above_the_window_is_refused_and_changes_nothing() {
        let mut sender = SendWindow::default();
        sender.take(5);
        assert_eq!(
            sender.grant(6),
            Err(CreditError::Overgrant {
                granted: 6,
                left: WINDOW_BYTES - 5,
                window: WINDOW_BYTES
            })
        );
        assert!(sender.grant(u32::MAX).is_err());
        assert_eq!(sender.left(), WINDOW_BYTES as usize - 5);
    }

    #[test]
    fn bytes_beyond_the_window_are_refused() {
        let mut receiver = ReceiveWindow::default();
        receiver.received(WINDOW_BYTES as usize).unwrap();
        assert_eq!(
            receiver.received(1),
            Err(CreditError::Overrun { got: 1, left: 0 })
        );
        assert!(receiver.received(usize::MAX).is_err());
    }

    #[test]
    fn both_sides_agree_over_a_long_stream() {
        let (mut sender, mut receiver) = (SendWindow::default(), ReceiveWindow::default());
        let mut sent = 0usize;
        while sent < 10 << 20 {
            let count = sender.take(60_001);
            assert!(count > 0, "the stream stands still after {sent} bytes");
            receiver.received(count).unwrap();
            sent += count;
            if let Some(due) = receiver.consumed(count) {
                sender.grant(due).unwrap();
            }
        }
    }

    #[test]
    fn a_tunnel_goes_on_in_pieces_of_half_a_window_at_least() {
        let window = TUNNEL_MAIL_WINDOW_BYTES as usize;
        let mut sender = SendWindow::of(TUNNEL_MAIL_WINDOW_BYTES);
        let mut receiver = ReceiveWindow::of_tunnel(true);
        for _ in 0..100 {
            // All sent bytes were consumed in small reads.
            assert!(sender.left() >= window / 2);
            let count = sender.take(window);
            receiver.received(count).unwrap();
            for read in vec![1000; count / 1000].into_iter().chain([count % 1000]) {
                if let Some(due) = receiver.consumed(read) {
                    assert!(due >= TUNNEL_MAIL_GRANT_BYTES);
                    sender.grant(due).unwrap();
                }
            }
        }
        let mut receiver = ReceiveWindow::of_tunnel(false);
        receiver.received(16 << 10).unwrap();
        assert_eq!(receiver.consumed((16 << 10) - 1), None);
        assert_eq!(receiver.consumed(1), Some(16 << 10));
    }

    #[test]
    fn a_stream_never_stalls_on_grants_that_are_held_back() {
        // All sent bytes were consumed, but less than one grant is due: the sender must still have room for a whole
        // chunk.
        let (mut sender, mut receiver) = (SendWindow::default(), ReceiveWindow::default());
        let sent = sender.take(GRANT_BYTES as usize - 1);
        receiver.received(sent).unwrap();
        assert_eq!(receiver.consumed(sent), None);
        assert!(sender.left() >= crate::frame::MAX_CHUNK_BYTES);
    }
}
