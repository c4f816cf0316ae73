//! The control of `voidbox-vmm`: lines of JSON over a socket pair. A guest may have taken the VMM over, so every message
//! is bounded, and a message that this VMM never sends is a violation.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use crate::vmm::end::VmmEnd;
use crate::vmm::interface::{Control, FullSave, Said, SavedPages, Violation, Work};
use crate::vmm::lines::{Lines, send_with_fds};

/// The limit of messages that wait for the keeper; the VMM waits for room then.
const MAX_WAITING: usize = 16;
/// The time within which the last message of an ended VMM must be read.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// The length of the name of a state.
const STATE_ID_DIGITS: usize = 32;

/// A message of the VMM.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "event", rename_all = "camelCase", deny_unknown_fields)]
enum Event {
    /// All CPUs exist, and none has run.
    Started {},
    /// A write of this disk found no room on the host, and all CPUs are paused.
    NoRoom {
        serial: String,
    },
    Paused {},
    Resumed {},
    /// The VM is saved, and is still paused. A full save has an id.
    Saved {
        id: Option<String>,
    },
    Refused {
        why: String,
    },
    Statistics {
        vm: Value,
        vcpus: Vec<Value>,
    },
    Ended {
        reason: VmmEnd,
    },
}

/// A request of the keeper that the VMM has not answered yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Request {
    Pause,
    Resume,
    Save,
    SaveFull,
    SaveDiff,
}

impl Request {
    fn line(self) -> &'static str {
        match self {
            Request::Pause => "{\"do\":\"pause\"}\n",
            Request::Resume => "{\"do\":\"resume\"}\n",
            Request::Save => "{\"do\":\"save\"}\n",
            Request::SaveFull => "{\"do\":\"saveFull\"}\n",
            Request::SaveDiff => "{\"do\":\"saveDiff\"}\n",
        }
    }
}

/// The meaning of one message for the keeper.
#[derive(Debug, PartialEq, Eq)]
enum Heard {
    Started,
    Said(Said),
    /// The answer to a pause or a save. A keeper that watches a disk does not need it.
    Done(Request),
    /// The answer to a full save: the id of the state.
    Saved(String),
    Ended(VmmEnd),
}

/// Which messages may come next.
#[derive(Debug, Default)]
struct Conversation {
    is_started: bool,
    /// In the order in which the VMM answers.
    asked: VecDeque<Request>,
}

impl Conversation {
    /// Reads a line; the error is a violation of the protocol.
    fn hear(&mut self, line: &[u8]) -> Result<Heard, Violation> {
        let event: Event = serde_json::from_slice(line)
            .map_err(|error| Violation(format!("a line is no message of voidbox-vmm: {error}")))?;
        if !self.is_started && !matches!(event, Event::Started {} | Event::Ended { .. }) {
            return Err(Violation("a message came before it started".into()));
        }
        match event {
            Event::Started {} if self.is_started => Err(Violation("it started twice".into())),
            Event::Started {} => {
                self.is_started = true;
                Ok(Heard::Started)
            }
            // Which disk it is makes no difference: the VM continues once the host has room.
            Event::NoRoom { serial: _ } => Ok(Heard::Said(Said::NoRoom)),
            Event::Paused {} => self.done(Request::Pause),
            Event::Saved { id: None } => self.done(Request::Save),
            Event::Saved { id: Some(id) } => self.saved(id),
            Event::Resumed {} => {
                self.answered(Request::Resume)?;
                Ok(Heard::Said(Said::Resumed))
            }
            Event::Refused { why } => match self.asked.pop_front() {
                Some(_) => Ok(Heard::Said(Said::Refused(printable_start(&why)))),
                None => Err(unasked("refused")),
            },
            Event::Statistics { vm: _, vcpus: _ } => Err(unasked("statistics")),
            Event::Ended { reason } => Ok(Heard::Ended(reason.check().map_err(Violation)?)),
        }
    }

    fn saved(&mut self, id: String) -> Result<Heard, Violation> {
        let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        match self.asked.pop_front() {
            Some(Request::SaveFull | Request::SaveDiff) => {}
            _ => return Err(unasked("saved")),
        }
        match id.len() == STATE_ID_DIGITS && id.bytes().all(is_hex) {
            true => Ok(Heard::Saved(id)),
            false => Err(Violation(format!(
                "the id of a state is {:?}, expected {STATE_ID_DIGITS} hexadecimal digits",
                printable_start(&id)
            ))),
        }
    }

    fn done(&mut self, request: Request) -> Result<Heard, Violation> {
        self.answered(request).map(|()| Heard::Done(request))
    }

    fn answered(&mut self, request: Request) -> Result<(), Violation> {
        match self.asked.pop_front() {
            Some(first) if first == request => Ok(()),
            _ => Err(unasked(match request {
                Request::Pause => "paused",
                Request::Resume => "resumed",
                Request::Save | Request::SaveFull | Request::SaveDiff => "saved",
            })),
        }
    }
}

fn unasked(event: &str) -> Violation {
    Violation(format!("{event:?} answers no request"))
}

fn printable_start(text: &str) -> String {
    let characters = text.chars().filter(|character| !character.is_control());
    characters.take(200).collect()
}

/// The last message of a VMM.
#[derive(Clone)]
pub struct LastWords {
    end: Rc<RefCell<Option<VmmEnd>>>,
    is_read: watch::Receiver<bool>,
}

impl LastWords {
    /// Returns the reason of the VMM's end, once the VMM has given one.
    pub fn end(&self) -> Option<VmmEnd> {
        self.end.borrow().clone()
    }

    /// Returns once every message of a VMM that has ended is read.
    pub async fn read(&self) {
        let mut is_read = self.is_read.clone();
        let _ = timeout(LAST_WORDS, is_read.wait_for(|is_read| *is_read)).await;
    }
}

/// The keeper's end of the control.
pub struct NativeControl {
    heard: mpsc::Receiver<Result<Heard, Violation>>,
    writer: OwnedWriteHalf,
    conversation: Rc<RefCell<Conversation>>,
    is_started: bool,
    /// A violation during a full save, for the task that watches the control.
    broken: Option<Violation>,
}

/// Sends the configuration, and reads messages from here on. A VMM that has ended before is noticed elsewhere.
pub async fn begin(mut socket: UnixStream, configuration: &str) -> (NativeControl, LastWords) {
    let _ = socket
        .write_all(format!("{configuration}\n").as_bytes())
        .await;
    let (reader, writer) = socket.into_split();
    let conversation: Rc<RefCell<Conversation>> = Rc::default();
    let end: Rc<RefCell<Option<VmmEnd>>> = Rc::default();
    let (says, heard) = mpsc::channel(MAX_WAITING);
    let (has_read, is_read) = watch::channel(false);
    tokio::task::spawn_local({
        let (conversation, end) = (conversation.clone(), end.clone());
        async move {
            read(reader, &conversation, &end, &says).await;
            has_read.send_replace(true);
        }
    });
    let control = NativeControl {
        heard,
        writer,
        conversation,
        is_started: false,
        broken: None,
    };
    (control, LastWords { end, is_read })
}

/// Reads until the VMM's end, its last message or a violation.
async fn read(
    reader: OwnedReadHalf,
    conversation: &RefCell<Conversation>,
    end: &RefCell<Option<VmmEnd>>,
    says: &mpsc::Sender<Result<Heard, Violation>>,
) {
    let mut lines = Lines::new(reader);
    loop {
        let heard = match lines.next().await {
            Ok(None) => return,
            Ok(Some(line)) => conversation.borrow_mut().hear(&line),
            Err(long) => Err(Violation(long.to_string())),
        };
        match heard {
            Ok(Heard::Ended(reason)) => {
                end.replace(Some(reason));
                return;
            }
            // A keeper that no longer listens still reads, because the reason of the end comes last.
            Ok(heard) => drop(says.send(Ok(heard)).await),
            Err(violation) => {
                drop(says.send(Err(violation)).await);
                return;
            }
        }
    }
}

impl NativeControl {
    /// Returns once the VMM has started. Never returns if it ends before.
    pub async fn started(&mut self) -> Result<(), Violation> {
        if self.is_started {
            return Ok(());
        }
        match self.heard.recv().await {
            // No other message comes before it.
            Some(Ok(_)) => {
                self.is_started = true;
                Ok(())
            }
            Some(Err(violation)) => Err(violation),
            None => std::future::pending().await,
        }
    }

    /// Pauses the VM and lets it write its state and its memory. The VM stays paused.
    pub async fn save(&mut self) -> Result<(), String> {
        self.carry_out(Request::Pause).await?;
        self.carry_out(Request::Save).await
    }

    /// Lets a saved VM run.
    pub async fn run(&mut self) -> Result<(), String> {
        self.carry_out(Request::Resume).await
    }

    /// Pauses the VM and lets it write its state and its pages. The VM stays paused. Returns the id of the state.
    async fn pause_and_save(&mut self, save: &FullSave) -> Result<String, String> {
        self.carry_out(Request::Pause).await?;
        let request = match save.pages {
            SavedPages::All => Request::SaveFull,
            SavedPages::Changed => Request::SaveDiff,
        };
        if self.ask(request) {
            let files = [save.state.as_fd(), save.memory.as_fd()];
            send_with_fds(self.writer.as_ref(), request.line(), &files)
                .await
                .map_err(|error| format!("sending the files of a full save: {error}"))?;
        }
        loop {
            match self.answer().await? {
                Heard::Saved(id) => return Ok(id),
                Heard::Said(Said::Refused(why)) => return Err(why),
                _ => {}
            }
        }
    }

    /// Returns the next message of a VMM that lives.
    async fn answer(&mut self) -> Result<Heard, String> {
        match self.heard.recv().await {
            Some(Ok(heard)) => Ok(heard),
            Some(Err(violation)) => {
                let why = violation.to_string();
                self.broken = Some(violation);
                Err(why)
            }
            None => Err("the VMM ended".into()),
        }
    }

    /// Sends a request and returns with its answer. The error is a refusal, or says why there is no answer.
    async fn carry_out(&mut self, request: Request) -> Result<(), String> {
        self.send(request).await;
        loop {
            match self.answer().await? {
                Heard::Done(done) if done == request => return Ok(()),
                Heard::Said(Said::Resumed) if request == Request::Resume => return Ok(()),
                Heard::Said(Said::Refused(why)) => return Err(why),
                // A guest that waits writes no disk.
                _ => {}
            }
        }
    }

    /// Returns false for a request whose answer is not there yet. It is not repeated, so a VMM that does not answer costs
    /// no memory.
    fn ask(&self, request: Request) -> bool {
        let mut conversation = self.conversation.borrow_mut();
        let is_new = !conversation.asked.contains(&request);
        if is_new {
            conversation.asked.push_back(request);
        }
        is_new
    }

    async fn send(&mut self, request: Request) {
        if self.ask(request) {
            // A VMM that does not read has ended, which other tasks notice.
            let _ = self.writer.write_all(request.line().as_bytes()).await;
        }
    }
}

impl Control for NativeControl {
    fn said(&mut self) -> Work<'_, Result<Said, Violation>> {
        Box::pin(async {
            if let Some(violation) = self.broken.take() {
                return Err(violation);
            }
            loop {
                match self.heard.recv().await {
                    Some(Ok(Heard::Said(said))) => return Ok(said),
                    Some(Ok(_)) => {}
                    Some(Err(violation)) => return Err(violation),
                    None => return Ok(Said::Ended),
                }
            }
        })
    }

    fn pause(&mut self) -> Work<'_, ()> {
        Box::pin(self.send(Request::Pause))
    }

    fn resume(&mut self) -> Work<'_, ()> {
        Box::pin(self.send(Request::Resume))
    }

    fn save_full<'a>(&'a mut self, save: &'a FullSave) -> Work<'a, Result<String, String>> {
        Box::pin(self.pause_and_save(save))
    }
}

#[cfg(test)]
mod tests;
