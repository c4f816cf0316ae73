//! Full saves of a running VM: its guest rests, the VM is saved and its disk copied while it is paused, and the guest
//! gets another session.

use std::fs::File;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio::time::timeout;

use super::Keeper;
use super::end::End;
use super::save_queue::{SaveInFull, Saved, failed, no_parent};
use crate::disk_copy::{self, Way};
use crate::error::{Code, Failure};
use crate::guest::handshake::{Frames, Session, SessionError, open_session};
use crate::guest::link::Link;
use crate::guest::rest::Rested;
use crate::run_dir::SCRATCH;
use crate::vmm::{self, FullSave, Vm};

/// The time in which the guest's open requests, such as a check of its clock, may end before the save.
const IDLE_WAIT: Duration = Duration::from_secs(2);
const IDLE_LOOK: Duration = Duration::from_millis(20);
/// The time in which the VMM has to write its state and its memory.
const SAVE_LIMIT: Duration = Duration::from_secs(300);

impl Keeper {
    /// Makes a full save. Returns the guest's next session; `None` if the guest does not rest, and its link is as before.
    /// The VM ends with the error.
    pub(super) async fn save_in_full(
        &self,
        order: SaveInFull,
        link: &Rc<Link>,
        vm: &Vm,
    ) -> Result<Option<Session>, End> {
        if order.done.is_closed() {
            return Ok(None);
        }
        // A save whose client has left has made another state since the request.
        if order.parent.is_some() && order.parent != self.full_saves.tip() {
            let _ = order.done.send(Err(no_parent()));
            return Ok(None);
        }
        let rested = tokio::select! {
            rested = rest(link) => rested,
            () = self.disk.stand_still(|| link.patience.pause()) => unreachable!("it lasts as long as the VM"),
        };
        let rested = match rested {
            Ok(rested) => rested,
            Err(failure) => {
                let _ = order.done.send(Err(failure));
                return Ok(None);
            }
        };
        let SaveInFull {
            files,
            disk,
            mut done,
            parent: _,
        } = order;
        let saved = tokio::select! {
            biased;
            failure = self.broken_control(vm) => Err(failure),
            saved = self.save_and_copy(vm, files, disk, &mut done) => saved,
            // A VMM that has ended has closed its control, so its save fails too.
            Ok(status) = vm.exited() => Err(self.describe_loss(status)),
        };
        match saved {
            // A client that has left gets no answer, and its VM continues.
            Ok(saved) => drop(done.send(saved)),
            Err(failure) => {
                let _ = done.send(Err(failure.clone()));
                return Err(End::of_guest(failure));
            }
        }
        tokio::select! {
            biased;
            failure = self.broken_control(vm) => Err(End::of_guest(failure)),
            session = self.begin_again(vm, rested) => session.map(Some),
        }
    }

    /// The VM continues if the save fails, and ends with the outer error.
    async fn save_and_copy(
        &self,
        vm: &Vm,
        files: FullSave,
        disk: Arc<File>,
        done: &mut oneshot::Sender<Result<Saved, Failure>>,
    ) -> Result<Result<Saved, Failure>, Failure> {
        let since = Instant::now();
        let paused = match timeout(SAVE_LIMIT, vm.save_full(files)).await {
            Ok(Ok(paused)) => paused,
            Ok(Err(why)) => return Ok(Err(failed(format!("the VM is not saved: {why}")))),
            Err(_) => {
                let limit = SAVE_LIMIT.as_secs();
                let message = format!("the VMM did not save the VM within {limit} s");
                return Err(Failure::new(Code::VmProtocol, message));
            }
        };
        // The VMM's next diff refers to this state, which is of use only once its files are in their place.
        self.full_saves.forget();
        let copied = self.copy_disk(disk, done).await;
        let id = paused.id.clone();
        drop(paused);
        Ok(match copied {
            Ok(way) => Ok(Saved {
                id,
                paused: since.elapsed(),
                way,
            }),
            Err(error) => Err(failed(format!("copying the disk: {error}"))),
        })
    }

    /// Copies the disk of a paused VM, while the client waits for it.
    async fn copy_disk(
        &self,
        to: Arc<File>,
        done: &mut oneshot::Sender<Result<Saved, Failure>>,
    ) -> io::Result<Way> {
        let from = disk_copy::open(&self.dir.file(SCRATCH))?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let mut copying =
            tokio::task::spawn_blocking(move || disk_copy::copy(&from, &to, &stopped));
        let copied = tokio::select! {
            copied = &mut copying => copied,
            () = done.closed() => {
                stop.store(true, Ordering::Release);
                copying.await
            }
        };
        copied.map_err(io::Error::other)?
    }

    /// Gives a guest that rests its next session, over the same connection.
    async fn begin_again(&self, vm: &Vm, rested: Rested) -> Result<Session, End> {
        let limit = Duration::from_millis(self.config.boot_timeout_ms);
        let scratch_bytes = u64::from(self.config.disk_mib) << 20;
        let session = self.disk.within(limit, async {
            let mut frames = Frames::new(rested.port);
            let root = vmm::root_name(&self.config);
            frames.send_start(scratch_bytes, root).await?;
            let (mounts, egress) = (&self.config.mounts, self.config.egress.as_ref());
            open_session(frames, mounts, egress, super::HOSTNAME, rested.mailbox).await
        });
        let error = match session.await {
            Ok(Ok(session)) => return Ok(session),
            Ok(Err(error)) => error,
            Err(_) => {
                let limit = limit.as_millis();
                let message = format!(
                    "the guest did not continue within {limit} ms after a full save: {}",
                    self.last_words()
                );
                return Err(End::of_guest(Failure::new(Code::VmLost, message)));
            }
        };
        Err(End::of_guest(self.explain_end(vm, &error).await))
    }

    async fn explain_end(&self, vm: &Vm, error: &SessionError) -> Failure {
        if error.is_violation() {
            let message = format!("the guest broke the protocol after a full save: {error}");
            return Failure::new(Code::VmProtocol, message);
        }
        match timeout(Duration::from_secs(1), vm.exited()).await {
            Ok(Ok(status)) => self.describe_loss(status),
            _ => Failure::new(
                Code::VmLost,
                format!("the guest did not continue after a full save: {error}"),
            ),
        }
    }
}

/// Lets the guest rest once its requests have ended.
async fn rest(link: &Rc<Link>) -> Result<Rested, Failure> {
    let since = Instant::now();
    loop {
        match link.rest().await {
            Err(failure) if failure.code == Code::VmBusy && since.elapsed() < IDLE_WAIT => {
                tokio::time::sleep(IDLE_LOOK).await;
            }
            Err(failure) if failure.code == Code::GuestError => {
                return Err(failed(failure.message));
            }
            other => return other,
        }
    }
}
