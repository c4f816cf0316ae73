//! A client whose connection became a stream: lines of answers, and raw bytes either way.

use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

use crate::error::{Code, Failure};
use crate::guest::transfer::Transfer;

/// What is read away at a time of what a client sends behind its answer.
const UNREAD_BYTES: usize = 64 << 10;
/// How long a client may go on sending behind its answer.
const LISTEN_LIMIT: Duration = Duration::from_secs(30);

/// A connection that became a stream.
pub struct Client {
    /// Of the request that made a stream of it; answers carry it.
    id: Value,
    reader: BufReader<OwnedReadHalf>,
    writer: OwnedWriteHalf,
}

/// The client is gone, or its half of the stream ended early. There is nobody to tell.
#[derive(Debug)]
pub struct Gone;

impl Client {
    pub fn new(id: Value, reader: BufReader<OwnedReadHalf>, writer: OwnedWriteHalf) -> Self {
        Self { id, reader, writer }
    }

    pub async fn answer(&mut self, result: &Result<Value, Failure>) -> Result<(), Gone> {
        let line = answer_line(&self.id, result);
        self.writer.write_all(&line).await.map_err(|_| Gone)
    }

    pub async fn write(&mut self, bytes: &[u8]) -> Result<(), Gone> {
        self.writer.write_all(bytes).await.map_err(|_| Gone)
    }

    /// Reads what there is into the buffer; 0 at the end.
    pub async fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Gone> {
        self.reader.read(buffer).await.map_err(|_| Gone)
    }

    /// Returns once a client that has nothing to send ends its half, or sends all the same.
    pub async fn left(&mut self) {
        let _ = self.reader.read_u8().await;
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
    pub async fn let_go(&mut self) {
        if self.writer.shutdown().await.is_err() {
            return;
        }
        let mut nothing = vec![0u8; UNREAD_BYTES];
        let unread = async { while let Ok(1..) = self.read(&mut nothing).await {} };
        // Beyond the limit the client is cut off: it does not listen.
        let _ = tokio::time::timeout(LISTEN_LIMIT, unread).await;
    }

    pub async fn refuse(&mut self, failure: Failure) {
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

/// The line that answers a request.
pub fn answer_line(id: &Value, result: &Result<Value, Failure>) -> Vec<u8> {
    let body = match result {
        Ok(ok) => serde_json::json!({ "id": id, "ok": ok }),
        Err(failure) => serde_json::json!({
            "id": id,
            "error": { "code": failure.code.as_str(), "message": failure.message },
        }),
    };
    let mut line = body.to_string().into_bytes();
    line.push(b'\n');
    line
}
