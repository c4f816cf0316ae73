//! `tar.put` and `tar.get`: transfer a tar between a client and the guest.

use std::io;

use voidbox_protocol::mailbox::SLOT_BYTES;

use crate::client::{Client, Interrupted};
use crate::error::{Code, Failure};
use crate::guest::transfer::Transfer;
use crate::transfer::bridge::{PipeReader, PipeWriter, pipe, pump_from_guest};
use crate::transfer::tar_check::{self, Entry, Kind, TarError};

const BLOCK_BYTES: usize = 512;

/// Sends the client's tar to the guest, up to its end marker or the end of the client's half.
pub async fn put(client: &mut Client, transfer: &Transfer) -> Result<(), Interrupted> {
    let mut end = EndMarker::default();
    let mut buffer = vec![0u8; SLOT_BYTES];
    while !end.seen {
        let count = client.read_for(transfer, &mut buffer).await?;
        if count == 0 {
            return Err(Failure::bad_request("the tar ended without its end marker").into());
        }
        end.push(&buffer[..count]);
        transfer.send(&buffer[..count]).await?;
    }
    transfer.send_end().await?;
    Ok(())
}

/// Finds the end of a tar in its bytes: two blocks of zeroes instead of a header.
#[derive(Default)]
struct EndMarker {
    header: Vec<u8>,
    /// The remaining bytes of contents.
    contents: u64,
    zero_blocks: u32,
    seen: bool,
}

impl EndMarker {
    fn push(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() && !self.seen {
            let skipped = usize::try_from(self.contents)
                .unwrap_or(usize::MAX)
                .min(bytes.len());
            self.contents -= skipped as u64;
            bytes = &bytes[skipped..];
            let wanted = bytes.len().min(BLOCK_BYTES - self.header.len());
            self.header.extend_from_slice(&bytes[..wanted]);
            bytes = &bytes[wanted..];
            if self.header.len() == BLOCK_BYTES {
                self.take_header();
            }
        }
    }

    fn take_header(&mut self) {
        if self.header.iter().all(|byte| *byte == 0) {
            self.zero_blocks += 1;
            self.seen = self.zero_blocks == 2;
        } else {
            self.zero_blocks = 0;
            let mut header = tar::Header::new_old();
            header.as_mut_bytes().copy_from_slice(&self.header);
            let size = header.entry_size().unwrap_or(0);
            self.contents = size.next_multiple_of(BLOCK_BYTES as u64);
        }
        self.header.clear();
    }
}

/// Checks the guest's tar, writes it again, and sends it to the client. A tar that breaks the rules, or ends early, is
/// sent without its end marker. The reason is returned, and is in the keeper's log.
pub async fn get(
    client: &mut Client,
    transfer: Transfer,
    max_bytes: u64,
) -> Result<Option<Failure>, Interrupted> {
    let (raw_in, raw_out) = pipe();
    let (checked_in, mut checked_out) = pipe();
    let checking = tokio::task::spawn_blocking(move || {
        rewrite(
            PipeReader::new(raw_out),
            PipeWriter::new(checked_in),
            max_bytes,
        )
    });
    let deliver = async {
        while let Some(chunk) = checked_out.recv().await {
            client.write(&chunk).await?;
        }
        // Dropping this here ensures that the checking thread does not wait for room that never comes.
        drop(checked_out);
        Ok::<(), Interrupted>(())
    };
    let (pumped, delivered) = tokio::join!(pump_from_guest(&transfer, raw_in), deliver);
    delivered?;
    let checked = checking
        .await
        .map_err(|error| Failure::new(Code::HostIo, error.to_string()))?;
    let refusal = pumped
        .and_then(|()| checked.map_err(|error| Failure::new(Code::BadOutput, error.to_string())))
        .err();
    if let Some(failure) = &refusal {
        eprintln!("tar.get: {failure}");
    }
    // No answer line can follow raw bytes.
    Ok(refusal)
}

fn rewrite(reader: PipeReader, writer: PipeWriter, max_bytes: u64) -> Result<(), TarError> {
    let mut builder = tar::Builder::new(writer);
    tar_check::read_checked(reader, max_bytes, |entry, contents| {
        append(&mut builder, entry, contents)
    })?;
    builder.into_inner()?.finish()?;
    Ok(())
}

/// Writes one entry with only the checked parts of the guest's header.
fn append<W: io::Write>(
    builder: &mut tar::Builder<W>,
    entry: &Entry,
    contents: &mut dyn io::Read,
) -> Result<(), TarError> {
    let mut header = tar::Header::new_gnu();
    header.set_mode(entry.mode);
    header.set_mtime(entry.modified_s);
    // A strict reader rejects fields that are left out, because they are not numbers.
    header.set_uid(0);
    header.set_gid(0);
    header.set_size(0);
    match &entry.kind {
        Kind::Dir => {
            header.set_entry_type(tar::EntryType::Directory);
            builder.append_data(&mut header, &entry.path, io::empty())?;
        }
        Kind::File { size } => {
            header.set_entry_type(tar::EntryType::Regular);
            header.set_size(*size);
            builder.append_data(
                &mut header,
                &entry.path,
                Exactly {
                    inner: contents,
                    left: *size,
                },
            )?;
        }
        Kind::Link { target } => {
            header.set_entry_type(tar::EntryType::Symlink);
            builder.append_link(&mut header, &entry.path, target)?;
        }
    }
    Ok(())
}

/// A reader that fails if it gets less than its size, so that a tar is never padded with missing bytes.
struct Exactly<'a> {
    inner: &'a mut dyn io::Read,
    left: u64,
}

impl io::Read for Exactly<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let max = usize::try_from(self.left)
            .unwrap_or(usize::MAX)
            .min(buffer.len());
        if max == 0 {
            return Ok(0);
        }
        let count = self.inner.read(&mut buffer[..max])?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.left -= count as u64;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_found_however_the_bytes_are_cut() {
        let mut builder = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_gnu();
        // A file of zeroes is not an end marker.
        header.set_size(2048);
        builder
            .append_data(&mut header, "zeroes", [0u8; 2048].as_slice())
            .unwrap();
        let bytes = builder.into_inner().unwrap();
        for size in [1, 7, 511, 512, 513, bytes.len()] {
            let mut end = EndMarker::default();
            let (last, all_but_last) = (bytes.len() - 1, &bytes[..bytes.len() - 1]);
            for piece in all_but_last.chunks(size) {
                end.push(piece);
            }
            assert!(!end.seen, "cut every {size}");
            end.push(&bytes[last..]);
            assert!(end.seen, "cut every {size}");
        }
    }
}
