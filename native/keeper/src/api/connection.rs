//! One connection: its lines, its running requests, and its end.

use std::os::fd::AsRawFd;
use std::rc::Rc;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{Mutex, Semaphore};
use tokio::task::JoinSet;

use super::count::{Busy, Open};
use super::request::{Head, Op, Request};
use super::{calls, streams};
use crate::client::answer_line;
use crate::error::Failure;
use crate::keeper::Keeper;

const MAX_LINE_BYTES: usize = 1 << 20;
/// The limit of concurrent requests of one connection.
const MAX_AT_WORK: usize = 64;
const HANG_UP_POLL: Duration = Duration::from_millis(500);

/// Runs a connection to its end. If the client disconnects, its requests end too; if it only closed its sending side,
/// it still gets its answers.
pub async fn run(keeper: Rc<Keeper>, stream: UnixStream, open: Open) {
    let fd = stream.as_raw_fd();
    let (reader, writer) = stream.into_split();
    let mut reader = BufReader::with_capacity(64 << 10, reader);
    let writer = Rc::new(Mutex::new(writer));
    let room = std::sync::Arc::new(Semaphore::new(MAX_AT_WORK));
    let mut at_work = JoinSet::new();
    loop {
        let line = match read_line(&mut reader).await {
            Ok(Some(line)) => line,
            Ok(None) => break,
            Err(failure) => {
                write(&writer, &Value::Null, &Err(failure)).await;
                return;
            }
        };
        let Request { head, op } = match Request::parse(&line) {
            Ok(request) => request,
            Err((id, failure)) => {
                write(&writer, &id, &Err(failure)).await;
                continue;
            }
        };
        let call = match op {
            Op::Call(call) => call,
            Op::Stream(op) => {
                if room.available_permits() < MAX_AT_WORK {
                    write(&writer, &head.id, &Err(not_alone(&head))).await;
                    continue;
                }
                at_work.shutdown().await;
                let Some(writer) = Rc::into_inner(writer) else {
                    return;
                };
                let _busy = Busy::new(&keeper);
                streams::run(&keeper, &head, op, reader, writer.into_inner()).await;
                return;
            }
        };
        let permit = tokio::select! {
            permit = room.clone().acquire_owned() => permit,
            () = hung_up(fd) => return,
        };
        while at_work.try_join_next().is_some() {}
        let (keeper, writer) = (keeper.clone(), writer.clone());
        let busy = Busy::new(&keeper);
        at_work.spawn_local(async move {
            let result = calls::run(&keeper, &head, call).await;
            write(&writer, &head.id, &result).await;
            drop((permit, busy));
        });
    }
    tokio::select! {
        () = async { while at_work.join_next().await.is_some() {} } => {}
        () = hung_up(fd) => {}
    }
    drop((reader, writer, open));
}

fn not_alone(head: &Head) -> Failure {
    Failure::bad_request(format!(
        "{} needs a connection of its own, and this one has other open requests",
        head.name
    ))
}

/// Reads the next line; `None` at the end. Returns an error if the line exceeds the limit.
async fn read_line(reader: &mut BufReader<OwnedReadHalf>) -> Result<Option<Vec<u8>>, Failure> {
    let mut line = Vec::new();
    loop {
        let available = match reader.fill_buf().await {
            Ok(available) => available,
            Err(_) => return Ok(None),
        };
        if available.is_empty() {
            return Ok(None);
        }
        let end = available.iter().position(|byte| *byte == b'\n');
        let count = end.map_or(available.len(), |end| end + 1);
        if line.len() + count > MAX_LINE_BYTES + 1 {
            return Err(Failure::bad_request(format!(
                "a request line has more than {MAX_LINE_BYTES} bytes"
            )));
        }
        line.extend_from_slice(&available[..count]);
        reader.consume(count);
        if end.is_some() {
            line.pop();
            return Ok(Some(line));
        }
    }
}

async fn write(writer: &Mutex<OwnedWriteHalf>, id: &Value, result: &Result<Value, Failure>) {
    let line = answer_line(id, result);
    // A client that has disconnected reads no answer.
    let _ = writer.lock().await.write_all(&line).await;
}

/// Returns once the peer has closed both of its directions. It polls at intervals, and only while no byte is read from
/// the connection: to a read, a client that half-closes looks the same.
async fn hung_up(fd: i32) {
    loop {
        let mut poll = libc::pollfd {
            fd,
            events: 0,
            revents: 0,
        };
        // SAFETY: one valid entry; the descriptor lives as long as the halves that `run` holds.
        let ready = unsafe { libc::poll(&raw mut poll, 1, 0) };
        if ready > 0 && poll.revents & (libc::POLLHUP | libc::POLLERR) != 0 {
            return;
        }
        tokio::time::sleep(HANG_UP_POLL).await;
    }
}
