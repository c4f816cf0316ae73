//! The addresses of the guest that programs connect to.

use std::net::{Ipv4Addr, SocketAddrV4};

/// The address on which the HTTP proxy listens.
pub const PROXY: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 3128);
/// The limit of a guest's services.
pub const MAX_SERVICES: usize = 32;

/// Returns the address of a service by its index in the list, beginning with 127.0.1.1.
pub fn service_address(index: usize) -> Ipv4Addr {
    let last = u8::try_from(index + 1).unwrap_or(u8::MAX);
    Ipv4Addr::new(127, 0, 1, last)
}
