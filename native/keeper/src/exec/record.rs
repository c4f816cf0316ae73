//! What stays of an exec: its folder, its record, its outcome.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::{Map, Value};

use super::Exec;

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

/// How an exec ended, as `exec.wait` answers it.
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

impl Exec {
    /// Replaces the record. It need not survive a power cut, which the VM does not either.
    pub(super) fn write_record(
        &self,
        state: Phase,
        outcome: Option<&Outcome>,
    ) -> std::io::Result<()> {
        let record = Record {
            v: 1,
            exec_key: &self.start.exec_key,
            state,
            program: &self.start.program,
            started_at_ms: self.started_at_ms,
            deadline_at_ms: self.started_at_ms.saturating_add(self.start.timeout_ms),
            outcome,
        };
        let temporary = self.folder.join("record.json.new");
        let written = fs::write(&temporary, serde_json::to_vec(&record)?)
            .and_then(|()| fs::rename(&temporary, self.folder.join("record.json")));
        if written.is_err() {
            // half a file takes room on the disk that was too full for it
            let _ = fs::remove_file(&temporary);
        }
        written
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
