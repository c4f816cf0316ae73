//! Why a VM ended.

use serde::Serialize;

use crate::error::{Code, Failure};

/// Why a VM ended, as `exit.json` says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum EndReason {
    /// A client stopped it.
    Stopped,
    /// Nobody renewed its lease.
    Orphaned,
    /// The time was over for which it was retained.
    Retained,
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
    pub(super) fn new(reason: EndReason, code: Code, message: impl Into<String>) -> Self {
        Self {
            reason,
            failure: Failure::new(code, message),
        }
    }
}
