//! Records the end of a VM.

use std::process::ExitStatus;
use std::time::Duration;

use serde::Serialize;
use tokio::time::Instant;

use super::Keeper;
use super::end::{End, EndReason};
use crate::disk;
use crate::exec::now_ms;
use crate::run_dir::{CONSOLE, EXIT};
use crate::vmm::{VmmEnd, console};

/// The time for which the VM's end waits for room for its record.
const EXIT_LIMIT: Duration = Duration::from_secs(20);
const EXIT_PAUSE: Duration = Duration::from_millis(250);
const CONSOLE_TAIL_BYTES: u64 = 8 << 10;

/// `exit.json`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ExitFile<'a> {
    v: u32,
    vm_key: &'a str,
    reason: EndReason,
    code: &'a str,
    message: &'a str,
    vmm_exit: Option<String>,
    boots: u32,
    started_at_ms: u64,
    ended_at_ms: u64,
    /// The reason that the VMM itself gave.
    #[serde(skip_serializing_if = "Option::is_none")]
    vmm_end: Option<VmmEnd>,
    console_tail: String,
}

impl Keeper {
    pub(super) async fn write_exit(&self, end: &End, status: Option<ExitStatus>) {
        let exit = ExitFile {
            v: 1,
            vm_key: &self.config.vm_key,
            reason: end.reason,
            code: end.failure.code.as_str(),
            message: &end.failure.message,
            vmm_exit: status.map(|status| status.to_string()),
            boots: self.boots.get(),
            started_at_ms: self.started_at_ms,
            ended_at_ms: now_ms(),
            vmm_end: self.running_vm().and_then(|vm| vm.end()),
            console_tail: console::tail(&self.dir.file(CONSOLE), CONSOLE_TAIL_BYTES),
        };
        let text = serde_json::to_vec_pretty(&exit).expect("plain data serialises");
        let deadline = Instant::now() + EXIT_LIMIT;
        loop {
            match self.dir.write_durable(EXIT, &text) {
                // The scratch disk was deleted, so the disk has room, unless other programs use it first.
                Err(error) if disk::is_full(&error) && Instant::now() < deadline => {
                    tokio::time::sleep(EXIT_PAUSE).await;
                }
                Err(error) => return eprintln!("writing {EXIT}: {error}"),
                Ok(()) => return,
            }
        }
    }
}
