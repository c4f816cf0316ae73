//! Plays `voidbox-vmm` in its jail. The file that should be a kernel is its script, one step on each line:
//!
//! - `say TEXT` writes a line to the control; `expect TEXT` reads one and compares it.
//! - `wait` plays the guest agent that waits to be saved, and `start` takes its `Start`.
//! - `put STEPS` writes steps, separated by `;`, as the state of a snapshot. They are the script of each copy.
//! - `hold` maps the memory of a snapshot for writing.
//! - `hello` plays the guest agent up to its session; `hello mailbox` has found the mailbox too, and `hello rest` can
//!   rest, which `rest` does when it is asked.
//! - `mail SLOT` sends a byte of mail in this slot, for which no request asked.
//! - `take TEXT` reads a line with the two files of a full save, and `fill TEXT` writes to both.
//! - `request` waits for the beginning of a request, and `print TEXT` writes a line to the console; `nap` sleeps
//!   for 600 ms.
//! - `look` compares what the jail shows with what a VMM may have, and prints each difference to the console.
//! - `exit CODE` ends it. At the end of the script it waits until its control ends.
//!
//! The test compiles only this file, as a static program: the jail has no libraries.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::mem::size_of_val;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;

extern "C" {
    fn fcntl(fd: i32, command: i32, ...) -> i32;
    fn recvmsg(socket: i32, message: *mut Message, flags: i32) -> isize;
    fn mmap(address: *mut u8, bytes: usize, access: i32, kind: i32, fd: i32, at: i64) -> *mut u8;
}

const F_GETFD: i32 = 1;

/// `struct msghdr` of Linux on x86-64.
#[repr(C)]
struct Message {
    name: *mut u8,
    name_length: u32,
    pieces: *mut Piece,
    piece_count: usize,
    control: *mut u8,
    control_length: usize,
    flags: i32,
}

/// `struct iovec`.
#[repr(C)]
struct Piece {
    at: *mut u8,
    length: usize,
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    assert_eq!(args[1], "--control");
    // SAFETY: the keeper passes each descriptor once, and nothing else of this process owns it.
    let control = unsafe { UnixStream::from_raw_fd(args[2].parse().unwrap()) };
    let mut control = BufReader::new(control);
    let mut line = String::new();
    control.read_line(&mut line).unwrap();
    let line = line;
    let is_copy = line.contains("\"restore\"");
    assert_eq!(is_copy, !line.contains("kernelFd"));
    let script_at = if is_copy { "stateFd" } else { "kernelFd" };
    // SAFETY: as above.
    let mut kernel = unsafe { File::from_raw_fd(number(&line, script_at)) };
    // SAFETY: as above.
    let mut port =
        unsafe { UnixStream::from_raw_fd(number(&line[line.find("vsock\"").unwrap()..], "fd")) };
    let mut script = String::new();
    kernel.read_to_string(&mut script).unwrap();
    let mut files: Vec<File> = Vec::new();
    for step in script.lines() {
        let (word, rest) = step.split_once(' ').unwrap_or((step, ""));
        match word {
            "say" => control
                .get_mut()
                .write_all(format!("{rest}\n").as_bytes())
                .unwrap(),
            "expect" => {
                let mut heard = String::new();
                control.read_line(&mut heard).unwrap();
                assert_eq!(heard.trim_end(), rest);
            }
            "take" => {
                let (heard, fds) = receive_files(control.get_ref().as_raw_fd());
                assert_eq!(heard.trim_end(), rest);
                // SAFETY: the message has made both, and nothing else owns them.
                files = fds.map(|fd| unsafe { File::from_raw_fd(fd) }).into();
            }
            "fill" => files
                .iter()
                .for_each(|file| file.write_all_at(rest.as_bytes(), 0).unwrap()),
            "wait" => send(&mut port, 56, br#"{"protocol":1}"#),
            "start" => drop(receive(&mut port, 57)),
            "put" => {
                // SAFETY: as above, and a script has this step once.
                let mut state = unsafe { File::from_raw_fd(number(&line, "stateFd")) };
                state.write_all(rest.replace(';', "\n").as_bytes()).unwrap();
            }
            "hold" => {
                const READ_WRITE: i32 = 3;
                const SHARED: i32 = 1;
                let memory = number(&line, "memoryFd");
                // SAFETY: a new mapping that nothing uses.
                let at = unsafe { mmap(std::ptr::null_mut(), 4096, READ_WRITE, SHARED, memory, 0) };
                assert_ne!(at as isize, -1);
            }
            "touch" => {
                const READ_WRITE: i32 = 3;
                const PRIVATE: i32 = 2;
                let memory = number(&line, "memoryFd");
                // SAFETY: a new mapping of 16 pages, of which nothing else uses the fourth.
                unsafe {
                    let at = mmap(std::ptr::null_mut(), 16 * 4096, READ_WRITE, PRIVATE, memory, 0);
                    assert_ne!(at as isize, -1);
                    at.add(3 * 4096).write_volatile(7);
                }
                let are_known = line.contains(r#""pages":{"written":[[3,1]],"read":["#);
                println!("pages ahead: {are_known}");
            }
            "hello" => hello(&mut port, rest),
            "rest" => {
                let id = receive(&mut port, 60);
                send(&mut port, 61, &[&id[..4], b"{}"].concat());
            }
            "mail" => send(&mut port, 48, &[1, 0, 0, 0, rest.parse().unwrap(), 1, 0, 0, 0]),
            "request" => port.read_exact(&mut [0; 5]).unwrap(),
            "nap" => std::thread::sleep(std::time::Duration::from_millis(600)),
            "print" => println!("{rest}"),
            "look" => look(&line, &args[2]),
            "exit" => std::process::exit(rest.parse().unwrap()),
            _ => panic!("{step:?} is no step"),
        }
    }
    let _ = control.read_to_end(&mut Vec::new());
}

/// Returns the number of a field of the configuration.
fn number(line: &str, field: &str) -> i32 {
    let (_, rest) = line.split_once(&format!("\"{field}\":")).unwrap();
    let digits = rest
        .find(|character: char| !character.is_ascii_digit())
        .unwrap();
    rest[..digits].parse().unwrap()
}

/// Reads a line, and the two descriptors that come with it.
fn receive_files(socket: i32) -> (String, [i32; 2]) {
    // A head of 16 bytes, and the numbers.
    const CONTROL_WORDS: usize = 3;
    let (mut line, mut control) = ([0u8; 256], [0u64; CONTROL_WORDS]);
    let mut piece = Piece {
        at: line.as_mut_ptr(),
        length: line.len(),
    };
    let mut message = Message {
        name: std::ptr::null_mut(),
        name_length: 0,
        pieces: &mut piece,
        piece_count: 1,
        control: control.as_mut_ptr().cast(),
        control_length: size_of_val(&control),
        flags: 0,
    };
    // SAFETY: each pointer is to memory of this function, with its length.
    let count = unsafe { recvmsg(socket, &mut message, 0) };
    let text = String::from_utf8(line[..usize::try_from(count).unwrap()].to_vec()).unwrap();
    assert_eq!(message.control_length, size_of_val(&control), "{text}");
    let [low, high] = [control[2] as u32, (control[2] >> 32) as u32];
    (text, [low.cast_signed(), high.cast_signed()])
}

fn send(port: &mut UnixStream, kind: u8, payload: &[u8]) {
    let length = u32::try_from(payload.len()).unwrap().to_le_bytes();
    port.write_all(&[&length[..], &[kind], payload].concat())
        .unwrap();
}

fn receive(port: &mut UnixStream, kind: u8) -> Vec<u8> {
    let mut head = [0; 5];
    port.read_exact(&mut head).unwrap();
    assert_eq!(head[4], kind);
    let length = u32::from_le_bytes(head[..4].try_into().unwrap());
    let mut payload = vec![0; length as usize];
    port.read_exact(&mut payload).unwrap();
    payload
}

fn hello(port: &mut UnixStream, feature: &str) {
    const MAILBOX: u8 = 2;
    const REST: u8 = 64;
    send(port, 32, br#"{"protocol":1,"agent":"fake","bootMs":1}"#);
    let ping = receive(port, 3);
    assert_eq!(ping[36] & MAILBOX, MAILBOX);
    let flags = match feature {
        "mailbox" => 1 | MAILBOX,
        "rest" => 1 | MAILBOX | REST,
        _ => 1,
    };
    send(port, 4, &[1, 0, 0, 0, flags]);
    receive(port, 46);
    send(port, 47, b"\0\0\0\0{}");
}

fn look(line: &str, control: &str) {
    let mut allowed: Vec<i32> = vec![0, 1, 2, control.parse().unwrap()];
    for (at, _) in line.match_indices("d\":") {
        let rest = &line[at + 3..];
        let is_fd = line[..at].ends_with("F") || line[..at].ends_with("\"f");
        let digits = rest
            .find(|character: char| !character.is_ascii_digit())
            .unwrap();
        if is_fd {
            allowed.push(rest[..digits].parse().unwrap());
        }
    }
    for fd in 0..1024 {
        // SAFETY: a plain call that changes nothing.
        let is_open = unsafe { fcntl(fd, F_GETFD) } != -1;
        if is_open != allowed.contains(&fd) {
            println!("LOOK: descriptor {fd} is open: {is_open}");
        }
    }
    // SAFETY: the scratch disk is the first of the disks, and only this step uses it.
    let mut scratch =
        unsafe { File::from_raw_fd(number(&line[line.find("disks").unwrap()..], "fd")) };
    if let Err(error) = scratch.write_all(b"x") {
        println!("LOOK: the scratch disk: {error}");
    }
    let (_, from_mailbox) = line.split_once("\"voidbox-scratch\"").unwrap();
    // SAFETY: the mailbox is the second of the disks, and only this step uses it.
    let mut mailbox = unsafe { File::from_raw_fd(number(from_mailbox, "fd")) };
    if let Err(error) = mailbox.write_all(b"x") {
        println!("LOOK: the mailbox: {error}");
    }
    for bytes in [0, 4 << 20] {
        if mailbox.set_len(bytes).is_ok() {
            println!("LOOK: the mailbox has {bytes} bytes");
        }
    }
    for path in [
        "/etc/passwd",
        "/proc/self/status",
        "/dev/kvm",
        "/root",
        "/home",
        "/tmp",
        "/sys",
        "/vm",
        "/usr",
        "/dev",
    ] {
        if std::path::Path::new(path).exists() {
            println!("LOOK: {path} is there");
        }
    }
    if File::create("/vm/file").is_ok() || File::create("/file").is_ok() {
        println!("LOOK: the jail can be written");
    }
    for (name, _) in std::env::vars() {
        println!("LOOK: the environment has {name}");
    }
    println!("LOOK: done");
}
