//! `tree.in` and `tree.out`: a host folder into the guest and back.

use std::path::PathBuf;
use std::rc::Rc;

use voidbox_protocol::body::{PathRequest, TarGetResponse};
use voidbox_protocol::message::Message;

use crate::error::{Code, Failure};
use crate::guest::link::Link;
use crate::guest::transfer::Transfer;
use crate::transfer::bridge::{PipeReader, PipeWriter, pipe, pump_from_guest, pump_to_guest};
use crate::transfer::tar_check::{Counted, TarError};
use crate::transfer::tree_read::{self, ReadTree};
use crate::transfer::tree_write;

fn odd_answer() -> Failure {
    Failure::new(Code::GuestError, "the guest answered with something else")
}

fn thread_failed(error: &tokio::task::JoinError) -> Failure {
    Failure::new(Code::HostIo, error.to_string())
}

/// Copies a host folder to `guest_path`. Links that lead out, sockets and devices stay behind and
/// are counted.
pub async fn copy_in(
    link: &Rc<Link>,
    host_path: PathBuf,
    guest_path: String,
) -> Result<ReadTree, Failure> {
    let root = tree_read::open_root(&host_path)?;
    let transfer = Transfer::open(link, &Message::TarPut(PathRequest { path: guest_path }))?;
    let (tar_in, tar_out) = pipe();
    let reading =
        tokio::task::spawn_blocking(move || tree_read::write_tar(root, PipeWriter::new(tar_in)));
    let pumped = pump_to_guest(tar_out, &transfer).await;
    let read = reading.await.map_err(|error| thread_failed(&error))?;
    // A guest that refused is the reason why the reading broke off.
    if pumped? {
        match transfer.response().await? {
            Message::TarPutResponse(_) => {}
            _ => return Err(odd_answer()),
        }
    }
    read.map_err(|error| Failure::io(format_args!("reading {}", host_path.display()), &error))
}

/// Copies `guest_path` over the host folder (or file) `host_path`.
pub async fn copy_out(
    link: &Rc<Link>,
    guest_path: String,
    host_path: PathBuf,
    max_bytes: u64,
) -> Result<Counted, Failure> {
    let transfer = Transfer::open(
        link,
        &Message::TarGet(PathRequest {
            path: guest_path.clone(),
        }),
    )?;
    let is_file = match transfer.response().await? {
        Message::TarGetResponse(TarGetResponse::Dir) => false,
        Message::TarGetResponse(TarGetResponse::File) => true,
        Message::TarGetResponse(TarGetResponse::Absent) => {
            return Err(Failure::new(
                Code::GuestError,
                format!("not-found: {guest_path} is not in the guest"),
            ));
        }
        _ => return Err(odd_answer()),
    };
    let (tar_in, tar_out) = pipe();
    let writing = tokio::task::spawn_blocking(move || {
        tree_write::write(PipeReader::new(tar_out), &host_path, is_file, max_bytes)
    });
    let pumped = pump_from_guest(&transfer, tar_in).await;
    let written = writing.await.map_err(|error| thread_failed(&error))?;
    pumped?;
    written.map_err(|error| match &error {
        TarError::Write { .. } => Failure::new(Code::HostIo, error.to_string()),
        _ => Failure::new(Code::BadOutput, format!("{guest_path}: {error}")),
    })
}
