//! Trees between host and guest. What comes from the guest is hostile until it is checked.

pub mod bridge;
pub mod tar_check;
pub mod tar_stream;
pub mod tree;
mod tree_read;
mod tree_write;
