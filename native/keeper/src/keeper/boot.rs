//! Boots a VM until it has a session with its guest.

use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::end::{End, EndReason};
use super::{HOSTNAME, Keeper, Tip};
use crate::error::{Code, Failure};
use crate::exec::now_ms;
use crate::guest::handshake::{Frames, Session, SessionError, open_session};
use crate::run_dir::{CONSOLE, SCRATCH, STARTED};
use crate::snapshots::Store;
use crate::vmm::{self, Beginning, Disks, EndKind, NewVm, RunningVm, Started, Vm, console};

/// The end of the console that explains the end of a VM: a panic prints less than this behind its reason.
const CONSOLE_TAIL_BYTES: u64 = 4096;
/// The number of boots before the keeper gives up on a VM.
const MAX_BOOTS: u32 = 2;

impl Keeper {
    pub(super) async fn boot(&self, slot: &mut Option<Vm>) -> Result<Session, End> {
        let host_failure = |failure: Failure| End {
            reason: EndReason::HostFailure,
            failure,
        };
        let mut begun = self.begun.take();
        if begun.is_none() {
            let marker = self
                .disk
                .once_there_is_room(|| self.dir.write_durable(STARTED, b""));
            marker
                .await
                .map_err(|error| host_failure(Failure::run_dir("writing the marker", &error)))?;
        }
        let mut with_snapshots = self.config.snapshots.is_some();
        loop {
            let start = Instant::now();
            let vm = NewVm {
                config: &self.config,
                dir: &self.dir,
                disk: &self.disk,
                with_snapshots,
            };
            let waited = begun.take();
            self.start.borrow_mut().pooled = waited.is_some();
            let started = match waited {
                Some(started) => started,
                None => vmm::of(&self.config)
                    .start(vm)
                    .await
                    .map_err(host_failure)?,
            };
            self.limit_vm();
            let beginning = started.beginning;
            if beginning != Beginning::Snapshot {
                self.boots.set(self.boots.get() + 1);
            }
            let key = started.vm.snapshot_key().map(str::to_owned);
            let end = match self.try_session(slot, started).await {
                Ok(session) => {
                    self.boot_ms.set(Some(
                        u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX),
                    ));
                    if let Some(key) = key {
                        let touched = self.running_vm().and_then(|vm| vm.touched());
                        self.with_store(|store| {
                            store.record_start(&key);
                            let recorded = touched.map(|pages| store.record_touched(&key, &pages));
                            if let Some(Err(error)) = recorded {
                                eprintln!("the pages of a copy are not recorded: {error}");
                            }
                        });
                        self.start.borrow_mut().snapshot = Some(key);
                    }
                    self.note_chain();
                    return Ok(session);
                }
                Err(end) => end,
            };
            // A boot would not have the memory.
            if !self.config.chain().is_empty() {
                return Err(self.explain_chain(end));
            }
            // Every VM would refuse the same configuration.
            let is_refused = end.reason == EndReason::Refused;
            let is_final = is_refused || end.reason == EndReason::Protocol;
            let may_boot_again = match (&key, is_refused) {
                (Some(key), false) => {
                    self.with_store(|store| store.record_failure(key));
                    self.note_start(format!(
                        "snapshot {key}: {}; the VM boots instead",
                        end.failure.message
                    ));
                    true
                }
                _ => {
                    if beginning == Beginning::BootToSave && !self.is_saved() {
                        self.note_start(format!("no snapshot was made: {}", end.failure.message));
                    }
                    !is_final && self.boots.get() < MAX_BOOTS
                }
            };
            if !may_boot_again {
                return Err(end);
            }
            with_snapshots = false;
            eprintln!(
                "boot {}: {}; the VM boots again",
                self.boots.get(),
                end.failure.message
            );
            if let Some(vm) = slot.take() {
                let _ = vm.kill().await;
            }
        }
    }

    /// Records the full save from which the VM has continued.
    fn note_chain(&self) {
        let chain = self.config.chain();
        if let Some(newest) = chain.last() {
            self.start.borrow_mut().snapshot = Some(newest.id.clone());
            self.full_saves.keep(Tip {
                id: newest.id.clone(),
                links: chain.len(),
            });
        }
    }

    /// Names the file of a full save that the VMM refuses.
    fn explain_chain(&self, end: End) -> End {
        let refused = self.running_vm().and_then(|vm| vm.end());
        match refused.filter(|end| end.kind == EndKind::BadConfiguration) {
            Some(refused) => End::new(
                EndReason::HostFailure,
                Code::CheckpointUnfit,
                format!(
                    "the VM does not continue from its full saves: {}",
                    refused.describe()
                ),
            ),
            None => end,
        }
    }

    /// Moves all processes of the VM into its groups.
    pub(super) fn limit_vm(&self) {
        let own = std::process::id();
        let processes = || {
            let mut all = vmm::process_tree(own);
            all.retain(|pid| *pid != own);
            all
        };
        if let Err(error) = self.group.adopt(processes) {
            eprintln!("the VM is not limited by its control groups: {error}");
        }
    }

    pub(super) fn with_store(&self, change: impl FnOnce(&Store)) {
        let settings = self.config.snapshots.as_ref();
        if let Some(Ok(store)) = settings.map(Store::open) {
            change(&store);
        }
    }

    /// Whether the VM of this boot was saved.
    fn is_saved(&self) -> bool {
        let publishing = self.publishing.take();
        let is_saved = publishing.is_some();
        self.publishing.set(publishing);
        is_saved
    }

    fn note_start(&self, note: String) {
        eprintln!("{note}");
        self.start.borrow_mut().note = Some(note);
    }

    async fn try_session(&self, slot: &mut Option<Vm>, started: Started) -> Result<Session, End> {
        let limit = Duration::from_millis(self.config.boot_timeout_ms);
        let limit = match started.beginning {
            // A copy needs a tenth of a boot's CPU time. On a busy machine a shorter limit would turn each late copy
            // into a boot, which makes the machine busier.
            Beginning::Snapshot if self.config.chain().is_empty() => limit / 2,
            _ => limit,
        };
        if let Some(note) = started.note {
            self.note_start(note);
        }
        self.vm.replace(Some(started.vm.clone()));
        let vm = slot.insert(Vm::new(started.vm.clone()));
        let session = self.disk.within(limit, async {
            let mut frames = Frames::new(started.port);
            self.begin(&*started.vm, started.beginning, &mut frames)
                .await?;
            vm.watch(&self.disk, &self.clock);
            open_session(
                frames,
                &self.config.mounts,
                self.config.egress.as_ref(),
                HOSTNAME,
                started.mailbox,
            )
            .await
        });
        let error = match session.await {
            Ok(Ok(session)) => return Ok(session),
            Ok(Err(error @ SessionError::Refused(_))) => {
                return Err(End::new(
                    EndReason::Refused,
                    Code::VmRefused,
                    error.to_string(),
                ));
            }
            Ok(Err(error)) if error.is_violation() => {
                let message = format!("the guest broke the protocol before it was ready: {error}");
                return Err(End::new(EndReason::Protocol, Code::VmProtocol, message));
            }
            Ok(Err(error @ SessionError::Restore(_))) => error.to_string(),
            Ok(Err(_)) => match timeout(Duration::from_secs(1), vm.exited()).await {
                Ok(Ok(status)) => format!("the VMM ended before its guest was ready ({status})"),
                _ => "the guest closed its port before it was ready".into(),
            },
            Err(_) => format!("the guest sent no hello within {} ms", limit.as_millis()),
        };
        let message = format!(
            "{error}, boot {} of {MAX_BOOTS}: {}",
            self.boots.get(),
            self.last_words()
        );
        Err(End::new(EndReason::BootTimeout, Code::BootTimeout, message))
    }

    /// Brings a VM that can be saved or copied to its hello: the guest waits, and `Start` makes it a machine of its own.
    async fn begin(
        &self,
        vm: &dyn RunningVm,
        beginning: Beginning,
        frames: &mut Frames,
    ) -> Result<(), SessionError> {
        let scratch_bytes = u64::from(self.config.disk_mib) << 20;
        // A VM that boots after a failed copy may get no `Start`.
        self.start.borrow_mut().sent_at_ms = None;
        match beginning {
            Beginning::Boot => return Ok(()),
            Beginning::BootToSave => {
                if !frames.guest_waits().await? {
                    vm.abandon_save();
                    self.note_start("no snapshot was made: the guest does not wait".into());
                    return Ok(());
                }
                match vm.save().await {
                    Ok(publishing) => self.publishing.set(Some(publishing)),
                    Err(why) => self.note_start(format!("no snapshot was made: {why}")),
                }
            }
            Beginning::Snapshot => {
                let disks = Disks {
                    scratch: self.dir.file(SCRATCH),
                    scratch_bytes,
                };
                vm.restored(&disks).await.map_err(SessionError::Restore)?;
            }
        }
        frames
            .send_start(scratch_bytes, vmm::root_name(&self.config))
            .await?;
        self.start.borrow_mut().sent_at_ms = Some(now_ms());
        Ok(())
    }

    /// Returns the reason that the VMM gave for its end, if any, and the line of the console that explains it.
    pub(super) fn last_words(&self) -> String {
        let tail = console::tail(&self.dir.file(CONSOLE), CONSOLE_TAIL_BYTES);
        let console = console::describe_end(&tail);
        match self.running_vm().and_then(|vm| vm.end()) {
            Some(end) => format!("{}; {console}", end.describe()),
            None => console,
        }
    }
}
