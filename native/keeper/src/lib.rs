//! The keeper: one process per VM. It starts the VMM in a jail, is the only client of its guest
//! port, spools output to disk, keeps deadlines, fence and lease, and serves a local API.
//! docs/reference/keeper.md describes commands, run directory and API.

pub mod api;
pub mod cgroups;
pub mod client;
pub mod commands;
pub mod config;
pub mod disk;
pub mod disk_copy;
pub mod door;
pub mod egress;
pub mod error;
pub mod exec;
pub mod guest;
pub mod host;
pub mod keeper;
pub mod lease;
pub mod notices;
pub mod run_dir;
pub mod snapshots;
pub mod transfer;
pub mod vmm;
