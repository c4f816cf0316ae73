//! One exec: a command of the guest under a key that is never started twice.

use std::cell::{Cell, RefCell};
use std::fs;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{SystemTime, UNIX_EPOCH};

use tokio::sync::Notify;
use voidbox_protocol::body::ExecRequest;
use voidbox_protocol::credit::SendWindow;
use voidbox_protocol::message::{Message, Stream};

use crate::disk::Disk;
use crate::error::Failure;
use crate::guest::link::{After, Inbound, Link, Violation};
use outcome::{Ending, Interruption};

mod end;
mod folder;
mod order;
mod outcome;
mod output;
mod record;
mod request;
mod settle;
mod spool;
mod stdin;

pub use folder::folder;
pub use order::Place;
pub use outcome::{Cause, Outcome, Phase, Reason};
pub use request::StartExec;
pub use spool::{Spool, SpoolBudget};

struct State {
    phase: Phase,
    stdout: Spool,
    stderr: Spool,
    order: order::Order,
    stdin: SendWindow,
    /// The first interruption before the command's own end.
    interrupted_by: Option<Interruption>,
    /// SIGKILL was sent to the guest.
    is_killed: bool,
    /// The outcome, while the disk has no room for its record.
    ending: Option<Ending>,
    outcome: Option<Outcome>,
    failure: Option<Failure>,
}

pub struct Exec {
    pub start: StartExec,
    folder: PathBuf,
    started_at_ms: u64,
    budget: Rc<SpoolBudget>,
    disk: Rc<Disk>,
    id: Cell<u32>,
    /// The guest has sent a message about it.
    is_begun: Cell<bool>,
    /// The size of standard input; a client may report a smaller size later.
    stdin_total: Cell<u64>,
    /// Bytes of standard input that were sent to the guest.
    stdin_taken: Cell<u64>,
    /// The number of the connection that may send standard input: the newest one.
    stdin_owner: Cell<u64>,
    state: RefCell<State>,
    changed: Notify,
    /// Notifies when data waits for room on the disk, or can never be written.
    owes: Notify,
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
        disk: Rc<Disk>,
        link: &Rc<Link>,
    ) -> Result<Rc<Self>, Failure> {
        fs::create_dir_all(&folder)
            .map_err(|error| Failure::run_dir("making the spool", &error))?;
        let (stdout, stderr) = ["stdout", "stderr"]
            .map(|name| Spool::new(folder.join(name)))
            .into();
        let exec = Rc::new(Self {
            started_at_ms: now_ms(),
            folder,
            budget,
            disk,
            id: Cell::new(0),
            is_begun: Cell::new(false),
            stdin_total: Cell::new(start.stdin_bytes.unwrap_or(0)),
            stdin_taken: Cell::new(0),
            stdin_owner: Cell::new(0),
            state: RefCell::new(State {
                phase: Phase::Running,
                stdout,
                stderr,
                order: order::Order::default(),
                stdin: SendWindow::default(),
                interrupted_by: None,
                is_killed: false,
                ending: None,
                outcome: None,
                failure: None,
            }),
            changed: Notify::new(),
            owes: Notify::new(),
            start,
        });
        exec.write_record(Phase::Running, None)
            .map_err(|error| Failure::run_dir("writing the exec record", &error))?;
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
        tokio::task::spawn_local(exec.clone().watch_start(link.clone()));
        tokio::task::spawn_local(exec.clone().keep_deadline(link.clone()));
        tokio::task::spawn_local(exec.clone().watch_kill(link.clone()));
        tokio::task::spawn_local(exec.clone().pay_what_it_owes(link.clone()));
        Ok(exec)
    }

    /// The id under which the guest knows the exec.
    pub fn request_id(&self) -> u32 {
        self.id.get()
    }

    pub fn phase(&self) -> Phase {
        self.state.borrow().phase
    }

    fn outcome(&self) -> Option<Outcome> {
        self.state.borrow().outcome.clone()
    }

    /// Returns false once the guest has reported the end, even if the disk has no room for the remaining output.
    pub fn is_running(&self) -> bool {
        let state = self.state.borrow();
        state.phase == Phase::Running && state.ending.is_none()
    }
}

impl Inbound for Exec {
    fn on_message(&self, link: &Link, id: u32, message: Message) -> Result<After, Violation> {
        if !self.is_begun.replace(true) {
            self.changed.notify_waiters();
        }
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
                self.finish(Reason::CannotStart, 126, None, Some(error.message));
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
        self.lose(failure);
    }
}
