//! The reason why a VM ended.

use serde::Serialize;

use crate::error::{Code, Failure};

/// The reason why a VM ended, as in `exit.json`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum EndReason {
    /// A client stopped it.
    Stopped,
    /// No client renewed its lease.
    Orphaned,
    /// The time for which it was retained has passed.
    Retained,
    /// The VMM ended on its own.
    Lost,
    /// The guest broke the protocol.
    Protocol,
    /// The guest refused its configuration.
    Refused,
    /// No boot reached a session.
    BootTimeout,
    /// A signal ended the keeper.
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
    /// Returns the end of a VM for a failure of its guest or its VMM.
    pub(super) fn of_guest(failure: Failure) -> Self {
        let reason = match failure.code {
            Code::VmProtocol => EndReason::Protocol,
            _ => EndReason::Lost,
        };
        Self { reason, failure }
    }

    pub(super) fn new(reason: EndReason, code: Code, message: impl Into<String>) -> Self {
        Self {
            reason,
            failure: Failure::new(code, message),
        }
    }
}
