//! Sockets of connections on both sides of the door.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketType, getpeername, sockopt};

/// Accepts only a connected stream: a program's, which is on this machine, or the helper's end of a pair, if it
/// forwards a request with a whole URL.
pub fn check_connection(socket: &OwnedFd) -> io::Result<()> {
    let is_stream = sockopt::socket_type(socket)? == SocketType::STREAM;
    let peer = getpeername(socket)?;
    let is_known = match sockopt::socket_domain(socket)? {
        AddressFamily::UNIX => true,
        AddressFamily::INET | AddressFamily::INET6 => peer
            .and_then(|peer| SocketAddr::try_from(peer).ok())
            .is_some_and(|peer| is_loopback(peer.ip())),
        _ => false,
    };
    match is_stream && is_known {
        true => Ok(()),
        false => Err(io::ErrorKind::InvalidData.into()),
    }
}

fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

/// Ends a connection with a reset, so that the program sees a failure.
pub fn reset(client: impl AsFd) {
    let _ = sockopt::set_socket_linger(client, Some(Duration::ZERO));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_of_another_machine_is_no_programs() {
        for (address, expected) in [
            ("127.0.0.1", true),
            ("127.0.1.32", true),
            ("::1", true),
            ("::ffff:127.0.0.1", true),
            ("10.0.2.2", false),
            ("0.0.0.0", false),
            ("::", false),
            ("::ffff:10.0.2.2", false),
            ("fe80::1", false),
        ] {
            assert_eq!(is_loopback(address.parse().unwrap()), expected, "{address}");
        }
    }
}
