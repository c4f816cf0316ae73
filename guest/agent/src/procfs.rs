//! Reads the kernel's figures in `/proc`, and writes its settings there.

use std::fs;
use std::io;

use rustix::process::Pid;

/// The machine's memory at the time of the read.
pub struct Meminfo(String);

impl Meminfo {
    pub fn read() -> Self {
        Self(read("/proc/meminfo"))
    }

    /// Returns a figure by its name; 0 if it does not exist.
    pub fn bytes(&self, name: &str) -> u64 {
        self.0
            .lines()
            .filter_map(|line| line.split_once(':'))
            .find(|(key, _)| *key == name)
            .and_then(|(_, value)| value.trim().strip_suffix(" kB")?.parse::<u64>().ok())
            .map_or(0, |kib| kib << 10)
    }
}

/// Returns the number of threads that the kernel allows.
pub fn threads_max() -> Option<u64> {
    read("/proc/sys/kernel/threads-max").trim().parse().ok()
}

/// Returns the kernel's command line.
pub fn command_line() -> String {
    read("/proc/cmdline")
}

/// A mount, in the order of mounting.
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
                source: unescape(&words.next()?),
                target: unescape(&words.next()?),
            })
        })
        .collect()
}

/// The kernel writes spaces, tabs, line ends and backslashes of names as three octal digits.
fn unescape(name: &str) -> String {
    [
        (r"\040", " "),
        (r"\011", "\t"),
        (r"\012", "\n"),
        (r"\134", r"\"),
    ]
    .iter()
    .fold(name.to_owned(), |text, (code, character)| {
        text.replace(code, character)
    })
}

/// Returns the kernel's score of a process: it kills the process with the highest score first. `None` if the process
/// has ended.
pub fn oom_score(pid: Pid) -> Option<u32> {
    read(&format!("/proc/{}/oom_score", pid.as_raw_nonzero()))
        .trim()
        .parse()
        .ok()
}

/// Prevents the kernel from killing this process to free memory; children inherit this.
pub fn refuse_oom_kill() -> io::Result<()> {
    fs::write("/proc/self/oom_score_adj", "-1000")
}

/// Undoes [`refuse_oom_kill`] for a child.
///
/// # Safety
/// Call this between fork and exec: it makes only async-signal-safe calls.
pub unsafe fn allow_oom_kill() {
    // SAFETY: constant strings, and a descriptor that is closed in the same block.
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
        let text = "proc /proc proc rw 0 0\nbroken\n/dev/vda /my\\040data\\134040 ext4 rw 0 0\n";
        let mounts = parse_mounts(text);
        let pairs = mounts.iter().map(|mount| (&*mount.source, &*mount.target));
        assert_eq!(
            pairs.collect::<Vec<_>>(),
            [("proc", "/proc"), ("/dev/vda", r"/my data\040")]
        );
    }
}
