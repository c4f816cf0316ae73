//! Programs: streams, signals, ends.

mod keeper;

use std::time::{Duration, Instant};

use keeper::{Keeper, Running, user};
use voidbox_protocol::body::{Empty, ExecReason, ExecSignal};
use voidbox_protocol::credit::WINDOW_BYTES;
use voidbox_protocol::message::{Message, Stream};

/// Waits until a process has ended; a zombie counts as ended.
fn expect_gone(pid: &str) {
    let since = Instant::now();
    loop {
        let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        if state.is_empty() || state.contains(") Z ") {
            return;
        }
        assert!(
            since.elapsed() < Duration::from_secs(30),
            "{pid} lives: {state}"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_program_gets_its_arguments_environment_and_folder() {
    let mut keeper = Keeper::start();
    let mut exec =
        keeper.script("printf '%s|' \"$1\" \"$A\" \"$HOME\" \"$PWD\" $(id -u); env | wc -l");
    exec.args.extend(["sh".into(), "a b".into()]);
    exec.env.insert("A".into(), "x=ä".into());
    let id = keeper.start_exec(exec);
    let outcome = keeper.finish(&mut [Running::new(id)]).remove(0);
    let expected = format!(
        "a b|x=ä|/home/sandbox|{}|{}|",
        keeper.folder().display(),
        user()
    );
    assert!(outcome.text().starts_with(&expected), "{}", outcome.text());
    assert_eq!(outcome.end().exit_code, 0);
    assert_eq!(outcome.end().reason, ExecReason::Exited);
}

#[test]
fn a_program_has_no_way_back_to_privileges() {
    let mut keeper = Keeper::start();
    let outcome = keeper.run("grep -E '^(NoNewPrivs|CapEff)' /proc/self/status");
    assert_eq!(outcome.text(), "CapEff:\t0000000000000000\nNoNewPrivs:\t1");
    let mut exec = keeper.script("id");
    exec.uid = 0;
    let id = keeper.start_exec(exec);
    let refused = keeper.finish(&mut [Running::new(id)]).remove(0);
    assert_eq!(refused.end().reason, ExecReason::CannotStart);
}

#[test]
fn a_program_inherits_no_descriptor_and_no_blocked_signal() {
    let mut keeper = Keeper::start();
    // Descriptor 3 is the folder that ls itself reads.
    let outcome = keeper.run("exec ls /proc/self/fd");
    assert_eq!(outcome.text(), "0\n1\n2\n3");
    let outcome = keeper.run("exec grep ^SigBlk /proc/self/status");
    assert_eq!(outcome.text(), "SigBlk:\t0000000000000000");
    // A writer that outlives its reader must get SIGPIPE, as on any Linux system.
    let outcome = keeper.run("(yes; echo $? >&2) | head -n 1");
    assert_eq!(outcome.stderr, b"141\n");
}

#[test]
fn execs_run_at_the_same_time() {
    let mut keeper = Keeper::start();
    // Each script waits for the other's file: one after the other, they would never end.
    let scripts = [
        "touch a; until [ -e b ]; do sleep 0.01; done; echo first",
        "touch b; until [ -e a ]; do sleep 0.01; done; echo second",
    ];
    let mut running: Vec<Running> = scripts
        .iter()
        .map(|script| {
            let mut exec = keeper.script(script);
            exec.timeout_ms = Some(15_000);
            Running::new(keeper.start_exec(exec))
        })
        .collect();
    let outcomes = keeper.finish(&mut running);
    assert_eq!(outcomes[0].text(), "first");
    assert_eq!(outcomes[1].text(), "second");
}

#[test]
fn input_and_output_flow_at_once() {
    let mut keeper = Keeper::start();
    let mut exec = keeper.script("cat");
    exec.stdin = true;
    let bytes: Vec<u8> = (0..5_000_000u32).map(|at| (at % 251) as u8).collect();
    let id = keeper.start_exec(exec);
    let outcome = keeper
        .finish(&mut [Running::with_stdin(id, bytes.clone())])
        .remove(0);
    assert!(outcome.stdout == bytes, "cat gave something else");
    assert_eq!(outcome.end().exit_code, 0);
}

#[test]
fn input_that_nobody_reads_holds_nothing_up() {
    let mut keeper = Keeper::start();
    let mut exec = keeper.script("exec <&-; sleep 0.2; echo done");
    exec.stdin = true;
    let id = keeper.start_exec(exec);
    let outcome = keeper
        .finish(&mut [Running::with_stdin(id, vec![0; 3_000_000])])
        .remove(0);
    assert_eq!(outcome.text(), "done");
}

#[test]
fn the_end_comes_behind_the_last_byte_of_both_streams() {
    let mut keeper = Keeper::start();
    for _ in 0..20 {
        // `finish` compares the response's counts with the received output.
        let outcome = keeper.run("head -c 300000 /dev/zero; head -c 300000 /dev/zero >&2; exit 3");
        assert_eq!(outcome.stdout.len(), 300_000);
        assert_eq!(outcome.stderr.len(), 300_000);
        assert_eq!(outcome.end().exit_code, 3);
    }
}

#[test]
fn a_flood_stops_at_the_window_and_other_requests_go_on() {
    let mut keeper = Keeper::start();
    let flood = keeper.start_exec(keeper.script("exec cat /dev/zero"));
    let mut flooded = 0;
    while flooded < WINDOW_BYTES as usize {
        match keeper.receive() {
            (_, Message::ExecOutput(Stream::Stdout, bytes)) => flooded += bytes.len(),
            (_, Message::ExecStarted(_)) => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(flooded, WINDOW_BYTES as usize);
    // Without credit, no more bytes may arrive; `run` would fail at a frame of the flood, which belongs to another
    // exec.
    assert_eq!(keeper.run("sleep 0.3; echo alive").text(), "alive");
    keeper.send(flood, &Message::ExecSignal(ExecSignal { signal: 9 }));
    keeper.send(flood, &Message::Credit(Stream::Stdout, WINDOW_BYTES));
    loop {
        match keeper.receive() {
            (_, Message::ExecOutput(..)) => keeper.send(flood, &Message::Credit(Stream::Stdout, 1)),
            (id, Message::ExecResponse(response)) => {
                assert_eq!(id, flood);
                assert_eq!(response.exit_code, 137);
                assert_eq!(response.reason, ExecReason::Killed);
                return;
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_signal_goes_to_the_whole_group() {
    let mut keeper = Keeper::start();
    let exec = keeper.script("trap 'echo caught; exit 5' TERM; sleep 1000 & echo $!; wait");
    let id = keeper.start_exec(exec);
    let mut pid = String::new();
    loop {
        match keeper.receive() {
            (_, Message::ExecStarted(_)) => {}
            (_, Message::ExecOutput(Stream::Stdout, bytes)) => {
                pid.push_str(std::str::from_utf8(&bytes).unwrap());
                if pid.ends_with('\n') {
                    break;
                }
            }
            other => panic!("{other:?}"),
        }
    }
    keeper.send(id, &Message::ExecSignal(ExecSignal { signal: 15 }));
    let mut out = Vec::new();
    let response = loop {
        match keeper.receive() {
            (_, Message::ExecOutput(_, bytes)) => out.extend(bytes),
            (_, Message::ExecResponse(response)) => break response,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(out, b"caught\n");
    assert_eq!(response.exit_code, 5);
    assert_eq!(response.reason, ExecReason::Exited);
    expect_gone(pid.trim());
}

#[test]
fn a_signal_death_is_128_and_the_signal() {
    let mut keeper = Keeper::start();
    let outcome = keeper.run("kill -SEGV $$");
    assert_eq!(outcome.end().exit_code, 139);
    assert_eq!(outcome.end().signal, Some(11));
    assert_eq!(outcome.end().reason, ExecReason::Exited);
}

#[test]
fn a_timeout_kills_the_group() {
    let mut keeper = Keeper::start();
    let mut exec = keeper.script("sleep 1000 & echo $!; sleep 1000");
    exec.timeout_ms = Some(500);
    let since = Instant::now();
    let id = keeper.start_exec(exec);
    let outcome = keeper.finish(&mut [Running::new(id)]).remove(0);
    assert!(since.elapsed() >= Duration::from_millis(500));
    assert!(since.elapsed() < Duration::from_secs(10));
    assert_eq!(outcome.end().reason, ExecReason::Timeout);
    assert_eq!(outcome.end().exit_code, 137);
    expect_gone(outcome.text());
}

#[test]
fn what_a_program_leaves_behind_dies_with_it() {
    let mut keeper = Keeper::start();
    let outcome = keeper.run("sleep 1000 & echo $!");
    assert_eq!(outcome.end().exit_code, 0);
    expect_gone(outcome.text());
}

#[test]
fn a_process_that_left_the_group_with_the_pipe_holds_the_end_up_for_a_second_at_most() {
    let mut keeper = Keeper::start();
    let since = Instant::now();
    let outcome = keeper.run("setsid sleep 20 & sleep 0.3; echo out");
    assert_eq!(outcome.text(), "out");
    assert!(
        since.elapsed() < Duration::from_secs(15),
        "{:?}",
        since.elapsed()
    );
}

#[test]
fn a_program_that_is_not_there_is_127_and_one_that_may_not_run_is_126() {
    let mut keeper = Keeper::start();
    for (program, exit_code) in [
        ("voidbox-nothing", 127),
        ("/etc/passwd", 126),
        ("/nope/x", 127),
    ] {
        let mut exec = keeper.script("");
        exec.program = program.into();
        let id = keeper.start_exec(exec);
        let outcome = keeper.finish(&mut [Running::new(id)]).remove(0);
        assert_eq!(outcome.end().exit_code, exit_code, "{program}");
        assert_eq!(outcome.end().reason, ExecReason::CannotStart);
        assert!(outcome.end().message.as_ref().unwrap().contains(program));
    }
    let mut exec = keeper.script("true");
    exec.cwd = "/nope".into();
    let id = keeper.start_exec(exec);
    let outcome = keeper.finish(&mut [Running::new(id)]).remove(0);
    assert_eq!(outcome.end().exit_code, 126);
    assert!(outcome.end().message.as_ref().unwrap().contains("/nope"));
}

#[test]
fn a_script_whose_interpreter_is_missing_says_so() {
    let mut keeper = Keeper::start();
    let outcome = keeper.run("mktemp -d");
    let cwd = outcome.text().trim_end().to_owned();
    for (line, words) in [
        ("#!/bin/sh\\r", "ends with CR LF"),
        ("#!/opt/none/python3", "/opt/none/python3"),
    ] {
        let script = format!("cd {cwd} && printf '{line}\\necho hi\\n' > x.sh && chmod +x x.sh");
        assert_eq!(keeper.run(&script).end().exit_code, 0);
        let mut exec = keeper.script("");
        exec.program = "./x.sh".into();
        exec.args = Vec::new();
        exec.cwd.clone_from(&cwd);
        let id = keeper.start_exec(exec);
        let outcome = keeper.finish(&mut [Running::new(id)]).remove(0);
        assert_eq!(outcome.end().exit_code, 127);
        assert_eq!(outcome.end().reason, ExecReason::CannotStart);
        let message = outcome.end().message.as_ref().unwrap();
        assert!(message.starts_with("./x.sh: its "), "{message}");
        assert!(message.contains(words), "{message}");
    }
    // `env` exists, and fails to find `sh` with a carriage return.
    let script =
        format!("cd {cwd} && printf '#!/usr/bin/env sh\\r\\necho hi\\n' > x.sh && exec ./x.sh");
    let outcome = keeper.run(&script);
    assert_eq!(outcome.end().exit_code, 127);
    let mut exec = keeper.script("");
    exec.program = "./x.sh".into();
    exec.args = Vec::new();
    exec.cwd.clone_from(&cwd);
    let id = keeper.start_exec(exec);
    let outcome = keeper.finish(&mut [Running::new(id)]).remove(0);
    assert_eq!(outcome.end().exit_code, 127);
    let message = outcome.end().message.as_ref().unwrap();
    assert!(
        message.starts_with("./x.sh: its first line `#!/usr/bin/env sh` ends with CR LF"),
        "{message}"
    );
    assert_eq!(keeper.run(&format!("rm -r {cwd}")).end().exit_code, 0);
}

#[test]
fn a_cancelled_exec_is_killed() {
    let mut keeper = Keeper::start();
    let id = keeper.start_exec(keeper.script("sleep 1000"));
    keeper.send(id, &Message::Cancel(Empty {}));
    let outcome = keeper.finish(&mut [Running::new(id)]).remove(0);
    assert_eq!(outcome.end().reason, ExecReason::Killed);
    assert_eq!(outcome.end().exit_code, 137);
}

#[test]
fn two_hundred_short_execs_all_end() {
    let mut keeper = Keeper::start();
    let mut running: Vec<Running> = (0..200)
        .map(|number| {
            let exec = keeper.script(&format!("echo {number}; exit {}", number % 100));
            Running::new(keeper.start_exec(exec))
        })
        .collect();
    for (number, outcome) in keeper.finish(&mut running).iter().enumerate() {
        assert_eq!(outcome.text(), number.to_string());
        assert_eq!(outcome.end().exit_code as usize, number % 100);
    }
}

#[test]
fn nothing_outlives_the_connection() {
    let mut keeper = Keeper::start();
    let id = keeper.start_exec(keeper.script("echo $$; exec sleep 1000"));
    let pid = loop {
        if let (_, Message::ExecOutput(_, bytes)) = keeper.receive() {
            break String::from_utf8(bytes).unwrap();
        }
    };
    assert!(id > 0);
    keeper.socket.shutdown(std::net::Shutdown::Both).unwrap();
    assert!(keeper.expect_close().success());
    expect_gone(pid.trim());
}
