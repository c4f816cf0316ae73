//! The process that merges saved states, with its filter. It needs no `/dev/kvm`.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use voidbox_vmm::state::{Crc32, Writer};

const MEMORY_BYTES: u64 = 64 << 20;
const PAGE: usize = 4096;
const LIMIT: Duration = Duration::from_secs(60);
/// The fields behind the head of a state, which a merge copies.
const REST: u64 = 0x1234_5678;

/// Returns a state whose only page of a difference has these bytes.
fn state(id: u128, difference: Option<(u128, u32, &[u8])>) -> Vec<u8> {
    let mut to = Writer::new();
    to.u64(MEMORY_BYTES);
    to.text("host");
    to.structure(&id.to_le_bytes());
    to.flag(difference.is_some());
    if let Some((parent, page, bytes)) = difference {
        to.structure(&parent.to_le_bytes());
        let mut sum = Crc32::new();
        sum.add(bytes);
        to.u32(sum.value());
        to.count(1);
        to.u32(page);
        to.u32(1);
    }
    to.u64(REST);
    to.finish().unwrap()
}

fn memory(pages: &[(u64, u8)]) -> File {
    let file = tempfile::tempfile().unwrap();
    file.set_len(MEMORY_BYTES).unwrap();
    for (page, byte) in pages {
        file.write_all_at(&[*byte; PAGE], page * PAGE as u64)
            .unwrap();
    }
    file
}

/// Returns a descriptor of the file that a started process has too.
fn inherited(file: &impl AsRawFd) -> OwnedFd {
    // SAFETY: makes a descriptor, which the result owns.
    unsafe {
        let copy = libc::fcntl(file.as_raw_fd(), libc::F_DUPFD, 10);
        assert!(copy >= 0, "{}", io::Error::last_os_error());
        OwnedFd::from_raw_fd(copy)
    }
}

struct Merge {
    child: Child,
    control: UnixStream,
}

impl Merge {
    fn start(files: &[(&OwnedFd, &OwnedFd)]) -> Self {
        let (mut control, theirs) = UnixStream::pair().unwrap();
        control.set_read_timeout(Some(LIMIT)).unwrap();
        let theirs = inherited(&theirs);
        let child = Command::new(env!("CARGO_BIN_EXE_voidbox-vmm"))
            .args(["--merge", &theirs.as_raw_fd().to_string()])
            .spawn()
            .unwrap();
        let mut chain: Vec<Value> = files
            .iter()
            .map(|(state, memory)| {
                json!({ "stateFd": state.as_raw_fd(), "memoryFd": memory.as_raw_fd() })
            })
            .collect();
        let into = chain.pop().unwrap();
        let config = json!({ "version": 1, "chain": chain, "into": into });
        writeln!(control, "{config}").unwrap();
        Self { child, control }
    }

    fn end(mut self) -> (Value, Option<i32>) {
        let mut answer = String::new();
        self.control.read_to_string(&mut answer).unwrap();
        let code = self.child.wait().unwrap().code();
        (serde_json::from_str(&answer).unwrap(), code)
    }

    /// Returns the lines of its status in /proc.
    fn status(&self) -> String {
        fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap()
    }
}

#[test]
fn a_merge_has_its_filter_before_it_reads_a_link_and_can_do_all_its_work_with_it() {
    let changed = [7; PAGE];
    let (reading, mut writing) = io::pipe().unwrap();
    let base = (inherited(&reading), inherited(&memory(&[(0, 1), (3, 9)])));
    drop(reading);
    let mut newest = tempfile::NamedTempFile::new().unwrap();
    newest.write_all(&state(2, Some((1, 3, &changed)))).unwrap();
    let newest_state = newest.reopen().unwrap();
    let difference = (inherited(&newest_state), inherited(&memory(&[(3, 7)])));
    let into = tempfile::NamedTempFile::new().unwrap();
    let merged = memory(&[]);
    let result = (inherited(&into), inherited(&merged));
    let files = [&base, &difference, &result].map(|(state, memory)| (state, memory));
    let merge = Merge::start(&files);
    // It waits for the state of the base.
    let begun = Instant::now();
    while !merge.status().contains("Seccomp:\t2") {
        assert!(begun.elapsed() < LIMIT, "{}", merge.status());
        std::thread::sleep(Duration::from_millis(5));
    }
    writing.write_all(&state(1, None)).unwrap();
    drop(writing);
    assert_eq!(merge.end(), (json!({ "event": "merged" }), Some(0)));
    let mut bytes = Vec::new();
    into.reopen().unwrap().read_to_end(&mut bytes).unwrap();
    assert!(bytes == state(2, None), "the state is not that of a base");
    let mut page = [0; PAGE];
    for (at, byte) in [(0, 1), (1, 0), (3, 7)] {
        merged.read_exact_at(&mut page, at * PAGE as u64).unwrap();
        assert_eq!(page, [byte; PAGE], "page {at}");
    }
    assert_eq!(merged.metadata().unwrap().blocks() * 512, 2 * PAGE as u64);
}
