//! `sweep`: lists the run directories of a host, and removes dead ones.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use serde::Serialize;

use super::command_error::CommandError;
use super::{answer, arguments, pool};
use crate::cgroups::remove_left;
use crate::run_dir::{CGROUPS, EXIT, INTENT, LOCK, RunDir, STARTED, VmState};

/// The prefix of a directory that is being removed.
const TRASH: &str = ".trash-";
const DISCARD_ATTEMPTS: u32 = 8;
/// The time for which the record of a stopped VM is kept. A delayed worker may still launch the VM, and must not get a
/// new one with the same key. After this time, a VM that it launches ends when its lease expires.
const STOPPED_KNOWN: Duration = Duration::from_secs(15 * 60);
/// The files that this record and a listing need.
const STOPPED_FILES: [&str; 4] = [LOCK, EXIT, INTENT, STARTED];

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Swept {
    name: String,
    vm_key: Option<String>,
    state: VmState,
    /// `exit.json` exists. A keeper that still runs then only waits for clients to read the rest.
    ended: bool,
    /// A worker stopped this VM, or retained it for a time that has passed: its records are no longer needed.
    acknowledged: bool,
    /// Its key will not be launched again.
    #[serde(skip)]
    discard: bool,
    #[serde(skip)]
    ended_ago: Duration,
    bytes: u64,
    modified_ms: u64,
    removed: bool,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct SweepReport {
    vms: Vec<Swept>,
    /// The bytes that remain on disk.
    total_bytes: u64,
}

pub fn run(args: &[OsString]) -> Result<ExitCode, CommandError> {
    let mut values = arguments::options(args, &["--vms", "--max-bytes"])?;
    let max_bytes = match values.remove(1) {
        Some(text) => Some(
            text.to_str()
                .and_then(|text| text.parse::<u64>().ok())
                .ok_or_else(|| {
                    CommandError::Usage(format!(
                        "--max-bytes is {text:?}, expected a number of bytes"
                    ))
                })?,
        ),
        None => None,
    };
    let vms = arguments::required(values.remove(0), "--vms")?;
    let report = sweep(Path::new(&vms), max_bytes, STOPPED_KNOWN)
        .map_err(CommandError::io(format!("sweeping {vms:?}")))?;
    answer::print_json(&report);
    Ok(ExitCode::SUCCESS)
}

fn sweep(vms: &Path, max_bytes: Option<u64>, stopped_known: Duration) -> io::Result<SweepReport> {
    let mut found = list(vms)?;
    found.sort_by_key(|vm| vm.modified_ms);
    // The VM of a folder of the pool ended while it waited, so no key needs it.
    for vm in found.iter_mut() {
        if pool::is_pooled(vm.name.as_ref()) && vm.state != VmState::Running {
            vm.removed = while_it_is_there(remove(vms, vm))?.unwrap_or(true);
        }
    }
    for vm in found.iter_mut().filter(|vm| vm.acknowledged && !vm.removed) {
        if vm.ended_ago < stopped_known {
            vm.bytes = while_it_is_there(reduce(vms, vm))?.unwrap_or(0);
        } else {
            vm.removed = while_it_is_there(remove(vms, vm))?.unwrap_or(true);
        }
    }
    // The keeper was killed before it could remove the directory, or the VM ended on its own: the files stay for a
    // while to show the reason.
    for vm in found.iter_mut().filter(|vm| vm.discard && !vm.removed) {
        let is_dead = matches!(vm.state, VmState::Lost | VmState::Stopped);
        if is_dead && age(&vms.join(&vm.name).join(STARTED)) >= stopped_known {
            vm.removed = while_it_is_there(remove(vms, vm))?.unwrap_or(true);
        }
    }
    let left = |found: &[Swept]| {
        found
            .iter()
            .filter(|vm| !vm.removed)
            .map(|vm| vm.bytes)
            .sum()
    };
    if let Some(budget) = max_bytes {
        for index in 0..found.len() {
            let over = left(&found) > budget;
            let vm = &mut found[index];
            let dead = matches!(vm.state, VmState::Lost | VmState::Stopped);
            if over && dead && !vm.removed && !vm.acknowledged {
                vm.removed = while_it_is_there(remove(vms, vm))?.unwrap_or(true);
            }
        }
    }
    let total_bytes = left(&found);
    Ok(SweepReport {
        vms: found,
        total_bytes,
    })
}

fn list(vms: &Path) -> io::Result<Vec<Swept>> {
    let mut found = Vec::new();
    let entries = match fs::read_dir(vms) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(found),
        Err(error) => return Err(error),
    };
    for entry in entries {
        // Another sweep may remove the directory at the same time, which is not a failure.
        if let Some(vm) = while_it_is_there(look_at(&entry?))?.flatten() {
            found.push(vm);
        }
    }
    Ok(found)
}

/// Returns `None` if the file was not found.
fn while_it_is_there<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads the state of a run directory; `None` for any other entry.
fn look_at(entry: &fs::DirEntry) -> io::Result<Option<Swept>> {
    let name = entry.file_name().to_string_lossy().into_owned();
    if !entry.file_type()?.is_dir() {
        return Ok(None);
    }
    if name.starts_with(TRASH) {
        // A killed sweep left this directory.
        discard(&entry.path())?;
        return Ok(None);
    }
    let dir = RunDir::at(entry.path());
    let state = dir.state()?;
    if state != VmState::Running && dir.has_leftovers()? {
        // This needs the lock, because a launch may begin in a directory that has no VM yet.
        if let Some(_lock) = dir.try_lock()? {
            dir.remove_leftovers()?;
        }
    }
    let json = |name: &str| -> Option<serde_json::Value> {
        serde_json::from_slice(&fs::read(dir.file(name)).ok()?).ok()
    };
    if state != VmState::Running
        && let Some(folders) = json(CGROUPS)
    {
        remove_left(&serde_json::from_value::<Vec<PathBuf>>(folders).unwrap_or_default());
    }
    let exit = json(EXIT);
    let intent = json(INTENT);
    Ok(Some(Swept {
        name,
        vm_key: intent
            .as_ref()
            .and_then(|intent| Some(intent.get("vmKey")?.as_str()?.to_owned())),
        discard: intent.is_some_and(|intent| intent.get("discard") == Some(&true.into())),
        state,
        ended: exit.is_some(),
        acknowledged: state == VmState::Stopped
            && exit
                .as_ref()
                .and_then(|exit| exit.get("reason")?.as_str())
                .is_some_and(|reason| matches!(reason, "stopped" | "retained")),
        ended_ago: age(&dir.file(EXIT)),
        bytes: disk_bytes(&entry.path())?,
        modified_ms: modified_ms(&entry.path())?,
        removed: false,
    }))
}

/// Removes the files of a stopped VM except its record; returns the record's bytes.
fn reduce(vms: &Path, vm: &Swept) -> io::Result<u64> {
    let dir = RunDir::at(vms.join(&vm.name));
    let Some(_lock) = dir.try_lock()? else {
        return Ok(vm.bytes);
    };
    for entry in fs::read_dir(dir.path())? {
        let entry = entry?;
        if STOPPED_FILES.iter().any(|name| entry.file_name() == *name) {
            continue;
        }
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        } else {
            fs::remove_file(entry.path())?;
        }
    }
    disk_bytes(dir.path())
}

/// Returns the time since a file was written; zero if it does not exist, or if its time is in the future.
fn age(path: &Path) -> Duration {
    let written = fs::metadata(path).and_then(|metadata| metadata.modified());
    written
        .ok()
        .and_then(|written| written.elapsed().ok())
        .unwrap_or_default()
}

/// Removes a dead directory while holding its lock, so that no launch can begin in it.
fn remove(vms: &Path, vm: &Swept) -> io::Result<bool> {
    let dir = RunDir::at(vms.join(&vm.name));
    let Some(_lock) = dir.try_lock()? else {
        return Ok(false);
    };
    remove_locked(&dir)?;
    Ok(true)
}

/// Removes the directory of a dead VM; the caller holds its lock.
pub fn remove_locked(dir: &RunDir) -> io::Result<()> {
    let (Some(vms), Some(name)) = (dir.path().parent(), dir.path().file_name()) else {
        return Ok(());
    };
    let trash = vms.join(trash_name(&name.to_string_lossy()));
    fs::rename(dir.path(), &trash)?;
    discard(&trash)
}

/// Returns a name that no other removal uses, in this process or another.
fn trash_name(name: &str) -> String {
    static REMOVALS: AtomicU64 = AtomicU64::new(0);
    let removal = REMOVALS.fetch_add(1, Ordering::Relaxed);
    format!("{TRASH}{name}-{}-{removal}", std::process::id())
}

/// Removes a directory that another sweep may also be removing, or in which it may have just opened a lock.
fn discard(trash: &Path) -> io::Result<()> {
    for _ in 0..DISCARD_ATTEMPTS {
        match fs::remove_dir_all(trash) {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            done => return done,
        }
    }
    // The next sweep removes the remaining files.
    Ok(())
}

fn modified_ms(path: &Path) -> io::Result<u64> {
    let age = fs::metadata(path)?
        .modified()?
        .duration_since(SystemTime::UNIX_EPOCH);
    Ok(age.map_or(0, |age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX)))
}

/// Returns the bytes that a tree uses on disk; for sparse files, only their blocks count.
fn disk_bytes(path: &Path) -> io::Result<u64> {
    let metadata = fs::symlink_metadata(path)?;
    let mut bytes = metadata.blocks() * 512;
    if metadata.is_dir() {
        for entry in fs::read_dir(path)? {
            match disk_bytes(&entry?.path()) {
                Ok(more) => bytes += more,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run_dir::tests::TempDir;
    use crate::run_dir::{SCRATCH, STARTED};

    fn vm(vms: &Path, name: &str, files: &[(&str, &str)]) -> RunDir {
        let dir = RunDir::at(vms.join(name));
        dir.create().unwrap();
        for (file, text) in files {
            fs::write(dir.file(file), text).unwrap();
        }
        dir
    }

    #[test]
    fn only_acknowledged_dead_ones_go_without_a_budget() {
        let temp = TempDir::new("sweep");
        let stopped = vm(
            &temp.0,
            "a",
            &[(STARTED, ""), (EXIT, r#"{"reason":"stopped"}"#)],
        );
        let lost = vm(
            &temp.0,
            "b",
            &[
                (STARTED, ""),
                (INTENT, r#"{"vmKey":"r/s/0"}"#),
                (SCRATCH, "disk"),
                ("exit.json.new", "{"),
                ("entry.json.4711.new", "{"),
            ],
        );
        let new = vm(&temp.0, "c", &[("intent.json.new", "{")]);
        let running = vm(
            &temp.0,
            "d",
            &[
                (EXIT, r#"{"reason":"stopped"}"#),
                ("exit.json.new", r#"{"reason"#),
            ],
        );
        let _held = running.try_lock().unwrap().unwrap();
        let report = sweep(&temp.0, None, Duration::ZERO).unwrap();
        assert_eq!(report.vms.len(), 4);
        assert!(!stopped.path().exists());
        assert!(lost.path().exists() && new.path().exists() && running.path().exists());
        assert!(
            !lost.file(SCRATCH).exists(),
            "the disk of a lost VM is of no use"
        );
        for dir in [&lost, &new] {
            assert!(
                fs::read_dir(dir.path()).unwrap().all(|entry| {
                    !entry
                        .unwrap()
                        .file_name()
                        .to_string_lossy()
                        .ends_with(".new")
                }),
                "a file that was not renamed is half a file"
            );
        }
        assert!(
            running.file("exit.json.new").exists(),
            "a keeper that runs still renames its file"
        );
        let lost = report.vms.iter().find(|vm| vm.name == "b").unwrap();
        assert_eq!(lost.vm_key.as_deref(), Some("r/s/0"));
        assert_eq!((lost.state, lost.ended), (VmState::Lost, false));
        let running = report.vms.iter().find(|vm| vm.name == "d").unwrap();
        assert_eq!((running.state, running.ended), (VmState::Running, true));
    }

    #[test]
    fn a_budget_takes_dead_ones_but_never_the_living() {
        let temp = TempDir::new("sweep-budget");
        let lost = vm(&temp.0, "a", &[(STARTED, "")]);
        let running = vm(&temp.0, "b", &[(STARTED, "")]);
        let _held = running.try_lock().unwrap().unwrap();
        sweep(&temp.0, Some(0), STOPPED_KNOWN).unwrap();
        assert!(!lost.path().exists());
        assert!(running.path().exists());
    }

    #[test]
    fn sweeps_at_the_same_time_do_not_fail_one_another() {
        let temp = TempDir::new("sweep-at-once");
        for round in 0..60 {
            for name in 0..40 {
                let files = [(STARTED, ""), (EXIT, r#"{"reason":"stopped"}"#)];
                vm(&temp.0, &format!("{round}-{name}"), &files);
            }
            std::thread::scope(|scope| {
                let sweeps = [(); 3].map(|()| scope.spawn(|| sweep(&temp.0, None, Duration::ZERO)));
                for sweep in sweeps {
                    sweep.join().unwrap().unwrap();
                }
            });
        }
    }

    #[test]
    fn that_a_vm_was_stopped_stays_known_for_a_while_and_costs_little() {
        let temp = TempDir::new("sweep-known");
        let spool = "x".repeat(1 << 20);
        let stopped = vm(
            &temp.0,
            "a",
            &[
                (INTENT, r#"{"vmKey":"r/s/0"}"#),
                (STARTED, ""),
                (EXIT, r#"{"reason":"stopped"}"#),
                ("console.log", &spool),
            ],
        );
        fs::create_dir_all(stopped.file("exec/1")).unwrap();
        fs::write(stopped.file("exec/1/stdout"), &spool).unwrap();
        for _ in 0..2 {
            let report = sweep(&temp.0, Some(0), STOPPED_KNOWN).unwrap();
            assert_eq!(report.vms[0].vm_key.as_deref(), Some("r/s/0"));
            assert!(!report.vms[0].removed);
            assert!(report.total_bytes < 64 << 10, "{}", report.total_bytes);
        }
        assert_eq!(stopped.state().unwrap(), VmState::Stopped);
        let long_ago = SystemTime::now() - STOPPED_KNOWN;
        fs::File::open(stopped.file(EXIT))
            .and_then(|exit| exit.set_modified(long_ago))
            .unwrap();
        assert!(sweep(&temp.0, None, STOPPED_KNOWN).unwrap().vms[0].removed);
        assert!(!stopped.path().exists());
    }
}
