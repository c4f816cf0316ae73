//! Tars between clients and the guest. A tar of the guest is hostile until it is checked.

mod bridge;
mod tar_check;
pub mod tar_stream;
