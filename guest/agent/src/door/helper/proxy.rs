//! One connection of a program with the proxy.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use voidbox_protocol::body::Connect;

use super::head::{Problem, Request, parse_request};
use super::{Asker, forward, hand_over};
use crate::door::handoff::Refusal;

/// How long a program may take for a head, and a kept connection be idle.
const HEAD_TIMEOUT: Duration = Duration::from_secs(60);
const READ_BYTES: usize = 16 << 10;

/// A program's connection and what was read of it beyond the last message.
pub struct Client {
    pub stream: TcpStream,
    pub ahead: Vec<u8>,
}

/// Serves requests until the connection ends.
pub fn serve(asker: &Asker, stream: TcpStream) {
    let mut client = Client {
        stream,
        ahead: Vec::new(),
    };
    loop {
        let request = match next_request(&mut client) {
            Ok(Some(request)) => request,
            Ok(None) => return,
            Err(problem) => return refuse(client, &problem),
        };
        let forward = match request {
            Request::Tunnel { host, port } => {
                return tunnel(asker, client, Connect::Host { host, port });
            }
            Request::Forward(forward) => forward,
        };
        match forward::serve(asker, &mut client, &forward) {
            Ok(true) => {}
            Ok(false) => return,
            Err(problem) => return refuse(client, &problem),
        }
    }
}

/// The next request; `None` when the program has ended the connection or keeps silent.
fn next_request(client: &mut Client) -> Result<Option<Request>, Problem> {
    let _ = client.stream.set_read_timeout(Some(HEAD_TIMEOUT));
    let mut buffer = vec![0; READ_BYTES];
    loop {
        if !client.ahead.is_empty()
            && let Some((request, length)) = parse_request(&client.ahead)?
        {
            client.ahead.drain(..length);
            let _ = client.stream.set_read_timeout(None);
            return Ok(Some(request));
        }
        match client.stream.read(&mut buffer) {
            Ok(0) => return Ok(None),
            Ok(count) => client.ahead.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return Ok(None),
        }
    }
}

/// The answer for a connection that there is not.
pub fn problem_of((refusal, reason): (Refusal, String)) -> Problem {
    let status = match refusal {
        Refusal::NotAllowed => 403,
        Refusal::Limit => 503,
        Refusal::Failed => 502,
    };
    Problem::new(status, reason)
}

fn tunnel(asker: &Asker, mut client: Client, wanted: Connect) {
    let line = match asker.ask(&wanted) {
        Ok(line) => line,
        Err(refused) => return refuse(client, &problem_of(refused)),
    };
    let answered = client
        .stream
        .write_all(b"HTTP/1.1 200 Connection established\r\n\r\n");
    if answered.is_ok() {
        let _ = hand_over(line, client.stream, &client.ahead);
    }
}

/// Answers, and reads away for a moment what the program still sends: a socket that is closed over
/// unread bytes is reset, and the program may lose the answer.
fn refuse(mut client: Client, problem: &Problem) {
    if client.stream.write_all(&problem.response()).is_err() {
        return;
    }
    let _ = client.stream.shutdown(Shutdown::Write);
    let _ = client.stream.set_read_timeout(Some(Duration::from_secs(1)));
    let mut nothing = [0u8; 4096];
    for _ in 0..256 {
        if !matches!(client.stream.read(&mut nothing), Ok(1..)) {
            return;
        }
    }
}
