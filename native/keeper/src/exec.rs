//! One exec: its durable record, its spool, its deadline, its end.

use std::cell::{Cell, RefCell};
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use tokio::time::Instant;
use voidbox_protocol::body::{ExecReason, ExecRequest, ExecResponse, ExecSignal};
use voidbox_protocol::credit::SendWindow;
use voidbox_protocol::frame::MAX_CHUNK_BYTES;
use voidbox_protocol::message::{Message, Stream, encode_data};

use crate::error::{Code, Failure};
use crate::guest::link::{After, Inbound, Link, Violation};

mod spool;

pub use spool::{Spool, SpoolBudget};

/// How long a guest may take to end an exec that was killed. After it the VM is killed.
const KILL_GRACE: Duration = Duration::from_secs(10);

/// What `exec.start` asks for.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StartExec {
    pub exec_key: String,
    pub program: String,
    #[serde(default)]
    pub args: Vec<String>,
    #[serde(default)]
    pub env: std::collections::BTreeMap<String, String>,
    pub cwd: String,
    #[serde(default = "default_id")]
    pub uid: u32,
    #[serde(default = "default_id")]
    pub gid: u32,
    pub stdin_bytes: Option<u64>,
    pub timeout_ms: u64,
    #[serde(default = "default_max_output_bytes")]
    pub max_output_bytes: u64,
}

fn default_id() -> u32 {
    1000
}

fn default_max_output_bytes() -> u64 {
    256 << 20
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    Exited,
    Timeout,
    OutputLimit,
    CannotStart,
    Killed,
}

/// How an exec ended, as `exec.wait` answers it.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    pub reason: Reason,
    pub exit_code: i32,
    pub message: Option<String>,
    pub started_at_ms: u64,
    pub ended_at_ms: u64,
    /// Bytes in the spools; `droppedBytes` came from the guest and are in neither.
    pub stdout_bytes: u64,
    pub stderr_bytes: u64,
    pub dropped_bytes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    Running,
    Ended,
    Lost,
    Acknowledged,
}

/// `record.json`. It has no arguments and no environment: both may carry secrets.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Record<'a> {
    v: u32,
    exec_key: &'a str,
    state: Phase,
    program: &'a str,
    started_at_ms: u64,
    deadline_at_ms: u64,
    outcome: Option<&'a Outcome>,
}

struct State {
    phase: Phase,
    stdout: Spool,
    stderr: Spool,
    stdin: SendWindow,
    /// Why the keeper had it killed.
    killed_for: Option<Reason>,
    outcome: Option<Outcome>,
    failure: Option<Failure>,
}

pub struct Exec {
    pub start: StartExec,
    folder: PathBuf,
    started_at_ms: u64,
    deadline: Instant,
    budget: Rc<SpoolBudget>,
    id: Cell<u32>,
    /// Bytes of standard input that are on their way to the guest.
    stdin_taken: Cell<u64>,
    /// Which connection may feed standard input; the newest one does.
    stdin_owner: Cell<u64>,
    state: RefCell<State>,
    changed: Notify,
}

pub fn now_ms() -> u64 {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

impl Exec {
    /// Writes the record, so that the key is taken, and sends the request to the guest.
    pub fn start(
        start: StartExec,
        folder: PathBuf,
        budget: Rc<SpoolBudget>,
        link: &Rc<Link>,
    ) -> Result<Rc<Self>, Failure> {
        let spools = || -> std::io::Result<(Spool, Spool)> {
            fs::create_dir_all(&folder)?;
            Ok((
                Spool::create(&folder.join("stdout"))?,
                Spool::create(&folder.join("stderr"))?,
            ))
        };
        let (stdout, stderr) = spools().map_err(|error| Failure::io("making the spool", &error))?;
        let timeout = Duration::from_millis(start.timeout_ms);
        let exec = Rc::new(Self {
            deadline: Instant::now() + timeout,
            started_at_ms: now_ms(),
            folder,
            budget,
            id: Cell::new(0),
            stdin_taken: Cell::new(0),
            stdin_owner: Cell::new(0),
            state: RefCell::new(State {
                phase: Phase::Running,
                stdout,
                stderr,
                stdin: SendWindow::default(),
                killed_for: None,
                outcome: None,
                failure: None,
            }),
            changed: Notify::new(),
            start,
        });
        exec.write_record()
            .map_err(|error| Failure::io("writing the exec record", &error))?;
        let request = Message::ExecRequest(ExecRequest {
            program: exec.start.program.clone(),
            args: exec.start.args.clone(),
            env: exec.start.env.clone(),
            cwd: exec.start.cwd.clone(),
            uid: exec.start.uid,
            gid: exec.start.gid,
            stdin: exec.start.stdin_bytes.is_some(),
            timeout_ms: None,
        });
        exec.id.set(link.open(&request, exec.clone())?);
        if exec.start.stdin_bytes == Some(0) {
            link.send(exec.id.get(), &Message::StreamEnd(Default::default()));
        }
        tokio::task::spawn_local(exec.clone().keep_deadline(link.clone()));
        tokio::task::spawn_local(exec.clone().watch_kill(link.clone()));
        Ok(exec)
    }

    pub fn phase(&self) -> Phase {
        self.state.borrow().phase
    }

    fn is_running(&self) -> bool {
        self.phase() == Phase::Running
    }

    /// Replaces the record. It need not survive a power cut, which the VM does not either.
    fn write_record(&self) -> std::io::Result<()> {
        let state = self.state.borrow();
        let record = Record {
            v: 1,
            exec_key: &self.start.exec_key,
            state: state.phase,
            program: &self.start.program,
            started_at_ms: self.started_at_ms,
            deadline_at_ms: self.started_at_ms.saturating_add(self.start.timeout_ms),
            outcome: state.outcome.as_ref(),
        };
        let temporary = self.folder.join("record.json.new");
        fs::write(&temporary, serde_json::to_vec(&record)?)?;
        fs::rename(&temporary, self.folder.join("record.json"))
    }

    async fn keep_deadline(self: Rc<Self>, link: Rc<Link>) {
        let ended = async {
            while self.is_running() {
                let changed = self.changed.notified();
                if self.is_running() {
                    changed.await;
                }
            }
        };
        tokio::select! {
            () = ended => {}
            () = tokio::time::sleep_until(self.deadline) => self.kill(&link, Reason::Timeout),
        }
    }

    /// Kills the guest's whole process group, and the VM when the guest does not obey.
    fn kill(&self, link: &Link, reason: Reason) {
        {
            let mut state = self.state.borrow_mut();
            if state.phase != Phase::Running || state.killed_for.is_some() {
                return;
            }
            state.killed_for = Some(reason);
        }
        link.send(
            self.id.get(),
            &Message::ExecSignal(ExecSignal {
                signal: libc::SIGKILL,
            }),
        );
        self.changed.notify_waiters();
    }

    /// Kills the VM when a killed exec does not end. Runs for as long as the exec does.
    async fn watch_kill(self: Rc<Self>, link: Rc<Link>) {
        loop {
            let changed = self.changed.notified();
            if !self.is_running() {
                return;
            }
            if self.state.borrow().killed_for.is_some() {
                break;
            }
            changed.await;
        }
        tokio::time::sleep(KILL_GRACE).await;
        if !self.is_running() {
            return;
        }
        let reason = self.state.borrow().killed_for.unwrap_or(Reason::Killed);
        let message = "the guest did not end the exec that was killed, so its VM was";
        self.finish(reason, 137, Some(message.into()));
        link.end(Failure::new(
            Code::VmProtocol,
            format!("exec {}: {message}", self.start.exec_key),
        ));
    }

    pub fn signal(&self, link: &Link, signal: i32) {
        if self.is_running() {
            link.send(self.id.get(), &Message::ExecSignal(ExecSignal { signal }));
        }
    }

    fn finish(&self, reason: Reason, exit_code: i32, message: Option<String>) {
        let mut state = self.state.borrow_mut();
        let spooled = state.stdout.finish();
        if let Err(error) = spooled.and(state.stderr.finish()) {
            state
                .failure
                .get_or_insert(Failure::io("writing the spool", &error));
        }
        let dropped = state.stdout.dropped() + state.stderr.dropped();
        state.outcome = Some(Outcome {
            reason,
            exit_code,
            message,
            started_at_ms: self.started_at_ms,
            ended_at_ms: now_ms(),
            stdout_bytes: state.stdout.len(),
            stderr_bytes: state.stderr.len(),
            dropped_bytes: dropped,
        });
        state.phase = Phase::Ended;
        drop(state);
        if let Err(error) = self.write_record() {
            eprintln!("exec {}: writing the record: {error}", self.start.exec_key);
        }
        self.changed.notify_waiters();
    }

    /// The outcome, once the exec has ended and its spools are complete.
    pub async fn wait(&self) -> Result<Outcome, Failure> {
        loop {
            let changed = self.changed.notified();
            {
                let state = self.state.borrow();
                if let Some(failure) = &state.failure {
                    return Err(failure.clone());
                }
                if let Some(outcome) = &state.outcome {
                    return Ok(outcome.clone());
                }
            }
            changed.await;
        }
    }

    /// Reads spooled output at `offset` into `buffer`, waiting for more of it; 0 at the end.
    pub async fn read_output(
        &self,
        stream: Stream,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<usize, Failure> {
        loop {
            let changed = self.changed.notified();
            {
                let state = self.state.borrow();
                let spool = if stream == Stream::Stderr {
                    &state.stderr
                } else {
                    &state.stdout
                };
                let count = spool
                    .read_at(offset, buffer)
                    .map_err(|error| Failure::io("reading the spool", &error))?;
                if count > 0 {
                    return Ok(count);
                }
                match state.phase {
                    Phase::Running => {}
                    Phase::Ended | Phase::Acknowledged => return Ok(0),
                    Phase::Lost => {
                        return Err(state
                            .failure
                            .clone()
                            .unwrap_or_else(|| Failure::new(Code::VmLost, "the VM is gone")));
                    }
                }
            }
            changed.await;
        }
    }

    pub fn output_len(&self, stream: Stream) -> u64 {
        let state = self.state.borrow();
        if stream == Stream::Stderr {
            state.stderr.len()
        } else {
            state.stdout.len()
        }
    }

    /// Makes the caller the one that feeds standard input: its token, and where to go on from.
    pub fn own_stdin(&self) -> (u64, u64) {
        self.cut_stdin();
        (self.stdin_owner.get(), self.stdin_taken.get())
    }

    /// Ends whoever feeds standard input.
    pub fn cut_stdin(&self) {
        self.stdin_owner.set(self.stdin_owner.get() + 1);
        self.changed.notify_waiters();
    }

    /// Returns when `owner` may not feed standard input any more.
    pub async fn stdin_cut(&self, owner: u64) {
        loop {
            let changed = self.changed.notified();
            if self.stdin_owner.get() != owner || !self.is_running() {
                return;
            }
            changed.await;
        }
    }

    /// Bytes of standard input that are still to come.
    pub fn stdin_left(&self) -> u64 {
        self.start
            .stdin_bytes
            .unwrap_or(0)
            .saturating_sub(self.stdin_taken.get())
    }

    /// Hands standard input to the guest as fast as its window lets; false when `owner` was cut.
    /// What was not handed over is not counted, so the next one sends it again.
    pub async fn feed_stdin(&self, link: &Link, owner: u64, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() {
            let changed = self.changed.notified();
            if self.stdin_owner.get() != owner || !self.is_running() {
                return false;
            }
            let count = self
                .state
                .borrow_mut()
                .stdin
                .take(bytes.len().min(MAX_CHUNK_BYTES));
            if count == 0 {
                changed.await;
                continue;
            }
            let (chunk, rest) = bytes.split_at(count);
            let Ok(frame) = encode_data(self.id.get(), chunk) else {
                return false;
            };
            // Counted first: from here on the frame goes out, whatever becomes of the client.
            self.stdin_taken.set(self.stdin_taken.get() + count as u64);
            link.send_data(frame).await;
            bytes = rest;
            let end = Message::StreamEnd(Default::default()).encode(self.id.get());
            if let (0, Ok(end)) = (self.stdin_left(), end) {
                link.send_data(end).await;
            }
        }
        true
    }

    /// Forgets the output; the record stays, so that the key stays taken.
    pub fn acknowledge(&self) -> Result<(), Failure> {
        {
            let mut state = self.state.borrow_mut();
            if state.phase == Phase::Running {
                return Err(Failure::bad_request(format!(
                    "exec {} has not ended",
                    self.start.exec_key
                )));
            }
            if state.phase == Phase::Acknowledged {
                return Ok(());
            }
            state.phase = Phase::Acknowledged;
            self.budget
                .give_back(state.stdout.len() + state.stderr.len());
            state.stdout.discard();
            state.stderr.discard();
        }
        for name in ["stdout", "stderr"] {
            let _ = fs::remove_file(self.folder.join(name));
        }
        self.write_record()
            .map_err(|error| Failure::io("writing the exec record", &error))?;
        self.changed.notify_waiters();
        Ok(())
    }

    fn on_output(
        &self,
        link: &Link,
        id: u32,
        stream: Stream,
        bytes: &[u8],
    ) -> Result<(), Violation> {
        let mut state = self.state.borrow_mut();
        let taken = state.stdout.taken() + state.stderr.taken();
        let own_room = self.start.max_output_bytes.saturating_sub(taken);
        let spool = if stream == Stream::Stderr {
            &mut state.stderr
        } else {
            &mut state.stdout
        };
        spool.window.received(bytes.len())?;
        let kept = spool.append(bytes, own_room, &self.budget);
        let due = spool.window.consumed(bytes.len());
        let limited = match kept {
            Ok(all_kept) => !all_kept,
            Err(error) => {
                let failure = Failure::io(
                    format_args!("writing the output of {}", self.start.exec_key),
                    &error,
                );
                state.failure.get_or_insert(failure);
                true
            }
        };
        drop(state);
        if let Some(due) = due {
            link.credit(id, stream, due);
        }
        if limited {
            self.kill(link, Reason::OutputLimit);
        }
        self.changed.notify_waiters();
        Ok(())
    }

    fn on_response(&self, response: ExecResponse) -> Result<(), Violation> {
        let (received, killed_for) = {
            let state = self.state.borrow();
            (
                (state.stdout.received(), state.stderr.received()),
                state.killed_for,
            )
        };
        let said = (response.stdout_bytes, response.stderr_bytes);
        if said != received {
            return Err(Violation::Broken(format!(
                "the guest says it sent {said:?} bytes of output and {received:?} came"
            )));
        }
        let reason = match (killed_for, response.reason) {
            (Some(Reason::OutputLimit), _) => Reason::OutputLimit,
            (Some(reason), ExecReason::Killed) => reason,
            (_, ExecReason::Exited) => Reason::Exited,
            (_, ExecReason::Timeout) => Reason::Timeout,
            (_, ExecReason::Killed) => Reason::Killed,
            (_, ExecReason::CannotStart) => Reason::CannotStart,
        };
        let message = match reason {
            Reason::Timeout => Some(format!(
                "it ran longer than its {} ms",
                self.start.timeout_ms
            )),
            Reason::OutputLimit => Some(format!(
                "it wrote more than its {} bytes of output",
                self.start.max_output_bytes
            )),
            _ => response.message,
        };
        self.finish(reason, response.exit_code, message);
        Ok(())
    }
}

impl Inbound for Exec {
    fn on_message(&self, link: &Link, id: u32, message: Message) -> Result<After, Violation> {
        match message {
            Message::ExecStarted(_) => {}
            Message::ExecOutput(stream, bytes) => self.on_output(link, id, stream, &bytes)?,
            Message::Credit(Stream::Stdin, bytes) => {
                self.state.borrow_mut().stdin.grant(bytes)?;
                self.changed.notify_waiters();
            }
            Message::ExecResponse(response) => {
                self.on_response(response)?;
                return Ok(After::Finished);
            }
            Message::Error(error) => {
                self.finish(Reason::CannotStart, 126, Some(error.message));
                return Ok(After::Finished);
            }
            other => {
                return Err(Violation::Unexpected {
                    id,
                    got: other.frame_type(),
                });
            }
        }
        Ok(After::GoesOn)
    }

    fn on_lost(&self, failure: &Failure) {
        let mut state = self.state.borrow_mut();
        if state.phase != Phase::Running {
            return;
        }
        state.phase = Phase::Lost;
        state.failure.get_or_insert_with(|| failure.clone());
        drop(state);
        if let Err(error) = self.write_record() {
            eprintln!("exec {}: writing the record: {error}", self.start.exec_key);
        }
        self.changed.notify_waiters();
    }
}

/// The folder of an exec key: keys may have any characters and any length.
pub fn folder_name(exec_key: &str) -> String {
    // FNV-1a, twice with different starts: 128 bits, and the record says which key it is.
    let hash = |start: u64| {
        exec_key.bytes().fold(start, |sum, byte| {
            (sum ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3)
        })
    };
    format!(
        "{:016x}{:016x}",
        hash(0xCBF2_9CE4_8422_2325),
        hash(0x6C62_272E_07BB_0142)
    )
}

/// The folder of an exec key below a run directory.
pub fn folder(execs: &Path, exec_key: &str) -> PathBuf {
    execs.join(folder_name(exec_key))
}
