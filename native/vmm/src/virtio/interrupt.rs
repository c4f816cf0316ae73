//! The interrupt of a virtio device.

use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

const USED_BUFFER: u32 = 1;
const CONFIGURATION: u32 = 2;

/// An interrupt, whose reasons the guest reads and acknowledges without the lock of the device.
pub struct Interrupt {
    reasons: AtomicU32,
    line: EventFd,
    raised: AtomicU64,
}

impl Interrupt {
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            reasons: AtomicU32::new(0),
            line: EventFd::new(EFD_NONBLOCK)?,
            raised: AtomicU64::new(0),
        })
    }

    /// Returns the descriptor that KVM turns into an edge of the interrupt's line.
    pub fn line(&self) -> &EventFd {
        &self.line
    }

    /// Says that buffers were used.
    pub fn used(&self) {
        self.raise(USED_BUFFER);
    }

    /// Says that the configuration or the status of the device changed.
    pub fn changed(&self) {
        self.raise(CONFIGURATION);
    }

    fn raise(&self, reason: u32) {
        self.reasons.fetch_or(reason, Ordering::SeqCst);
        self.raised.fetch_add(1, Ordering::Relaxed);
        // A counter that is full has raised the line already.
        let _ = self.line.write(1);
    }

    /// Returns how often the interrupt was raised.
    pub fn raised(&self) -> u64 {
        self.raised.load(Ordering::Relaxed)
    }

    pub fn reasons(&self) -> u32 {
        self.reasons.load(Ordering::SeqCst)
    }

    /// Takes over the reasons of a saved device, and raises the line: an edge that was on its way is in no saved state.
    pub fn restore(&self, reasons: u32, changed: bool) {
        let added = if changed { CONFIGURATION } else { 0 };
        self.reasons.store(reasons, Ordering::SeqCst);
        // The guest may have buffers of whose use it has not learned.
        self.raise(USED_BUFFER | added);
    }

    pub fn acknowledge(&self, reasons: u32) {
        self.reasons.fetch_and(!reasons, Ordering::SeqCst);
    }
}
