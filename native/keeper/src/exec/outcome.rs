//! The state of an exec and its outcome.

use serde::Serialize;
use serde_json::{Map, Value};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    Exited,
    Timeout,
    OutputLimit,
    CannotStart,
    Killed,
}

/// The cause for which a client ends a command, in the client's words.
pub type Cause = Map<String, Value>;

/// The outcome of an exec, as in the answer of `exec.wait`.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    pub reason: Reason,
    pub exit_code: i32,
    /// The signal that ended the command itself.
    pub signal: Option<i32>,
    /// The cause of the `exec.end` whose signal preceded the known end of the command.
    pub cause: Option<Cause>,
    pub message: Option<String>,
    pub started_at_ms: u64,
    pub ended_at_ms: u64,
    /// Bytes in the spools; `droppedBytes` were sent by the guest, and are in neither spool.
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

/// The party that ends a command before its own end.
#[derive(Debug, Clone)]
pub enum Interruption {
    /// The keeper, which names the reason.
    Keeper(Reason),
    /// A client, which names the cause.
    Client(Cause),
}

/// The guest's report of the end, before it is recorded.
pub struct Ending {
    pub reason: Reason,
    pub exit_code: i32,
    pub signal: Option<i32>,
    pub message: Option<String>,
    pub ended_at_ms: u64,
}
