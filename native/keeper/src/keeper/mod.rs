//! One VM's life: its boot, its service, and the first of several possible ends.

mod boot;
mod end;
mod exit_file;
mod full_save;
mod limits;
mod save_queue;
mod session;
mod start;
mod taken;
mod waiting;

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::{Notify, watch};

use crate::cgroups::Group;
use crate::config::LaunchConfig;
use crate::disk::Disk;
use crate::door::Door;
use crate::error::{Code, Failure};
use crate::exec::{Exec, SpoolBudget, now_ms};
use crate::guest::clock::GuestClock;
use crate::guest::link::Link;
use crate::lease::Lease;
use crate::notices::Notices;
use crate::run_dir::{KEEPER, KeeperFile, RunDir, SCRATCH};
use crate::vmm::{self, Publishing, RunningVm, Started};
use save_queue::FullSaves;
use taken::Given;

pub use end::{End, EndReason};
pub use save_queue::{SaveInFull, Tip, failed, no_parent};
pub use start::StartReport;
pub use taken::{Taken, Wait};

const HOSTNAME: &str = "voidbox";
/// The number of broken tars whose reasons are kept.
const MAX_CUT_TARS: usize = 16;

/// The phase of the VM's life.
#[derive(Clone)]
pub enum Phase {
    Booting,
    /// The VM waits for a launch that takes it.
    Waiting,
    Ready(Rc<Link>),
    Stopping(Failure),
    /// `exit.json` is written.
    Ended(Failure),
}

impl Phase {
    pub fn name(&self) -> &'static str {
        match self {
            Phase::Booting => "booting",
            Phase::Waiting => "waiting",
            Phase::Ready(_) => "ready",
            Phase::Stopping(_) | Phase::Ended(_) => "stopping",
        }
    }
}

pub struct Keeper {
    pub dir: RunDir,
    pub config: LaunchConfig,
    pub lease: Lease,
    /// Present if the guest may reach any host or service.
    pub door: Option<Rc<Door>>,
    pub notices: Rc<Notices>,
    pub disk: Rc<Disk>,
    pub clock: Rc<GuestClock>,
    pub fence: watch::Sender<u64>,
    pub phase: watch::Sender<Phase>,
    pub execs: RefCell<HashMap<String, Rc<Exec>>>,
    /// True while a checkpoint is made.
    pub is_checkpointing: Cell<bool>,
    pub full_saves: FullSaves,
    /// The number of commands that were started. Each one ends a checkpoint whose copy is not complete.
    pub exec_starts: watch::Sender<u64>,
    pub budget: Rc<SpoolBudget>,
    pub boots: Cell<u32>,
    pub boot_ms: Cell<Option<u64>>,
    pub start: RefCell<StartReport>,
    /// The control groups that limit the VM.
    pub group: Rc<Group>,
    /// The jail around the VMM, for the run.
    pub jail: String,
    /// The VM that waited, until the boot uses it.
    begun: Cell<Option<Started>>,
    /// The launch that takes this VM, while it waits.
    pub taking: RefCell<Option<(RunDir, LaunchConfig)>>,
    pub taken: Notify,
    /// The thread that writes a snapshot of this VM.
    pub publishing: Cell<Option<Publishing>>,
    /// The VM of the newest boot.
    vm: RefCell<Option<Rc<dyn RunningVm>>>,
    pub started_at_ms: u64,
    pub stop_asked: Notify,
    /// Notifies when the client to which the VM was tied has disconnected.
    pub owner_left: Notify,
    /// The reasons why the newest tars of some paths ended early, newest last.
    cut_tars: RefCell<VecDeque<(String, Failure)>>,
    pub connections: Cell<usize>,
    /// The number of running requests and streams.
    pub busy: Cell<usize>,
    pub idle: Notify,
    /// Held while a fence is granted, so that only one is granted at a time.
    pub attaching: tokio::sync::Mutex<()>,
}

impl Keeper {
    /// Takes a run directory over: writes this keeper into it, and continues from its fence.
    pub fn new(dir: RunDir, config: LaunchConfig) -> io::Result<Self> {
        let started_at_ms = now_ms();
        let keeper_file = KeeperFile {
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").into(),
            started_at_ms,
        };
        let text = serde_json::to_vec(&keeper_file).expect("plain data serialises");
        dir.write_durable(KEEPER, &text)?;
        let group = Rc::new(limits::make(&dir, &config, started_at_ms));
        let jail = vmm::of(&config).describe_jail(&dir);
        Self::with(
            dir,
            config,
            Given {
                group,
                jail,
                begun: None,
            },
        )
    }

    /// Continues with a VM that waited, in the run directory of the launch that has taken it.
    pub fn of_taken(taken: Taken) -> io::Result<Self> {
        Self::with(taken.dir, taken.config, taken.given)
    }

    fn with(dir: RunDir, config: LaunchConfig, given: Given) -> io::Result<Self> {
        let fence = dir.read_fence()?;
        let notices = Notices::create(&dir)?;
        let egress = config.egress.clone();
        Ok(Self {
            door: egress.map(|egress| Door::new(egress, notices.clone())),
            notices,
            lease: Lease::new(Duration::from_millis(config.orphan_timeout_ms)),
            disk: Disk::new(
                dir.path(),
                Duration::from_millis(config.disk_full_timeout_ms),
            ),
            clock: GuestClock::new(),
            fence: watch::Sender::new(fence),
            phase: watch::Sender::new(Phase::Booting),
            execs: RefCell::default(),
            is_checkpointing: Cell::new(false),
            full_saves: FullSaves::default(),
            exec_starts: watch::Sender::new(0),
            budget: Rc::new(SpoolBudget::new(config.spool_max_bytes)),
            boots: Cell::new(0),
            boot_ms: Cell::new(None),
            start: RefCell::default(),
            group: given.group,
            jail: given.jail,
            begun: Cell::new(given.begun),
            taking: RefCell::default(),
            taken: Notify::new(),
            publishing: Cell::new(None),
            vm: RefCell::default(),
            started_at_ms: now_ms(),
            stop_asked: Notify::new(),
            owner_left: Notify::new(),
            cut_tars: RefCell::default(),
            connections: Cell::new(0),
            busy: Cell::new(0),
            idle: Notify::new(),
            attaching: tokio::sync::Mutex::default(),
            dir,
            config,
        })
    }

    /// Returns the guest once it answers; the reason if it never will.
    pub async fn guest(&self) -> Result<Rc<Link>, Failure> {
        let mut phase = self.phase.subscribe();
        loop {
            match &*phase.borrow_and_update() {
                Phase::Ready(link) => return Ok(link.clone()),
                Phase::Stopping(failure) | Phase::Ended(failure) => return Err(failure.clone()),
                Phase::Booting | Phase::Waiting => {}
            }
            // The sender lives as long as `self`.
            let _ = phase.changed().await;
        }
    }

    /// Returns the exec of a key.
    pub fn exec(&self, key: &str) -> Result<Rc<Exec>, Failure> {
        let found = self.execs.borrow().get(key).cloned();
        found.ok_or_else(|| {
            Failure::new(
                Code::ExecUnknown,
                format!("exec {key:?} was never started here"),
            )
        })
    }

    /// Records why a tar of `path` ended early, because no answer line can follow raw bytes.
    pub fn remember_tar(&self, path: String, cut: Option<Failure>) {
        let mut tars = self.cut_tars.borrow_mut();
        tars.retain(|(known, _)| *known != path);
        if let Some(failure) = cut {
            tars.push_back((path, failure));
        }
        if tars.len() > MAX_CUT_TARS {
            tars.pop_front();
        }
    }

    pub fn why_cut(&self, path: &str) -> Option<Failure> {
        let tars = self.cut_tars.borrow();
        let found = tars.iter().find(|(known, _)| known == path);
        found.map(|(_, failure)| failure.clone())
    }

    /// Boots the VM, and returns at its end, which is then recorded.
    pub async fn live(&self) -> End {
        let mut vm = None;
        let end = tokio::select! {
            end = self.boot_and_watch(&mut vm) => end,
            () = self.lease.expired() => self.expired(),
            // While the disk is full, a client cannot attach, and so cannot renew.
            () = self.disk.given_up(|| self.lease.renew()) => End::new(
                EndReason::DiskFull,
                Code::DiskFull,
                format!("{}, which is how long a VM waits for it: free space and run again", self.disk.limit_text()),
            ),
            () = self.stop_asked.notified() => End::new(EndReason::Stopped, Code::VmLost, "the VM was stopped"),
            () = self.owner_left.notified() => End::new(
                EndReason::Stopped,
                Code::VmLost,
                "the process that the VM was tied to has ended",
            ),
            () = terminated() => End::new(EndReason::Terminated, Code::VmLost, "the keeper received a signal to end"),
        };
        if let Phase::Ready(link) = self
            .phase
            .send_replace(Phase::Stopping(end.failure.clone()))
        {
            link.end(end.failure.clone());
        }
        let status = match vm {
            Some(vm) => vm.kill().await.ok(),
            None => None,
        };
        let _ = std::fs::remove_file(self.dir.file(SCRATCH));
        self.write_exit(&end, status).await;
        self.phase.send_replace(Phase::Ended(end.failure.clone()));
        end
    }

    fn expired(&self) -> End {
        if self.lease.is_retained() {
            let message = "the time for which it was retained is over";
            return End::new(EndReason::Retained, Code::VmLost, message);
        }
        End::new(
            EndReason::Orphaned,
            Code::VmLost,
            format!(
                "no client renewed the lease for {} ms",
                self.config.orphan_timeout_ms
            ),
        )
    }

    /// Returns the VM of the newest boot, also after its end; `None` before the first.
    pub fn running_vm(&self) -> Option<Rc<dyn RunningVm>> {
        self.vm.borrow().clone()
    }

    /// Returns once every running request and stream has ended.
    pub async fn drained(&self) {
        while self.busy.get() > 0 {
            self.idle.notified().await;
        }
    }

    fn runs_a_command(&self) -> bool {
        let execs = self.execs.borrow();
        execs.values().any(|exec| exec.is_running())
    }
}

/// Returns at SIGTERM or SIGINT.
async fn terminated() {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut terminate), Ok(mut interrupt)) = (
        signal(SignalKind::terminate()),
        signal(SignalKind::interrupt()),
    ) else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}
