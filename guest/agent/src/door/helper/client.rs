//! A program's connection to the proxy.

use std::net::TcpStream;

/// A program's connection, and the bytes that were read after the last message.
pub struct Client {
    pub stream: TcpStream,
    pub ahead: Vec<u8>,
}
