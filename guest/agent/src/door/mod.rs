//! The guest's side of the door: it connects programs of the guest to tunnels of the keeper.
//!
//! A helper process with a user of its own accepts the connections and speaks HTTP ([`helper`]). This process receives
//! only small requests from it, and moves bytes; it parses nothing that a program wrote.

mod addresses;
mod connection;
mod handoff;
pub mod helper;
mod hosts;
mod pump;
mod rest;
mod serve;
mod socket;

pub use serve::open;
