//! The only error shape of the local API: a code of docs/reference/keeper.md and a text.

use std::io;

/// The codes of the API, which docs/reference/keeper.md lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    ApiVersion,
    BadRequest,
    FenceStale,
    BootTimeout,
    VmLost,
    VmProtocol,
    VmRefused,
    NoCapacity,
    VmBusy,
    CheckpointFailed,
    CheckpointUnfit,
    ExecUnknown,
    BadOutput,
    HostIo,
    DiskFull,
    HostNotReady,
    GuestDiskFull,
    GuestError,
}

impl Code {
    pub fn as_str(self) -> &'static str {
        match self {
            Code::ApiVersion => "api/version",
            Code::BadRequest => "api/bad-request",
            Code::FenceStale => "fence/stale",
            Code::BootTimeout => "vm/boot-timeout",
            Code::VmLost => "vm/lost",
            Code::VmProtocol => "vm/protocol",
            Code::VmRefused => "vm/refused",
            Code::NoCapacity => "vm/no-capacity",
            Code::VmBusy => "vm/busy",
            Code::CheckpointFailed => "vm/checkpoint-failed",
            Code::CheckpointUnfit => "vm/checkpoint-unfit",
            Code::ExecUnknown => "exec/unknown",
            Code::BadOutput => "stage/bad-output",
            Code::HostIo => "host/io",
            Code::DiskFull => "host/disk-full",
            Code::HostNotReady => "host/not-ready",
            Code::GuestDiskFull => "guest/disk-full",
            Code::GuestError => "guest/error",
        }
    }
}

/// A failure that a client of the API gets.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{}: {message}", code.as_str())]
pub struct Failure {
    pub code: Code,
    pub message: String,
}

impl Failure {
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }

    pub fn io(what: impl std::fmt::Display, error: &io::Error) -> Self {
        Self::new(Code::HostIo, format!("{what}: {error}"))
    }

    /// Creates a failure about a file of the VM's run directory. A missing file was removed with its VM, so a retry
    /// cannot find it.
    pub fn run_dir(what: &str, error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Self::new(
                Code::VmLost,
                format!("{what}: the run directory of the VM was removed"),
            ),
            _ => Self::io(what, error),
        }
    }

    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(Code::BadRequest, message)
    }
}
