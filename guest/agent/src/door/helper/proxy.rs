//! One connection of a program to the proxy.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use voidbox_protocol::body::Connect;

use super::asker::{Asker, hand_over};
use super::client::Client;
use super::forward;
use super::head::{Request, parse_request};
use super::problem::Problem;

/// The time for which a program may take to send a head, and for which a kept connection may be idle.
const HEAD_TIMEOUT: Duration = Duration::from_secs(60);
const READ_BYTES: usize = 16 << 10;

/// Serves requests until the connection ends.
pub fn serve(asker: &Asker, stream: TcpStream) {
    let mut client = Client {
        stream,
        ahead: Vec::new(),
    };
    loop {
        let request = match next_request(&mut client, HEAD_TIMEOUT) {
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

/// Reads the next request; `None` if the program has ended the connection or stays silent.
fn next_request(client: &mut Client, limit: Duration) -> Result<Option<Request>, Problem> {
    // A program that sends a byte at intervals gets no more time than a silent one.
    let deadline = Instant::now() + limit;
    let mut buffer = vec![0; READ_BYTES];
    loop {
        if !client.ahead.is_empty()
            && let Some((request, length)) = parse_request(&client.ahead)?
        {
            client.ahead.drain(..length);
            let _ = client.stream.set_read_timeout(None);
            return Ok(Some(request));
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(None);
        }
        let _ = client.stream.set_read_timeout(Some(left));
        match client.stream.read(&mut buffer) {
            Ok(0) => return Ok(None),
            Ok(count) => client.ahead.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return Ok(None),
        }
    }
}

fn tunnel(asker: &Asker, mut client: Client, wanted: Connect) {
    let line = match asker.ask(&wanted) {
        Ok(line) => line,
        Err(refused) => return refuse(client, &Problem::from_refusal(refused)),
    };
    let answered = client
        .stream
        .write_all(b"HTTP/1.1 200 Connection established\r\n\r\n");
    if answered.is_ok() {
        let _ = hand_over(line, client.stream, &client.ahead);
    }
}

/// Answers, and for a moment discards further bytes of the program: closing a socket with unread bytes resets it, and
/// the program may lose the answer.
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

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// Returns a program's end of a connection, and the helper's.
    fn pair() -> (TcpStream, Client) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let program = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let stream = listener.accept().unwrap().0;
        let ahead = Vec::new();
        (program, Client { stream, ahead })
    }

    #[test]
    fn a_head_has_one_minute_however_its_bytes_come() {
        assert_eq!(HEAD_TIMEOUT, Duration::from_secs(60));
        let limit = Duration::from_millis(300);
        let (silent, mut client) = pair();
        let begun = Instant::now();
        assert!(matches!(next_request(&mut client, limit), Ok(None)));
        assert!(begun.elapsed() >= limit);
        drop(silent);

        let (mut slow, mut client) = pair();
        let dripping = std::thread::spawn(move || {
            while slow.write_all(b"G").is_ok() {
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let begun = Instant::now();
        assert!(matches!(next_request(&mut client, limit), Ok(None)));
        let took = begun.elapsed();
        assert!(took >= limit && took < 20 * limit, "{took:?}");
        drop(client);
        dripping.join().unwrap();
    }

    #[test]
    fn a_head_that_comes_in_pieces_is_whole() {
        let (mut program, mut client) = pair();
        let sending = std::thread::spawn(move || {
            for piece in ["CONNECT a.exam", "ple:443 HTTP/1.1\r\n", "\r\nearly"] {
                program.write_all(piece.as_bytes()).unwrap();
                std::thread::sleep(Duration::from_millis(20));
            }
            program
        });
        let request = next_request(&mut client, Duration::from_secs(20)).unwrap();
        let host = "a.example".to_owned();
        assert_eq!(request, Some(Request::Tunnel { host, port: 443 }));
        let _program = sending.join().unwrap();
    }
}
