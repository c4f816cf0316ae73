//! Guests that do not begin, and keepers that are launched again or killed.

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::support::{
    LONG_BOOT_MS, SHORT_BOOT_MS, Vm, WHEN_ASKED, ready_fails_with, said, session_then,
};

#[test]
fn a_guest_without_a_hello_is_booted_twice_and_given_up() {
    let script = "exec sleep 60";
    let exit = ready_fails_with("silent", SHORT_BOOT_MS, script, "vm/boot-timeout");
    assert_eq!(exit["boots"], 2);
}

#[test]
fn a_vmm_that_ends_at_once_is_said_to() {
    let script = format!("{WHEN_ASKED} echo no such machine; exit 3");
    let exit = ready_fails_with("dead", LONG_BOOT_MS, &script, "vm/boot-timeout");
    assert!(
        exit["message"]
            .as_str()
            .unwrap()
            .contains("no such machine"),
        "{exit}"
    );
}

#[test]
fn a_second_launch_attaches_and_fences_only_rise() {
    let vm = Vm::launch("attach", LONG_BOOT_MS, "exec sleep 60");
    assert_eq!(vm.relaunch("exec sleep 60").0, "attached");
    assert_eq!(vm.call("attach")["ok"]["fence"], 1);
    assert_eq!(vm.call("attach")["ok"]["fence"], 2);
    assert_eq!(vm.call("renew")["error"]["code"], "api/bad-request");
    assert_eq!(
        std::fs::read_to_string(vm.dir.join("fence")).unwrap(),
        "2\n"
    );
}

#[test]
fn a_killed_keeper_takes_its_vmm_along_and_is_lost() {
    let vm = Vm::launch("killed", LONG_BOOT_MS, "echo $$ > guest.pid; exec sleep 60");
    let guest = vm.dir.join("guest.pid");
    let deadline = Instant::now() + Duration::from_secs(30);
    while std::fs::read_to_string(&guest)
        .unwrap_or_default()
        .is_empty()
    {
        assert!(Instant::now() < deadline, "the guest did not start");
        std::thread::sleep(Duration::from_millis(5));
    }
    let guest = std::fs::read_to_string(guest).unwrap();
    let keeper: Value =
        serde_json::from_slice(&std::fs::read(vm.dir.join("keeper.json")).unwrap()).unwrap();
    let killed = Command::new("kill")
        .args(["-9", &keeper["pid"].to_string()])
        .status()
        .unwrap();
    assert!(killed.success());
    let stat = format!("/proc/{}/stat", guest.trim());
    let alive = || std::fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z "));
    let deadline = Instant::now() + Duration::from_secs(30);
    while alive() {
        assert!(Instant::now() < deadline, "the VMM outlived its keeper");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(vm.relaunch("exec sleep 60").0, "lost");
}

#[test]
fn a_vmm_gets_no_descriptor_of_whoever_launched_its_keeper() {
    let vm = Vm::new("descriptors", LONG_BOOT_MS);
    let mut shell = Command::new("bash");
    let script = r#"exec 200</dev/null; exec "$0" "$@""#;
    shell.args(["-c", script, env!("CARGO_BIN_EXE_voidbox-vm")]);
    let guest = "ls /proc/$$/fd; echo end";
    assert_eq!(vm.launch_by(shell, guest).0, "created");
    let exit = vm.exit();
    let console = exit["consoleTail"].as_str().unwrap();
    assert!(console.contains("end"), "{console}");
    assert!(!console.lines().any(|line| line == "200"), "{console}");
}

#[test]
fn a_refused_configuration_is_not_booted_again() {
    let error = r#"{"code":"not-allowed","message":"/lib32: is a folder of the guest's system"}"#;
    let vm = Vm::new("refused", LONG_BOOT_MS);
    let script = session_then(&said(42, 0, error), "");
    assert_eq!(vm.relaunch(&script).0, "created");
    let answer = vm.call("ready");
    assert_eq!(answer["error"]["code"], "vm/refused", "{answer}");
    let exit = vm.exit();
    assert_eq!(exit["reason"], "refused", "{exit}");
    assert_eq!(exit["boots"], 1, "{exit}");
    let message = exit["message"].as_str().unwrap();
    assert!(message.contains("/lib32"), "{exit}");
}
