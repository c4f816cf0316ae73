//! The connection to the keeper: one file for each transport.

mod serial;
mod vsock;

use std::fs::File;
use std::time::Duration;

use super::boot_error::BootError;

/// The time within which the device of the connection must appear.
const PORT_WAIT: Duration = Duration::from_secs(10);

/// The way from the guest to its keeper. Bulk data may take the mailbox beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// The virtio-serial port of a fixed name.
    Serial,
    /// A connection to this port of the host.
    Vsock { port: u32 },
}

/// Returns once the keeper is on the other end.
pub fn open(transport: Transport) -> Result<File, BootError> {
    match transport {
        Transport::Serial => serial::open(PORT_WAIT),
        Transport::Vsock { port } => vsock::open(port, PORT_WAIT),
    }
}
