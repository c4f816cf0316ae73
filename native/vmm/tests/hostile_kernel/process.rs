//! The process of a VMM, and what the kernel says of it.

use std::fs;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use voidbox_ring0::MEMORY_BYTES;

/// The memory, threads and descriptors of a process.
#[derive(Debug, Clone, Copy)]
pub struct Usage {
    /// Its memory without the guest's.
    pub own_kib: u64,
    pub threads: usize,
    pub descriptors: usize,
}

impl Usage {
    /// Returns the larger one of each.
    pub fn max(self, other: Self) -> Self {
        Self {
            own_kib: self.own_kib.max(other.own_kib),
            threads: self.threads.max(other.threads),
            descriptors: self.descriptors.max(other.descriptors),
        }
    }
}

/// A running `voidbox-vmm`, which ends with the test.
pub struct Vmm(Child);

impl Vmm {
    /// Starts the program. It gets the descriptors that the configuration names, and this process closes them.
    pub fn spawn(control: RawFd, config: &Value) -> Self {
        let mut inherited = vec![control];
        find_descriptors(config, &mut inherited);
        let mut command = Command::new(env!("CARGO_BIN_EXE_voidbox-vmm"));
        command
            .args(["--control", &control.to_string()])
            .stdin(Stdio::null());
        let given = inherited.clone();
        // SAFETY: the closure makes only calls that are safe between fork and exec.
        unsafe {
            command.pre_exec(move || {
                for fd in &given {
                    if libc::fcntl(*fd, libc::F_SETFD, 0) == -1 {
                        return Err(std::io::Error::last_os_error());
                    }
                }
                Ok(())
            });
        }
        let child = command.spawn().unwrap();
        for fd in inherited {
            // SAFETY: the test has given the descriptor away, and the process has it.
            drop(unsafe { OwnedFd::from_raw_fd(fd) });
        }
        Self(child)
    }

    pub fn usage(&self) -> Usage {
        let folder = format!("/proc/{}", self.0.id());
        let count =
            |name: &str| fs::read_dir(format!("{folder}/{name}")).map_or(0, Iterator::count);
        let maps = fs::read_to_string(format!("{folder}/smaps")).unwrap_or_default();
        Usage {
            own_kib: own_kib(&maps),
            threads: count("task"),
            descriptors: count("fd"),
        }
    }

    pub fn wait(&mut self) -> Option<i32> {
        self.0.wait().unwrap().code()
    }
}

impl Drop for Vmm {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Adds up what is resident of each mapping that is smaller than the guest's memory.
fn own_kib(maps: &str) -> u64 {
    let kib = |line: &str, key: &str| -> Option<u64> {
        line.strip_prefix(key)?
            .trim()
            .strip_suffix(" kB")?
            .parse()
            .ok()
    };
    let mut size = 0;
    let mut total = 0;
    for line in maps.lines() {
        if let Some(value) = kib(line, "Size:") {
            size = value;
        } else if let Some(value) = kib(line, "Rss:")
            && size < MEMORY_BYTES >> 10
        {
            total += value;
        }
    }
    total
}

fn find_descriptors(value: &Value, found: &mut Vec<RawFd>) {
    match value {
        Value::Object(fields) => {
            for (key, field) in fields {
                match field.as_i64() {
                    Some(fd) if key == "fd" || key.ends_with("Fd") => {
                        found.push(RawFd::try_from(fd).unwrap());
                    }
                    _ => find_descriptors(field, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| find_descriptors(item, found)),
        _ => {}
    }
}
