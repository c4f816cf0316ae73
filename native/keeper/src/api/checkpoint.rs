//! Checkpoints: a copy of the scratch disk, made while the guest has its file system frozen.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use voidbox_protocol::body::DiskFreeze;
use voidbox_protocol::message::Message;

use super::request::Checkpoint;
use crate::client::{Client, Interrupted};
use crate::disk_copy::{self, Way};
use crate::error::{Code, Failure};
use crate::guest::transfer::Transfer;
use crate::keeper::Keeper;
use crate::run_dir::SCRATCH;

/// The time in which the guest must write its data and freeze. It does not count while the host's disk is full.
const FREEZE_WAIT: Duration = Duration::from_secs(60);

/// Copies the scratch disk to `dest`. The first answer confirms that the checkpoint begins, the second that the file is
/// in place. If the client leaves before, nothing is left.
pub async fn make(
    keeper: &Rc<Keeper>,
    Checkpoint { dest, limit_ms }: Checkpoint,
    client: &mut Client,
) -> Result<(), Interrupted> {
    if !dest.is_absolute() {
        let message = format!("dest is {}, expected an absolute path", dest.display());
        return Err(Failure::bad_request(message).into());
    }
    let link = keeper.guest().await?;
    if !link.can_freeze_disk {
        return Err(
            failed("the guest's agent is of an earlier build and cannot freeze its disk").into(),
        );
    }
    let turn = Turn::take(keeper)?;
    let scratch = keeper.dir.file(SCRATCH);
    let source = disk_copy::open(&scratch)
        .map_err(|error| Failure::run_dir("opening the scratch disk", &error))?;
    let mut unfinished = Unfinished::create(&dest)?;
    client.answer(&Ok(json!({}))).await?;

    let frozen = Transfer::open(&link, &Message::DiskFreeze(DiskFreeze { limit_ms }))?;
    let freezing = keeper.disk.within(FREEZE_WAIT, frozen.response());
    tokio::select! {
        answer = freezing => drop(match answer {
            Ok(answer) => answer.map_err(explain)?,
            Err(_) => {
                let limit = FREEZE_WAIT.as_secs();
                return Err(failed(format!("the guest did not freeze its disk within {limit} s")).into());
            }
        }),
        failure = turn.command_starts() => return Err(failure.into()),
        () = client.left() => return Err(Interrupted::Gone),
    }
    let since = Instant::now();
    let copying = unfinished.copy(source);
    let way = tokio::select! {
        biased;
        failure = turn.command_starts() => return Err(failure.into()),
        failure = frozen.let_go() => return Err(explain(failure).into()),
        () = client.left() => return Err(Interrupted::Gone),
        copied = copying => copied
            .map_err(io::Error::other)
            .and_then(|done| done)
            .map_err(|error| Failure::io(format_args!("copying the disk to {}", dest.display()), &error))?,
    };
    // The guest's answer shows that the disk was frozen until the copy was complete.
    frozen.cancel().await.map_err(explain)?;
    let frozen_for = since.elapsed();
    drop(frozen);

    let used_bytes = tokio::select! {
        placed = unfinished.place() => placed
            .map_err(io::Error::other)
            .and_then(|done| done)
            .map_err(|error| Failure::io(format_args!("writing {}", dest.display()), &error))?,
        () = client.left() => return Err(Interrupted::Gone),
    };
    unfinished.is_placed = true;
    let frozen_ms = u64::try_from(frozen_for.as_millis()).unwrap_or(u64::MAX);
    let answer = json!({ "usedBytes": used_bytes, "frozenMs": frozen_ms, "way": way.name() });
    client.answer(&Ok(answer)).await?;
    Ok(())
}

fn failed(message: impl Into<String>) -> Failure {
    Failure::new(Code::CheckpointFailed, message)
}

/// Keeps failures of the VM, and names those of the guest's freeze.
fn explain(failure: Failure) -> Failure {
    match failure.code {
        Code::GuestError | Code::GuestDiskFull => failed(format!("the guest: {}", failure.message)),
        _ => failure,
    }
}

/// The only checkpoint of the VM, of a time in which no command runs.
pub(super) struct Turn {
    keeper: Rc<Keeper>,
    /// The number of commands that were started before.
    starts: u64,
}

impl Turn {
    pub(super) fn take(keeper: &Rc<Keeper>) -> Result<Self, Failure> {
        let busy = |message: String| Err(Failure::new(Code::VmBusy, message));
        if keeper.is_checkpointing.get() {
            return busy("another checkpoint of the VM is made".into());
        }
        let execs = keeper.execs.borrow();
        if let Some((key, _)) = execs.iter().find(|(_, exec)| exec.is_running()) {
            return busy(format!("the command {key} runs in the VM"));
        }
        keeper.is_checkpointing.set(true);
        drop(execs);
        Ok(Self {
            keeper: keeper.clone(),
            starts: *keeper.exec_starts.borrow(),
        })
    }

    /// Returns once a command starts. It does not wait for the copy: its stage is worth more than a checkpoint.
    async fn command_starts(&self) -> Failure {
        let mut starts = self.keeper.exec_starts.subscribe();
        // The sender lives as long as the keeper.
        let _ = starts.wait_for(|count| *count != self.starts).await;
        Failure::new(
            Code::VmBusy,
            "a command started in the VM before the copy was complete",
        )
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.keeper.is_checkpointing.set(false);
    }
}

/// A copy under another name. Dropping this stops its threads and removes it, unless it is in place.
struct Unfinished {
    dest: PathBuf,
    partial: PathBuf,
    file: Arc<File>,
    stop: Arc<AtomicBool>,
    is_placed: bool,
}

impl Unfinished {
    fn create(dest: &Path) -> Result<Self, Failure> {
        let mut name: OsString = dest.into();
        name.push(".new");
        let partial = PathBuf::from(name);
        let made = match dest.symlink_metadata() {
            Ok(_) => Err(io::Error::from(io::ErrorKind::AlreadyExists)),
            Err(_) => OpenOptions::new()
                .read(true)
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(&partial),
        };
        let file =
            made.map_err(|error| Failure::io(format_args!("making {}", dest.display()), &error))?;
        Ok(Self {
            dest: dest.to_owned(),
            partial,
            file: Arc::new(file),
            stop: Arc::default(),
            is_placed: false,
        })
    }

    fn copy(&self, source: File) -> Work<Way> {
        let (file, stop) = (self.file.clone(), self.stop.clone());
        tokio::task::spawn_blocking(move || disk_copy::copy(&source, &file, &stop))
    }

    /// Gives the copy its name once it is on the disk. Returns the bytes that it uses.
    fn place(&self) -> Work<u64> {
        let file = self.file.clone();
        let (partial, dest) = (self.partial.clone(), self.dest.clone());
        tokio::task::spawn_blocking(move || {
            file.sync_all()?;
            let used_bytes = disk_copy::used_bytes(&file)?;
            fs::rename(&partial, &dest)?;
            let folder = dest.parent().unwrap_or(Path::new("/"));
            File::open(folder)?.sync_all()?;
            Ok(used_bytes)
        })
    }
}

type Work<T> = tokio::task::JoinHandle<io::Result<T>>;

impl Drop for Unfinished {
    fn drop(&mut self) {
        if self.is_placed {
            return;
        }
        self.stop.store(true, Ordering::Release);
        // A name that is not there needs no removal.
        let _ = fs::remove_file(&self.partial);
    }
}
