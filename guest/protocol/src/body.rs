//! The JSON shapes of control messages. Paths are absolute guest paths.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Start a process. If `stdin` is true, its standard input arrives as `Data` frames of the same request id; otherwise
/// it is empty.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExecRequest {
    /// A path, or a name that is looked up in `PATH` of `env`.
    pub program: String,
    pub args: Vec<String>,
    pub env: BTreeMap<String, String>,
    pub cwd: String,
    pub uid: u32,
    pub gid: u32,
    pub stdin: bool,
    /// Milliseconds until the agent kills the exec's whole tree; unlimited by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

/// The process exists; `pid` is its guest pid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExecStarted {
    pub pid: u32,
}

/// The reason why an exec is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExecReason {
    /// The process ended on its own, or by a signal that the agent did not send.
    Exited,
    /// `timeoutMs` passed.
    Timeout,
    /// `ExecSignal` with SIGKILL or `Cancel` ended it.
    Killed,
    /// The program never ran: exit code 127 not found, 126 not allowed or no resources.
    CannotStart,
}

/// The end of an exec, after the last byte of both streams.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExecResponse {
    /// 0–255; 128 + n when signal n ended the process.
    pub exit_code: i32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    pub reason: ExecReason,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Bytes that were sent as `ExecOutput` of stream 1 and 2.
    pub stdout_bytes: u64,
    pub stderr_bytes: u64,
}

/// Send a signal to the exec's whole tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExecSignal {
    pub signal: i32,
}

/// Freeze the tree of an exec until this request is cancelled, or for `limitMs`. `ExecFrozen` reports that the tree is
/// frozen. A later Error reports that the tree runs again because the limit has passed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExecFreeze {
    /// The exec's request.
    pub exec: u32,
    pub limit_ms: u64,
}

/// Write all data of the scratch disk, and freeze its file system until this request is cancelled, or for `limitMs`.
/// `DiskFrozen` reports that it is frozen. A later Error reports that it is writable again because the limit has passed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DiskFreeze {
    pub limit_ms: u64,
}

/// A request with one path: `MkdirP`, `ReadFile`, `FileStat`, `TarPut`, `TarGet`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PathRequest {
    pub path: String,
}

/// A body without fields.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Empty {}

/// Write a file; `Data` frames with a total of `sizeBytes` and `StreamEnd` follow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WriteFile {
    pub path: String,
    /// Permission bits, at most 0o777.
    pub mode: u32,
    pub size_bytes: u64,
}

/// The head of a file that `Data` frames and `StreamEnd` follow, or the answer that the path is not a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadFileResponse {
    Present { size_bytes: u64, mode: u32 },
    Absent,
}

/// The kind of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FileKind {
    File,
    Dir,
    Symlink,
    Other,
    Absent,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FileStatResponse {
    pub exists: bool,
    pub kind: FileKind,
    pub size_bytes: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TarPutResponse {
    pub entries: u64,
    /// Bytes of file contents.
    pub bytes: u64,
}

/// The contents of the tar that follows: a folder's, or one file. Or the answer that the path is absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TarGetResponse {
    Dir,
    File,
    Absent,
}

/// The failure of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ErrorBody {
    pub code: ErrorCode,
    pub message: String,
}

/// The kinds of failure of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ErrorCode {
    /// The request itself is wrong: a relative path, a size that does not match, a bad tar.
    #[serde(rename = "bad-request")]
    BadRequest,
    /// The path does not exist.
    #[serde(rename = "not-found")]
    NotFound,
    /// The request may not use the path.
    #[serde(rename = "not-allowed")]
    NotAllowed,
    /// The path leads to something that may not leave a guest: a device, a pipe, a socket.
    #[serde(rename = "bad-output")]
    BadOutput,
    /// The disk is full.
    #[serde(rename = "no-space")]
    NoSpace,
    /// A limit of the protocol or of the guest was reached.
    #[serde(rename = "limit")]
    Limit,
    /// The request was cancelled, or its stream was ended with an error.
    #[serde(rename = "cancelled")]
    Cancelled,
    /// The guest's system returned an error.
    #[serde(rename = "io")]
    Io,
    /// A bug of the agent.
    #[serde(rename = "internal")]
    Internal,
}

/// The end of a stream: complete, or broken by `error`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamEnd {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorBody>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StatsResponse {
    pub memory_total_bytes: u64,
    pub memory_available_bytes: u64,
    /// Free bytes of the scratch disk.
    pub disk_free_bytes: u64,
    /// The number of users' processes and threads.
    pub processes: u64,
    /// The number of users' processes that were killed to free memory.
    pub oom_kills: u64,
}

/// The settings that the guest needs before the first exec. Sent once, right after `Pong`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Configure {
    /// Milliseconds since 1970 UTC.
    pub clock_unix_ms: u64,
    pub hostname: String,
    /// Hex of up to 512 bytes of the host's randomness.
    pub entropy: String,
    pub mounts: Vec<GuestMount>,
    /// The parts of the door that the guest offers to its programs; absent without `FLAG_DOOR`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub door: Option<Door>,
}

/// Move the guest's clock by `stepMs`, if it is set, and report its new time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Clock {
    /// A relative step, whatever the clock shows: a message stays valid while it waits for a stopped VM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_ms: Option<i64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClockResponse {
    /// Milliseconds since 1970 UTC.
    pub unix_ms: u64,
}

/// The guest's side of the door.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Door {
    /// Whether an HTTP proxy listens on 127.0.0.1, and variables of commands name it.
    pub proxy: bool,
    /// A listener for each service, on its own loopback address, under the service's name.
    pub services: Vec<DoorService>,
}

/// A service of the host's side, by the name and the port that programs of the guest use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DoorService {
    pub name: String,
    pub port: u16,
}

/// Opens a tunnel; the guest chooses the id. The keeper decides whether to allow it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "to", rename_all = "kebab-case")]
pub enum Connect {
    /// A name or an address from the program of the guest.
    Host { host: String, port: u16 },
    /// A service of `Configure`.
    Service { name: String },
}

/// One read-only mount: folder `index` (decimal) of the 9p device with tag `mounts`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GuestMount {
    pub index: u32,
    pub guest_path: String,
}

/// The wire forms of the responses that are either a head or `{"absent":true}`.
pub(crate) mod wire {
    use super::{ReadFileResponse, TarGetResponse};
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    fn is_false(value: &bool) -> bool {
        !*value
    }

    #[derive(Default, Serialize, Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct ReadFileWire {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        size_bytes: Option<u64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mode: Option<u32>,
        #[serde(default, skip_serializing_if = "is_false")]
        absent: bool,
    }

    impl Serialize for ReadFileResponse {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            match *self {
                ReadFileResponse::Present { size_bytes, mode } => ReadFileWire {
                    size_bytes: Some(size_bytes),
                    mode: Some(mode),
                    absent: false,
                },
                ReadFileResponse::Absent => ReadFileWire {
                    absent: true,
                    ..ReadFileWire::default()
                },
            }
            .serialize(serializer)
        }
    }

    impl<'de> Deserialize<'de> for ReadFileResponse {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            match ReadFileWire::deserialize(deserializer)? {
                ReadFileWire { absent: true, .. } => Ok(ReadFileResponse::Absent),
                ReadFileWire {
                    size_bytes: Some(size_bytes),
                    mode: Some(mode),
                    ..
                } => Ok(ReadFileResponse::Present { size_bytes, mode }),
                _ => Err(D::Error::custom("neither absent nor sizeBytes and mode")),
            }
        }
    }

    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum KindWire {
        Dir,
        File,
    }

    #[derive(Serialize, Deserialize)]
    struct TarGetWire {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        kind: Option<KindWire>,
        #[serde(default, skip_serializing_if = "is_false")]
        absent: bool,
    }

    impl Serialize for TarGetResponse {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            TarGetWire {
                kind: match self {
                    TarGetResponse::Dir => Some(KindWire::Dir),
                    TarGetResponse::File => Some(KindWire::File),
                    TarGetResponse::Absent => None,
                },
                absent: *self == TarGetResponse::Absent,
            }
            .serialize(serializer)
        }
    }

    impl<'de> Deserialize<'de> for TarGetResponse {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            match TarGetWire::deserialize(deserializer)? {
                TarGetWire { absent: true, .. } => Ok(TarGetResponse::Absent),
                TarGetWire {
                    kind: Some(KindWire::Dir),
                    ..
                } => Ok(TarGetResponse::Dir),
                TarGetWire {
                    kind: Some(KindWire::File),
                    ..
                } => Ok(TarGetResponse::File),
                TarGetWire { kind: None, .. } => Err(D::Error::custom("neither absent nor kind")),
            }
        }
    }
}
