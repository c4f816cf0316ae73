//! A connection that a program has with the proxy.

use std::net::TcpStream;

/// A program's connection and what was read of it beyond the last message.
pub struct Client {
    pub stream: TcpStream,
    pub ahead: Vec<u8>,
}
