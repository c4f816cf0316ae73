//! Connects the event loop to a thread that reads or writes a tar, with bounded channels as pipes.

use std::io::{self, Read, Write};

use tokio::sync::mpsc;

use voidbox_protocol::mailbox::SLOT_BYTES;

use crate::error::Failure;
use crate::guest::transfer::Transfer;

/// The limit of chunks that wait in a pipe.
const CHUNKS: usize = 2;
const CHUNK_BYTES: usize = SLOT_BYTES;

/// An empty chunk marks the end. If the sender is dropped without one, the transfer was interrupted.
pub type Chunk = Vec<u8>;

pub fn pipe() -> (mpsc::Sender<Chunk>, mpsc::Receiver<Chunk>) {
    mpsc::channel(CHUNKS)
}

/// The blocking end for reads.
pub struct PipeReader {
    chunks: mpsc::Receiver<Chunk>,
    current: Chunk,
    taken: usize,
    ended: bool,
}

impl PipeReader {
    pub fn new(chunks: mpsc::Receiver<Chunk>) -> Self {
        Self {
            chunks,
            current: Vec::new(),
            taken: 0,
            ended: false,
        }
    }
}

impl Read for PipeReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.ended {
            return Ok(0);
        }
        if self.taken == self.current.len() {
            self.current = self
                .chunks
                .blocking_recv()
                .ok_or(io::ErrorKind::UnexpectedEof)?;
            self.taken = 0;
            self.ended = self.current.is_empty();
        }
        let count = buffer.len().min(self.current.len() - self.taken);
        buffer[..count].copy_from_slice(&self.current[self.taken..self.taken + count]);
        self.taken += count;
        Ok(count)
    }
}

/// The blocking end for writes, in chunks of a slot's worth. Without [`PipeWriter::finish`], the transfer was
/// interrupted.
pub struct PipeWriter {
    chunks: mpsc::Sender<Chunk>,
    current: Chunk,
}

impl PipeWriter {
    pub fn new(chunks: mpsc::Sender<Chunk>) -> Self {
        Self {
            chunks,
            current: Vec::with_capacity(CHUNK_BYTES),
        }
    }

    fn send(&mut self) -> io::Result<()> {
        let full = std::mem::replace(&mut self.current, Vec::with_capacity(CHUNK_BYTES));
        self.chunks
            .blocking_send(full)
            .map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    pub fn finish(mut self) -> io::Result<()> {
        if !self.current.is_empty() {
            self.send()?;
        }
        self.current = Vec::new();
        self.send()
    }
}

impl Write for PipeWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = bytes.len().min(CHUNK_BYTES - self.current.len());
        self.current.extend_from_slice(&bytes[..count]);
        if self.current.len() == CHUNK_BYTES {
            self.send()?;
        }
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Moves all bytes of the guest into a pipe, with their end. Stops if the pipe's reader is dropped.
pub async fn pump_from_guest(
    transfer: &Transfer,
    pipe: mpsc::Sender<Chunk>,
) -> Result<(), Failure> {
    loop {
        let mut buffer = Vec::new();
        transfer.receive(&mut buffer).await?;
        let count = buffer.len();
        if pipe.send(buffer).await.is_err() || count == 0 {
            return Ok(());
        }
        transfer.consumed(count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_carries_bytes_and_tells_an_end_from_a_break() {
        let (sender, receiver) = pipe();
        let writer = std::thread::spawn(move || {
            let mut writer = PipeWriter::new(sender);
            writer.write_all(&vec![7; 300_000]).unwrap();
            writer.finish().unwrap();
        });
        let mut all = Vec::new();
        PipeReader::new(receiver).read_to_end(&mut all).unwrap();
        writer.join().unwrap();
        assert_eq!(all, vec![7; 300_000]);

        let (sender, receiver) = pipe();
        sender.blocking_send(vec![1]).unwrap();
        drop(sender);
        let broken = PipeReader::new(receiver).read_to_end(&mut Vec::new());
        assert_eq!(broken.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
