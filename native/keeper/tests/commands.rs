//! The commands of `voidbox-vm` that need no VM.

use std::fs;
use std::io::{BufRead, Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

const KEEPER: &str = env!("CARGO_BIN_EXE_voidbox-vm");

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("voidbox-command-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !done() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Reports whether a process lives; a zombie does not count.
fn alive(pid: &str) -> impl Fn() -> bool + use<> {
    let stat = format!("/proc/{pid}/stat");
    move || fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z "))
}

fn end(mut child: Child) {
    let _ = child.kill();
    let _ = child.wait();
}

#[path = "../../jail/tests/rows/program.rs"]
mod program;

#[test]
fn a_static_program_runs_in_a_jail_until_its_lifeline_ends() {
    let path = program::write();
    let run = |words: &[&str]| {
        let mut command = Command::new(KEEPER);
        command.args(["jail", "--program"]).args(words);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let lifeline = child.stdin.take();
        let output = child.wait_with_output().unwrap();
        drop(lifeline);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), said)
    };
    let program = path.to_str().unwrap();
    // It exits with the number of its words.
    assert_eq!(run(&[program, "--", "a", "b"]), (Some(2), String::new()));
    let (code, said) = run(&[program, "--keep", "99", "--", "a"]);
    assert!(
        code == Some(3) && said.contains("keeping a descriptor"),
        "{said}"
    );
    // A program with a loader finds none in the jail.
    let (code, said) = run(&["/bin/sh", "--", "sh"]);
    assert!(
        code == Some(1) && said.contains("starting \"/bin/sh\" in the jail"),
        "{said}"
    );
    let (code, said) = run(&["/no/such/program", "--", "a"]);
    assert!(
        code == Some(1) && said.contains("/no/such/program"),
        "{said}"
    );
    fs::remove_file(path).unwrap();
}

#[test]
fn a_lock_is_held_for_the_life_of_its_command_and_free_behind_it() {
    let folder = Folder::new("lock");
    let file = folder.0.join("lock");
    let command = |words: &[&str]| {
        let mut command = Command::new(KEEPER);
        command
            .args(["lock", "--file"])
            .arg(&file)
            .arg("--")
            .args(words);
        command
    };
    let mark = folder.0.join("mark");
    let held = command(&[
        "sh",
        "-c",
        "touch \"$0\"; exec sleep 60",
        mark.to_str().unwrap(),
    ]);
    let holder = { held }.spawn().unwrap();
    wait_until("the first command does not start", || mark.exists());
    assert_eq!(command(&["true"]).status().unwrap().code(), Some(75));
    end(holder);
    assert_eq!(
        command(&["sh", "-c", "exit 9"]).status().unwrap().code(),
        Some(9)
    );
}

#[test]
fn a_tied_command_dies_with_the_process_that_started_it() {
    let folder = Folder::new("tie");
    let pid_file = folder.0.join("pid");
    let script = format!(
        "{KEEPER} tie -- sh -c 'echo $$ > \"$0\"; exec sleep 60' {} & wait",
        pid_file.display()
    );
    let parent = Command::new("bash").args(["-c", &script]).spawn().unwrap();
    let pid = || fs::read_to_string(&pid_file).unwrap_or_default();
    wait_until("the tied command does not start", || pid().ends_with('\n'));
    let alive = alive(pid().trim());
    assert!(alive());
    end(parent);
    wait_until("the tied command outlives its parent", || !alive());
}

fn lifeline(words: &[&str], input: Stdio) -> Child {
    let mut command = Command::new(KEEPER);
    command.args(["lifeline", "--"]).args(words).stdin(input);
    command.stdout(Stdio::piped()).spawn().unwrap()
}

#[test]
fn a_command_on_a_lifeline_dies_when_its_holder_does() {
    let mut child = lifeline(&["sh", "-c", "echo $$; exec sleep 60"], Stdio::piped());
    let mut pid = String::new();
    let stdout = child.stdout.take().unwrap();
    std::io::BufReader::new(stdout).read_line(&mut pid).unwrap();
    let alive = alive(pid.trim());
    assert!(alive());
    assert!(child.try_wait().unwrap().is_none());
    drop(child.stdin.take());
    assert_eq!(child.wait().unwrap().code(), Some(137));
    wait_until("the command outlives its lifeline", || !alive());
}

#[test]
fn a_lifeline_that_is_cut_before_the_start_ends_the_command_too() {
    let mut child = lifeline(&["sleep", "60"], Stdio::null());
    assert_eq!(child.wait().unwrap().code(), Some(137));
    // The pipe is open as long as the command holds it.
    let mut rest = Vec::new();
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_to_end(&mut rest).unwrap();
}

#[test]
fn a_lifeline_says_how_its_command_ended_and_shares_nothing_else_with_it() {
    for (script, code) in [("exit 9", 9), ("kill -SEGV $$", 139), ("! read line", 0)] {
        let mut child = lifeline(&["sh", "-c", script], Stdio::piped());
        let held = child.stdin.take();
        assert_eq!(child.wait().unwrap().code(), Some(code), "{script}");
        drop(held);
    }
    let mut child = lifeline(&["/no/such/program"], Stdio::piped());
    assert_eq!(child.wait().unwrap().code(), Some(1));
}

fn config() -> Value {
    json!({
        "v": 1, "vmKey": "run/scope/0", "memoryMib": 64, "vcpus": 1, "diskMib": 16,
        "kernel": { "path": "/dev/null", "kind": "debian" }, "initramfs": "/dev/null",
        "vmm": { "name": "test", "program": "/bin/sleep", "args": ["60"] },
        "bootTimeoutMs": 300, "orphanTimeoutMs": 20_000,
    })
}

/// Runs `launch` on a run directory, and returns its answer.
fn launch(folder: &Folder) -> String {
    launch_with(folder, &config())
}

fn launch_with(folder: &Folder, config: &Value) -> String {
    let mut launch = Command::new(KEEPER)
        .args(["launch", "--dir"])
        .arg(&folder.0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let stdin = launch.stdin.take().unwrap();
    { stdin }.write_all(config.to_string().as_bytes()).unwrap();
    state_of(&launch.wait_with_output().unwrap().stdout)
}

/// Runs `seal` or another command, and returns its answer.
fn ask(command: &str, folder: &Folder) -> String {
    let key: &[&str] = if command == "seal" {
        &["--key", "run/scope/0"]
    } else {
        &[]
    };
    let output = Command::new(KEEPER)
        .args([command, "--dir"])
        .arg(&folder.0)
        .args(key)
        .output()
        .unwrap();
    state_of(&output.stdout)
}

fn state_of(answer: &[u8]) -> String {
    let answer: Value = serde_json::from_slice(answer).unwrap();
    answer["state"].as_str().unwrap().to_owned()
}

/// Launches in a directory that contains `files`.
fn launch_over(name: &str, files: &[(&str, &str)]) -> (String, Folder) {
    let folder = Folder::new(name);
    for (name, text) in files {
        let text = if *text == "config" {
            config().to_string()
        } else {
            (*text).to_owned()
        };
        fs::write(folder.0.join(name), text).unwrap();
    }
    let state = launch(&folder);
    if state == "created" {
        let exit = folder.0.join("exit.json");
        wait_until("the keeper does not end", || exit.exists());
    }
    (state, folder)
}

#[test]
fn a_launch_that_died_before_its_vmm_is_done_again() {
    assert_eq!(launch_over("empty", &[]).0, "created");
    assert_eq!(launch_over("locked", &[("lock", "")]).0, "created");
    assert_eq!(
        launch_over("intent", &[("lock", ""), ("intent.json", "config")]).0,
        "created"
    );
    assert_eq!(
        launch_over("half-intent", &[("lock", ""), ("intent.json", "{\"v\":")]).0,
        "created"
    );
    assert_eq!(
        launch_over("stale-socket", &[("intent.json", "config"), ("k.sock", "")]).0,
        "created"
    );
}

#[test]
fn a_launch_that_died_behind_the_marker_is_a_lost_vm() {
    let (state, folder) = launch_over(
        "marker",
        &[("lock", ""), ("intent.json", "config"), ("started", "")],
    );
    assert_eq!(state, "lost");
    assert!(!folder.0.join("k.sock").exists(), "no keeper was started");
    assert_eq!(ask("status", &folder), "lost");
    assert_eq!(ask("seal", &folder), "lost");
    assert!(!folder.0.join("exit.json").exists());
}

#[test]
fn what_a_killed_keeper_left_is_removed_by_a_sweep_and_by_a_seal() {
    for command in ["sweep", "seal"] {
        let vms = Folder::new(&format!("leftovers-{command}"));
        let folder = Folder(vms.0.join("vm"));
        fs::create_dir(&folder.0).unwrap();
        // A keeper that gave its boots up before the kill would remove everything itself.
        let mut config = config();
        config["bootTimeoutMs"] = json!(20_000);
        let launched = std::thread::scope(|scope| {
            let launched = scope.spawn(|| launch_with(&folder, &config));
            wait_until("no keeper starts its VM", || {
                folder.0.join("started").exists()
            });
            let status: Value = serde_json::from_slice(&command_output(&[
                "status",
                "--dir",
                folder.0.to_str().unwrap(),
            ]))
            .unwrap();
            let keeper = status["pid"].to_string();
            Command::new("kill").args(["-9", &keeper]).status().unwrap();
            wait_until("the keeper outlives SIGKILL", || !alive(&keeper)());
            launched.join()
        });
        drop(launched);
        assert!(
            folder.0.join("k.sock").exists(),
            "the keeper left its socket"
        );
        // A child that the keeper was about to start holds its lock for a moment longer.
        wait_until("the lock outlives the keeper", || {
            ask("status", &folder) == "lost"
        });
        fs::write(folder.0.join("scratch.img"), "disk").unwrap();
        match command {
            "sweep" => drop(command_output(&["sweep", "--vms", vms.0.to_str().unwrap()])),
            _ => assert_eq!(ask("seal", &folder), "lost"),
        }
        for name in ["k.sock", "scratch.img"] {
            assert!(!folder.0.join(name).exists(), "{command} left {name}");
        }
        assert_eq!(ask("status", &folder), "lost");
    }
}

/// Makes the folder of a VM whose keeper ended `minutes` ago.
fn left_behind(vms: &Folder, name: &str, minutes: u64, discard: bool) -> PathBuf {
    let folder = vms.0.join(name);
    fs::create_dir(&folder).unwrap();
    let intent = json!({ "vmKey": "direct/x", "discard": discard });
    fs::write(folder.join("intent.json"), intent.to_string()).unwrap();
    let started = fs::File::create(folder.join("started")).unwrap();
    let then = std::time::SystemTime::now() - Duration::from_secs(60 * minutes);
    started.set_modified(then).unwrap();
    folder
}

#[test]
fn what_nobody_launches_again_goes_with_a_sweep_after_a_while() {
    let vms = Folder::new("discarded");
    let old = left_behind(&vms, "old", 16, true);
    let young = left_behind(&vms, "young", 14, true);
    let of_a_run = left_behind(&vms, "run", 16, false);
    let alive = left_behind(&vms, "alive", 16, true);
    let dir = voidbox_keeper::run_dir::RunDir::at(&alive);
    let _keeper = dir.try_lock().unwrap().expect("a free lock");
    drop(command_output(&["sweep", "--vms", vms.0.to_str().unwrap()]));
    let left = [&old, &young, &of_a_run, &alive].map(|folder| folder.exists());
    assert_eq!(left, [false, true, true, true]);
}

#[test]
fn a_sweep_leaves_the_socket_of_a_keeper_that_lives() {
    let vms = Folder::new("living-socket");
    let folder = Folder(vms.0.join("vm"));
    fs::create_dir(&folder.0).unwrap();
    let dir = voidbox_keeper::run_dir::RunDir::at(&folder.0);
    let _keeper = dir.try_lock().unwrap().expect("a free lock");
    for name in ["started", "k.sock", "scratch.img"] {
        fs::write(folder.0.join(name), "").unwrap();
    }
    drop(command_output(&["sweep", "--vms", vms.0.to_str().unwrap()]));
    assert!(folder.0.join("k.sock").exists());
    assert!(folder.0.join("scratch.img").exists());
}

fn command_output(args: &[&str]) -> Vec<u8> {
    let output = Command::new(KEEPER).args(args).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    output.stdout
}

#[test]
fn a_configuration_of_another_version_is_refused_before_anything_is_written() {
    let folder = Folder::new("version");
    let dir = folder.0.join("vm");
    let file = folder.0.join("config");
    fs::write(&file, r#"{"v":2}"#).unwrap();
    let launch = Command::new(KEEPER)
        .args(["launch", "--config"])
        .arg(&file)
        .arg("--dir")
        .arg(&dir)
        .output()
        .unwrap();
    assert_eq!(launch.status.code(), Some(2));
    assert!(!dir.exists());
}

#[test]
fn a_launch_beside_a_keeper_whose_vm_has_ended_is_told_so() {
    let folder = Folder::new("ended");
    let dir = voidbox_keeper::run_dir::RunDir::at(&folder.0);
    let _keeper = dir.try_lock().unwrap().expect("a free lock");
    fs::write(folder.0.join("exit.json"), "{}").unwrap();
    assert_eq!(launch(&folder), "stopped");
}

#[test]
fn the_host_measures_its_tsc_only_if_asked() {
    let report = |args: &[&str]| serde_json::from_slice::<Value>(&command_output(args)).unwrap();
    let plain = report(&["host"]);
    assert!(plain["kvm"].is_string(), "{plain}");
    assert_eq!(plain.get("tscKhz"), None);
    assert!(report(&["host", "--tsc"])["tscKhz"].as_u64() > Some(0));
    let other = Command::new(KEEPER)
        .args(["host", "--rsc"])
        .output()
        .unwrap();
    assert_eq!(other.status.code(), Some(2));
}

#[test]
fn a_sealed_directory_never_gets_a_vm() {
    let folder = Folder::new("seal");
    fs::remove_dir(&folder.0).unwrap();
    assert_eq!(ask("seal", &folder), "stopped");
    let exit = fs::read(folder.0.join("exit.json")).unwrap();
    assert_eq!(launch(&folder), "stopped");
    assert!(!folder.0.join("intent.json").exists(), "nothing was begun");
    assert_eq!(ask("seal", &folder), "stopped");
    assert_eq!(fs::read(folder.0.join("exit.json")).unwrap(), exit);
    let exit: Value = serde_json::from_slice(&exit).unwrap();
    assert_eq!(
        (&exit["reason"], &exit["vmKey"]),
        (&json!("stopped"), &json!("run/scope/0"))
    );
}

#[test]
fn a_vm_that_lives_is_not_sealed_over() {
    let folder = Folder::new("seal-living");
    assert_eq!(launch(&folder), "created");
    assert_eq!(ask("seal", &folder), "running");
    assert!(!folder.0.join("exit.json").exists());
    wait_until("the keeper does not end", || {
        folder.0.join("exit.json").exists()
    });
}

#[test]
fn of_a_launch_and_a_seal_at_once_one_has_its_way() {
    for round in 0..12 {
        let folder = Folder::new(&format!("seal-race-{round}"));
        let (launched, sealed) = std::thread::scope(|scope| {
            let launched = scope.spawn(|| launch(&folder));
            std::thread::sleep(Duration::from_millis(round / 2));
            let sealed = ask("seal", &folder);
            (launched.join().unwrap(), sealed)
        });
        match launched.as_str() {
            "created" => {
                assert_eq!(sealed, "running");
                wait_until("the keeper does not end", || {
                    folder.0.join("exit.json").exists()
                });
            }
            _ => assert_eq!((&*launched, &*sealed), ("stopped", "stopped")),
        }
    }
}
