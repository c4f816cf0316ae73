//! The keeper's life: boot, serve, and one end of many.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::process::ExitStatus;
use std::rc::Rc;
use std::time::Duration;

use serde::Serialize;
use tokio::net::UnixStream;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout};

use crate::config::LaunchConfig;
use crate::disk::{self, Disk};
use crate::error::{Code, Failure};
use crate::exec::{Exec, SpoolBudget, now_ms};
use crate::guest::handshake::{Session, SessionError, open_session};
use crate::guest::link::Link;
use crate::guest::patience::Patience;
use crate::guest::pulse;
use crate::host::HostTsc;
use crate::lease::Lease;
use crate::run_dir::{CONSOLE, EXIT, KEEPER, KeeperFile, RunDir, SCRATCH, SOCKET, STARTED};
use crate::vmm::{Vmm, console};

/// Boots before the keeper gives up on a VM.
const MAX_BOOTS: u32 = 2;
/// How long clients may take to read what is left for them after the VM's end.
const DRAIN: Duration = Duration::from_secs(10);
/// Broken tars that are remembered.
const MAX_CUT_TARS: usize = 16;
/// How long the VM's end waits for room to be written down.
const EXIT_LIMIT: Duration = Duration::from_secs(20);
const EXIT_PAUSE: Duration = Duration::from_millis(250);
const CONSOLE_TAIL_BYTES: u64 = 8 << 10;

/// Why a VM ended, as `exit.json` says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum EndReason {
    /// A client stopped it.
    Stopped,
    /// Nobody renewed its lease.
    Orphaned,
    /// The VMM ended by itself.
    Lost,
    /// The guest broke the protocol.
    Protocol,
    /// The guest refused what its VM was launched with.
    Refused,
    /// No boot came to a session.
    BootTimeout,
    /// The keeper was told to end by a signal.
    Terminated,
    /// The VMM could not be started.
    HostFailure,
    /// The host's disk was full for longer than a VM waits.
    DiskFull,
}

#[derive(Debug, Clone)]
pub struct End {
    pub reason: EndReason,
    pub failure: Failure,
}

impl End {
    fn new(reason: EndReason, code: Code, message: impl Into<String>) -> Self {
        Self {
            reason,
            failure: Failure::new(code, message),
        }
    }
}

/// `exit.json`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ExitFile<'a> {
    v: u32,
    vm_key: &'a str,
    reason: EndReason,
    code: &'a str,
    message: &'a str,
    vmm_exit: Option<String>,
    boots: u32,
    started_at_ms: u64,
    ended_at_ms: u64,
    console_tail: String,
}

/// Where the VM is in its life.
#[derive(Clone)]
pub enum Phase {
    Booting,
    Ready(Rc<Link>),
    Stopping(Failure),
    /// `exit.json` is written.
    Ended(Failure),
}

impl Phase {
    pub fn name(&self) -> &'static str {
        match self {
            Phase::Booting => "booting",
            Phase::Ready(_) => "ready",
            Phase::Stopping(_) | Phase::Ended(_) => "stopping",
        }
    }
}

pub struct Keeper {
    pub dir: RunDir,
    pub config: LaunchConfig,
    pub lease: Lease,
    pub disk: Rc<Disk>,
    pub fence: watch::Sender<u64>,
    pub phase: watch::Sender<Phase>,
    pub execs: RefCell<HashMap<String, Rc<Exec>>>,
    pub budget: Rc<SpoolBudget>,
    pub boots: Cell<u32>,
    pub boot_ms: Cell<Option<u64>>,
    pub vmm_pid: Cell<Option<u32>>,
    pub started_at_ms: u64,
    pub stop_asked: Notify,
    /// Why the newest tars of some paths broke off, newest last.
    cut_tars: RefCell<VecDeque<(String, Failure)>>,
    pub connections: Cell<usize>,
    /// Requests and streams at work.
    pub busy: Cell<usize>,
    pub idle: Notify,
    /// One fence is granted at a time.
    pub attaching: tokio::sync::Mutex<()>,
}

impl Keeper {
    /// The guest, once it answers; the reason when it never will.
    pub async fn guest(&self) -> Result<Rc<Link>, Failure> {
        let mut phase = self.phase.subscribe();
        loop {
            match &*phase.borrow_and_update() {
                Phase::Ready(link) => return Ok(link.clone()),
                Phase::Stopping(failure) | Phase::Ended(failure) => return Err(failure.clone()),
                Phase::Booting => {}
            }
            // The sender lives as long as `self`.
            let _ = phase.changed().await;
        }
    }
}

/// Serves one VM until its end. Returns once `exit.json` is written and clients have had their say.
pub async fn run(dir: RunDir, config: LaunchConfig) -> Result<(), Failure> {
    let keeper_file = KeeperFile {
        pid: std::process::id(),
        version: env!("CARGO_PKG_VERSION").into(),
        started_at_ms: now_ms(),
    };
    let text = serde_json::to_vec(&keeper_file).expect("plain data serialises");
    let fence = dir
        .write_durable(KEEPER, &text)
        .and_then(|()| dir.read_fence());
    let fence = fence.map_err(|error| Failure::io("writing the run directory", &error))?;
    let keeper = Rc::new(Keeper {
        lease: Lease::new(Duration::from_millis(config.orphan_timeout_ms)),
        disk: Disk::new(
            dir.path(),
            Duration::from_millis(config.disk_full_timeout_ms),
        ),
        fence: watch::Sender::new(fence),
        phase: watch::Sender::new(Phase::Booting),
        execs: RefCell::default(),
        budget: Rc::new(SpoolBudget::new(config.spool_max_bytes)),
        boots: Cell::new(0),
        boot_ms: Cell::new(None),
        vmm_pid: Cell::new(None),
        started_at_ms: keeper_file.started_at_ms,
        stop_asked: Notify::new(),
        cut_tars: RefCell::default(),
        connections: Cell::new(0),
        busy: Cell::new(0),
        idle: Notify::new(),
        attaching: tokio::sync::Mutex::default(),
        dir,
        config,
    });
    // The keeper stands in its run directory, so the path is short whatever the folder's is.
    let listener =
        tokio::net::UnixListener::bind(SOCKET).map_err(|error| Failure::io(SOCKET, &error))?;
    let server = tokio::task::spawn_local(crate::api::serve(keeper.clone(), listener));
    let end = keeper.clone().live().await;
    // Nobody new comes in; who is being answered gets the rest.
    server.abort();
    let _ = std::fs::remove_file(SOCKET);
    let drained = async {
        while keeper.busy.get() > 0 {
            keeper.idle.notified().await;
        }
    };
    let _ = timeout(DRAIN, drained).await;
    eprintln!("{:?}: {}", end.reason, end.failure.message);
    Ok(())
}

impl Keeper {
    /// Keeps why a tar of `path` broke off; behind raw bytes there is no line to say it in.
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

    async fn live(self: Rc<Self>) -> End {
        let mut vmm = None;
        let end = tokio::select! {
            end = self.boot_and_watch(&mut vmm) => end,
            () = self.lease.expired() => End::new(
                EndReason::Orphaned,
                Code::VmLost,
                format!("nobody renewed the lease for {} ms", self.config.orphan_timeout_ms),
            ),
            // A client cannot attach while the disk is full, and so not renew.
            () = self.disk.given_up(|| self.lease.renew()) => End::new(
                EndReason::DiskFull,
                Code::DiskFull,
                format!("{}, which is how long a VM waits for it: make room and run again", self.disk.limit_text()),
            ),
            () = self.stop_asked.notified() => End::new(EndReason::Stopped, Code::VmLost, "the VM was stopped"),
            () = terminated() => End::new(EndReason::Terminated, Code::VmLost, "the keeper was told to end"),
        };
        if let Phase::Ready(link) = self
            .phase
            .send_replace(Phase::Stopping(end.failure.clone()))
        {
            link.end(end.failure.clone());
        }
        let status = match vmm {
            Some(vmm) => vmm.kill().await.ok(),
            None => None,
        };
        let _ = std::fs::remove_file(self.dir.file(SCRATCH));
        self.write_exit(&end, status).await;
        self.phase.send_replace(Phase::Ended(end.failure.clone()));
        end
    }

    async fn write_exit(&self, end: &End, status: Option<ExitStatus>) {
        let exit = ExitFile {
            v: 1,
            vm_key: &self.config.vm_key,
            reason: end.reason,
            code: end.failure.code.as_str(),
            message: &end.failure.message,
            vmm_exit: status.map(|status| status.to_string()),
            boots: self.boots.get(),
            started_at_ms: self.started_at_ms,
            ended_at_ms: now_ms(),
            console_tail: console::tail(&self.dir.file(CONSOLE), CONSOLE_TAIL_BYTES),
        };
        let text = serde_json::to_vec_pretty(&exit).expect("plain data serialises");
        let deadline = Instant::now() + EXIT_LIMIT;
        loop {
            match self.dir.write_durable(EXIT, &text) {
                // The scratch disk is gone, so there is room, unless others take it first.
                Err(error) if disk::is_full(&error) && Instant::now() < deadline => {
                    tokio::time::sleep(EXIT_PAUSE).await;
                }
                Err(error) => return eprintln!("writing {EXIT}: {error}"),
                Ok(()) => return,
            }
        }
    }

    /// Boots the VM and stays until it ends by itself.
    async fn boot_and_watch(&self, slot: &mut Option<Vmm>) -> End {
        let session = match self.boot(slot).await {
            Ok(session) => session,
            Err(end) => return end,
        };
        let silence = Duration::from_millis(self.config.guest_silence_ms);
        let link = Link::start(session, Patience::new(silence));
        self.phase.send_replace(Phase::Ready(link.clone()));
        let vmm = slot.as_mut().expect("a session has a VMM");
        let broken = vmm.broken_control();
        let failure = tokio::select! {
            why = broken => Failure::new(
                Code::VmProtocol,
                format!("the VMM broke the protocol of its control: {why}"),
            ),
            failure = link.ended() => failure,
            () = self.disk.stand_still(|| link.patience.pause()) => unreachable!("it goes on for as long as the VM"),
            never = pulse::watch(&link, || self.runs_a_command()) => never,
            _ = vmm.exited() => Failure::new(Code::VmLost, "the VMM ended"),
        };
        // A closed port and the VMM's end come together, in either order; say the one that tells more.
        let failure = match failure.code {
            Code::VmLost => match timeout(Duration::from_millis(300), vmm.exited()).await {
                Ok(Ok(status)) => Failure::new(
                    Code::VmLost,
                    format!(
                        "the VM ended by itself ({status}): {}",
                        self.last_console_line()
                    ),
                ),
                _ => failure,
            },
            _ => failure,
        };
        let reason = if failure.code == Code::VmProtocol {
            EndReason::Protocol
        } else {
            EndReason::Lost
        };
        link.end(failure.clone());
        End { reason, failure }
    }

    fn runs_a_command(&self) -> bool {
        let execs = self.execs.borrow();
        execs.values().any(|exec| exec.is_running())
    }

    async fn boot(&self, slot: &mut Option<Vmm>) -> Result<Session, End> {
        let host_failure = |failure: Failure| End {
            reason: EndReason::HostFailure,
            failure,
        };
        let tsc = tokio::task::spawn_blocking(HostTsc::read).await;
        let tsc = tsc.unwrap_or(HostTsc {
            khz: 0,
            trusted: false,
        });
        let marker = self
            .disk
            .once_there_is_room(|| self.dir.write_durable(STARTED, b""));
        marker
            .await
            .map_err(|error| host_failure(Failure::io("writing the marker", &error)))?;
        loop {
            let start = Instant::now();
            self.boots.set(self.boots.get() + 1);
            let (vmm, port, mailbox) = Vmm::start(&self.config, &self.dir, &self.disk, tsc)
                .await
                .map_err(host_failure)?;
            self.vmm_pid.set(vmm.pid());
            let vmm = slot.insert(vmm);
            let end = match self.try_session(vmm, port, mailbox).await {
                Ok(session) => {
                    self.boot_ms.set(Some(
                        u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX),
                    ));
                    return Ok(session);
                }
                Err(end) => end,
            };
            let is_final = matches!(end.reason, EndReason::Protocol | EndReason::Refused);
            if self.boots.get() >= MAX_BOOTS || is_final {
                return Err(end);
            }
            eprintln!(
                "boot {}: {}; once more",
                self.boots.get(),
                end.failure.message
            );
            if let Some(vmm) = slot.take() {
                let _ = vmm.kill().await;
            }
        }
    }

    async fn try_session(
        &self,
        vmm: &mut Vmm,
        port: UnixStream,
        mailbox: File,
    ) -> Result<Session, End> {
        let limit = Duration::from_millis(self.config.boot_timeout_ms);
        let hostname = "voidbox";
        let session = self.disk.within(
            limit,
            open_session(port, &self.config.mounts, hostname, mailbox),
        );
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
            Ok(Err(_)) => match timeout(Duration::from_secs(1), vmm.exited()).await {
                Ok(Ok(status)) => format!("the VMM ended before its guest was ready ({status})"),
                _ => "the guest closed its port before it was ready".into(),
            },
            Err(_) => format!(
                "the guest said no hello within {} ms",
                self.config.boot_timeout_ms
            ),
        };
        let message = format!(
            "{error}, boot {} of {MAX_BOOTS}: {}",
            self.boots.get(),
            self.last_console_line()
        );
        Err(End::new(EndReason::BootTimeout, Code::BootTimeout, message))
    }

    fn last_console_line(&self) -> String {
        let tail = console::tail(&self.dir.file(CONSOLE), 2048);
        let last = tail.lines().map(str::trim).rfind(|line| !line.is_empty());
        last.map_or_else(
            || "the console is empty".into(),
            |line| format!("the console ends with {line:?}"),
        )
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
