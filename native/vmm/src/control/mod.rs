//! The control: lines of JSON between the VMM and its keeper.

mod channel;
mod messages;
mod receive;

pub use channel::{Channel, Input};
pub use messages::{Message, Request, Statistics};
