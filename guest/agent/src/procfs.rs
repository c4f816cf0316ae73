//! Reads the kernel's figures in `/proc`, and writes its settings there.

use std::fs;
use std::io;

use rustix::process::Pid;

/// The machine's memory as it was when it was read.
pub struct Meminfo(String);

impl Meminfo {
    pub fn read() -> Self {
        Self(read("/proc/meminfo"))
    }

    /// A figure by its name; 0 when it is not there.
    pub fn bytes(&self, name: &str) -> u64 {
        self.0
            .lines()
            .filter_map(|line| line.split_once(':'))
            .find(|(key, _)| *key == name)
            .and_then(|(_, value)| value.trim().strip_suffix(" kB")?.parse::<u64>().ok())
            .map_or(0, |kib| kib << 10)
    }
}

/// Threads that the kernel has room for.
pub fn threads_max() -> Option<u64> {
    read("/proc/sys/kernel/threads-max").trim().parse().ok()
}

/// The kernel's own command line.
pub fn command_line() -> String {
    read("/proc/cmdline")
}

/// Something that is mounted, in the order in which it was.
pub struct Mounted {
    pub source: String,
    pub target: String,
}

pub fn mounts() -> Vec<Mounted> {
    parse_mounts(&read("/proc/self/mounts"))
}

fn parse_mounts(text: &str) -> Vec<Mounted> {
    text.lines()
        .filter_map(|line| {
            let mut words = line.split(' ').map(str::to_owned);
            Some(Mounted {
                source: words.next()?,
                target: words.next()?,
            })
        })
        .collect()
}

/// The kernel's score of a process: it kills the one with the highest first. `None` if the process has ended.
pub fn oom_score(pid: Pid) -> Option<u32> {
    read(&format!("/proc/{}/oom_score", pid.as_raw_nonzero()))
        .trim()
        .parse()
        .ok()
}

/// From here on the kernel never kills this process for want of memory; children inherit it.
pub fn refuse_oom_kill() -> io::Result<()> {
    fs::write("/proc/self/oom_score_adj", "-1000")
}

/// Takes back what [`refuse_oom_kill`] did, for a child.
///
/// # Safety
/// To be called between fork and exec: it makes async-signal-safe calls only.
pub unsafe fn allow_oom_kill() {
    // SAFETY: constant strings, a descriptor that is closed in the same block.
    unsafe {
        let fd = libc::open(
            c"/proc/self/oom_score_adj".as_ptr(),
            libc::O_WRONLY | libc::O_CLOEXEC,
        );
        if fd >= 0 {
            libc::write(fd, c"0".as_ptr().cast(), 1);
            libc::close(fd);
        }
    }
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meminfo_is_in_kib() {
        let text = "MemTotal:         1024 kB\nMemFree: 1 kB\n";
        let meminfo = Meminfo(text.into());
        assert_eq!(meminfo.bytes("MemTotal"), 1 << 20);
        assert_eq!(meminfo.bytes("MemAvailable"), 0);
    }

    #[test]
    fn mounts_are_a_source_and_a_target_each() {
        let text = "proc /proc proc rw 0 0\nbroken\n/dev/vda /scratch ext4 rw 0 0\n";
        let mounts = parse_mounts(text);
        let pairs = mounts.iter().map(|mount| (&*mount.source, &*mount.target));
        assert_eq!(
            pairs.collect::<Vec<_>>(),
            [("proc", "/proc"), ("/dev/vda", "/scratch")]
        );
    }
}
