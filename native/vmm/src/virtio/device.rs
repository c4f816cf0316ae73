//! The interface of a virtio device for its transport.

use std::os::fd::RawFd;

use super::failure::Failure;
use super::ring::Rings;

/// The progress of a device with a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// There is nothing to do until the guest kicks the queue, or the source is ready.
    Idle,
    /// There is more to do. Other devices have their turn first.
    More,
    /// A write found no room on the host. It is repeated at the next turn.
    NoRoom,
}

/// A descriptor of the host for which a device waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Source {
    pub fd: RawFd,
    /// Events of `poll`.
    pub events: i16,
}

/// A device. Its transport calls it with one lock held, from one thread at a time.
pub trait Device: Send {
    /// The name in messages.
    fn name(&self) -> &str;

    /// The number of the kind of device in the specification.
    fn id(&self) -> u32;

    /// The longest size of each queue, at most [`super::MAX_DESCRIPTORS`].
    fn queues(&self) -> &'static [u16];

    /// The features of this kind of device; the transport adds its own.
    fn features(&self) -> u64;

    /// The configuration that the guest reads.
    fn config(&self) -> &[u8];

    /// Whether a copy must have the configuration of its template, because the guest cannot follow a change.
    fn keeps_config(&self) -> bool {
        false
    }

    /// Takes what the guest writes into the configuration. Few devices let it.
    fn write_config(&mut self, offset: u64, data: &[u8]) -> Result<(), Failure> {
        let length = data.len();
        Err(Failure::new(format!(
            "a write of {length} bytes into the configuration at {offset}"
        )))
    }

    /// Forgets all that the guest did. The device can be used again.
    fn reset(&mut self);

    /// Handles a turn of buffers of a queue, at most the length of the queue.
    fn process(&mut self, queue: usize, rings: &mut Rings<'_>) -> Result<Progress, Failure>;

    /// Returns what else the device waits for; `None` while it waits for the guest only.
    fn source(&self) -> Option<Source> {
        None
    }

    /// Handles events of the source.
    fn source_ready(&mut self, _events: i16, _rings: &mut Rings<'_>) -> Result<Progress, Failure> {
        Ok(Progress::Idle)
    }

    /// Fails while the device holds something that no saved state has. The text names it.
    fn check_idle(&self) -> Result<(), Failure> {
        Ok(())
    }

    /// Begins as the device of a copy, whose driver runs already.
    fn restored(&mut self) {}

    /// Writes what the device still holds for the host, without waiting. Called once, at the end of the VM.
    fn finish(&mut self) {}
}
