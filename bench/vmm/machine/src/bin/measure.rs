//! `measure vmm|floor PROGRAM KERNEL INITRAMFS MEMORY_MIB COMMAND_LINE [ROUND_TRIPS]`: starts the VMM once, and prints one
//! line of JSON. Times begin before the process is made.
//!
//! `startedMs` ends when the VMM says that it runs its CPU, `initMs` when the guest's first program has printed its line. The
//! rest is what the VMM has used until then.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use voidbox_bench_machine::{MARKER, PORT};

const LIMIT: Duration = Duration::from_secs(120);
/// The time after which the floor gets another signal.
const SIGNAL_PAUSE: Duration = Duration::from_millis(300);
/// Round trips before those that count.
const WARM_UP: u32 = 20;
const MESSAGE_BYTES: usize = 64;

struct Wanted {
    is_floor: bool,
    program: String,
    kernel: String,
    initramfs: String,
    memory_mib: u64,
    command_line: String,
    round_trips: u32,
}

fn read_words() -> Option<Wanted> {
    let words: Vec<String> = std::env::args().collect();
    Some(Wanted {
        is_floor: words.get(1)? == "floor",
        program: words.get(2)?.clone(),
        kernel: words.get(3)?.clone(),
        initramfs: words.get(4)?.clone(),
        memory_mib: words.get(5)?.parse().ok()?,
        command_line: words.get(6)?.clone(),
        round_trips: words.get(7).map_or(Some(0), |word| word.parse().ok())?,
    })
}

/// A VMM that runs.
struct Running {
    began: Instant,
    child: Child,
    /// Lines of the VMM.
    control: UnixStream,
    console: UnixStream,
    port: Option<UnixStream>,
}

/// Lets the child have a descriptor, and returns its number.
fn keep(fd: &impl AsRawFd) -> i32 {
    // SAFETY: the descriptor is open.
    assert_eq!(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFD, 0) }, 0);
    fd.as_raw_fd()
}

fn start_floor(wanted: &Wanted) -> Running {
    let (control, their_control) = UnixStream::pair().unwrap();
    let (console, their_console) = UnixStream::pair().unwrap();
    let mut command = Command::new(&wanted.program);
    command
        .args([&wanted.kernel, &wanted.initramfs])
        .arg(wanted.memory_mib.to_string())
        .arg(&wanted.command_line)
        .stdin(Stdio::null())
        .stdout(OwnedFd::from(their_console))
        .stderr(OwnedFd::from(their_control));
    let began = Instant::now();
    let child = command.spawn().unwrap();
    Running {
        began,
        child,
        control,
        console,
        port: None,
    }
}

fn start_vmm(wanted: &Wanted) -> Running {
    let (mut control, their_control) = UnixStream::pair().unwrap();
    let (console, their_console) = UnixStream::pair().unwrap();
    let (port, their_port) = UnixStream::pair().unwrap();
    let kvm = File::options()
        .read(true)
        .write(true)
        .open("/dev/kvm")
        .unwrap();
    let kernel = File::open(&wanted.kernel).unwrap();
    let initramfs = File::open(&wanted.initramfs).unwrap();
    let configuration = json!({
        "version": 1, "kvmFd": keep(&kvm), "kernelFd": keep(&kernel), "initramfsFd": keep(&initramfs),
        "commandLine": wanted.command_line, "memoryMib": wanted.memory_mib, "vcpus": 1,
        "consoleFd": keep(&their_console), "disks": [],
        "vsock": { "guestCid": 3, "port": PORT, "fd": keep(&their_port) },
    });
    writeln!(control, "{configuration}").unwrap();
    let mut command = Command::new(&wanted.program);
    command
        .args(["--control", &keep(&their_control).to_string()])
        .env_clear()
        .stdin(Stdio::null());
    let began = Instant::now();
    let child = command.spawn().unwrap();
    Running {
        began,
        child,
        control,
        console,
        port: Some(port),
    }
}

/// What happens in the VM, in its order.
enum Event {
    Line(Value, Instant),
    Marker(Instant),
    Console(Vec<u8>),
}

fn follow_control(stream: UnixStream, tell: Sender<Event>) {
    for line in BufReader::new(stream).lines() {
        let Ok(line) = line else { break };
        let value = serde_json::from_str(&line)
            .unwrap_or_else(|_| json!({ "event": "text", "text": line }));
        if tell.send(Event::Line(value, Instant::now())).is_err() {
            break;
        }
    }
}

fn follow_console(mut stream: UnixStream, tell: Sender<Event>) {
    let (mut text, mut bytes) = (Vec::new(), [0; 4096]);
    let mut is_found = false;
    while let Ok(count @ 1..) = stream.read(&mut bytes) {
        let at = Instant::now();
        text.extend_from_slice(&bytes[..count]);
        if !is_found && String::from_utf8_lossy(&text).contains(MARKER) {
            is_found = true;
            // The receiver is gone after the limit of the measurement.
            let _ = tell.send(Event::Marker(at));
        }
    }
    let _ = tell.send(Event::Console(text));
}

/// Memory of a process outside of mappings that are as large as the guest's memory, and its threads.
fn read_memory(pid: u32, guest_mib: u64) -> Value {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps")).unwrap_or_default();
    let (mut rss, mut anonymous, mut is_guest) = (0, 0, false);
    for line in text.lines() {
        let first = line.split_ascii_whitespace().next().unwrap_or_default();
        let range = first.split_once('-').and_then(|(start, end)| {
            Some((
                u64::from_str_radix(start, 16).ok()?,
                u64::from_str_radix(end, 16).ok()?,
            ))
        });
        if let Some((start, end)) = range {
            is_guest = end - start >= guest_mib << 20;
        } else if !is_guest && matches!(first, "Rss:" | "Anonymous:") {
            let kib: u64 = line
                .split_ascii_whitespace()
                .nth(1)
                .unwrap_or_default()
                .parse()
                .unwrap_or(0);
            *(if first == "Rss:" {
                &mut rss
            } else {
                &mut anonymous
            }) += kib;
        }
    }
    let threads = fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
    json!({ "rssKib": rss, "anonymousKib": anonymous, "threads": threads })
}

struct Conversation {
    events: Receiver<Event>,
    control: UnixStream,
}

impl Conversation {
    /// Returns `None` when the VMM has closed its control and its console.
    fn next(&self) -> Option<Event> {
        match self.events.recv_timeout(LIMIT) {
            Ok(event) => Some(event),
            Err(RecvTimeoutError::Timeout) => panic!("nothing happened for {LIMIT:?}"),
            Err(RecvTimeoutError::Disconnected) => None,
        }
    }

    /// Ends the floor, and returns its count of exits. It notices a signal only while it runs its guest.
    fn stop_floor(&self, pid: u32) -> Value {
        let until = Instant::now() + LIMIT;
        while Instant::now() < until {
            // SAFETY: the child has not been waited for.
            unsafe { libc::kill(i32::try_from(pid).unwrap(), libc::SIGTERM) };
            match self.events.recv_timeout(SIGNAL_PAUSE) {
                Ok(Event::Line(value, _)) => return value["exits"].clone(),
                Ok(_) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        panic!("the floor did not end");
    }

    fn ask_statistics(&mut self) -> Value {
        writeln!(self.control, "{{\"do\":\"statistics\"}}").unwrap();
        loop {
            match self.next() {
                Some(Event::Line(value, _)) if value["event"] == "statistics" => return value,
                Some(_) => {}
                None => panic!("the VMM ended"),
            }
        }
    }
}

fn milliseconds(since: Instant, until: Instant) -> f64 {
    until.duration_since(since).as_secs_f64() * 1e3
}

/// Sends messages that the guest returns, and counts what one costs.
fn make_round_trips(port: &mut UnixStream, count: u32, talk: &mut Conversation) -> Value {
    port.set_read_timeout(Some(LIMIT)).unwrap();
    let mut message = [7; MESSAGE_BYTES];
    let mut trip = |port: &mut UnixStream| {
        port.write_all(&message).unwrap();
        port.read_exact(&mut message).unwrap();
    };
    for _ in 0..WARM_UP {
        trip(port);
    }
    let before = talk.ask_statistics();
    let began = Instant::now();
    for _ in 0..count {
        trip(port);
    }
    let took = began.elapsed();
    let after = talk.ask_statistics();
    let each = |value: &str| {
        let number = |statistics: &Value| statistics["vm"][value].as_f64().unwrap_or(f64::NAN);
        (number(&after) - number(&before)) / f64::from(count)
    };
    let exits = |statistics: &Value| statistics["vcpus"][0]["exits"].as_f64().unwrap_or(f64::NAN);
    json!({
        "microseconds": took.as_secs_f64() * 1e6 / f64::from(count),
        "kicks": each("kicks"), "interrupts": each("interrupts"),
        "exits": (exits(&after) - exits(&before)) / f64::from(count),
    })
}

fn main() {
    let Some(wanted) = read_words() else {
        eprintln!(
            "usage: measure vmm|floor PROGRAM KERNEL INITRAMFS MEMORY_MIB COMMAND_LINE [ROUND_TRIPS]"
        );
        std::process::exit(2);
    };
    let running = if wanted.is_floor {
        start_floor(&wanted)
    } else {
        start_vmm(&wanted)
    };
    let Running {
        began,
        mut child,
        control,
        console,
        mut port,
    } = running;
    let (tell, events) = channel();
    let also = tell.clone();
    let read_control = control.try_clone().unwrap();
    thread::spawn(move || follow_control(read_control, also));
    thread::spawn(move || follow_console(console, tell));
    let mut talk = Conversation { events, control };
    let (mut started, mut console_text) = (None, Vec::new());
    let result = loop {
        match talk.next() {
            Some(Event::Line(value, at)) if value["event"] == "started" => {
                started = Some(milliseconds(began, at))
            }
            Some(Event::Line(value, _)) => break json!({ "problem": value }),
            Some(Event::Marker(at)) => {
                let memory = read_memory(child.id(), wanted.memory_mib);
                let exits = if wanted.is_floor {
                    talk.stop_floor(child.id())
                } else {
                    talk.ask_statistics()["vcpus"][0].clone()
                };
                let trips = match &mut port {
                    Some(port) if wanted.round_trips > 0 => {
                        make_round_trips(port, wanted.round_trips, &mut talk)
                    }
                    _ => Value::Null,
                };
                break json!({
                    "initMs": milliseconds(began, at), "startedMs": started, "memory": memory, "exits": exits,
                    "roundTrip": trips,
                });
            }
            Some(Event::Console(text)) => console_text = text,
            None => {
                let text = &console_text[console_text.len().saturating_sub(2000)..];
                break json!({ "problem": "the VMM ended", "console": String::from_utf8_lossy(text) });
            }
        }
    };
    // The VMM may have ended already.
    let _ = child.kill();
    let _ = child.wait();
    println!("{result}");
}
