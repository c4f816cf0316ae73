//! A VM that waits: a copy of a snapshot that is paused until a launch takes it. It belongs to the pool of a worker.
//! No file says that it began, so a launch whose VM died while it waited makes another one.

use std::time::Duration;

use tokio::time::timeout;

use super::end::{End, EndReason};
use super::taken::{Given, Taken, Wait};
use super::{Keeper, Phase, terminated};
use crate::error::{Code, Failure};
use crate::guest::handshake::Frames;
use crate::run_dir::{RunDir, SCRATCH};
use crate::vmm::{self, Beginning, NewVm, Started};

impl Keeper {
    /// Starts a VM that waits. Returns when a launch has taken it, or when it has ended.
    pub async fn wait(&self) -> Wait {
        let mut started = None;
        let lost = |message: &str| End::new(EndReason::Stopped, Code::VmLost, message);
        let end = tokio::select! {
            end = self.start_and_wait(&mut started) => end,
            () = self.lease.expired() => self.expired(),
            () = self.stop_asked.notified() => lost("the VM was stopped"),
            () = self.owner_left.notified() => lost("the worker of the pool has ended"),
            () = terminated() => lost("the keeper received a signal to end"),
        };
        // A launch that takes the VM at this moment holds this lock, and comes first.
        let _one = self.attaching.lock().await;
        if let Some((dir, config)) = self.taking.take() {
            let (group, jail) = (self.group.clone(), self.jail.clone());
            let given = Given {
                group,
                jail,
                begun: started,
            };
            return Wait::Taken(Box::new(Taken { dir, config, given }));
        }
        self.phase
            .send_replace(Phase::Stopping(end.failure.clone()));
        if let Some(started) = started {
            let _ = started.vm.kill().await;
        }
        let _ = std::fs::remove_file(self.folder().file(SCRATCH));
        Wait::Ended(end)
    }

    /// Returns the run directory. A launch may have renamed the one of a VM that waits, which is still the working folder
    /// of its keeper.
    pub fn folder(&self) -> RunDir {
        match self.config.waits {
            true => RunDir::at("."),
            false => self.dir.clone(),
        }
    }

    /// Tells the clients of the wait that it is over.
    pub fn end_wait(&self, failure: Failure) {
        self.phase.send_replace(Phase::Ended(failure));
    }

    async fn start_and_wait(&self, slot: &mut Option<Started>) -> End {
        let started = match self.start_copy().await {
            Ok(started) => slot.insert(started),
            Err(failure) => {
                return End {
                    reason: EndReason::HostFailure,
                    failure,
                };
            }
        };
        self.start.borrow_mut().snapshot = started.vm.snapshot_key().map(str::to_owned);
        self.vm.replace(Some(started.vm.clone()));
        self.phase.send_replace(Phase::Waiting);
        let message = tokio::select! {
            () = self.taken.notified() => "a launch has taken the VM".to_owned(),
            status = started.vm.exited() => format!("the VM ended while it waited ({status:?})"),
        };
        End::new(EndReason::Lost, Code::VmLost, message)
    }

    /// Starts a copy that is paused. If there is no snapshot, a first VM boots, is saved and ends.
    async fn start_copy(&self) -> Result<Started, Failure> {
        let mut may_save = true;
        loop {
            let vm = NewVm {
                config: &self.config,
                dir: &self.dir,
                disk: &self.disk,
                with_snapshots: true,
            };
            let started = vmm::of(&self.config).start(vm).await?;
            self.limit_vm();
            match started.beginning {
                Beginning::Snapshot => return self.pause(started).await,
                Beginning::BootToSave if may_save => self.save_for_copies(started).await?,
                Beginning::Boot | Beginning::BootToSave => {
                    let why = started.note.as_deref().unwrap_or("another VM makes it");
                    let message = format!("there is no snapshot from which a VM could wait: {why}");
                    let _ = started.vm.kill().await;
                    return Err(Failure::new(Code::VmLost, message));
                }
            }
            may_save = false;
        }
    }

    async fn pause(&self, started: Started) -> Result<Started, Failure> {
        let limit = Duration::from_millis(self.config.boot_timeout_ms);
        let why = match timeout(limit, started.vm.paused()).await {
            Ok(Ok(())) => return Ok(started),
            Ok(Err(why)) => why,
            Err(_) => format!("it was not paused within {} ms", limit.as_millis()),
        };
        if let Some(key) = started.vm.snapshot_key() {
            self.with_store(|store| store.record_failure(key));
        }
        let _ = started.vm.kill().await;
        let message = format!("the VM does not continue from its snapshot: {why}");
        Err(Failure::new(Code::VmLost, message))
    }

    async fn save_for_copies(&self, started: Started) -> Result<(), Failure> {
        let limit = Duration::from_millis(self.config.boot_timeout_ms);
        let vm = started.vm.clone();
        let saved = timeout(limit, async {
            let mut frames = Frames::new(started.port);
            match frames.guest_waits().await {
                Ok(true) => vm.save().await,
                Ok(false) => Err("the guest does not wait".into()),
                Err(error) => Err(error.to_string()),
            }
        });
        let saved = saved.await;
        let _ = vm.kill().await;
        let written = match saved {
            Ok(Ok(publishing)) => tokio::task::spawn_blocking(move || publishing.join()).await,
            Ok(Err(why)) => return Err(no_snapshot(&why)),
            Err(_) => return Err(no_snapshot("it took too long")),
        };
        match written {
            Ok(Ok(Ok(()))) => Ok(()),
            Ok(Ok(Err(error))) => Err(no_snapshot(&error.to_string())),
            _ => Err(no_snapshot("the thread that writes it failed")),
        }
    }
}

fn no_snapshot(why: &str) -> Failure {
    Failure::new(Code::VmLost, format!("no snapshot was made: {why}"))
}
