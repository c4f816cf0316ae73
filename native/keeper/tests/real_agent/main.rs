//! The keeper with the real agent on its guest port, as a plain process: no jail, no VM.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

mod door;
mod full_disk;
mod full_saves;
mod native_vmm;
mod owners;
mod refusals;
mod support;
mod transfers;

use support::{MIB, Stream, Vm};

#[test]
fn a_command_reads_its_standard_input_and_its_end_comes_behind_its_output() {
    let vm = Vm::with_agent("stdin", json!({}));
    let fence = vm.attach();
    let bytes: Vec<u8> = (0..3 * MIB).map(|index| (index % 251) as u8).collect();
    let start = json!({ "stdinBytes": bytes.len() });
    vm.start(fence, "k", "cat; echo done >&2; exit 7", start);
    let mut stdin = vm.stream(
        "exec.stdin",
        json!({ "fence": fence, "execKey": "k", "offset": 0 }),
    );
    assert_eq!(stdin.head["ok"]["offset"], 0);
    stdin.socket.write_all(&bytes).unwrap();
    let exit = vm.wait("k");
    assert_eq!(exit["exitCode"], 7);
    assert_eq!(exit["stdoutBytes"], bytes.len());
    assert!(
        vm.output("k", "stdout", 0).rest() == bytes,
        "cat gives what it got"
    );
    assert_eq!(vm.output("k", "stderr", 0).rest(), b"done\n");
}

#[test]
fn standard_input_of_unknown_length_ends_where_the_client_says() {
    let vm = Vm::with_agent("open-stdin", json!({}));
    let fence = vm.attach();
    let open = json!({ "stdinBytes": 9_007_199_254_740_991u64 });
    let key = json!({ "fence": fence, "execKey": "k", "offset": 0 });
    let end = |size: u64| {
        let fields = json!({ "fence": fence, "execKey": "k", "sizeBytes": size });
        vm.call("exec.stdin.end", fields)
    };
    vm.start(fence, "k", "head -n 1; cat; echo end", open);
    let mut stdin = vm.stream("exec.stdin", key.clone());
    stdin.socket.write_all(b"first\n").unwrap();
    let mut output = vm.output("k", "stdout", 0);
    let mut line = [0; 6];
    output.socket.read_exact(&mut line).unwrap();
    assert_eq!(
        &line, b"first\n",
        "the command answers while its input is open"
    );
    stdin.socket.write_all(b"second\n").unwrap();
    let mut line = [0; 7];
    output.socket.read_exact(&mut line).unwrap();
    assert_eq!(end(12)["error"]["code"], "api/bad-request", "13 were sent");
    // One more byte is announced before it arrives.
    assert_eq!(end(14)["ok"], json!({}));
    stdin.socket.write_all(b"!").unwrap();
    assert_eq!(output.rest(), b"!end\n");
    assert_eq!(vm.wait("k")["exitCode"], 0);
    assert_eq!(end(14)["ok"], json!({}), "said again it changes nothing");
}

#[test]
fn the_same_key_never_starts_a_second_process() {
    let vm = Vm::with_agent("twice", json!({}));
    let fence = vm.attach();
    let count = vm.guest_path("count");
    let script = format!("echo x >> {count}");
    assert_eq!(vm.start(fence, "k", &script, json!({}))["known"], false);
    vm.wait("k");
    assert_eq!(vm.start(fence, "k", &script, json!({}))["known"], true);
    vm.wait("k");
    assert_eq!(std::fs::read_to_string(count).unwrap(), "x\n");
}

#[test]
fn a_client_that_is_stopped_holds_up_nobody_else() {
    let vm = Vm::with_agent("stopped", json!({}));
    let fence = vm.attach();
    vm.start(
        fence,
        "flood",
        &format!("head -c {} /dev/zero", 32 * MIB),
        json!({}),
    );
    let held = vm.output("flood", "stdout", 0);
    let reader = support::stopped_reader(&held);
    let began = Instant::now();
    vm.start(fence, "other", "echo here", json!({}));
    assert_eq!(vm.wait("other")["exitCode"], 0);
    assert_eq!(vm.output("other", "stdout", 0).rest(), b"here\n");
    assert_eq!(vm.wait("flood")["stdoutBytes"], 32 * MIB);
    assert!(
        began.elapsed() < Duration::from_secs(15),
        "{:?}",
        began.elapsed()
    );
    drop(reader);
}

#[test]
fn a_counting_stream_is_exact_over_many_attaches() {
    let vm = Vm::with_agent("counting", json!({}));
    let fence = vm.attach();
    let script = "i=0; while [ $i -lt 20 ]; do seq $((i*5000+1)) $((i*5000+5000)); i=$((i+1)); sleep 0.03; done";
    vm.start(fence, "count", script, json!({}));
    let mut fence = fence;
    let mut all = Vec::new();
    for _ in 0..25 {
        let fields =
            json!({ "fence": fence, "execKey": "count", "stream": "stdout", "offset": all.len() });
        let mut stream = vm.stream("exec.output", fields);
        let mut part = vec![0; 7001];
        let count = stream.socket.read(&mut part).unwrap();
        all.extend_from_slice(&part[..count]);
        fence = vm.attach();
        // The stream of the lower fence ends, but its command continues.
        let _ = stream.socket.read_to_end(&mut Vec::new());
    }
    vm.wait("count");
    all.extend(vm.output("count", "stdout", all.len() as u64).rest());
    let expected: String = (1..=100_000).map(|number| format!("{number}\n")).collect();
    assert!(
        all == expected.as_bytes(),
        "{} of {} bytes",
        all.len(),
        expected.len()
    );
}

#[test]
fn a_lower_fence_changes_nothing() {
    let vm = Vm::with_agent("fence", json!({}));
    let old = vm.attach();
    let new = vm.attach();
    assert_eq!(new, old + 1);
    let request = support::start(old, "k", "true", &json!({}));
    let stale = vm.call("exec.start", request);
    assert_eq!(stale["error"]["code"], "fence/stale");
    assert_eq!(
        vm.call("exec.wait", json!({ "execKey": "k" }))["error"]["code"],
        "exec/unknown"
    );
}

#[test]
fn a_flood_that_nobody_reads_ends_at_its_limit_and_in_bounded_memory() {
    let vm = Vm::with_agent("flood", json!({}));
    let fence = vm.attach();
    vm.start(fence, "flood", "yes", json!({ "maxOutputBytes": 2 * MIB }));
    let exit = vm.wait("flood");
    assert_eq!(exit["reason"], "output-limit", "{exit}");
    let kept = exit["stdoutBytes"].as_u64().unwrap();
    assert!((2 * MIB..=3 * MIB).contains(&kept), "{kept}");
    assert_eq!(vm.output("flood", "stdout", 0).rest().len() as u64, kept);
    let resident = vm.keeper_resident_bytes();
    assert!(resident < 32 * MIB, "the keeper has {resident} bytes");
}

#[test]
fn a_host_without_room_for_output_fails_the_command_and_not_the_keeper() {
    let vm = Vm::with_agent("full", json!({ "spoolMaxBytes": 100_000 }));
    let fence = vm.attach();
    vm.start(
        fence,
        "big",
        &format!("head -c {MIB} /dev/zero; sleep 20"),
        json!({}),
    );
    let exit = vm.wait("big");
    assert_eq!(exit["reason"], "output-limit", "{exit}");
    vm.acknowledge(fence, "big");
    vm.start(fence, "small", "echo again", json!({}));
    assert_eq!(vm.wait("small")["exitCode"], 0);
    assert_eq!(vm.output("small", "stdout", 0).rest(), b"again\n");
}

#[test]
fn a_write_that_the_disk_refuses_fails_the_command_and_not_the_keeper() {
    let vm = Vm::with_agent_and_file_limit("refused", 4 * MIB);
    let fence = vm.attach();
    vm.start(
        fence,
        "big",
        &format!("head -c {} /dev/zero; sleep 20", 8 * MIB),
        json!({}),
    );
    // Each client gets the same answer: the command's output is lost, and no attempt in this VM restores it.
    for _ in 0..2 {
        let answer = vm.call("exec.wait", json!({ "execKey": "big" }));
        assert_eq!(answer["error"]["code"], "vm/lost", "{answer}");
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.contains("the output of big"), "{answer}");
        assert!(message.contains("File too large"), "{answer}");
    }
    assert_eq!(vm.call("status", json!({}))["ok"]["state"], "ready");
}

#[test]
fn a_deadline_and_a_signal_end_the_whole_process_group() {
    let vm = Vm::with_agent("deadline", json!({}));
    let fence = vm.attach();
    vm.start(
        fence,
        "late",
        "sleep 60 & sleep 60",
        json!({ "timeoutMs": 300 }),
    );
    let exit = vm.wait("late");
    assert_eq!(
        (&exit["reason"], &exit["exitCode"]),
        (&json!("timeout"), &json!(143))
    );
    vm.start(fence, "asked", "sleep 60 & sleep 60", json!({}));
    let signal = json!({ "fence": fence, "execKey": "asked", "signal": "SIGTERM" });
    assert_eq!(vm.call("exec.signal", signal)["ok"], json!({}));
    assert_eq!(vm.wait("asked")["exitCode"], 143);
}

/// Starts a command whose shell has `trap` for SIGTERM, and waits until the trap is set.
fn start_with_trap(vm: &Vm, fence: u64, key: &str, trap: &str) {
    let script = format!("trap '{trap}' TERM; echo up; while :; do sleep 0.02; done");
    vm.start(fence, key, &script, json!({}));
    let mut up = [0; 3];
    let mut stdout = vm.output(key, "stdout", 0);
    std::io::Read::read_exact(&mut stdout.socket, &mut up).unwrap();
    assert_eq!(&up, b"up\n");
}

fn ends_for(vm: &Vm, fence: u64, key: &str, cause: &str, grace_ms: u64) {
    let end =
        json!({ "fence": fence, "execKey": key, "graceMs": grace_ms, "cause": { "kind": cause } });
    assert_eq!(vm.call("exec.end", end)["ok"], json!({}));
}

#[test]
fn the_first_of_an_interruption_and_an_end_decides_what_a_command_comes_to() {
    let vm = Vm::with_agent("orders", json!({}));
    let fence = vm.attach();
    start_with_trap(&vm, fence, "interrupted", "exit 0");
    ends_for(&vm, fence, "interrupted", "cancel", 20_000);
    ends_for(&vm, fence, "interrupted", "budget", 20_000);
    let exit = vm.wait("interrupted");
    assert_eq!(exit["exitCode"], 0, "{exit}");
    assert_eq!(exit["signal"], json!(null), "{exit}");
    assert_eq!(exit["cause"], json!({ "kind": "cancel" }), "{exit}");
    // A worker that takes over gets the same outcome.
    let fence = vm.attach();
    assert_eq!(vm.wait("interrupted"), exit);

    vm.start(fence, "ended", "exit 0", json!({}));
    let exit = vm.wait("ended");
    ends_for(&vm, fence, "ended", "cancel", 0);
    assert_eq!(vm.wait("ended"), exit);
    assert_eq!(exit["cause"], json!(null), "{exit}");
}

#[test]
fn a_command_that_ignores_sigterm_is_killed_after_its_grace() {
    let vm = Vm::with_agent("stubborn", json!({}));
    let fence = vm.attach();
    start_with_trap(&vm, fence, "stubborn", "");
    ends_for(&vm, fence, "stubborn", "cancel", 100);
    let exit = vm.wait("stubborn");
    let facts = (&exit["reason"], &exit["exitCode"], &exit["signal"]);
    assert_eq!(facts, (&json!("killed"), &json!(137), &json!(9)), "{exit}");
    assert_eq!(exit["cause"], json!({ "kind": "cancel" }), "{exit}");
    let long = json!({
        "fence": fence, "execKey": "stubborn", "graceMs": 0, "cause": { "text": "x".repeat(4096) },
    });
    assert_eq!(
        vm.call("exec.end", long)["error"]["code"],
        "api/bad-request"
    );
}

#[test]
fn a_command_that_exits_with_0_after_its_deadline_is_out_of_time() {
    let vm = Vm::with_agent("polite", json!({}));
    let fence = vm.attach();
    let script = "trap 'echo cleaned; exit 0' TERM; while :; do sleep 0.02; done";
    vm.start(fence, "polite", script, json!({ "timeoutMs": 1_000 }));
    let exit = vm.wait("polite");
    assert_eq!(
        (&exit["reason"], &exit["exitCode"]),
        (&json!("timeout"), &json!(0)),
        "{exit}"
    );
    assert_eq!(vm.output("polite", "stdout", 0).rest(), b"cleaned\n");
}

#[test]
fn a_signal_is_named_only_if_it_ended_the_command() {
    let vm = Vm::with_agent("signals", json!({}));
    let fence = vm.attach();
    vm.start(fence, "code", "exit 137", json!({}));
    let exit = vm.wait("code");
    assert_eq!(
        (&exit["exitCode"], &exit["signal"]),
        (&json!(137), &json!(null))
    );
    vm.start(fence, "signal", "kill -9 $$", json!({}));
    let exit = vm.wait("signal");
    assert_eq!(
        (&exit["exitCode"], &exit["signal"]),
        (&json!(137), &json!(9))
    );
}

#[test]
fn a_lease_that_nobody_renews_ends_the_vm_and_one_that_is_renewed_does_not() {
    let vm = Vm::with_agent("lease", json!({ "orphanTimeoutMs": 1500 }));
    let fence = vm.attach();
    vm.start(fence, "sleeper", "sleep 60", json!({}));
    for _ in 0..8 {
        std::thread::sleep(Duration::from_millis(300));
        assert!(vm.call("renew", json!({ "fence": fence }))["ok"].is_object());
    }
    let exit = vm.exit();
    assert_eq!(exit["reason"], "orphaned");
    assert_eq!(exit["code"], "vm/lost");
}

#[test]
fn an_idle_vm_is_kept_alive_by_who_holds_no_fence_and_ends_when_that_stops() {
    let vm = Vm::with_agent("keepalive", json!({ "orphanTimeoutMs": 1500 }));
    let fence = vm.attach();
    for _ in 0..12 {
        std::thread::sleep(Duration::from_millis(300));
        let left = vm.call("keepalive", json!({}))["ok"]["leaseLeftMs"].as_u64();
        assert!(left.is_some_and(|left| left > 1_000), "{left:?}");
    }
    let renewed = vm.call("renew", json!({ "fence": fence }));
    assert!(
        renewed["ok"].is_object(),
        "its holder still has it: {renewed}"
    );
    assert_eq!(vm.exit()["reason"], "orphaned");
}

#[test]
fn a_retained_vm_serves_until_its_time_and_not_longer() {
    let vm = Vm::with_agent("retain", json!({}));
    let fence = vm.attach();
    let refused = vm.call("retain", json!({ "fence": fence - 1, "forMs": 4_000 }));
    assert_eq!(refused["error"]["code"], "fence/stale", "{refused}");
    let wanted = json!({ "fence": fence, "forMs": 4_000, "note": { "stage": "build" } });
    let began = std::time::Instant::now();
    let left = vm.call("retain", wanted.clone())["ok"]["leftMs"].as_u64();
    assert!(left.is_some_and(|left| left <= 4_000), "{left:?}");
    let file: Value =
        serde_json::from_slice(&std::fs::read(vm.dir.join("retained.json")).unwrap()).unwrap();
    assert_eq!(file["note"]["stage"], "build");
    // Neither a renewal nor another client moves the end, and commands run until then.
    let other = vm.attach();
    vm.start(other, "look", "echo here", json!({}));
    assert_eq!(vm.wait("look")["exitCode"], 0);
    vm.call("keepalive", json!({}));
    let again = json!({ "fence": other, "forMs": 3_600_000 });
    let left = vm.call("retain", again)["ok"]["leftMs"].as_u64();
    assert!(left.is_some_and(|left| left < 4_000), "{left:?}");
    assert_eq!(vm.call("status", json!({}))["ok"]["retained"], true);
    let exit = vm.exit();
    assert_eq!(exit["reason"], "retained");
    assert_eq!(exit["code"], "vm/lost");
    assert!(began.elapsed() >= Duration::from_millis(3_900));
}

#[test]
fn what_a_vm_takes_of_its_host_grows_with_what_runs_in_it() {
    let vm = Vm::with_agent("usage", json!({}));
    let fence = vm.attach();
    let before = vm.call("usage", json!({}))["ok"].clone();
    let busy = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";
    vm.start(fence, "busy", busy, json!({}));
    assert_eq!(vm.wait("busy")["exitCode"], 0);
    let after = vm.call("usage", json!({}))["ok"].clone();
    let figure = |usage: &Value, name: &str| usage[name].as_u64().unwrap();
    assert!(
        figure(&after, "cpuMs") > figure(&before, "cpuMs"),
        "{before} and then {after}"
    );
    assert!(figure(&after, "memoryPeakMib") > 0, "{after}");
    // A guest that is a plain process has no scratch disk.
    assert_eq!(after["diskBytes"], Value::Null);
    vm.call("stop", json!({ "fence": fence }));
}

#[test]
fn another_version_of_the_api_is_refused_and_the_connection_goes_on() {
    let vm = Vm::with_agent("version", json!({}));
    let mut stream = Stream::connect(&vm.dir);
    for request in [
        json!({ "v": 2, "id": 1, "op": "status" }),
        json!({ "v": 1, "id": 2, "op": "status" }),
    ] {
        stream.send(&request);
    }
    let answers: Vec<Value> = vec![stream.line(), stream.line()];
    let by_id = |id: u32| answers.iter().find(|answer| answer["id"] == id).unwrap();
    assert_eq!(by_id(1)["error"]["code"], "api/version");
    assert_eq!(by_id(2)["ok"]["memoryMib"], 64);
}

#[test]
fn an_op_that_the_keeper_lacks_is_not_in_its_features_and_is_refused() {
    let vm = Vm::with_agent("made-up", json!({}));
    let status = vm.call("status", json!({}));
    assert_eq!(
        status["ok"]["features"],
        json!(["checkpoint", "checkpoint.full", "take"])
    );
    let refused = vm.call("made.up", json!({}));
    assert_eq!(refused["error"]["code"], "api/bad-request");
    assert_eq!(refused["error"]["message"], r#"op "made.up" is unknown"#);
}

#[test]
fn a_stopped_vm_is_gone_with_all_that_ran_in_it() {
    let vm = Vm::with_agent("stop", json!({}));
    let fence = vm.attach();
    vm.start(fence, "sleeper", "echo $$; sleep 60", json!({}));
    let mut head = [0; 1];
    vm.output("sleeper", "stdout", 0)
        .socket
        .read_exact(&mut head)
        .unwrap();
    assert_eq!(vm.call("stop", json!({ "fence": fence }))["ok"], json!({}));
    assert_eq!(vm.exit()["reason"], "stopped");
    assert!(!vm.dir.join("scratch.img").exists());
}
