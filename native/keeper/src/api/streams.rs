//! The ops that take their connection over: raw bytes follow the answer line.

use std::rc::Rc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use voidbox_protocol::body::{PathRequest, ReadFileResponse, WriteFile};
use voidbox_protocol::mailbox::SLOT_BYTES;
use voidbox_protocol::message::{Message, Stream};

use super::ops::{check_fence, fence_raised, find_exec};
use super::request::{Request, answer};
use crate::error::{Code, Failure};
use crate::exec::Exec;
use crate::guest::link::Link;
use crate::guest::transfer::Transfer;
use crate::keeper::Keeper;
use crate::transfer::tar_stream;

const CHUNK_BYTES: usize = 64 << 10;
/// How long a client may go on sending behind its answer.
const LISTEN_LIMIT: Duration = Duration::from_secs(30);

/// A connection that became a stream.
pub struct Client {
    pub id: Value,
    pub reader: BufReader<OwnedReadHalf>,
    pub writer: OwnedWriteHalf,
}

/// The client is gone, or its half of the stream ended early. There is nobody to tell.
#[derive(Debug)]
pub struct Gone;

impl Client {
    async fn answer(&mut self, result: &Result<Value, Failure>) -> Result<(), Gone> {
        let line = answer(&self.id, result);
        self.writer.write_all(&line).await.map_err(|_| Gone)
    }

    pub async fn write(&mut self, bytes: &[u8]) -> Result<(), Gone> {
        self.writer.write_all(bytes).await.map_err(|_| Gone)
    }

    /// Fills the buffer; an end before that is nobody.
    pub async fn read_exact(&mut self, buffer: &mut [u8]) -> Result<(), Gone> {
        let read = self.reader.read_exact(buffer).await;
        read.map(drop).map_err(|_| Gone)
    }

    /// Reads up to `max` bytes; 0 at the end.
    pub async fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Gone> {
        self.reader.read(buffer).await.map_err(|_| Gone)
    }

    /// Reads bytes that are meant for `transfer`, and no longer than the guest takes them.
    pub async fn read_for(
        &mut self,
        transfer: &Transfer,
        buffer: &mut [u8],
    ) -> Result<usize, Interrupted> {
        tokio::select! {
            count = self.read(buffer) => Ok(count?),
            response = transfer.early_response() => Err(match response {
                Err(failure) => failure,
                Ok(_) => Failure::new(
                    Code::GuestError,
                    "the guest answered before it had all the data",
                ),
            }
            .into()),
        }
    }

    /// Ends the connection behind its last answer, once the client has seen that. What it sends till
    /// then is read away: a socket that is closed over unread bytes is reset, and whoever writes
    /// into it may lose the answer.
    async fn let_go(&mut self) {
        if self.writer.shutdown().await.is_err() {
            return;
        }
        let mut nothing = vec![0u8; CHUNK_BYTES];
        let unread = async { while let Ok(1..) = self.read(&mut nothing).await {} };
        // Beyond the limit the client is cut off: it does not listen.
        let _ = tokio::time::timeout(LISTEN_LIMIT, unread).await;
    }

    async fn refuse(&mut self, failure: Failure) {
        if self.answer(&Err(failure)).await.is_ok() {
            self.let_go().await;
        }
    }
}

/// What a stream ends with: a failure that can still be answered, or nobody to answer to.
pub enum Interrupted {
    Failure(Failure),
    Gone,
}

impl From<Failure> for Interrupted {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

impl From<Gone> for Interrupted {
    fn from(_: Gone) -> Self {
        Self::Gone
    }
}

/// Runs a stream op to its end and closes the connection.
pub async fn run(
    keeper: &Rc<Keeper>,
    request: Request,
    reader: BufReader<OwnedReadHalf>,
    writer: OwnedWriteHalf,
) {
    let mut client = Client {
        id: request.id.clone(),
        reader,
        writer,
    };
    let is_output = request.op == "exec.output";
    let fence = match (is_output, request.fence()) {
        (true, None) => Ok(u64::MAX),
        _ => check_fence(keeper, &request),
    };
    let fence = match fence {
        Ok(fence) => fence,
        Err(failure) => return client.refuse(failure).await,
    };
    // Standard input is cut by its exec, at a point where every byte is counted.
    let is_stdin = request.op == "exec.stdin";
    tokio::select! {
        () = serve(keeper, &request, &mut client) => {}
        () = fence_raised(keeper, fence), if !is_stdin => {}
    }
}

async fn serve(keeper: &Rc<Keeper>, request: &Request, client: &mut Client) {
    let served = match request.op.as_str() {
        "exec.output" => exec_output(keeper, request, client).await,
        "exec.stdin" => exec_stdin(keeper, request, client).await,
        "file.put" => file_put(keeper, request, client).await,
        "file.get" => file_get(keeper, request, client).await,
        "tar.put" => tar_put(keeper, request, client).await,
        _ => tar_get(keeper, request, client).await,
    };
    match served {
        Err(Interrupted::Failure(failure)) => client.refuse(failure).await,
        // A tar may go on behind its end marker.
        Ok(()) if matches!(request.op.as_str(), "file.put" | "tar.put") => client.let_go().await,
        Ok(()) | Err(Interrupted::Gone) => {}
    }
}

async fn exec_output(
    keeper: &Rc<Keeper>,
    request: &Request,
    client: &mut Client,
) -> Result<(), Interrupted> {
    #[derive(Deserialize)]
    struct Output {
        stream: String,
        offset: u64,
    }
    let Output { stream, mut offset } = request.fields()?;
    let stream = match stream.as_str() {
        "stdout" => Stream::Stdout,
        "stderr" => Stream::Stderr,
        other => {
            return Err(Failure::bad_request(format!(
                "stream is {other:?}, expected \"stdout\" or \"stderr\""
            ))
            .into());
        }
    };
    let exec = find_exec(keeper, request)?;
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
            // A reader sends nothing, so whatever a read returns is its end.
            _ = client.reader.read_u8() => return Ok(()),
        };
        // After the answer line an interruption is told by the count alone.
        let Ok(count) = read else { return Ok(()) };
        if count == 0 {
            return Ok(());
        }
        client.write(&buffer[..count]).await?;
        offset += count as u64;
    }
}

async fn exec_stdin(
    keeper: &Rc<Keeper>,
    request: &Request,
    client: &mut Client,
) -> Result<(), Interrupted> {
    let exec = find_exec(keeper, request)?;
    if exec.start.stdin_bytes.is_none() {
        return Err(Failure::bad_request(format!(
            "exec {} has no standard input",
            exec.start.exec_key
        ))
        .into());
    }
    let link = keeper.guest().await?;
    check_fence(keeper, request)?;
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

async fn file_put(
    keeper: &Rc<Keeper>,
    request: &Request,
    client: &mut Client,
) -> Result<(), Interrupted> {
    let file: WriteFile = request.fields()?;
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
    request: &Request,
    client: &mut Client,
) -> Result<(), Interrupted> {
    let path: PathRequest = request.fields()?;
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
        // From here on a failure is an end before `sizeBytes`.
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
    request: &Request,
    client: &mut Client,
) -> Result<(), Interrupted> {
    let path: PathRequest = request.fields()?;
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
    request: &Request,
    client: &mut Client,
) -> Result<(), Interrupted> {
    let path: PathRequest = request.fields()?;
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
