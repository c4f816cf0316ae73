//! A small keeper for tests: the real agent binary on the other end of a Unix socket.
#![allow(dead_code, reason = "each test binary uses its own part of it")]

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::net::RecvFlags;
use tempfile::TempDir;
use voidbox_protocol::body::{Configure, Door, ErrorBody, ExecRequest, ExecResponse, StreamEnd};
use voidbox_protocol::credit::{ReceiveWindow, SendWindow};
use voidbox_protocol::decode::{Phase, read_frame};
use voidbox_protocol::frame::MAX_CHUNK_BYTES;
use voidbox_protocol::handshake::{
    FLAG_DOOR, FLAG_MAILBOX, FLAG_MULTIPLEX, Hello, KEY_BYTES, Ping, Pong, SessionKey,
};
use voidbox_protocol::mailbox::{MAILBOX_BYTES, Mail, SLOT_BYTES, Side, Slots, slot_offset};
use voidbox_protocol::message::{Message, Stream, encode_data};

/// The limit of waiting for a single frame.
const READ_TIMEOUT: Duration = Duration::from_secs(20);

pub fn ping(fill: u8) -> Ping {
    Ping {
        key: SessionKey::new([fill; KEY_BYTES]),
        version: 1,
        flags: FLAG_MULTIPLEX,
    }
}

/// An agent, its connection, and a folder that the agent's file user owns.
pub struct Keeper {
    child: Child,
    pub socket: UnixStream,
    folder: TempDir,
    next_id: u32,
    mailbox: Option<Mailbox>,
    /// The number of mail references that arrived instead of data.
    pub mail_seen: usize,
}

/// The keeper's end of a mailbox.
struct Mailbox {
    file: File,
    slots: Slots,
}

impl Keeper {
    /// Connects to an agent that has only said hello.
    pub fn connect() -> Self {
        Self::launch(false)
    }

    fn launch(with_mailbox: bool) -> Self {
        let folder = tempfile::Builder::new()
            .prefix("voidbox-agent-")
            .tempdir_in("/tmp")
            .unwrap();
        let path = folder.path().join("agent.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_voidbox-agent"));
        command.arg("--socket").arg(&path).stdin(Stdio::null());
        let mailbox = with_mailbox.then(|| {
            let path = folder.path().join("mailbox");
            let mut options = File::options();
            let file = options.read(true).write(true).create_new(true).open(&path);
            let file = file.unwrap();
            file.set_len(MAILBOX_BYTES as u64).unwrap();
            command.arg("--mailbox").arg(&path);
            Mailbox {
                file,
                slots: Slots::default(),
            }
        });
        let child = command.spawn().unwrap();
        let (mut socket, _) = listener.accept().unwrap();
        socket.set_read_timeout(Some(READ_TIMEOUT)).unwrap();
        let hello = read_frame(&mut socket, Phase::Handshake).unwrap().unwrap();
        assert_eq!(Hello::decode(&hello).unwrap().protocol, 1);
        std::os::unix::fs::chown(folder.path(), Some(user()), Some(group())).unwrap();
        Self {
            child,
            socket,
            folder,
            next_id: 1,
            mailbox,
            mail_seen: 0,
        }
    }

    /// Starts an agent that serves requests.
    pub fn start() -> Self {
        Self::connect().configured(0, None)
    }

    /// Starts an agent with a mailbox.
    pub fn start_with_mailbox() -> Self {
        Self::launch(true).configured(0, None)
    }

    /// Starts an agent with a mailbox, a door and these `flags`.
    pub fn start_with_door(flags: u8, door: Door) -> Self {
        Self::launch(true).configured(FLAG_DOOR | flags, Some(door))
    }

    /// Tells that the agent has no mailbox any longer.
    pub fn forget_mailbox(&mut self) {
        self.mailbox = None;
    }

    /// Opens the session of an agent that has said hello.
    pub fn configured(self, flags: u8, door: Option<Door>) -> Self {
        let mut keeper = self;
        let has_mailbox = keeper.mailbox.is_some();
        let mut ping = ping(7);
        ping.flags |= FLAG_MAILBOX | flags;
        keeper.send_raw(&ping.encode().unwrap());
        let pong = read_frame(&mut keeper.socket, Phase::Handshake)
            .unwrap()
            .unwrap();
        let pong = Pong::decode(&pong).unwrap();
        assert_eq!(pong.version, 1);
        assert_eq!(pong.flags & FLAG_MAILBOX != 0, has_mailbox);
        assert_eq!(pong.flags & flags, flags);
        let id = keeper.send_new(&Message::Configure(Configure {
            clock_unix_ms: 0,
            hostname: "test".into(),
            entropy: String::new(),
            mounts: Vec::new(),
            door,
        }));
        assert!(matches!(keeper.receive(), (got, Message::Configured(_)) if got == id));
        keeper
    }

    /// Returns the running processes that the agent has started.
    pub fn children(&self) -> Vec<rustix::process::Pid> {
        let pid = self.child.id();
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
        let texts = tasks
            .flatten()
            .map(|task| std::fs::read_to_string(task.path().join("children")).unwrap_or_default());
        let all = texts.collect::<Vec<_>>().join(" ");
        let pids = all.split_whitespace().map(|pid| pid.parse().unwrap());
        pids.filter_map(rustix::process::Pid::from_raw).collect()
    }

    /// Returns the folder that the file user owns.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder().join(name)
    }

    pub fn text_path(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    pub fn send_raw(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).unwrap();
    }

    pub fn send(&mut self, id: u32, message: &Message) {
        self.send_raw(&message.encode(id).unwrap());
    }

    pub fn new_id(&mut self) -> u32 {
        self.next_id += 1;
        self.next_id
    }

    pub fn send_new(&mut self, message: &Message) -> u32 {
        let id = self.new_id();
        self.send(id, message);
        id
    }

    pub fn receive(&mut self) -> (u32, Message) {
        let frame = read_frame(&mut self.socket, Phase::Session)
            .unwrap()
            .expect("the agent has closed the connection");
        Message::decode(frame).unwrap()
    }

    /// Receives the next message; `None` if no message arrives within the limit.
    pub fn receive_within(&mut self, limit: Duration) -> Option<(u32, Message)> {
        self.socket.set_read_timeout(Some(limit)).unwrap();
        let has_come = rustix::net::recv(&self.socket, &mut [0u8], RecvFlags::PEEK).is_ok();
        self.socket.set_read_timeout(Some(READ_TIMEOUT)).unwrap();
        has_come.then(|| self.receive())
    }

    /// Waits until the agent has closed the connection and ended.
    pub fn expect_close(mut self) -> ExitStatus {
        while let Ok(Some(_)) = read_frame(&mut self.socket, Phase::Session) {}
        let since = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(since.elapsed() < READ_TIMEOUT, "the agent does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Returns an exec request for a shell script.
    pub fn script(&self, script: &str) -> ExecRequest {
        ExecRequest {
            program: "sh".into(),
            args: vec!["-c".into(), script.into()],
            env: BTreeMap::new(),
            cwd: self.folder().to_str().unwrap().into(),
            uid: user(),
            gid: group(),
            stdin: false,
            timeout_ms: None,
        }
    }

    pub fn start_exec(&mut self, exec: ExecRequest) -> u32 {
        self.send_new(&Message::ExecRequest(exec))
    }

    /// Runs a script to its end.
    pub fn run(&mut self, script: &str) -> Outcome {
        let id = self.start_exec(self.script(script));
        self.finish(&mut [Running::new(id)]).remove(0)
    }

    /// Receives frames of several execs until all of them have ended; grants credit for output, and sends each exec's
    /// standard input.
    pub fn finish(&mut self, running: &mut [Running]) -> Vec<Outcome> {
        while running.iter().any(|exec| exec.outcome.response.is_none()) {
            for exec in running.iter_mut() {
                exec.send_stdin(self);
            }
            let (id, message) = self.receive();
            let exec = running
                .iter_mut()
                .find(|exec| exec.id == id)
                .expect("a frame of no exec");
            assert!(
                exec.outcome.response.is_none(),
                "{message:?} behind the end"
            );
            exec.take(self, message);
        }
        running
            .iter_mut()
            .map(|exec| std::mem::take(&mut exec.outcome))
            .collect()
    }

    /// Sends all of a request's data and its end, within the window.
    pub fn send_data(&mut self, id: u32, bytes: &[u8]) -> Option<(u32, Message)> {
        let mut window = SendWindow::default();
        let mut rest = bytes;
        while !rest.is_empty() {
            let count = window.take(rest.len().min(MAX_CHUNK_BYTES));
            if count == 0 {
                match self.receive() {
                    (got, Message::Credit(Stream::Data, more)) if got == id => {
                        window.grant(more).unwrap();
                    }
                    early => return Some(early),
                }
                continue;
            }
            self.send_raw(&encode_data(id, &rest[..count]).unwrap());
            rest = &rest[count..];
        }
        self.send(id, &Message::StreamEnd(StreamEnd::default()));
        None
    }

    /// Sends all of a request's data through the mailbox, and its end. Afterwards the keeper owns all slots again.
    pub fn send_mail(&mut self, id: u32, bytes: &[u8]) {
        let mut window = SendWindow::default();
        for piece in bytes.chunks(SLOT_BYTES) {
            let slot = loop {
                if window.left() >= piece.len()
                    && let Some(slot) = self.mailbox.as_mut().unwrap().slots.take()
                {
                    break slot;
                }
                self.take_return(id, &mut window);
            };
            assert_eq!(window.take(piece.len()), piece.len());
            self.put_mail(id, slot, piece);
        }
        self.send(id, &Message::StreamEnd(StreamEnd::default()));
        for _ in bytes.chunks(SLOT_BYTES) {
            // The slot of every piece is given back; some slots may be back already.
            if self.mailbox.as_ref().unwrap().slots.all_free() {
                return;
            }
            self.take_return(id, &mut window);
        }
    }

    /// Writes a piece into a slot and refers to it, even if the rules forbid it.
    pub fn put_mail(&mut self, id: u32, slot: u8, piece: &[u8]) {
        let file = &self.mailbox.as_ref().unwrap().file;
        let offset = slot_offset(Side::Keeper, slot);
        file.write_all_at(piece, offset).unwrap();
        let mail = Mail::new(slot, u32::try_from(piece.len()).unwrap()).unwrap();
        self.send(id, &Message::Mail(mail));
    }

    fn take_return(&mut self, id: u32, window: &mut SendWindow) {
        match self.receive() {
            (got, Message::Credit(Stream::Data, more)) if got == id => window.grant(more).unwrap(),
            (_, Message::MailTaken(slot)) => {
                self.mailbox
                    .as_mut()
                    .unwrap()
                    .slots
                    .give_back(slot)
                    .unwrap();
            }
            early => panic!("{early:?}"),
        }
    }

    /// Returns the next message that is not credit.
    pub fn receive_answer(&mut self, id: u32) -> Message {
        loop {
            match self.receive() {
                (got, Message::Credit(..)) if got == id => {}
                (got, message) => {
                    assert_eq!(got, id);
                    return message;
                }
            }
        }
    }

    pub fn expect_error(&mut self, id: u32) -> ErrorBody {
        match self.receive_answer(id) {
            Message::Error(error) => error,
            other => panic!("expected an error, got {other:?}"),
        }
    }

    /// Receives a request's data up to its end.
    pub fn receive_data(&mut self, id: u32) -> (Vec<u8>, StreamEnd) {
        let mut window = ReceiveWindow::default();
        let mut bytes = Vec::new();
        loop {
            match self.receive_answer(id) {
                Message::Data(chunk) => {
                    window.received(chunk.len()).unwrap();
                    bytes.extend_from_slice(&chunk);
                    if let Some(due) = window.consumed(chunk.len()) {
                        self.send(id, &Message::Credit(Stream::Data, due));
                    }
                }
                Message::Mail(mail) => {
                    window.received(mail.size()).unwrap();
                    let mut piece = vec![0; mail.size()];
                    let mailbox = self.mailbox.as_ref().unwrap();
                    let offset = slot_offset(Side::Agent, mail.slot());
                    mailbox.file.read_exact_at(&mut piece, offset).unwrap();
                    self.mail_seen += 1;
                    // The slot is overwritten, to show that the agent does not read a slot that it has given back.
                    mailbox
                        .file
                        .write_all_at(&vec![0xee; piece.len()], offset)
                        .unwrap();
                    bytes.extend_from_slice(&piece);
                    self.send(id, &Message::MailTaken(mail.slot()));
                    if let Some(due) = window.consumed(piece.len()) {
                        self.send(id, &Message::Credit(Stream::Data, due));
                    }
                }
                Message::StreamEnd(end) => return (bytes, end),
                other => panic!("expected data, got {other:?}"),
            }
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the user of the agent's files and programs.
pub fn user() -> u32 {
    match rustix::process::geteuid().as_raw() {
        0 => 1000,
        other => other,
    }
}

pub fn group() -> u32 {
    match rustix::process::geteuid().as_raw() {
        0 => 1000,
        _ => rustix::process::getegid().as_raw(),
    }
}

/// Returns bytes whose period is not a divisor of a page or slot, so that a misplaced piece is visible.
pub fn pattern(size: usize) -> Vec<u8> {
    (0..=252u8).cycle().take(size).collect()
}

/// The result of an exec.
#[derive(Debug, Default)]
pub struct Outcome {
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    pub response: Option<ExecResponse>,
}

impl Outcome {
    pub fn end(&self) -> &ExecResponse {
        self.response.as_ref().unwrap()
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.stdout).unwrap().trim_end()
    }
}

/// A running exec.
pub struct Running {
    pub id: u32,
    stdin: Option<Vec<u8>>,
    stdin_sent: usize,
    stdin_window: SendWindow,
    windows: [ReceiveWindow; 2],
    outcome: Outcome,
}

impl Running {
    pub fn new(id: u32) -> Self {
        Self {
            id,
            stdin: None,
            stdin_sent: 0,
            stdin_window: SendWindow::default(),
            windows: Default::default(),
            outcome: Outcome::default(),
        }
    }

    pub fn with_stdin(id: u32, stdin: Vec<u8>) -> Self {
        Self {
            stdin: Some(stdin),
            ..Self::new(id)
        }
    }

    fn send_stdin(&mut self, keeper: &mut Keeper) {
        let Some(stdin) = &self.stdin else { return };
        loop {
            let rest = &stdin[self.stdin_sent..];
            if rest.is_empty() {
                keeper.send(self.id, &Message::StreamEnd(StreamEnd::default()));
                self.stdin = None;
                return;
            }
            let count = self.stdin_window.take(rest.len().min(MAX_CHUNK_BYTES));
            if count == 0 {
                return;
            }
            keeper.send_raw(&encode_data(self.id, &rest[..count]).unwrap());
            self.stdin_sent += count;
        }
    }

    fn take(&mut self, keeper: &mut Keeper, message: Message) {
        match message {
            Message::ExecStarted(_) => {}
            Message::ExecOutput(stream, bytes) => {
                let (window, sink) = match stream {
                    Stream::Stdout => (&mut self.windows[0], &mut self.outcome.stdout),
                    _ => (&mut self.windows[1], &mut self.outcome.stderr),
                };
                window.received(bytes.len()).unwrap();
                sink.extend_from_slice(&bytes);
                if let Some(due) = window.consumed(bytes.len()) {
                    keeper.send(self.id, &Message::Credit(stream, due));
                }
            }
            Message::Credit(Stream::Stdin, more) => self.stdin_window.grant(more).unwrap(),
            Message::ExecResponse(response) => {
                assert_eq!(response.stdout_bytes, self.outcome.stdout.len() as u64);
                assert_eq!(response.stderr_bytes, self.outcome.stderr.len() as u64);
                self.outcome.response = Some(response);
            }
            other => panic!("unexpected {other:?}"),
        }
    }
}
