//! The tests: each starts this program again as a probe, and looks at its end from outside.

mod filters;
mod program;
mod shown;

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitCode, Output, Stdio};

use crate::probes::{OWN_UID, WORD};

/// An ordinary user of the host.
const ORDINARY: u32 = 65534;

/// The user that makes the jail, and whether the confined process has a user of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Caller {
    RootWithOwnUser,
    Same,
    Ordinary,
}

/// Root can play all of them; another user only itself.
fn callers() -> &'static [Caller] {
    match rustix::process::geteuid().is_root() {
        true => &[Caller::RootWithOwnUser, Caller::Same, Caller::Ordinary],
        false => &[Caller::Same],
    }
}

fn probe(caller: Caller, words: &[&str]) -> Command {
    // Another user may not reach the path of this program.
    let mut command = Command::new("/proc/self/exe");
    command.arg(WORD).args(words).env_remove("JAIL_OWN_USER");
    match caller {
        Caller::RootWithOwnUser => {
            command.env("JAIL_OWN_USER", "1");
            let group = 4242;
            // SAFETY: the call is async-signal-safe, and the list has one entry. A group that the jail must leave.
            unsafe {
                command.pre_exec(move || match libc::setgroups(1, &raw const group) {
                    0 => Ok(()),
                    _ => Err(std::io::Error::last_os_error()),
                });
            }
        }
        Caller::Same => {}
        Caller::Ordinary => {
            command.uid(ORDINARY).gid(ORDINARY);
        }
    }
    command.stdin(Stdio::piped());
    command
}

/// Runs a probe whose lifeline lasts.
fn run_probe(caller: Caller, words: &[&str]) -> Output {
    let mut command = probe(caller, words);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("this program starts");
    let lifeline = child.stdin.take();
    let output = child.wait_with_output().expect("it ends");
    drop(lifeline);
    output
}

#[track_caller]
fn assert_code(output: &Output, code: i32) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{said}");
}

/// Runs a probe that must find nothing.
fn find_nothing(words: &[&str]) {
    for caller in callers() {
        let output = run_probe(*caller, words);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{caller:?}: {said}");
    }
}

/// Listeners of the host.
struct Network {
    tcp: TcpListener,
    _unix: UnixListener,
    name: String,
}

impl Network {
    fn new() -> Self {
        let name = format!("voidbox-jail-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        Self {
            tcp: TcpListener::bind("127.0.0.1:0").unwrap(),
            _unix: UnixListener::bind_addr(&address).unwrap(),
            name,
        }
    }

    fn address(&self) -> String {
        self.tcp.local_addr().unwrap().to_string()
    }
}

fn reaches_no_network() {
    let network = Network::new();
    find_nothing(&["network", &network.address(), &network.name]);
}

fn exit_codes_come_out() {
    for caller in callers() {
        assert_code(&run_probe(*caller, &["exit"]), 7);
        assert_code(&run_probe(*caller, &["killed"]), 128 + libc::SIGKILL);
    }
}

fn start_sleeper(caller: Caller) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut command = probe(caller, &["sleep"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert_eq!(line, "asleep\n");
    (child, output)
}

/// The processes below a process of this test.
fn processes_below(pid: u32) -> Vec<u32> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let children = fs::read_to_string(path).unwrap_or_default();
    let children = children.split_whitespace().map(|pid| pid.parse().unwrap());
    children
        .flat_map(|pid| [vec![pid], processes_below(pid)].concat())
        .collect()
}

fn the_end_of_the_lifeline_ends_all() {
    for caller in callers() {
        let (mut child, mut output) = start_sleeper(*caller);
        drop(child.stdin.take());
        assert_eq!(child.wait().unwrap().code(), Some(137), "{caller:?}");
        // All holders of the other end have ended.
        let mut rest = Vec::new();
        output.read_to_end(&mut rest).unwrap();
    }
}

fn the_death_of_pid_1_ends_all() {
    for caller in callers() {
        let (mut child, mut output) = start_sleeper(*caller);
        let [first, _confined] = processes_below(child.id())[..] else {
            panic!("{caller:?}: {:?}", processes_below(child.id()));
        };
        // SAFETY: it is a process of this test.
        unsafe { libc::kill(i32::try_from(first).unwrap(), libc::SIGKILL) };
        assert_eq!(
            child.wait().unwrap().code(),
            Some(128 + libc::SIGKILL),
            "{caller:?}"
        );
        output.read_to_end(&mut Vec::new()).unwrap();
    }
}

fn each_process_has_its_user() {
    for caller in callers() {
        let (mut child, _output) = start_sleeper(*caller);
        let [first, confined] = processes_below(child.id())[..] else {
            panic!("a jail has two processes");
        };
        let uid_of = |pid: u32| fs::metadata(format!("/proc/{pid}/status")).map(|it| it.uid());
        let text = fs::read_to_string(format!("/proc/{confined}/status")).unwrap();
        let line = text.lines().find(|line| line.starts_with("Uid:")).unwrap();
        let own = rustix::process::geteuid().as_raw();
        let expected = match caller {
            Caller::RootWithOwnUser => OWN_UID,
            Caller::Same => own,
            Caller::Ordinary => ORDINARY,
        };
        assert_eq!(
            line,
            format!("Uid:\t{0}\t{0}\t{0}\t{0}", expected),
            "{caller:?}"
        );
        // A file of /proc belongs to root if its process cannot be traced.
        assert_eq!(uid_of(first).unwrap(), 0, "{caller:?}");
        drop(child.stdin.take());
        child.wait().unwrap();
    }
}

/// From outside, because the confined process does not see the mounts above its root.
fn no_mount_of_the_host_is_left() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let (mut child, _output) = start_sleeper(Caller::Same);
    let first = processes_below(child.id())[0];
    let file = fs::File::open(format!("/proc/{first}/ns/mnt")).unwrap();
    let names = std::thread::spawn(move || {
        use rustix::thread::{UnshareFlags, unshare_unsafe};
        // SAFETY: only the working folder and the root of this thread are its own afterwards.
        unsafe { unshare_unsafe(UnshareFlags::FS).unwrap() };
        rustix::thread::move_into_link_name_space(
            std::os::fd::AsFd::as_fd(&file),
            Some(rustix::thread::LinkNameSpaceType::Mount),
        )
        .unwrap();
        let entries = fs::read_dir("/").unwrap();
        entries
            .map(|entry| entry.unwrap().file_name())
            .collect::<Vec<_>>()
    });
    assert_eq!(names.join().unwrap(), ["empty"]);
    drop(child.stdin.take());
    child.wait().unwrap();
}

fn a_program_gets_its_words_and_no_environment() {
    let path = program::write();
    for caller in callers() {
        // The program exits with the number of its words, or with 99 if it has a variable.
        assert_code(
            &run_probe(*caller, &["exec", path.to_str().unwrap(), "a", "b"]),
            3,
        );
    }
    fs::remove_file(path).unwrap();
}

fn a_program_that_is_not_static_does_not_start() {
    let caller = callers()[0];
    let output = run_probe(caller, &["exec", "/bin/sh", "-c", "exit 0"]);
    assert_code(&output, 4);
}

fn a_host_that_forbids_jails_gets_the_remedy() {
    find_nothing(&["nested"]);
}

const ROWS: &[(&str, fn())] = &[
    ("no_file_of_the_host_opens_and_none_can_be_made", || {
        find_nothing(&["files"])
    }),
    ("no_other_process_is_visible", || {
        find_nothing(&["processes"])
    }),
    (
        "no_network_and_no_abstract_socket_is_reachable",
        reaches_no_network,
    ),
    ("the_host_name_is_the_jails_own", || {
        find_nothing(&["names", "host"])
    }),
    ("only_kept_descriptors_are_open", || {
        find_nothing(&["descriptors"])
    }),
    ("no_capability_is_left_and_none_returns", || {
        find_nothing(&["capabilities"])
    }),
    ("no_namespace_and_no_mount_can_be_made", || {
        find_nothing(&["namespaces"])
    }),
    ("no_other_user_can_be_reached", || find_nothing(&["users"])),
    ("limits_hold_and_cannot_be_raised", || {
        find_nothing(&["limits"])
    }),
    (
        "only_what_is_shown_is_visible_and_nothing_of_it_can_be_written",
        shown::only_what_is_shown_is_visible,
    ),
    (
        "a_folder_that_moves_once_it_is_open_is_shown_and_not_the_one_in_its_place",
        shown::a_folder_that_moves_is_shown,
    ),
    ("exit_codes_and_signals_come_out", exit_codes_come_out),
    (
        "the_end_of_the_lifeline_ends_all_processes",
        the_end_of_the_lifeline_ends_all,
    ),
    (
        "the_death_of_pid_1_ends_all_processes",
        the_death_of_pid_1_ends_all,
    ),
    (
        "the_confined_process_has_its_user_and_pid_1_cannot_be_traced",
        each_process_has_its_user,
    ),
    ("no_mount_of_the_host_is_left", no_mount_of_the_host_is_left),
    (
        "a_forbidden_call_ends_the_process_and_is_named",
        filters::a_forbidden_call_ends_the_process_and_is_named,
    ),
    (
        "allowed_calls_and_requests_pass",
        filters::allowed_calls_and_requests_pass,
    ),
    (
        "the_runtime_has_its_heap_its_clock_its_messages_and_its_handlers",
        filters::the_runtime_has_its_heap_its_clock_its_messages_and_its_handlers,
    ),
    (
        "a_static_program_gets_its_words_and_no_environment",
        a_program_gets_its_words_and_no_environment,
    ),
    (
        "a_program_that_needs_libraries_does_not_start",
        a_program_that_is_not_static_does_not_start,
    ),
    (
        "a_host_that_forbids_jails_gets_the_remedy",
        a_host_that_forbids_jails_gets_the_remedy,
    ),
];

/// Runs the rows whose names contain the filter, and prints them as the usual harness does.
pub fn run(args: &[String]) -> ExitCode {
    let mut words = args.iter();
    let mut filters = Vec::new();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--color" | "--format" | "--test-threads" => drop(words.next()),
            option if option.starts_with('-') => {}
            filter => filters.push(filter),
        }
    }
    let mut failed = Vec::new();
    for (name, row) in ROWS {
        if !filters.is_empty() && !filters.iter().any(|filter| name.contains(filter)) {
            continue;
        }
        let ok = std::panic::catch_unwind(row).is_ok();
        println!("test {name} ... {}", if ok { "ok" } else { "FAILED" });
        if !ok {
            failed.push(*name);
        }
    }
    if failed.is_empty() {
        return ExitCode::SUCCESS;
    }
    println!("\nfailures:\n");
    for name in &failed {
        println!("    {name}");
    }
    ExitCode::from(101)
}
