//! The VMM of the keeper's own tests: a program of the test without a VM or a jail around it. Its control has a
//! protocol of one word on each line. The program sends `ready` once, then `no-room`, `resumed` and `refused`; the
//! keeper sends `pause` and `resume`.

use std::cell::Cell;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::path::PathBuf;
use std::process::ExitStatus;
use std::rc::Rc;

use tokio::net::UnixStream;

use crate::config::{LaunchConfig, TestBeginning, TestVmmSettings};
use crate::error::{Code, Failure};
use crate::guest::mailbox;
use crate::run_dir::{RunDir, SCRATCH};
use crate::vmm::interface::{
    Beginning, Control, Disks, NewVm, RunningVm, Said, Started, Violation, Vmm, Work,
};
use crate::vmm::lines::Lines;
use crate::vmm::process::{Ends, Sockets, VmmProcess};
use crate::vmm::usage;
use crate::vmm::usage::Usage;

/// The key of the snapshot that a program names; the store has no such snapshot.
const KEY: &str = "test";

impl Vmm for TestVmmSettings {
    fn name(&self) -> &'static str {
        "test"
    }

    fn accelerator(&self) -> &'static str {
        "none"
    }

    fn describe_jail(&self, _: &RunDir) -> String {
        "none".into()
    }

    fn check_host(&self, _: &LaunchConfig) -> Result<(), Failure> {
        if !self.program.is_file() {
            let message = format!("no program at {}", self.program.display());
            return Err(Failure::new(Code::HostNotReady, message));
        }
        Ok(())
    }

    fn snapshot_key(&self, _: &LaunchConfig) -> Option<String> {
        Some(KEY.into())
    }

    fn start<'a>(&'a self, vm: NewVm<'a>) -> Work<'a, Result<Started, Failure>> {
        Box::pin(async move {
            let mailbox =
                mailbox::memory().map_err(|error| Failure::io("making the mailbox", &error))?;
            let ends = Ends::open()?;
            let keeper =
                std::env::current_exe().map_err(|error| Failure::io("starting the VMM", &error))?;
            let mut words: Vec<OsString> = vec![keeper.into(), "lifeline".into(), "--".into()];
            words.push(self.program.clone().into());
            words.extend(self.args_with(ends.sockets(), mailbox.as_raw_fd()));
            let spawned = VmmProcess::spawn(&words, ends, &[mailbox.as_fd()], vm.config, vm.dir)?;
            let beginning = match self.begins {
                TestBeginning::BootToSave if vm.with_snapshots => Beginning::BootToSave,
                TestBeginning::Snapshot if vm.with_snapshots => Beginning::Snapshot,
                _ => Beginning::Boot,
            };
            let running = TestVmm {
                process: spawned.process,
                beginning,
                control: Cell::new(Some(spawned.control)),
                scratch: vm.dir.file(SCRATCH),
            };
            Ok(Started {
                vm: Rc::new(running),
                port: spawned.port,
                mailbox: Some(mailbox),
                beginning,
                note: None,
            })
        })
    }
}

impl TestVmmSettings {
    fn args_with(&self, fds: Sockets, mailbox: RawFd) -> impl Iterator<Item = OsString> {
        self.args.iter().map(move |arg| {
            arg.replace("{fd}", &fds.port.to_string())
                .replace("{control}", &fds.control.to_string())
                .replace("{mailbox}", &mailbox.to_string())
                .into()
        })
    }
}

struct TestVmm {
    process: VmmProcess,
    beginning: Beginning,
    control: Cell<Option<UnixStream>>,
    scratch: PathBuf,
}

impl RunningVm for TestVmm {
    fn pid(&self) -> u32 {
        self.process.pid()
    }

    fn control(&self) -> Work<'_, Result<Box<dyn Control>, Violation>> {
        let socket = self.control.take().expect("the control is opened once");
        Box::pin(async {
            let mut words = Words(Lines::new(socket));
            match words.next().await?.as_deref() {
                Some("ready") => Ok(Box::new(words) as Box<dyn Control>),
                Some(other) => Err(Violation(format!("{other:?} instead of ready"))),
                // The program has no control, so this never returns.
                None => std::future::pending().await,
            }
        })
    }

    fn paused(&self) -> Work<'_, Result<(), String>> {
        Box::pin(async { Ok(()) })
    }

    /// A program has no state: whatever it sends counts as the guest of a copy.
    fn restored<'a>(&'a self, _: &'a Disks) -> Work<'a, Result<(), String>> {
        Box::pin(async { Ok(()) })
    }

    fn snapshot_key(&self) -> Option<&str> {
        (self.beginning == Beginning::Snapshot).then_some(KEY)
    }

    fn usage(&self) -> Usage {
        usage::read(self.process.pid(), &self.scratch)
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

struct Words(Lines);

impl Words {
    async fn next(&mut self) -> Result<Option<String>, Violation> {
        let line = self.0.next().await;
        let line = line.map_err(|error| Violation(error.to_string()))?;
        Ok(line.map(|line| String::from_utf8_lossy(&line).trim_end().to_owned()))
    }
}

impl Control for Words {
    fn said(&mut self) -> Work<'_, Result<Said, Violation>> {
        Box::pin(async {
            match self.next().await?.as_deref() {
                Some("no-room") => Ok(Said::NoRoom),
                Some("resumed") => Ok(Said::Resumed),
                Some("refused") => Ok(Said::Refused("not yet".into())),
                Some(other) => Err(Violation(format!("{other:?} is not a word of its control"))),
                None => Ok(Said::Ended),
            }
        })
    }

    fn pause(&mut self) -> Work<'_, ()> {
        Box::pin(async { drop(self.0.send("pause").await) })
    }

    fn resume(&mut self) -> Work<'_, ()> {
        Box::pin(async { drop(self.0.send("resume").await) })
    }
}
