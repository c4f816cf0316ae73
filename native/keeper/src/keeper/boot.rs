//! Boots a VM until it has a session with its guest.

use std::fs::File;
use std::time::Duration;

use tokio::net::UnixStream;
use tokio::time::{Instant, timeout};

use super::Keeper;
use super::end::{End, EndReason};
use crate::error::{Code, Failure};
use crate::guest::handshake::{Session, SessionError, open_session};
use crate::host::HostTsc;
use crate::run_dir::{CONSOLE, STARTED};
use crate::vmm::{self, NewVm, Vm, console};

/// The number of boots before the keeper gives up on a VM.
const MAX_BOOTS: u32 = 2;

impl Keeper {
    pub(super) async fn boot(&self, slot: &mut Option<Vm>) -> Result<Session, End> {
        let host_failure = |failure: Failure| End {
            reason: EndReason::HostFailure,
            failure,
        };
        let tsc = tokio::task::spawn_blocking(HostTsc::read).await;
        let tsc = tsc.unwrap_or(HostTsc {
            khz: 0,
            trusted: false,
        });
        let marker = self
            .disk
            .once_there_is_room(|| self.dir.write_durable(STARTED, b""));
        marker
            .await
            .map_err(|error| host_failure(Failure::run_dir("writing the marker", &error)))?;
        loop {
            let start = Instant::now();
            self.boots.set(self.boots.get() + 1);
            let vm = NewVm {
                config: &self.config,
                dir: &self.dir,
                disk: &self.disk,
                tsc,
            };
            let started = vmm::of(&self.config)
                .start(vm)
                .await
                .map_err(host_failure)?;
            self.vm.replace(Some(started.vm.clone()));
            let vm = slot.insert(Vm::watch(started.vm, &self.disk, &self.clock));
            let end = match self.try_session(vm, started.port, started.mailbox).await {
                Ok(session) => {
                    self.boot_ms.set(Some(
                        u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX),
                    ));
                    return Ok(session);
                }
                Err(end) => end,
            };
            let is_final = matches!(end.reason, EndReason::Protocol | EndReason::Refused);
            if self.boots.get() >= MAX_BOOTS || is_final {
                return Err(end);
            }
            eprintln!(
                "boot {}: {}; once more",
                self.boots.get(),
                end.failure.message
            );
            if let Some(vm) = slot.take() {
                let _ = vm.kill().await;
            }
        }
    }

    async fn try_session(&self, vm: &Vm, port: UnixStream, mailbox: File) -> Result<Session, End> {
        let limit = Duration::from_millis(self.config.boot_timeout_ms);
        let hostname = "voidbox";
        let session = self.disk.within(
            limit,
            open_session(
                port,
                &self.config.mounts,
                self.config.egress.as_ref(),
                hostname,
                mailbox,
            ),
        );
        let error = match session.await {
            Ok(Ok(session)) => return Ok(session),
            Ok(Err(error @ SessionError::Refused(_))) => {
                return Err(End::new(
                    EndReason::Refused,
                    Code::VmRefused,
                    error.to_string(),
                ));
            }
            Ok(Err(error)) if error.is_violation() => {
                let message = format!("the guest broke the protocol before it was ready: {error}");
                return Err(End::new(EndReason::Protocol, Code::VmProtocol, message));
            }
            Ok(Err(_)) => match timeout(Duration::from_secs(1), vm.exited()).await {
                Ok(Ok(status)) => format!("the VMM ended before its guest was ready ({status})"),
                _ => "the guest closed its port before it was ready".into(),
            },
            Err(_) => format!(
                "the guest said no hello within {} ms",
                self.config.boot_timeout_ms
            ),
        };
        let message = format!(
            "{error}, boot {} of {MAX_BOOTS}: {}",
            self.boots.get(),
            self.last_console_line()
        );
        Err(End::new(EndReason::BootTimeout, Code::BootTimeout, message))
    }

    pub(super) fn last_console_line(&self) -> String {
        console::describe_end(&console::tail(&self.dir.file(CONSOLE), 2048))
    }
}
