//! The console and the VMM's own output, in a file with a size limit.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;

/// A file that keeps the newest bytes: at its limit, it drops the older half.
#[derive(Debug)]
pub struct Ring {
    path: PathBuf,
    file: File,
    len: u64,
    max_bytes: u64,
}

impl Ring {
    pub fn open(path: PathBuf, max_bytes: u64) -> io::Result<Self> {
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(&path)?;
        let len = file.metadata()?.len();
        Ok(Self {
            path,
            file,
            len,
            max_bytes,
        })
    }

    pub fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let half = self.max_bytes / 2;
        let newest = &bytes[bytes
            .len()
            .saturating_sub(usize::try_from(half).unwrap_or(usize::MAX))..];
        if self.len + newest.len() as u64 > self.max_bytes {
            let kept = tail_bytes(&self.path, half)?;
            let temporary = self.path.with_extension("new");
            let mut file = crate::run_dir::private_file(&temporary)?;
            file.write_all(&kept)?;
            fs::rename(&temporary, &self.path)?;
            self.file = OpenOptions::new().append(true).open(&self.path)?;
            self.len = kept.len() as u64;
        }
        self.file.write_all(newest)?;
        self.len += newest.len() as u64;
        Ok(())
    }
}

fn tail_bytes(path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let len = file.metadata()?.len();
    file.seek(SeekFrom::Start(len.saturating_sub(max_bytes)))?;
    let mut bytes = Vec::new();
    file.take(max_bytes).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Returns the end of the console as text.
pub fn tail(path: &Path, max_bytes: u64) -> String {
    let bytes = tail_bytes(path, max_bytes).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Lines that the kernel prints in each boot, even a successful one, so they never explain an end.
const OF_EACH_BOOT: [&str; 1] = ["PCI: Fatal: No config space access function found"];

/// The kernel's own reason for its end. Its registers and calls follow, and are the end of the console.
const PANIC: &str = "Kernel panic - not syncing: ";

/// Returns the line of a console that may explain why its VM ended: a panic of the kernel, else the last one.
pub fn describe_end(tail: &str) -> String {
    let panics = tail.lines().rev().map(|line| without_time(line.trim()));
    if let Some(why) = panics.filter_map(|line| line.strip_prefix(PANIC)).next() {
        return format!("the guest's kernel panicked: {why:?}");
    }
    let mut is_empty = true;
    for line in tail.lines().rev().map(str::trim) {
        if line.is_empty() {
            continue;
        }
        is_empty = false;
        if !OF_EACH_BOOT.contains(&without_time(line)) {
            return format!("the console ends with {line:?}");
        }
    }
    if is_empty {
        return "the console is empty".into();
    }
    "the console has only lines of each boot".into()
}

/// Removes the time with which a line of the kernel begins: `[    0.123456] `.
fn without_time(line: &str) -> &str {
    let Some((time, rest)) = line
        .strip_prefix('[')
        .and_then(|rest| rest.split_once("] "))
    else {
        return line;
    };
    let is_time = time
        .bytes()
        .all(|byte| byte.is_ascii_digit() || b" .".contains(&byte));
    if is_time { rest } else { line }
}

/// Reads `console` until it ends, so that the VMM never waits for a reader. Bytes that a full disk does not accept are
/// lost.
pub async fn drain(mut console: UnixStream, mut ring: Ring) {
    let mut buffer = [0u8; 16 << 10];
    loop {
        match console.read(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(count) => {
                let _ = ring.append(&buffer[..count]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run_dir::tests::TempDir;

    #[test]
    fn a_line_of_each_boot_is_no_cause_of_an_end() {
        let pci = "[    0.061234] PCI: Fatal: No config space access function found\r\n";
        assert_eq!(describe_end(""), "the console is empty");
        assert_eq!(describe_end(pci), "the console has only lines of each boot");
        assert_eq!(
            describe_end(&format!("Kernel panic: no init\n\n{pci}")),
            "the console ends with \"Kernel panic: no init\""
        );
        assert_eq!(
            describe_end(&format!("{pci}[    1.5] Out of memory\n")),
            "the console ends with \"[    1.5] Out of memory\""
        );
    }

    #[test]
    fn a_panic_explains_an_end_better_than_the_calls_behind_it() {
        let tail = "[    2.1] init: ready\n[    2.4] Kernel panic - not syncing: Attempted to kill init! exitcode=0x00000100\r\n[    2.5] CPU: 0 PID: 1 Comm: init\n[    2.5] Call Trace:\n[    2.6] Kernel Offset: disabled\n";
        assert_eq!(
            describe_end(tail),
            "the guest's kernel panicked: \"Attempted to kill init! exitcode=0x00000100\""
        );
        // A text of a program that only mentions one.
        assert_eq!(
            describe_end("reads: Kernel panic - not syncing: x\n"),
            "the console ends with \"reads: Kernel panic - not syncing: x\""
        );
    }

    #[test]
    fn the_ring_keeps_the_end_within_its_cap() {
        let temp = TempDir::new("ring");
        let path = temp.0.join("console.log");
        let mut ring = Ring::open(path.clone(), 100).unwrap();
        for line in 0..50 {
            ring.append(format!("line {line:02}\n").as_bytes()).unwrap();
            assert!(fs::metadata(&path).unwrap().len() <= 100);
        }
        assert!(tail(&path, 1000).ends_with("line 48\nline 49\n"));
        ring.append(&[b'x'; 500]).unwrap();
        assert!(fs::metadata(&path).unwrap().len() <= 100);
        assert_eq!(tail(&path, 4), "xxxx");
    }
}
