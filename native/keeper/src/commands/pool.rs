//! The pool of a host: VMs that wait in folders of their own next to the run directories. A launch takes one by the name
//! of its folder, which is the only record of its owner.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::command_error::CommandError;
use super::socket::connect;
use super::turn::wait_for_turn;
use crate::config::LaunchConfig;
use crate::run_dir::{INTENT, RunDir, STARTED};
use crate::vmm;

/// The prefix of the folder of a VM that waits.
pub const PREFIX: &str = "pool-";
/// The time within which the keeper of a VM that waits must answer.
const ANSWER: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(5);

/// Whether this is the name of a folder of the pool.
pub fn is_pooled(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(PREFIX.as_bytes())
}

/// A VM of the pool whose keeper lives.
pub struct Pooled {
    pub dir: RunDir,
    pub config: LaunchConfig,
    started_at_ms: u64,
}

/// Returns the VMs of the pool, the oldest first.
pub fn list(vms: &Path) -> io::Result<Vec<Pooled>> {
    let mut found = Vec::new();
    let entries = match fs::read_dir(vms) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(found),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        if is_pooled(&entry.file_name()) {
            found.extend(read(RunDir::at(entry.path())));
        }
    }
    found.sort_by_key(|pooled| pooled.started_at_ms);
    Ok(found)
}

/// Reads a folder whose VM waits, or waited until a launch renamed it; `None` for any other one.
fn read(dir: RunDir) -> Option<Pooled> {
    let config = LaunchConfig::parse(&fs::read(dir.file(INTENT)).ok()?).ok()?;
    if !config.waits || dir.file(STARTED).exists() || !dir.is_locked().ok()? {
        return None;
    }
    let started_at_ms = dir.keeper()?.started_at_ms;
    Some(Pooled {
        dir,
        config,
        started_at_ms,
    })
}

/// Takes a VM that waits for a launch, and returns true once its keeper serves the key. The folder of the key is then
/// that VM's. Each failure leaves a launch as without a pool.
pub fn take(dir: &RunDir, config: &LaunchConfig, deadline: Instant) -> Result<bool, CommandError> {
    let (Some(vms), Some(_)) = (dir.path().parent(), config.snapshots.as_ref()) else {
        return Ok(false);
    };
    if config.waits || config.from.is_some() {
        return Ok(false);
    }
    if dir.path().exists() {
        // An earlier launch may have died after it renamed the folder.
        let renamed = || read(RunDir::at(dir.path()));
        if renamed().is_none() {
            return Ok(false);
        }
        let _turn = wait_for_turn(vms, deadline)?;
        return Ok(renamed().is_some_and(|renamed| finish(&renamed, dir, config, None)));
    }
    let fits = |pooled: &Pooled| config.could_be(&pooled.config);
    let any = list(vms).map_err(CommandError::io("listing the pool"))?;
    if !any.iter().any(fits) {
        return Ok(false);
    }
    let _turn = wait_for_turn(vms, deadline)?;
    let Some(key) = vmm::of(config).snapshot_key(config) else {
        return Ok(false);
    };
    let waiting = list(vms).map_err(CommandError::io("listing the pool"))?;
    for pooled in waiting.iter().filter(|pooled| fits(pooled)) {
        let Some(client) = Client::of_waiting(&pooled.dir, &key) else {
            continue;
        };
        match rename(vms, &pooled.dir, dir) {
            Ok(()) => return Ok(finish(pooled, dir, config, Some(client))),
            // The folder of the key exists now: another launch of the key comes first.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(false),
            Err(error) => eprintln!("renaming {}: {error}", pooled.dir.path().display()),
        }
    }
    Ok(false)
}

fn rename(vms: &Path, from: &RunDir, to: &RunDir) -> io::Result<()> {
    renameat_with(CWD, from.path(), CWD, to.path(), RenameFlags::NOREPLACE)?;
    File::open(vms)?.sync_all()
}

/// Gives the VM in the folder of the key its configuration. If that fails, the VM ends, and the folder is free.
fn finish(pooled: &Pooled, dir: &RunDir, config: &LaunchConfig, client: Option<Client>) -> bool {
    let take = || -> io::Result<()> {
        let mut client = match client {
            Some(client) => client,
            None if !config.could_be(&pooled.config) => {
                return Err(io::Error::other("it has other parts"));
            }
            None => Client::attach(dir)?,
        };
        let arguments = json!({ "dir": dir.path(), "config": config });
        client.fenced("take", arguments).map(drop)
    };
    match take() {
        Ok(()) => true,
        Err(error) => {
            let at = dir.path().display();
            eprintln!("the VM that waited at {at} is not used: {error}");
            end(dir);
            false
        }
    }
}

/// Ends a VM that waits, and returns once its keeper has ended. A keeper that serves a key by now is not touched.
pub fn end(dir: &RunDir) {
    let deadline = Instant::now() + ANSWER;
    let mut signal = Signal::TERM;
    while let Some(pooled) = read(RunDir::at(dir.path())) {
        // The lock is held, so its holder lives and the pid is correct.
        let pid = pooled.dir.keeper().map(|keeper| keeper.pid);
        let pid = pid.and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
        if let Some(pid) = pid {
            let _ = kill_process(pid, signal);
        }
        if Instant::now() > deadline {
            signal = Signal::KILL;
        }
        std::thread::sleep(POLL * 4);
    }
}

/// Whether a launch has taken the VM of this directory, and its keeper does not serve the key yet.
pub fn is_leaving(dir: &RunDir, config: &LaunchConfig) -> bool {
    let status = Client::open(dir).and_then(|mut client| client.ask("status", json!({})));
    let Ok(status) = status else { return false };
    let key = status["vmKey"].as_str().unwrap_or_default();
    key.starts_with(PREFIX) && key != config.vm_key
}

/// A client of the keeper of a VM that waits.
struct Client {
    stream: BufReader<UnixStream>,
    fence: u64,
}

impl Client {
    /// Attaches to a VM that waits, if it is a copy of the snapshot of this key. This ends the tie to its worker.
    fn of_waiting(dir: &RunDir, key: &str) -> Option<Self> {
        let mut client = Self::open(dir).ok()?;
        let status = client.ask("status", json!({})).ok()?;
        let takes = |feature: &Value| feature == "take";
        let is_fit = status["state"] == "waiting"
            && status["start"]["key"] == key
            && status["features"].as_array()?.iter().any(takes);
        if !is_fit {
            return None;
        }
        client.raise().ok()?;
        Some(client)
    }

    fn attach(dir: &RunDir) -> io::Result<Self> {
        let mut client = Self::open(dir)?;
        client.raise()?;
        Ok(client)
    }

    fn open(dir: &RunDir) -> io::Result<Self> {
        let stream = connect(dir)?;
        stream.set_read_timeout(Some(ANSWER))?;
        stream.set_write_timeout(Some(ANSWER))?;
        Ok(Self {
            stream: BufReader::new(stream),
            fence: 0,
        })
    }

    fn raise(&mut self) -> io::Result<()> {
        let answer = self.ask("attach", json!({}))?;
        self.fence = answer["fence"].as_u64().unwrap_or(0);
        Ok(())
    }

    fn fenced(&mut self, op: &str, mut arguments: Value) -> io::Result<Value> {
        arguments["fence"] = self.fence.into();
        self.ask(op, arguments)
    }

    fn ask(&mut self, op: &str, mut request: Value) -> io::Result<Value> {
        request["v"] = 1.into();
        request["id"] = 1.into();
        request["op"] = op.into();
        let line = format!("{request}\n");
        self.stream.get_mut().write_all(line.as_bytes())?;
        let mut answer = String::new();
        self.stream.read_line(&mut answer)?;
        let mut answer: Value = serde_json::from_str(&answer).map_err(io::Error::other)?;
        match answer["error"]["message"].as_str() {
            Some(message) => Err(io::Error::other(format!("{op}: {message}"))),
            None => Ok(answer["ok"].take()),
        }
    }
}
