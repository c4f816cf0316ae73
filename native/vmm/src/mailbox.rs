//! Messages from threads to one that waits for descriptors.

use std::collections::VecDeque;
use std::io;
use std::sync::{Mutex, PoisonError};

use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

/// A queue of messages, with a descriptor that is readable while there are any.
pub struct Mailbox<T> {
    messages: Mutex<VecDeque<T>>,
    wake: EventFd,
}

impl<T> Mailbox<T> {
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            messages: Mutex::new(VecDeque::new()),
            wake: EventFd::new(EFD_NONBLOCK)?,
        })
    }

    pub fn wake(&self) -> &EventFd {
        &self.wake
    }

    pub fn send(&self, message: T) {
        self.messages
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push_back(message);
        // It fails only at a full counter, which has woken the reader already.
        let _ = self.wake.write(1);
    }

    pub fn take(&self) -> Option<T> {
        // It fails only at a counter of zero, when an earlier call has reset it. The messages behind this one are taken
        // before the reader waits again.
        let _ = self.wake.read();
        self.messages
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop_front()
    }
}
