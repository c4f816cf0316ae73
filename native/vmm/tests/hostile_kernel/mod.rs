//! The VM of a hostile kernel: all devices, the process of its VMM, and what that process has.

mod process;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::IntoRawFd;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use voidbox_ring0::{Case, Expected, MEMORY_BYTES, PORT_STEP, PROGRAM, Scope, cases};

use process::Vmm;

use super::guests;

/// Each exit costs an emulated KVM much time. A test of `ports.rs` tries each port without a CPU.
const PORT_STEP_OF_TESTS: u32 = 61;
const GROUP_LIMIT: Duration = Duration::from_secs(240);
/// A CPU that is to stand still has done so for this long.
const STANDS: Duration = Duration::from_millis(300);
/// The VMM itself may get so much larger: the stacks and buffers that its threads touch.
const GROWTH_LIMIT_KIB: u64 = 2048;
const DISK_BYTES: usize = 64 << 10;

/// The serial numbers of the disks, and the names of the further devices, in their order.
const DEVICES: [&str; 7] = [
    "scratch", "image", "mailbox", "vsock", "folders", "rng", "balloon",
];

/// A VM with a hostile kernel.
pub struct Hostile {
    vmm: Vmm,
    control: BufReader<UnixStream>,
    console: Receiver<String>,
    /// The keeper's end of the guest port, which reads nothing.
    _port: UnixStream,
    name: String,
}

/// Runs a group of cases in one VM.
pub fn run_group(group: &str) {
    let Some(mut vm) = Hostile::start(group) else {
        return;
    };
    vm.expect_line(|line| line == "ready");
    let begun = Instant::now();
    let before = vm.vmm.usage();
    let mut highest = before;
    let mut transcript = Transcript::default();
    let limit = Instant::now() + GROUP_LIMIT;
    loop {
        let line = vm.line(limit, &transcript);
        if line == "done" {
            break;
        }
        if transcript.take(line) {
            highest = highest.max(vm.vmm.usage());
        }
    }
    transcript.check(group);
    let after = vm.vmm.usage();
    assert_eq!(after.threads, before.threads, "{group}: threads");
    assert_eq!(
        after.descriptors, before.descriptors,
        "{group}: descriptors"
    );
    for usage in [after, highest] {
        let grown = usage.own_kib.saturating_sub(before.own_kib);
        assert!(grown <= GROWTH_LIMIT_KIB, "{group}: {before:?}, {usage:?}");
        assert!(
            usage.descriptors <= before.descriptors,
            "{group}: {usage:?}"
        );
        assert!(usage.threads <= before.threads, "{group}: {usage:?}");
    }
    let (count, took) = (transcript.ends.len(), begun.elapsed());
    println!("{group}: {count} ends of cases in {took:?}, {before:?}, {after:?}");
    assert_eq!(vm.end(true)["kind"], "killed", "{group}");
}

impl Hostile {
    /// Starts a VM that runs a group or a case. `None` without KVM.
    pub fn start(what: &str) -> Option<Self> {
        let kvm = guests::kvm()?;
        let (control, control_theirs) = UnixStream::pair().unwrap();
        let (console, console_theirs) = UnixStream::pair().unwrap();
        let (port, port_theirs) = UnixStream::pair().unwrap();
        let (server, server_theirs) = UnixStream::pair().unwrap();
        control.set_read_timeout(Some(guests::LIMIT)).unwrap();
        let disks: Vec<Value> = DEVICES[..3]
            .iter()
            .map(|name| json!({ "fd": disk().into_raw_fd(), "serial": name, "readOnly": *name == "image" }))
            .collect();
        let config = json!({
            "version": 1,
            "kvmFd": kvm.into_raw_fd(),
            "kernelFd": kernel().into_raw_fd(),
            "commandLine": format!("{what} {PORT_STEP}{PORT_STEP_OF_TESTS}"),
            "memoryMib": MEMORY_BYTES >> 20,
            "vcpus": 1,
            "consoleFd": console_theirs.into_raw_fd(),
            "disks": disks,
            "vsock": { "guestCid": 3, "port": 1024, "fd": port_theirs.into_raw_fd() },
            "folders": { "fd": server_theirs.into_raw_fd(), "tag": "mounts" },
            "rng": true,
            "balloon": true,
        });
        std::thread::spawn(move || serve(server));
        let vmm = Vmm::spawn(control_theirs.into_raw_fd(), &config);
        let mut vm = Self {
            vmm,
            control: BufReader::new(control),
            console: read_lines(console),
            _port: port,
            name: what.to_owned(),
        };
        writeln!(vm.control.get_mut(), "{config}").unwrap();
        assert_eq!(vm.receive()["event"], "started");
        Some(vm)
    }

    fn receive(&mut self) -> Value {
        let mut line = String::new();
        let read = self.control.read_line(&mut line);
        read.unwrap_or_else(|e| panic!("{}: a message in time: {e}", self.name));
        serde_json::from_str(&line).unwrap_or_else(|e| panic!("{}: {line:?}: {e}", self.name))
    }

    fn line(&mut self, limit: Instant, so_far: &Transcript) -> String {
        let left = limit.saturating_duration_since(Instant::now());
        match self.console.recv_timeout(left) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => panic!("{}: no line in time, {so_far:?}", self.name),
            // The VM has ended.
            Err(RecvTimeoutError::Disconnected) => {
                let end = self.receive();
                panic!("{}: {end}, {so_far:?}", self.name)
            }
        }
    }

    fn expect_line(&mut self, is_it: impl Fn(&str) -> bool) {
        let limit = Instant::now() + guests::LIMIT;
        while !is_it(&self.line(limit, &Transcript::default())) {}
    }

    /// Returns the reason of the end, and checks that the process is gone.
    fn end(mut self, ask: bool) -> Value {
        if ask {
            // It may have ended.
            let _ = self.control.get_mut().write_all(b"{\"do\":\"end\"}\n");
        }
        let message = self.receive();
        assert_eq!(message["event"], "ended", "{}: {message}", self.name);
        let reason = message["reason"].clone();
        let code = self.vmm.wait();
        let expected = i32::from(reason["kind"] != "reset");
        assert_eq!(code, Some(expected), "{}: {reason}", self.name);
        reason
    }

    /// Waits for the end of a case that ends its VM.
    pub fn check_end(mut self, case: &Case) {
        self.expect_line(|line| line.starts_with("case "));
        match case.expected {
            Expected::Ends(kinds) => {
                let reason = self.end(false);
                let kind = reason["kind"].as_str().unwrap();
                assert!(kinds.contains(&kind), "{}: {reason}", case.name);
            }
            Expected::EndsOrStands => {
                std::thread::sleep(STANDS);
                let reason = self.end(true);
                assert!(reason["kind"].is_string(), "{}: {reason}", case.name);
                println!("{}: {reason}", case.name);
            }
            _ => {
                let before = self.vmm.usage();
                std::thread::sleep(STANDS);
                let after = self.vmm.usage();
                assert_eq!(after.threads, before.threads, "{}", case.name);
                assert_eq!(after.descriptors, before.descriptors, "{}", case.name);
                let grown = after.own_kib.saturating_sub(before.own_kib);
                assert!(grown <= GROWTH_LIMIT_KIB, "{}: {after:?}", case.name);
                assert_eq!(self.end(true)["kind"], "killed", "{}", case.name);
            }
        }
    }
}

/// The lines of the console, by case and device.
#[derive(Debug, Default)]
struct Transcript {
    ends: BTreeMap<String, String>,
    failures: BTreeMap<String, Vec<String>>,
    current: String,
}

impl Transcript {
    /// Takes a line. Returns true if a case has begun or ended.
    fn take(&mut self, line: String) -> bool {
        if let Some(case) = line.strip_prefix("case ") {
            self.current = case.to_owned();
        } else if let Some(end) = line.strip_prefix("end ") {
            self.ends.insert(self.current.clone(), end.to_owned());
        } else if line.contains("needs a reset") {
            self.failures
                .entry(self.current.clone())
                .or_default()
                .push(line);
            return false;
        } else {
            let is_note = line.starts_with("note ") || line.trim_matches('\0').is_empty();
            let is_of_console =
                line.contains("[voidbox-vmm dropped") || line.contains('\0') || line.contains('x');
            assert!(is_note || is_of_console, "{}: {line:?}", self.current);
            return false;
        }
        true
    }

    fn check(&self, group: &str) {
        for case in cases().filter(|case| case.group == group) {
            match case.scope {
                Scope::Machine => self.check_end(case, case.name, None),
                Scope::Each => {
                    for (index, device) in DEVICES.iter().enumerate() {
                        let key = format!("{} on {index:x}", case.name);
                        self.check_end(case, &key, Some(device));
                    }
                }
                Scope::Kinds(_) => {
                    let prefix = format!("{} on ", case.name);
                    let mut keys = self
                        .ends
                        .keys()
                        .filter(|key| key.starts_with(&prefix))
                        .peekable();
                    assert!(keys.peek().is_some(), "{} has no device", case.name);
                    for key in keys {
                        let index = key[prefix.len()..].parse::<usize>().unwrap();
                        self.check_end(case, key, Some(DEVICES[index]));
                    }
                }
            }
        }
    }

    fn check_end(&self, case: &Case, key: &str, device: Option<&str>) {
        let failures = self.failures.get(key).map_or(&[][..], Vec::as_slice);
        let end = self.ends.get(key).map_or("(nothing)", String::as_str);
        let tell = || format!("{key} ({device:?}): {end}, {failures:?}");
        let Some(device) = device else {
            assert_eq!(end, "works", "{}", tell());
            return;
        };
        let has_failed = match case.expected {
            Expected::Fails(_) => true,
            Expected::Nothing => false,
            _ => end.starts_with("failed"),
        };
        let expected = if has_failed {
            "failed works"
        } else {
            "unharmed works"
        };
        assert_eq!(end, expected, "{}", tell());
        let is_of_device =
            |line: &String| line.contains(&format!("the device {device} needs a reset: "));
        assert!(failures.iter().all(is_of_device), "{}", tell());
        assert!(!has_failed || !failures.is_empty(), "{}", tell());
        if let Expected::Fails(texts) = case.expected {
            let is_expected = |line: &String| texts.iter().any(|text| line.contains(text));
            assert!(failures.iter().all(is_expected), "{}", tell());
            assert_eq!(failures.len(), 1, "{}", tell());
        }
    }
}

fn kernel() -> File {
    let file = tempfile::tempfile().unwrap();
    file.write_all_at(PROGRAM, 0).unwrap();
    file
}

/// Makes a disk. Its bytes are no instructions.
fn disk() -> File {
    let file = tempfile::tempfile().unwrap();
    file.write_all_at(&[0xff; DISK_BYTES], 0).unwrap();
    file
}

/// Answers each message of 9p with an error.
fn serve(mut socket: UnixStream) {
    let mut length = [0; 4];
    while socket.read_exact(&mut length).is_ok() {
        let length = usize::try_from(u32::from_le_bytes(length)).unwrap();
        let mut message = vec![0; length - 4];
        if socket.read_exact(&mut message).is_err() {
            return;
        }
        let mut answer = 11u32.to_le_bytes().to_vec();
        answer.extend([7, message[1], message[2], 5, 0, 0, 0]);
        if socket.write_all(&answer).is_err() {
            return;
        }
    }
}

/// Reads lines until the other end is closed.
fn read_lines(socket: UnixStream) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut reader = BufReader::new(socket);
        let mut bytes = Vec::new();
        while reader
            .read_until(b'\n', &mut bytes)
            .is_ok_and(|count| count > 0)
        {
            let line = String::from_utf8_lossy(&bytes);
            let line = line.trim_end().to_owned();
            // The receiver may have what it needs.
            if !line.is_empty() && sender.send(line).is_err() {
                return;
            }
            bytes.clear();
        }
    });
    receiver
}
