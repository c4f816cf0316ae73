//! QEMU: each VM is one QEMU process in a jail, controlled over QMP.

mod command;
mod descriptors;
mod jail;
mod qmp;
mod snapshot;

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::rc::Rc;

use tokio::net::UnixStream;

use crate::config::{Accelerator, LaunchConfig, QemuSettings};
use crate::error::{Code, Failure};
use crate::run_dir::{RunDir, SCRATCH};
use crate::vmm::interface::{
    Control, Disks, NewVm, Publishing, RunningVm, Started, Violation, Vmm, Work,
};
use crate::vmm::jail::{description, vmm_uid};
use crate::vmm::process::{Ends, VmmProcess};
use crate::vmm::usage::Usage;
use crate::vmm::{scratch, usage};
use command::qemu_args;
use descriptors::Inherited;
use qmp::Qmp;
use snapshot::Saving;

impl Vmm for QemuSettings {
    fn name(&self) -> &'static str {
        "qemu"
    }

    fn accelerator(&self) -> &'static str {
        match self.accelerator {
            Accelerator::Kvm => "kvm",
            Accelerator::Tcg => "tcg",
        }
    }

    fn describe_jail(&self, dir: &RunDir) -> String {
        description(vmm_uid(dir))
    }

    fn check_host(&self, config: &LaunchConfig) -> Result<(), Failure> {
        let not_ready = |message: String| Err(Failure::new(Code::HostNotReady, message));
        if !self.program.is_file() {
            let path = self.program.display();
            return not_ready(format!("no QEMU at {path}: apt install qemu-system-x86"));
        }
        if !self.bwrap.is_file() {
            let path = self.bwrap.display();
            return not_ready(format!(
                "no bubblewrap at {path}, and a VM never runs without its jail: apt install bubblewrap"
            ));
        }
        scratch::find_mke2fs(self.mke2fs.as_deref())?;
        config.check_files()
    }

    fn snapshot_key(&self, config: &LaunchConfig) -> Option<String> {
        snapshot::key(self, config).ok()
    }

    fn start<'a>(&'a self, vm: NewVm<'a>) -> Work<'a, Result<Started, Failure>> {
        Box::pin(async move {
            let NewVm { config, dir, .. } = vm;
            let uid = vmm_uid(dir);
            let mke2fs = scratch::find_mke2fs(self.mke2fs.as_deref())?;
            let path = dir.file(SCRATCH);
            let disk = scratch::make(&mke2fs, &path, config, uid, vm.disk);
            let (made, prepared) = tokio::join!(disk, snapshot::prepare(self, &vm));
            made?;
            let held = prepared.files.memory.clone();
            let inherited = Inherited::open(prepared.files)?;
            let ends = Ends::open()?;
            let keeper =
                std::env::current_exe().map_err(|error| Failure::io("starting the VMM", &error))?;
            let fds = inherited.with(ends.sockets());
            let words = jail::command(self, vm, &keeper, uid, prepared.beginning, || {
                qemu_args(
                    self.accelerator,
                    config,
                    fds,
                    prepared.tsc,
                    prepared.beginning,
                )
            })?;
            let spawned = VmmProcess::spawn(&words, ends, &inherited.files(), config, dir)?;
            let running = Qemu {
                process: spawned.process,
                control: Cell::new(Some(OwnControl::Closed(spawned.control))),
                scratch: RefCell::new(path),
                saving: Cell::new(prepared.saving),
                copy: prepared.snapshot_key.map(|key| CopyOf {
                    key,
                    state: fds.snapshot.state,
                    is_paused: Cell::new(false),
                    _memory: held,
                }),
            };
            Ok(Started {
                vm: Rc::new(running),
                port: spawned.port,
                mailbox: Some(inherited.mailbox),
                beginning: prepared.beginning,
                note: prepared.note,
            })
        })
    }
}

/// QEMU with its jail around it.
struct Qemu {
    process: VmmProcess,
    control: Cell<Option<OwnControl>>,
    scratch: RefCell<PathBuf>,
    saving: Cell<Option<Saving>>,
    copy: Option<CopyOf>,
}

/// The snapshot from which a VM begins.
struct CopyOf {
    key: String,
    /// The pipe with the state, as QEMU inherits it.
    state: Option<i32>,
    /// Whether QEMU has read the state, and did not continue yet.
    is_paused: Cell<bool>,
    /// Later VMs may use the memory as long as this keeper has it open.
    _memory: Option<Rc<File>>,
}

/// The keeper's end of the control, before and after both sides have agreed on QMP.
enum OwnControl {
    Closed(UnixStream),
    Open(Qmp),
}

impl OwnControl {
    async fn open(self) -> Result<Qmp, Violation> {
        match self {
            OwnControl::Closed(socket) => qmp::open(socket).await,
            OwnControl::Open(qmp) => Ok(qmp),
        }
    }
}

impl Qemu {
    /// Uses the control before it is watched.
    async fn with_control<T>(
        &self,
        work: impl AsyncFnOnce(&mut Qmp) -> Result<T, String>,
    ) -> Result<T, String> {
        let control = self.control.take().ok_or("its control is in use")?;
        let mut qmp = control.open().await.map_err(|error| error.to_string())?;
        let result = work(&mut qmp).await;
        self.control.set(Some(OwnControl::Open(qmp)));
        result
    }
}

impl RunningVm for Qemu {
    fn pid(&self) -> u32 {
        self.process.pid()
    }

    fn control(&self) -> Work<'_, Result<Box<dyn Control>, Violation>> {
        let control = self.control.take().expect("the control is opened once");
        Box::pin(async { Ok(Box::new(control.open().await?) as Box<dyn Control>) })
    }

    fn save(&self) -> Work<'_, Result<Publishing, String>> {
        Box::pin(async {
            let saving = self.saving.take().ok_or("it was already saved")?;
            self.with_control(async |qmp| saving.save(qmp).await).await
        })
    }

    fn abandon_save(&self) {
        drop(self.saving.take());
    }

    fn paused(&self) -> Work<'_, Result<(), String>> {
        Box::pin(async {
            let copy = self.copy.as_ref().ok_or("it is no copy")?;
            let state = copy.state.ok_or("it has no state")?;
            if !copy.is_paused.get() {
                self.with_control(async |qmp| snapshot::read_state(qmp, state).await)
                    .await?;
                copy.is_paused.set(true);
            }
            Ok(())
        })
    }

    fn restored<'a>(&'a self, disks: &'a Disks) -> Work<'a, Result<(), String>> {
        Box::pin(async {
            self.paused().await?;
            self.scratch.replace(disks.scratch.clone());
            let bytes = disks.scratch_bytes;
            self.with_control(async |qmp| snapshot::continue_copy(qmp, bytes).await)
                .await
        })
    }

    fn snapshot_key(&self) -> Option<&str> {
        self.copy.as_ref().map(|copy| copy.key.as_str())
    }

    fn usage(&self) -> Usage {
        usage::read(self.process.pid(), &self.scratch.borrow())
    }

    fn resident_bytes(&self) -> u64 {
        usage::resident_bytes(self.process.pid())
    }

    fn exited(&self) -> Work<'_, io::Result<ExitStatus>> {
        Box::pin(self.process.exited())
    }

    fn kill(&self) -> Work<'_, io::Result<ExitStatus>> {
        Box::pin(self.process.kill())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(program: &str, bwrap: &str) -> Failure {
        let config: LaunchConfig = serde_json::from_value(serde_json::json!({
            "v": 1, "vmKey": "k", "memoryMib": 256, "vcpus": 1, "diskMib": 64,
            "kernel": { "path": "/no/kernel", "kind": "debian" }, "initramfs": "/i",
            "vmm": { "name": "qemu", "program": program, "accelerator": "tcg", "bwrap": bwrap },
        }))
        .unwrap();
        let failure = crate::vmm::of(&config).check_host(&config).unwrap_err();
        assert_eq!(failure.code, Code::HostNotReady);
        failure
    }

    #[test]
    fn each_missing_piece_is_named_with_its_remedy() {
        for (program, bwrap, remedy) in [
            ("/no/qemu", "/no/bwrap", "apt install qemu-system-x86"),
            ("/proc/self/exe", "/no/bwrap", "apt install bubblewrap"),
            (
                "/proc/self/exe",
                "/proc/self/exe",
                "no kernel at /no/kernel",
            ),
        ] {
            let failure = problem(program, bwrap);
            assert!(failure.message.contains(remedy), "{failure}");
        }
    }
}
