//! The guest's side of the door: what programs of the guest connect to, joined to tunnels of the keeper.
//!
//! A helper process under a user of its own accepts the connections and speaks HTTP ([`helper`]). This
//! process takes only small requests of it and moves bytes; it parses nothing that a program wrote.

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
