//! One message of every kind, with the wire bytes that `vectors/` pins. The golden test and the example that writes the
//! vectors share it.

use std::collections::BTreeMap;

use voidbox_protocol::body::*;
use voidbox_protocol::handshake::{FLAG_MULTIPLEX, Hello, Ping, Pong, SessionKey, Start, Waiting};
use voidbox_protocol::mailbox::Mail;
use voidbox_protocol::message::{Message, Stream};

/// The request id of every sample.
pub const REQUEST_ID: u32 = 0x0102_0304;

pub fn waiting() -> Waiting {
    Waiting { protocol: 1 }
}

pub fn start() -> Start {
    Start {
        clock_unix_ms: 1_700_000_000_000,
        entropy: "00ff10".into(),
        scratch_bytes: 2 << 30,
        scratch: "/dev/vda".into(),
        root: Some("voidbox-root".into()),
    }
}

pub fn hello() -> Hello {
    Hello {
        protocol: 1,
        agent: "0.1.0".into(),
        boot_ms: 1042,
    }
}

pub fn ping() -> Ping {
    Ping {
        key: SessionKey::new(std::array::from_fn(|index| u8::try_from(index).unwrap())),
        version: 1,
        flags: FLAG_MULTIPLEX,
    }
}

pub fn pong() -> Pong {
    Pong {
        version: 1,
        flags: FLAG_MULTIPLEX,
    }
}

fn path(path: &str) -> PathRequest {
    PathRequest { path: path.into() }
}

fn error(code: ErrorCode, message: &str) -> ErrorBody {
    ErrorBody {
        code,
        message: message.into(),
    }
}

/// Returns the name of the vector and the message, for every message after the handshake.
pub fn messages() -> Vec<(&'static str, Message)> {
    let mut all = exec_messages();
    all.extend(file_messages());
    all.extend(other_messages());
    all
}

fn exec_messages() -> Vec<(&'static str, Message)> {
    let exec = ExecRequest {
        program: "sh".into(),
        args: vec!["-c".into(), "echo \"ä\"".into()],
        env: BTreeMap::from([("LANG".into(), "C".into()), ("A".into(), String::new())]),
        cwd: "/workspace".into(),
        uid: 1000,
        gid: 1000,
        stdin: true,
        timeout_ms: Some(60_000),
    };
    vec![
        (
            "exec-request-no-timeout",
            Message::ExecRequest(ExecRequest {
                timeout_ms: None,
                stdin: false,
                ..exec.clone()
            }),
        ),
        ("exec-request", Message::ExecRequest(exec)),
        (
            "exec-started",
            Message::ExecStarted(ExecStarted { pid: 77 }),
        ),
        (
            "exec-response",
            Message::ExecResponse(ExecResponse {
                exit_code: 0,
                signal: None,
                reason: ExecReason::Exited,
                message: None,
                stdout_bytes: 1 << 40,
                stderr_bytes: 0,
            }),
        ),
        (
            "exec-response-timeout",
            Message::ExecResponse(ExecResponse {
                exit_code: 137,
                signal: Some(9),
                reason: ExecReason::Timeout,
                message: Some("killed after 60000 ms".into()),
                stdout_bytes: 5,
                stderr_bytes: 6,
            }),
        ),
        (
            "exec-response-cannot-start",
            Message::ExecResponse(ExecResponse {
                exit_code: 127,
                signal: None,
                reason: ExecReason::CannotStart,
                message: Some("nope: not found".into()),
                stdout_bytes: 0,
                stderr_bytes: 0,
            }),
        ),
        (
            "exec-output-stdout",
            Message::ExecOutput(Stream::Stdout, b"out\n".to_vec()),
        ),
        (
            "exec-output-stderr",
            Message::ExecOutput(Stream::Stderr, vec![0, 255]),
        ),
        (
            "exec-signal",
            Message::ExecSignal(ExecSignal { signal: 15 }),
        ),
        (
            "exec-freeze",
            Message::ExecFreeze(ExecFreeze {
                exec: 9,
                limit_ms: 10_000,
            }),
        ),
        ("exec-frozen", Message::ExecFrozen(Empty {})),
        (
            "disk-freeze",
            Message::DiskFreeze(DiskFreeze { limit_ms: 30_000 }),
        ),
        ("disk-frozen", Message::DiskFrozen(Empty {})),
        ("rest", Message::Rest(Empty {})),
        ("resting", Message::Resting(Empty {})),
    ]
}

fn file_messages() -> Vec<(&'static str, Message)> {
    vec![
        (
            "write-file",
            Message::WriteFile(WriteFile {
                path: "/workspace/a b".into(),
                mode: 0o644,
                size_bytes: 3,
            }),
        ),
        ("write-file-response", Message::WriteFileResponse(Empty {})),
        ("mkdir-p", Message::MkdirP(path("/workspace/a/b"))),
        ("mkdir-p-response", Message::MkdirPResponse(Empty {})),
        ("read-file", Message::ReadFile(path("/workspace/x"))),
        (
            "read-file-response",
            Message::ReadFileResponse(ReadFileResponse::Present {
                size_bytes: 12,
                mode: 0o600,
            }),
        ),
        (
            "read-file-response-absent",
            Message::ReadFileResponse(ReadFileResponse::Absent),
        ),
        ("file-stat", Message::FileStat(path("/workspace/x"))),
        (
            "file-stat-response",
            Message::FileStatResponse(FileStatResponse {
                exists: true,
                kind: FileKind::Dir,
                size_bytes: 4096,
            }),
        ),
        ("tar-put", Message::TarPut(path("/workspace/in"))),
        (
            "tar-put-response",
            Message::TarPutResponse(TarPutResponse {
                entries: 3,
                bytes: 4,
            }),
        ),
        ("tar-get", Message::TarGet(path("/workspace/out"))),
        (
            "tar-get-response",
            Message::TarGetResponse(TarGetResponse::Dir),
        ),
        (
            "tar-get-response-file",
            Message::TarGetResponse(TarGetResponse::File),
        ),
        (
            "tar-get-response-absent",
            Message::TarGetResponse(TarGetResponse::Absent),
        ),
    ]
}

fn other_messages() -> Vec<(&'static str, Message)> {
    vec![
        ("data", Message::Data(b"abc".to_vec())),
        ("data-empty", Message::Data(Vec::new())),
        ("credit", Message::Credit(Stream::Stdin, 65_536)),
        ("mail", Message::Mail(Mail::new(3, 262_144).unwrap())),
        ("mail-taken", Message::MailTaken(2)),
        ("stream-end", Message::StreamEnd(StreamEnd::default())),
        (
            "stream-end-error",
            Message::StreamEnd(StreamEnd {
                error: Some(error(ErrorCode::Io, "read: input/output error")),
            }),
        ),
        (
            "error",
            Message::Error(error(ErrorCode::NoSpace, "the disk is full")),
        ),
        ("stats", Message::Stats(Empty {})),
        (
            "stats-response",
            Message::StatsResponse(StatsResponse {
                memory_total_bytes: 1,
                memory_available_bytes: 2,
                disk_free_bytes: 3,
                processes: 4,
                oom_kills: 5,
            }),
        ),
        ("cancel", Message::Cancel(Empty {})),
        ("shutdown", Message::Shutdown(Empty {})),
        (
            "configure",
            Message::Configure(Configure {
                clock_unix_ms: 1_700_000_000_000,
                hostname: "voidbox".into(),
                entropy: "00ff".into(),
                mounts: vec![GuestMount {
                    index: 0,
                    guest_path: "/data".into(),
                }],
                door: None,
            }),
        ),
        (
            "configure-door",
            Message::Configure(Configure {
                clock_unix_ms: 1_700_000_000_000,
                hostname: "voidbox".into(),
                entropy: String::new(),
                mounts: Vec::new(),
                door: Some(Door {
                    proxy: true,
                    services: vec![DoorService {
                        name: "db".into(),
                        port: 5432,
                    }],
                }),
            }),
        ),
        (
            "connect-host",
            Message::Connect(Connect::Host {
                host: "example.com".into(),
                port: 443,
            }),
        ),
        (
            "connect-service",
            Message::Connect(Connect::Service { name: "db".into() }),
        ),
        ("connected", Message::Connected(Empty {})),
        ("configured", Message::Configured(Empty {})),
        ("clock", Message::Clock(Clock { step_ms: None })),
        (
            "clock-step",
            Message::Clock(Clock {
                step_ms: Some(-4_200),
            }),
        ),
        (
            "clock-response",
            Message::ClockResponse(ClockResponse {
                unix_ms: 1_700_000_000_000,
            }),
        ),
    ]
}

/// Returns the name and the wire bytes of every vector, including the handshake.
pub fn vectors() -> Vec<(&'static str, Vec<u8>)> {
    let mut vectors = vec![
        ("waiting", waiting().encode().unwrap()),
        ("start", start().encode().unwrap()),
        ("hello", hello().encode().unwrap()),
        ("ping", ping().encode().unwrap()),
        ("pong", pong().encode().unwrap()),
    ];
    for (name, message) in messages() {
        vectors.push((name, message.encode(REQUEST_ID).unwrap()));
    }
    vectors
}
