//! The guest port: one link from the guest's `Hello` until it ends or rests, many requests on it.

pub mod clock;
pub mod handshake;
pub mod link;
pub mod mailbox;
pub mod outbox;
pub mod patience;
pub mod pulse;
pub mod rest;
pub mod transfer;
