//! The ops that take their connection over: raw bytes follow the answer line.

use std::rc::Rc;

use serde_json::json;
use tokio::io::BufReader;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use voidbox_protocol::body::{ExecFreeze, PathRequest, ReadFileResponse, WriteFile};
use voidbox_protocol::mailbox::SLOT_BYTES;
use voidbox_protocol::message::{Message, Stream};

use super::request::{ExecKey, Freeze, Head, Offset, Output, Outputs, StreamOp, Tie};
use super::{checkpoint, checkpoint_full, fence};
use crate::client::{Client, Interrupted};
use crate::error::{Code, Failure};
use crate::exec::{Exec, Place};
use crate::guest::link::Link;
use crate::guest::transfer::Transfer;
use crate::keeper::{Keeper, Phase};
use crate::transfer::tar_stream;

const CHUNK_BYTES: usize = 64 << 10;
/// The head of a piece of `exec.outputs`: its stream and its length.
const PIECE_HEAD_BYTES: usize = 5;

/// Runs a stream op to its end and closes the connection.
pub async fn run(
    keeper: &Rc<Keeper>,
    head: &Head,
    op: StreamOp,
    reader: BufReader<OwnedReadHalf>,
    writer: OwnedWriteHalf,
) {
    let mut client = Client::new(head.id.clone(), reader, writer);
    let fence = match (&op, head.fence) {
        // Ops that only read need no fence.
        (StreamOp::ExecOutput(_) | StreamOp::ExecOutputs(_) | StreamOp::Notices(_), None) => {
            Ok(u64::MAX)
        }
        _ => fence::check(keeper, head),
    };
    let fence = match fence {
        Ok(fence) => fence,
        Err(failure) => return client.refuse(failure).await,
    };
    // The exec itself cuts standard input, at a point at which every byte is counted.
    let is_stdin = matches!(op, StreamOp::ExecStdin(_));
    tokio::select! {
        () = serve(keeper, head, op, &mut client) => {}
        () = fence::raised(keeper, fence), if !is_stdin => {}
    }
}

async fn serve(keeper: &Rc<Keeper>, head: &Head, op: StreamOp, client: &mut Client) {
    // The client may send more bytes after a tar's end marker.
    let is_put = matches!(op, StreamOp::FilePut(_) | StreamOp::TarPut(_));
    match carry_out(keeper, head, op, client).await {
        Err(Interrupted::Failure(failure)) => client.refuse(failure).await,
        Ok(()) if is_put => client.let_go().await,
        Ok(()) | Err(Interrupted::Gone) => {}
    }
}

async fn carry_out(
    keeper: &Rc<Keeper>,
    head: &Head,
    op: StreamOp,
    client: &mut Client,
) -> Result<(), Interrupted> {
    match op {
        StreamOp::Tie(args) => {
            tie(keeper, head, head.read(args)?, client).await;
            Ok(())
        }
        StreamOp::ExecOutput(args) => exec_output(keeper, head.read(args)?, client).await,
        StreamOp::ExecOutputs(args) => exec_outputs(keeper, head.read(args)?, client).await,
        StreamOp::Notices(args) => notices(keeper, head.read(args)?, client).await,
        StreamOp::ExecStdin(args) => exec_stdin(keeper, head, head.read(args)?, client).await,
        StreamOp::ExecFreeze(args) => exec_freeze(keeper, head.read(args)?, client).await,
        StreamOp::Checkpoint(args) => checkpoint::make(keeper, head.read(args)?, client).await,
        StreamOp::CheckpointFull(args) => {
            checkpoint_full::make(keeper, head.read(args)?, client).await
        }
        StreamOp::FilePut(args) => file_put(keeper, head.read(args)?, client).await,
        StreamOp::FileGet(args) => file_get(keeper, head.read(args)?, client).await,
        StreamOp::TarPut(args) => tar_put(keeper, head.read(args)?, client).await,
        StreamOp::TarGet(args) => tar_get(keeper, head.read(args)?, client).await,
    }
}

/// Ties the VM's life to the client's connection. A client with a higher fence takes the VM over from this one.
async fn tie(keeper: &Rc<Keeper>, head: &Head, Tie { keep }: Tie, client: &mut Client) {
    let mut phase = keeper.phase.subscribe();
    let ended = async {
        // The sender lives as long as the keeper.
        let _ = phase
            .wait_for(|phase| matches!(phase, Phase::Stopping(_) | Phase::Ended(_)))
            .await;
    };
    let left = async {
        if client.answer(&Ok(json!({}))).await.is_ok() {
            client.left().await;
        }
    };
    tokio::select! {
        () = ended => return,
        () = left => {}
        () = keeper.lease.hold() => {}
    }
    let is_owner = head.fence == Some(*keeper.fence.borrow());
    if is_owner && !keep {
        keeper.owner_left.notify_one();
    }
}

async fn exec_output(
    keeper: &Rc<Keeper>,
    output: Output,
    client: &mut Client,
) -> Result<(), Interrupted> {
    let stream = match output.stream.as_str() {
        "stdout" => Stream::Stdout,
        "stderr" => Stream::Stderr,
        other => {
            return Err(Failure::bad_request(format!(
                "stream is {other:?}, expected \"stdout\" or \"stderr\""
            ))
            .into());
        }
    };
    let mut offset = output.offset;
    let exec = keeper.exec(&output.exec_key)?;
    let there = exec.output_len(stream);
    if offset > there {
        return Err(Failure::bad_request(format!(
            "offset {offset} is beyond the {there} bytes that are there"
        ))
        .into());
    }
    client.answer(&Ok(json!({ "offset": offset }))).await?;
    let mut buffer = vec![0u8; 2 * CHUNK_BYTES];
    loop {
        let read = tokio::select! {
            read = exec.read_output(stream, offset, &mut buffer) => read,
            () = client.left() => return Ok(()),
        };
        // After the answer line, only the byte count shows an interruption.
        let Ok(count) = read else { return Ok(()) };
        if count == 0 {
            return Ok(());
        }
        client.write(&buffer[..count]).await?;
        offset += count as u64;
    }
}

/// Sends pieces of both outputs in the order of their arrival. A piece is the number of the stream (1 or 2), the length
/// as 32 bits, most significant first, and the bytes. A piece of stream 0 marks the end of both.
async fn exec_outputs(
    keeper: &Rc<Keeper>,
    outputs: Outputs,
    client: &mut Client,
) -> Result<(), Interrupted> {
    let exec = keeper.exec(&outputs.exec_key)?;
    for (stream, offset) in [
        (Stream::Stdout, outputs.stdout),
        (Stream::Stderr, outputs.stderr),
    ] {
        let there = exec.output_len(stream);
        if offset > there {
            return Err(Failure::bad_request(format!(
                "offset {offset} is beyond the {there} bytes that are there"
            ))
            .into());
        }
    }
    client.answer(&Ok(json!({}))).await?;
    let mut place = Place::new(outputs.stdout, outputs.stderr);
    let mut buffer = vec![0u8; 2 * CHUNK_BYTES];
    loop {
        let read = tokio::select! {
            read = exec.read_outputs(&mut place, &mut buffer[PIECE_HEAD_BYTES..]) => read,
            () = client.left() => return Ok(()),
        };
        // After the answer line, an interruption is an end without the last piece.
        let Ok(read) = read else { return Ok(()) };
        let (number, count) = match read {
            Some((Stream::Stderr, count)) => (2, count),
            Some((_, count)) => (1, count),
            None => (0, 0),
        };
        buffer[0] = number;
        let length = u32::try_from(count).expect("a piece is as long as the buffer");
        buffer[1..PIECE_HEAD_BYTES].copy_from_slice(&length.to_be_bytes());
        client.write(&buffer[..PIECE_HEAD_BYTES + count]).await?;
        if number == 0 {
            return Ok(());
        }
    }
}

/// Sends lines as they arrive, until the client disconnects or the VM has ended. The VM's end closes every connection.
async fn notices(
    keeper: &Rc<Keeper>,
    Offset { mut offset }: Offset,
    client: &mut Client,
) -> Result<(), Interrupted> {
    let there = keeper.notices.size_bytes();
    if offset > there {
        return Err(Failure::bad_request(format!(
            "offset {offset} is beyond the {there} bytes that are there"
        ))
        .into());
    }
    client.answer(&Ok(json!({ "offset": offset }))).await?;
    let mut phase = keeper.phase.subscribe();
    let mut buffer = vec![0u8; CHUNK_BYTES];
    loop {
        let read = tokio::select! {
            biased;
            read = keeper.notices.read(offset, &mut buffer) => read,
            () = client.left() => return Ok(()),
            // The sender lives as long as the keeper.
            _ = phase.wait_for(|phase| matches!(phase, Phase::Ended(_))) => return Ok(()),
        };
        let Ok(count @ 1..) = read else { return Ok(()) };
        client.write(&buffer[..count]).await?;
        offset += count as u64;
    }
}

async fn exec_stdin(
    keeper: &Rc<Keeper>,
    head: &Head,
    ExecKey { exec_key }: ExecKey,
    client: &mut Client,
) -> Result<(), Interrupted> {
    let exec = keeper.exec(&exec_key)?;
    if exec.start.stdin_bytes.is_none() {
        return Err(Failure::bad_request(format!(
            "exec {} has no standard input",
            exec.start.exec_key
        ))
        .into());
    }
    let link = keeper.guest().await?;
    fence::check(keeper, head)?;
    let (owner, offset) = exec.own_stdin();
    client.answer(&Ok(json!({ "offset": offset }))).await?;
    feed(&exec, &link, owner, client).await;
    Ok(())
}

async fn feed(exec: &Rc<Exec>, link: &Rc<Link>, owner: u64, client: &mut Client) {
    let mut buffer = vec![0u8; CHUNK_BYTES];
    while exec.stdin_left() > 0 {
        let want = usize::try_from(exec.stdin_left())
            .unwrap_or(usize::MAX)
            .min(CHUNK_BYTES);
        let read = tokio::select! {
            read = client.read(&mut buffer[..want]) => read,
            () = exec.stdin_cut(owner) => return,
        };
        match read {
            Ok(count) if count > 0 => {
                if !exec.feed_stdin(link, owner, &buffer[..count]).await {
                    return;
                }
            }
            _ => return,
        }
    }
}

/// Freezes the command until the client ends its half. The second answer confirms that the command was frozen all the
/// time.
async fn exec_freeze(
    keeper: &Rc<Keeper>,
    Freeze { exec_key, limit_ms }: Freeze,
    client: &mut Client,
) -> Result<(), Interrupted> {
    let exec = keeper.exec(&exec_key)?;
    let link = keeper.guest().await?;
    // The number may belong to another request by now.
    if !exec.is_running() {
        return Err(Failure::new(Code::GuestError, "the command has ended").into());
    }
    let wanted = ExecFreeze {
        exec: exec.request_id(),
        limit_ms,
    };
    let frozen = Transfer::open(&link, &Message::ExecFreeze(wanted))?;
    frozen.response().await?;
    client.answer(&Ok(json!({}))).await?;
    tokio::select! {
        // A failure that the guest sent before the client ended its half takes precedence.
        biased;
        failure = frozen.let_go() => return Err(failure.into()),
        () = client.left() => {}
    }
    drop(frozen);
    client.answer(&Ok(json!({}))).await?;
    Ok(())
}

async fn file_put(
    keeper: &Rc<Keeper>,
    file: WriteFile,
    client: &mut Client,
) -> Result<(), Interrupted> {
    let link = keeper.guest().await?;
    let mut left = file.size_bytes;
    let transfer = Transfer::open(&link, &Message::WriteFile(file))?;
    client.answer(&Ok(json!({}))).await?;
    let mut buffer = vec![0u8; SLOT_BYTES];
    while left > 0 {
        let want = usize::try_from(left).unwrap_or(usize::MAX).min(SLOT_BYTES);
        let mut filled = 0;
        while filled < want {
            match client
                .read_for(&transfer, &mut buffer[filled..want])
                .await?
            {
                0 => return Err(Interrupted::Gone),
                count => filled += count,
            }
        }
        transfer.send(&buffer[..want]).await?;
        left -= want as u64;
    }
    transfer.send_end().await?;
    transfer.response().await?;
    client.answer(&Ok(json!({}))).await?;
    Ok(())
}

async fn file_get(
    keeper: &Rc<Keeper>,
    path: PathRequest,
    client: &mut Client,
) -> Result<(), Interrupted> {
    let link = keeper.guest().await?;
    let transfer = Transfer::open(&link, &Message::ReadFile(path))?;
    let mut left = match transfer.response().await? {
        Message::ReadFileResponse(ReadFileResponse::Present { size_bytes, .. }) => size_bytes,
        Message::ReadFileResponse(ReadFileResponse::Absent) => {
            client.answer(&Ok(json!({ "absent": true }))).await?;
            return Ok(());
        }
        _ => {
            return Err(
                Failure::new(Code::GuestError, "the guest answered with something else").into(),
            );
        }
    };
    client.answer(&Ok(json!({ "sizeBytes": left }))).await?;
    let mut buffer = Vec::new();
    while left > 0 {
        // From here on, a failure ends the stream before `sizeBytes`.
        let received = transfer.receive(&mut buffer).await;
        if received.is_err() || buffer.is_empty() {
            return Err(Interrupted::Gone);
        }
        let count = usize::try_from(left)
            .unwrap_or(usize::MAX)
            .min(buffer.len());
        client.write(&buffer[..count]).await?;
        transfer.consumed(buffer.len());
        left -= count as u64;
    }
    Ok(())
}

async fn tar_put(
    keeper: &Rc<Keeper>,
    path: PathRequest,
    client: &mut Client,
) -> Result<(), Interrupted> {
    let link = keeper.guest().await?;
    let transfer = Transfer::open(&link, &Message::TarPut(path))?;
    client.answer(&Ok(json!({}))).await?;
    tar_stream::put(client, &transfer).await?;
    let response = transfer.response().await?;
    let counted = match response {
        Message::TarPutResponse(counted) => {
            serde_json::to_value(counted).expect("plain data serialises")
        }
        _ => {
            return Err(
                Failure::new(Code::GuestError, "the guest answered with something else").into(),
            );
        }
    };
    client.answer(&Ok(counted)).await?;
    Ok(())
}

async fn tar_get(
    keeper: &Rc<Keeper>,
    path: PathRequest,
    client: &mut Client,
) -> Result<(), Interrupted> {
    let link = keeper.guest().await?;
    let transfer = Transfer::open(&link, &Message::TarGet(path.clone()))?;
    let kind = match transfer.response().await? {
        Message::TarGetResponse(kind) => serde_json::to_value(kind).expect("plain data serialises"),
        _ => {
            return Err(
                Failure::new(Code::GuestError, "the guest answered with something else").into(),
            );
        }
    };
    let absent = kind.get("absent").is_some();
    client.answer(&Ok(kind)).await?;
    if !absent {
        let refusal = tar_stream::get(client, transfer, keeper.config.guest_bytes()).await?;
        keeper.remember_tar(path.path, refusal);
    }
    Ok(())
}
