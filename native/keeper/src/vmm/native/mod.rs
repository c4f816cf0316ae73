//! `voidbox-vmm`, the VMM of this project: one process in a jail, with all its files by descriptor.

mod command_line;
mod configuration;
mod control;
mod folders;
mod jail;
mod snapshot;

use std::cell::Cell;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::rc::Rc;

use crate::config::{LaunchConfig, NativeSettings};
use crate::error::{Code, Failure};
use crate::host::{KvmKind, probe_kvm};
use crate::run_dir::{RunDir, SCRATCH};
use crate::snapshots::Touched;
use crate::vmm::end::VmmEnd;
use crate::vmm::interface::{
    Control, Disks, NewVm, Publishing, RunningVm, Started, Violation, Vmm, Work,
};
use crate::vmm::jail::vmm_uid;
use crate::vmm::process::{Ends, VmmProcess};
use crate::vmm::usage::Usage;
use crate::vmm::{scratch, usage};
use configuration::Files;
use control::{LastWords, NativeControl};
use snapshot::{CopyOf, Saving};

const KVM: &str = "/dev/kvm";
/// The VMM has one thread for each virtual CPU.
const MAX_VCPUS: u32 = 32;

impl Vmm for NativeSettings {
    fn name(&self) -> &'static str {
        "vmm"
    }

    fn accelerator(&self) -> &'static str {
        "kvm"
    }

    fn describe_jail(&self, dir: &RunDir) -> String {
        jail::description(vmm_uid(dir), voidbox_jail::has_landlock())
    }

    fn check_host(&self, config: &LaunchConfig) -> Result<(), Failure> {
        self.check_config(config)?;
        let not_ready = |message: String| Err(Failure::new(Code::HostNotReady, message));
        if !self.program.is_file() {
            let path = self.program.display();
            return not_ready(format!("no voidbox-vmm at {path}: voidbox doctor"));
        }
        if let Some(path) = self.folders.as_ref().filter(|path| !path.is_file()) {
            let path = path.display();
            return not_ready(format!("no voidbox-folders at {path}: voidbox doctor"));
        }
        scratch::find_mke2fs(self.mke2fs.as_deref())?;
        config.check_files()?;
        if self.kvm_path() == Path::new(KVM) {
            let kind = probe_kvm().map_err(|error| Failure::io(KVM, &error))?;
            check_kvm(kind)?;
        }
        Ok(())
    }

    fn start<'a>(&'a self, vm: NewVm<'a>) -> Work<'a, Result<Started, Failure>> {
        Box::pin(async move {
            let NewVm { config, dir, .. } = vm;
            let mke2fs = scratch::find_mke2fs(self.mke2fs.as_deref())?;
            let path = dir.file(SCRATCH);
            let disk = scratch::make(&mke2fs, &path, config, None, vm.disk);
            let (made, prepared) = tokio::join!(disk, snapshot::prepare(self, &vm));
            made?;
            let prepared = prepared?;
            let beginning = prepared.beginning();
            let keeper =
                std::env::current_exe().map_err(|error| Failure::io("starting the VMM", &error))?;
            let uid = vmm_uid(dir);
            let served = folders::start(self, &config.mounts, &keeper, uid)?;
            let (folders, socket) = served.unzip();
            let files = Files::open(self.kvm_path(), config, &path, socket, prepared.files)?;
            let ends = Ends::open()?;
            let sockets = ends.sockets();
            let inherited = files.all();
            let inherited = inherited.iter().map(AsRawFd::as_raw_fd);
            let kept = [sockets.port, sockets.console].into_iter().chain(inherited);
            let words = jail::command(self, &keeper, uid, sockets.control, kept)?;
            let spawned = VmmProcess::spawn(&words, ends, &files.all(), config, dir)?;
            let line = configuration::line(self, config, &files, sockets);
            let (control, last_words) = control::begin(spawned.control, &line).await;
            let running = Native {
                process: spawned.process,
                folders,
                control: Cell::new(Some(control)),
                last_words,
                scratch: path,
                saving: Cell::new(prepared.saving),
                copy: prepared.copy,
            };
            Ok(Started {
                vm: Rc::new(running),
                port: spawned.port,
                mailbox: Some(files.mailbox),
                beginning,
                note: prepared.note,
            })
        })
    }
}

impl NativeSettings {
    /// Fails for a VM that this VMM cannot have; the error names the part.
    fn check_config(&self, config: &LaunchConfig) -> Result<(), Failure> {
        let refuse = |what: String| {
            let message = format!("launch configuration: {what}");
            Err(Failure::bad_request(message))
        };
        if config.vcpus > MAX_VCPUS {
            return refuse(format!(
                "vcpus is {}, expected 1 to {MAX_VCPUS} with the VMM \"vmm\"",
                config.vcpus
            ));
        }
        match config.mounts.first().filter(|_| self.folders.is_none()) {
            Some(mount) => refuse(format!(
                "mounts[0] is the folder {} at {}, and vmm.folders names no program that shares it",
                mount.host_path.display(),
                mount.guest_path
            )),
            None => Ok(()),
        }
    }

    #[cfg(feature = "test-vmm")]
    fn kvm_path(&self) -> &Path {
        self.kvm.as_deref().unwrap_or(Path::new(KVM))
    }

    #[cfg(not(feature = "test-vmm"))]
    fn kvm_path(&self) -> &Path {
        Path::new(KVM)
    }
}

/// Fails unless the CPU itself runs guests: an emulated KVM does not reach the end of a boot.
fn check_kvm(kind: KvmKind) -> Result<(), Failure> {
    let problem = match kind {
        KvmKind::Hardware => return Ok(()),
        KvmKind::Emulated => {
            "/dev/kvm is emulated, and no kernel boots on it: use a host whose CPU shows vmx or svm, or the VMM qemu"
        }
        KvmKind::None => {
            "there is no /dev/kvm: load kvm_intel or kvm_amd, turn on virtualization in the firmware, or use the VMM qemu"
        }
        KvmKind::NoPermission => {
            "/dev/kvm may not be used: add the user to its group (usermod -aG kvm USER), or use the VMM qemu"
        }
    };
    let message = format!("the VMM voidbox-vmm needs hardware KVM, and {problem}");
    Err(Failure::new(Code::HostNotReady, message))
}

/// `voidbox-vmm` with its jail around it.
struct Native {
    process: VmmProcess,
    /// The server of the VM's folders. A VM whose server has ended is lost too.
    folders: Option<VmmProcess>,
    control: Cell<Option<NativeControl>>,
    last_words: LastWords,
    scratch: PathBuf,
    saving: Cell<Option<Saving>>,
    copy: Option<CopyOf>,
}

impl Native {
    /// Uses the control before it is watched.
    async fn with_control<T>(
        &self,
        work: impl AsyncFnOnce(&mut NativeControl) -> Result<T, String>,
    ) -> Result<T, String> {
        let mut control = self.control.take().ok_or("its control is in use")?;
        let result = tokio::select! {
            started = control.started() => match started {
                Ok(()) => Ok(()),
                Err(violation) => Err(violation.to_string()),
            },
            _ = self.process.exited() => {
                self.last_words.read().await;
                Err("the VMM ended".into())
            }
        };
        let result = match result {
            Ok(()) => work(&mut control).await,
            Err(why) => Err(why),
        };
        self.control.set(Some(control));
        result
    }
}

impl RunningVm for Native {
    fn pid(&self) -> u32 {
        self.process.pid()
    }

    fn control(&self) -> Work<'_, Result<Box<dyn Control>, Violation>> {
        let mut control = self.control.take().expect("the control is opened once");
        Box::pin(async {
            control.started().await?;
            Ok(Box::new(control) as Box<dyn Control>)
        })
    }

    fn save(&self) -> Work<'_, Result<Publishing, String>> {
        Box::pin(async {
            let saving = self.saving.take().ok_or("it was already saved")?;
            self.with_control(async |control| saving.save(control).await)
                .await
        })
    }

    fn abandon_save(&self) {
        drop(self.saving.take());
    }

    fn restored<'a>(&'a self, _: &'a Disks) -> Work<'a, Result<(), String>> {
        // A VMM that has started a copy continues it without a request.
        Box::pin(self.with_control(async |_| Ok(())))
    }

    fn snapshot_key(&self) -> Option<&str> {
        self.copy.as_ref().map(|copy| copy.key.as_str())
    }

    fn touched(&self) -> Option<Touched> {
        let copy = self.copy.as_ref().filter(|copy| !copy.knows_pages)?;
        let pids = usage::process_tree(self.process.pid());
        let found = pids
            .into_iter()
            .find_map(|pid| match Touched::of_process(pid, &copy.memory) {
                Ok(touched) => touched.map(Ok),
                Err(error) => Some(Err(error)),
            });
        match found? {
            Ok(touched) => Some(touched),
            Err(error) => {
                eprintln!("the pages of the copy {} are not known: {error}", copy.key);
                None
            }
        }
    }

    fn usage(&self) -> Usage {
        let vmm = usage::read(self.process.pid(), &self.scratch);
        match &self.folders {
            Some(folders) => vmm.with(usage::read(folders.pid(), &self.scratch)),
            None => vmm,
        }
    }

    fn resident_bytes(&self) -> u64 {
        let folders = self.folders.as_ref();
        usage::resident_bytes(self.process.pid())
            + folders.map_or(0, |folders| usage::resident_bytes(folders.pid()))
    }

    fn end(&self) -> Option<VmmEnd> {
        self.last_words.end()
    }

    fn exited(&self) -> Work<'_, io::Result<ExitStatus>> {
        Box::pin(async {
            let folders_end = async {
                match &self.folders {
                    Some(folders) => folders.exited().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                status = self.process.exited() => {
                    self.last_words.read().await;
                    status
                }
                status = folders_end => status,
            }
        })
    }

    fn kill(&self) -> Work<'_, io::Result<ExitStatus>> {
        Box::pin(async {
            let status = self.process.kill().await;
            self.last_words.read().await;
            if let Some(folders) = &self.folders {
                // The VM has ended with its VMM. If the server could not be waited for, it ends by its lifeline, which is
                // closed, and its status says nothing about the VM.
                let _ = folders.kill().await;
            }
            status
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(change: impl FnOnce(&mut serde_json::Value)) -> LaunchConfig {
        let mut value = serde_json::json!({
            "v": 1, "vmKey": "k", "memoryMib": 256, "vcpus": 1, "diskMib": 64,
            "kernel": { "path": "/dev/null", "kind": "debian" }, "initramfs": "/i",
            "vmm": { "name": "vmm", "program": "/no/voidbox-vmm" },
        });
        change(&mut value);
        serde_json::from_value(value).unwrap()
    }

    fn problem(config: &LaunchConfig) -> Failure {
        crate::vmm::of(config).check_host(config).unwrap_err()
    }

    #[test]
    fn a_vm_that_this_vmm_cannot_have_is_refused_by_name() {
        let mounted = config(|config| {
            config["mounts"] = serde_json::json!([{ "hostPath": "/data", "guestPath": "/srv" }]);
        });
        let many = config(|config| config["vcpus"] = 33.into());
        for (config, named) in [
            (mounted, "mounts[0] is the folder /data at /srv"),
            (many, "vcpus is 33"),
        ] {
            let failure = problem(&config);
            assert_eq!(failure.code, Code::BadRequest);
            assert!(failure.message.contains(named), "{failure}");
        }
    }

    #[test]
    fn a_host_without_hardware_kvm_is_not_ready_and_the_error_says_why() {
        check_kvm(KvmKind::Hardware).unwrap();
        for (kind, remedy) in [
            (KvmKind::Emulated, "vmx or svm"),
            (KvmKind::None, "kvm_amd"),
            (KvmKind::NoPermission, "usermod -aG kvm"),
        ] {
            let failure = check_kvm(kind).unwrap_err();
            assert_eq!(failure.code, Code::HostNotReady);
            assert!(failure.message.contains(remedy), "{failure}");
        }
    }

    #[test]
    fn each_missing_piece_is_named_with_its_remedy() {
        let failure = problem(&config(|_| ()));
        assert_eq!(failure.code, Code::HostNotReady);
        assert!(
            failure
                .message
                .contains("no voidbox-vmm at /no/voidbox-vmm"),
            "{failure}"
        );
        let failure = problem(&config(|config| {
            config["vmm"]["program"] = "/proc/self/exe".into();
            config["vmm"]["folders"] = "/no/voidbox-folders".into();
        }));
        assert!(
            failure
                .message
                .contains("no voidbox-folders at /no/voidbox-folders"),
            "{failure}"
        );
    }
}
