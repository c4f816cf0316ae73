//! VMs in processes of their own, with other filters than usual, and traced.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use serde_json::Value;
use voidbox_jail::filter::{Call, Filter, Table};
use voidbox_vmm::filters::{CONTROL, DEVICES, FULLY_SAVING_CONTROL, Filters, SAVING_CONTROL, VCPU};

/// The name of the test that is the process of a VM.
pub const CHILD: &str = "a_vm_runs_in_a_process_of_its_own";
const FD: &str = "VMM_CONTROL";
const MODE: &str = "VMM_MODE";
const GATE: &str = "at the gate";

/// The tables by their place. The rules of each are numbered from its place times this.
pub const TABLES: [&Table; 5] = [
    &VCPU,
    &DEVICES,
    &CONTROL,
    &SAVING_CONTROL,
    &FULLY_SAVING_CONTROL,
];
pub const NUMBERS: usize = 1000;

/// The filters of a VM in a process of its own.
#[derive(Clone, Copy)]
pub enum Mode {
    /// All rules, traced.
    Traced,
    /// Without the rule with this number.
    Without(usize),
}

pub fn rules(table: &Table) -> Vec<Call> {
    table.calls.iter().copied().flatten().copied().collect()
}

/// The process of a VM: this program, started again.
pub fn be_child() {
    let Ok(fd) = std::env::var(FD) else { return };
    let mode: usize = std::env::var(MODE).unwrap().parse().unwrap();
    let filter = |place: usize| -> &'static Filter {
        let table = TABLES[place];
        let filter = match mode.checked_sub(1) {
            None => table.compile_traced(u16::try_from(place * NUMBERS).unwrap()),
            Some(left_out) => {
                let mut calls = rules(table);
                if left_out / NUMBERS == place {
                    calls.remove(left_out % NUMBERS);
                }
                let calls: &'static [&'static [Call]] = Box::leak(Box::new([&*calls.leak()]));
                let role = table.role;
                Table { role, calls }.compile()
            }
        };
        Box::leak(Box::new(filter))
    };
    let filters = Filters {
        vcpu: filter(0),
        devices: filter(1),
        control: filter(2),
        saving_control: filter(3),
        fully_saving_control: filter(4),
    };
    println!("{GATE}");
    std::io::stdin().read_line(&mut String::new()).unwrap();
    let code = voidbox_vmm::run_with(fd.parse().unwrap(), filters);
    // SAFETY: the filter of this thread allows the end of the process, and not all that the test's runtime would do.
    unsafe { libc::_exit(code.into()) }
}

/// Runs a VM in a process. Its used rules are added to `used` if it is traced.
pub fn run(
    fd: RawFd,
    config: &Value,
    mode: Mode,
    used: Arc<Mutex<BTreeSet<usize>>>,
) -> JoinHandle<u8> {
    let mut inherited = vec![fd];
    find_descriptors(config, &mut inherited);
    std::thread::spawn(move || {
        let mut child = spawn(fd, &inherited, mode);
        for fd in inherited {
            // SAFETY: the test has given the descriptor away, and the process has it.
            drop(unsafe { OwnedFd::from_raw_fd(fd) });
        }
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while !line.ends_with(&format!("{GATE}\n")) {
            assert!(output.read_line(&mut line).unwrap() > 0, "{line}");
        }
        let mut gate = child.stdin.take().unwrap();
        if let Mode::Without(_) = mode {
            gate.write_all(b"\n").unwrap();
            return u8::try_from(child.wait().unwrap().code().unwrap_or(255)).unwrap();
        }
        let pid = libc::pid_t::try_from(child.id()).unwrap();
        for task in std::fs::read_dir(format!("/proc/{pid}/task")).unwrap() {
            let name = task.unwrap().file_name();
            seize(name.to_str().unwrap().parse().unwrap());
        }
        gate.write_all(b"\n").unwrap();
        let code = trace(pid, &used);
        // The tracer has waited for it already.
        let _ = child.wait();
        code
    })
}

fn spawn(fd: RawFd, inherited: &[RawFd], mode: Mode) -> Child {
    let mode = match mode {
        Mode::Traced => 0,
        Mode::Without(rule) => rule + 1,
    };
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args([CHILD, "--exact", "--ignored", "--nocapture"])
        .env(FD, fd.to_string())
        .env(MODE, mode.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let inherited = inherited.to_vec();
    // SAFETY: the closure makes only calls that are safe between fork and exec.
    unsafe {
        command.pre_exec(move || {
            for fd in &inherited {
                if libc::fcntl(*fd, libc::F_SETFD, 0) == -1 {
                    return Err(std::io::Error::last_os_error());
                }
            }
            Ok(())
        });
    }
    command.spawn().unwrap()
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
        Value::Array(items) => {
            for item in items {
                find_descriptors(item, found);
            }
        }
        _ => {}
    }
}

fn seize(task: libc::pid_t) {
    let options = libc::PTRACE_O_TRACESECCOMP | libc::PTRACE_O_TRACECLONE | libc::PTRACE_O_EXITKILL;
    // SAFETY: the task belongs to a child of this thread.
    let result = unsafe { libc::ptrace(libc::PTRACE_SEIZE, task, 0, options) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}

/// Lets the tasks of a process continue at each stop, until it ends. Only its tracer may do this.
fn trace(pid: libc::pid_t, used: &Mutex<BTreeSet<usize>>) -> u8 {
    loop {
        let mut status = 0;
        // SAFETY: the pointer is valid.
        let task = unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL | libc::__WNOTHREAD) };
        assert!(task > 0, "{}", std::io::Error::last_os_error());
        if libc::WIFSTOPPED(status) {
            let event = status >> 16;
            let mut signal = if event == 0 {
                libc::WSTOPSIG(status)
            } else {
                0
            };
            if event == libc::PTRACE_EVENT_SECCOMP {
                let mut rule: libc::c_ulong = 0;
                // SAFETY: the task is stopped, and the pointer is valid.
                unsafe { libc::ptrace(libc::PTRACE_GETEVENTMSG, task, 0, &raw mut rule) };
                used.lock().unwrap().insert(usize::try_from(rule).unwrap());
                signal = 0;
            }
            // A task that a signal has ended by now needs nothing.
            // SAFETY: the task is stopped.
            unsafe { libc::ptrace(libc::PTRACE_CONT, task, 0, signal) };
        } else if task == pid {
            return match libc::WIFEXITED(status) {
                true => u8::try_from(libc::WEXITSTATUS(status)).unwrap(),
                false => 255,
            };
        }
    }
}
