//! The server of a VM's shared folders. It has neither KVM nor memory of the guest: the VMM copies each request out of the
//! guest and sends it over a socket. Its guest may be hostile, so requests are checked before the 9p library reads them.

mod admit;
mod confine;
mod serve;

pub use admit::MESSAGE_BYTES;
pub use serve::serve;
