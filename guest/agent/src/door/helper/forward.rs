//! Forwards one request with a whole URL over its own connection, and returns the response.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::thread;

use voidbox_protocol::body::Connect;

use super::asker::Asker;
use super::body::{Body, Framing, pass};
use super::client::Client;
use super::head::{Forward, Response, parse_response};
use super::problem::Problem;
use crate::door::handoff::{receive_end, send_connection, send_rest};
use crate::door::socket::reset;

const READ_BYTES: usize = 16 << 10;
/// If more than this remains of an answer, PID 1 moves the rest; for less, the messages would cost more.
const LEAST_REST_BYTES: u64 = 256 << 10;

/// Serves one request. Returns true if the program's connection can carry another one. Each request has its own
/// connection to the server, so that the policy checks each of them.
pub fn serve(asker: &Asker, client: &mut Client, request: &Forward) -> Result<bool, Problem> {
    let wanted = Connect::Host {
        host: request.host.clone(),
        port: request.port,
    };
    let failed = |error: io::Error| Problem::new(502, format!("the connection broke: {error}"));
    let mut line = asker.ask(&wanted).map_err(Problem::from_refusal)?;
    let (mut server, end) = UnixStream::pair().map_err(failed)?;
    send_connection(&mut line, end.as_fd(), &[]).map_err(failed)?;
    drop(end);
    server.write_all(&request.head).map_err(failed)?;

    let mut program = client.stream.try_clone().map_err(failed)?;
    let mut ahead = std::mem::take(&mut client.ahead);
    if let Some(length) = length_of_whole(request.body, &ahead) {
        // The whole request is sent before the answer arrives, so the connection stays open for the next request.
        let is_uploaded = server.write_all(&ahead[..length]).is_ok();
        ahead.drain(..length);
        client.ahead = ahead;
        return Ok(pass_response(&mut line, &mut server, &mut program, request)? && is_uploaded);
    }
    let mut upload_from = client.stream.try_clone().map_err(failed)?;
    let mut upload_to = server.try_clone().map_err(failed)?;
    let (answered, uploaded) = thread::scope(|scope| {
        let upload = scope.spawn(move || {
            let mut body = Body::new(request.body);
            let whole = pass(&mut body, &mut ahead, &mut upload_from, &mut upload_to);
            (matches!(whole, Ok(true)), ahead)
        });
        let answered = pass_response(&mut line, &mut server, &mut program, request);
        if !upload.is_finished() {
            // The server has sent its whole answer, so no reader exists for further bytes of the program.
            let _ = program.shutdown(Shutdown::Read);
            let _ = server.shutdown(Shutdown::Both);
        }
        (answered, upload.join())
    });
    let (is_uploaded, ahead) = uploaded.unwrap_or((false, Vec::new()));
    client.ahead = ahead;
    Ok(answered? && is_uploaded)
}

/// Returns the length of a body that has arrived whole, usually because the request has no body.
fn length_of_whole(framing: Framing, ahead: &[u8]) -> Option<usize> {
    let mut body = Body::new(framing);
    let length = body.take(ahead).ok()?;
    body.is_over().then_some(length)
}

/// Returns true if the program can detect the end of the response, so that its connection can stay open.
fn pass_response(
    line: &mut UnixStream,
    server: &mut UnixStream,
    program: &mut (impl Write + AsFd),
    request: &Forward,
) -> Result<bool, Problem> {
    let mut ahead = Vec::new();
    let response = loop {
        let mut response = next_response(server, &mut ahead, request.is_head_method)?;
        let keep_alive = request.keep_alive && response.body != Framing::UntilClose;
        response.finish(keep_alive);
        if program.write_all(&response.head).is_err() {
            return Ok(false);
        }
        if !response.is_interim {
            break response;
        }
    };
    let mut body = Body::new(response.body);
    let passed = match body.left() {
        Some(left) if left >= LEAST_REST_BYTES => {
            pass_rest(line, &mut body, &mut ahead, server, program)
        }
        _ => pass(&mut body, &mut ahead, server, program),
    };
    let is_whole = match (passed, response.body) {
        // If the body ends with the connection, only PID 1 knows whether the end was clean.
        (Ok(true), Framing::UntilClose) => receive_end_of(line, server),
        (Ok(whole), _) => whole,
        (Err(_), _) => false,
    };
    if !is_whole {
        // The head was sent, so a missing rest must not look like the response's end.
        reset(program);
    }
    Ok(is_whole && request.keep_alive && response.body != Framing::UntilClose)
}

/// Passes on the received part of a long body, and lets PID 1 move the rest.
fn pass_rest(
    line: &mut UnixStream,
    body: &mut Body,
    ahead: &mut Vec<u8>,
    server: &mut UnixStream,
    program: &mut (impl Write + AsFd),
) -> io::Result<bool> {
    // After this, PID 1 adds no bytes, and those that it has added are read. So both know where the rest begins.
    server.shutdown(Shutdown::Read)?;
    if pass(body, ahead, server, program)? {
        return Ok(true);
    }
    let left = body.left().ok_or(io::ErrorKind::InvalidData)?;
    send_rest(line, program.as_fd(), left)?;
    Ok(receive_end(line))
}

fn receive_end_of(line: &mut UnixStream, server: &UnixStream) -> bool {
    // The other direction is still open, and PID 1 reports the outcome only once both have ended.
    let _ = server.shutdown(Shutdown::Write);
    receive_end(line)
}

fn next_response(
    server: &mut UnixStream,
    ahead: &mut Vec<u8>,
    is_head_method: bool,
) -> Result<Response, Problem> {
    let mut buffer = vec![0; READ_BYTES];
    loop {
        if !ahead.is_empty()
            && let Some((response, length)) = parse_response(ahead, is_head_method)?
        {
            ahead.drain(..length);
            return Ok(response);
        }
        match server.read(&mut buffer) {
            Ok(0) => return Err(Problem::new(502, "the server ended without an answer")),
            Ok(count) => ahead.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Problem::new(502, format!("the connection broke: {error}"))),
        }
    }
}
