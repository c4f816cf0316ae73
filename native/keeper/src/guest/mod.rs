//! The guest port: one link for the VM's whole life, many requests on it.

pub mod clock;
pub mod handshake;
pub mod link;
pub mod mailbox;
pub mod outbox;
pub mod patience;
pub mod pulse;
pub mod transfer;
