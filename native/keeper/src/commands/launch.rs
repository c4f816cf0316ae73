//! `launch`: finds or creates the VM of a run directory.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use super::command_error::CommandError;
use super::socket::connect;
use super::{admission, answer, arguments, pool};
use crate::config::LaunchConfig;
use crate::error::{Code, Failure};
use crate::run_dir::{INTENT, LOG, RunDir, SOCKET, VmState};
use crate::vmm;

/// The time within which a keeper must answer; it does not include the boot of its VM.
const API_TIMEOUT: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(5);

pub fn run(args: &[OsString]) -> Result<ExitCode, CommandError> {
    let mut values = arguments::options(args, &["--dir", "--config"])?;
    let text = match values.remove(1) {
        Some(file) => fs::read(&file).map_err(CommandError::io(format!("reading {file:?}")))?,
        None => {
            let mut text = Vec::new();
            let read = io::stdin().lock().take(1 << 20).read_to_end(&mut text);
            read.map_err(CommandError::io("reading the launch configuration"))?;
            text
        }
    };
    let config = LaunchConfig::parse(&text)?;
    let dir = arguments::required(values.remove(0), "--dir")?;
    let path = std::path::absolute(&dir).map_err(CommandError::io(format!("{dir:?}")))?;
    let dir = RunDir::at(path);
    let state = match pool::take(&dir, &config, Instant::now() + API_TIMEOUT)? {
        true => "created",
        false => {
            dir.create()
                .map_err(CommandError::io(format!("making {}", dir.path().display())))?;
            find_or_create(&dir, &config)?
        }
    };
    answer::print_json(&serde_json::json!({
        "state": state,
        "socket": dir.file(SOCKET),
        "pid": dir.keeper().map(|keeper| keeper.pid),
    }));
    Ok(ExitCode::SUCCESS)
}

fn find_or_create(dir: &RunDir, config: &LaunchConfig) -> Result<&'static str, CommandError> {
    let deadline = Instant::now() + API_TIMEOUT;
    loop {
        let locked = dir
            .try_lock()
            .map_err(CommandError::io("taking the run directory's lock"))?;
        let Some(lock) = locked else {
            // A keeper lives here, or another launch is about to start one. A keeper that has written its VM's end only
            // waits for clients to read the rest.
            if dir.state_unlocked() == VmState::Stopped {
                return Ok("stopped");
            }
            // The keeper of a VM that waited serves its pool until it has left the wait.
            if connect(dir).is_ok() && !pool::is_leaving(dir, config) {
                return Ok("attached");
            }
            if Instant::now() > deadline {
                let message = format!("the keeper of {} does not answer", dir.path().display());
                return Err(Failure::new(Code::HostIo, message).into());
            }
            std::thread::sleep(POLL);
            continue;
        };
        return match dir.state_unlocked() {
            VmState::Stopped => Ok("stopped"),
            VmState::Lost => Ok("lost"),
            VmState::New | VmState::Running => create(dir, config, lock, deadline),
        };
    }
}

fn create(
    dir: &RunDir,
    config: &LaunchConfig,
    lock: File,
    deadline: Instant,
) -> Result<&'static str, CommandError> {
    vmm::of(config).check_host(config)?;
    let admitted = admission::admit(dir, config, deadline)?;
    let intent = serde_json::to_vec(config).expect("plain data serialises");
    dir.write_durable(INTENT, &intent)
        .map_err(CommandError::io("writing intent.json"))?;
    // The lock and the intent exist: from here on, other launches count this VM.
    drop(admitted);
    let _ = fs::remove_file(dir.file(SOCKET));
    let mut keeper = spawn_keeper(dir, &lock).map_err(CommandError::io("starting the keeper"))?;
    loop {
        if connect(dir).is_ok() {
            return Ok("created");
        }
        let ended = keeper
            .try_wait()
            .map_err(CommandError::io("waiting for the keeper"))?;
        if ended.is_some() && dir.state_unlocked() == VmState::Stopped {
            // The VM ended before this check; exit.json contains the reason.
            return Ok("created");
        }
        if ended.is_some() || Instant::now() > deadline {
            let log = fs::read_to_string(dir.file(LOG)).unwrap_or_default();
            let last = log.lines().last().unwrap_or("it printed nothing");
            let how = ended.map_or("does not answer".to_owned(), |status| {
                format!("ended with {status}")
            });
            return Err(Failure::new(Code::HostIo, format!("the keeper {how}: {last}")).into());
        }
        std::thread::sleep(POLL);
    }
}

fn spawn_keeper(dir: &RunDir, lock: &File) -> io::Result<Child> {
    let log = crate::run_dir::private_file(&dir.file(LOG))?;
    let lock_fd = lock.as_raw_fd();
    let mut command = Command::new("/proc/self/exe");
    command
        .arg0("voidbox-vm")
        .args(["keep", "--lock-fd", &lock_fd.to_string(), "--dir"])
        .arg(dir.path())
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .current_dir(dir.path())
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log);
    // SAFETY: the closure makes only async-signal-safe calls between fork and exec.
    unsafe {
        command.pre_exec(move || {
            if libc::setsid() == -1 || libc::fcntl(lock_fd, libc::F_SETFD, 0) == -1 {
                return Err(io::Error::last_os_error());
            }
            libc::umask(0o077);
            Ok(())
        });
    }
    command.spawn()
}
