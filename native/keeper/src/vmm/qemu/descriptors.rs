//! The files that QEMU inherits.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::rc::Rc;

use crate::error::Failure;
use crate::guest::mailbox;
use crate::vmm::process::Sockets;

/// The descriptors of QEMU, by number.
#[derive(Debug, Clone, Copy)]
pub struct Descriptors {
    pub port: RawFd,
    pub console: RawFd,
    pub mailbox: RawFd,
    pub control: RawFd,
    pub snapshot: SnapshotDescriptors,
}

/// The descriptors of a VM that can be saved or is a copy.
#[derive(Debug, Clone, Copy, Default)]
pub struct SnapshotDescriptors {
    /// The memory of the guest.
    pub memory: Option<RawFd>,
    /// The end of a pipe from which the VMM of a copy reads its state.
    pub state: Option<RawFd>,
}

/// The files behind [`SnapshotDescriptors`].
#[derive(Default)]
pub struct SnapshotFiles {
    pub memory: Option<Rc<File>>,
    pub state: Option<OwnedFd>,
}

/// The mailbox and the files of a snapshot.
pub struct Inherited {
    pub mailbox: File,
    snapshot: SnapshotFiles,
}

impl Inherited {
    pub fn open(snapshot: SnapshotFiles) -> Result<Self, Failure> {
        let mailbox =
            mailbox::memory().map_err(|error| Failure::io("making the mailbox", &error))?;
        Ok(Self { mailbox, snapshot })
    }

    /// Returns all descriptors of a QEMU that has these sockets.
    pub fn with(&self, sockets: Sockets) -> Descriptors {
        Descriptors {
            port: sockets.port,
            console: sockets.console,
            mailbox: self.mailbox.as_raw_fd(),
            control: sockets.control,
            snapshot: SnapshotDescriptors {
                memory: self.snapshot.memory.as_ref().map(AsRawFd::as_raw_fd),
                state: self.snapshot.state.as_ref().map(AsRawFd::as_raw_fd),
            },
        }
    }

    pub fn files(&self) -> Vec<BorrowedFd<'_>> {
        let memory = self.snapshot.memory.as_ref().map(|file| file.as_fd());
        let state = self.snapshot.state.as_ref().map(AsFd::as_fd);
        [Some(self.mailbox.as_fd()), memory, state]
            .into_iter()
            .flatten()
            .collect()
    }
}
