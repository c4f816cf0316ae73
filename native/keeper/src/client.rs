//! A client whose connection became a stream: answer lines, and raw bytes in both directions.

use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

use crate::error::{Code, Failure};
use crate::guest::transfer::Transfer;

/// The size of one read of bytes that a client sends after its answer; they are discarded.
const UNREAD_BYTES: usize = 64 << 10;
/// The time for which a client may send more bytes after its answer.
const LISTEN_LIMIT: Duration = Duration::from_secs(30);

/// A connection that became a stream.
pub struct Client {
    /// The id of the request that opened the stream, for the answers.
    id: Value,
    reader: BufReader<OwnedReadHalf>,
    writer: OwnedWriteHalf,
}

/// The client has disconnected, or its half of the stream ended early, so it gets no answer.
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

    /// Reads available bytes into the buffer; returns 0 at the end.
    pub async fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Gone> {
        self.reader.read(buffer).await.map_err(|_| Gone)
    }

    /// Returns once a client that should send nothing ends its half, or sends something anyway.
    pub async fn left(&mut self) {
        let _ = self.reader.read_u8().await;
    }

    /// Reads bytes for `transfer`, but only while the guest accepts them.
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

    /// Ends the connection after its last answer, once the client has seen the answer. Bytes from the client are
    /// discarded until then: closing a socket with unread bytes resets it, and a client that still writes may lose the
    /// answer.
    pub async fn let_go(&mut self) {
        if self.writer.shutdown().await.is_err() {
            return;
        }
        let mut nothing = vec![0u8; UNREAD_BYTES];
        let unread = async { while let Ok(1..) = self.read(&mut nothing).await {} };
        // After the limit the client is cut off, because it does not read its answer.
        let _ = tokio::time::timeout(LISTEN_LIMIT, unread).await;
    }

    pub async fn refuse(&mut self, failure: Failure) {
        if self.answer(&Err(failure)).await.is_ok() {
            self.let_go().await;
        }
    }
}

/// The end of an interrupted stream: a failure for the client, or a client that has disconnected.
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

/// Formats the line that answers a request.
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
