//! The record of an exec, which stays in its folder.

use serde::Serialize;

use super::Exec;
use super::outcome::{Outcome, Phase};
use crate::run_dir::replace_private;

/// `record.json`. It contains no arguments and no environment, because both may contain secrets.
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
    /// Replaces the record. It need not survive a power failure, because the VM does not survive one either.
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
        replace_private(
            &self.folder.join("record.json"),
            &temporary,
            &serde_json::to_vec(&record)?,
        )
    }
}
