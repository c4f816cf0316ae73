//! A keeper whose guest misbehaves: each misbehaviour is an error within its time limit, and the keeper ends. The guest
//! is a shell script on the guest port; there is no jail and no VM.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Two boots with this limit are soon over.
const SHORT_BOOT_MS: u64 = 400;
/// Longer than the steps of a test before its VM ends on its own, however busy the machine is.
const LONG_BOOT_MS: u64 = 15_000;
/// The first lines of a guest that misbehaves only after its keeper was asked whether it is ready.
const WHEN_ASKED: &str = "until [ -e asked ]; do sleep 0.02; done;";

/// A VM by its run directory, which is also the guest's working folder.
struct Vm {
    dir: PathBuf,
    boot_timeout_ms: u64,
    guest_silence_ms: u64,
    /// The configuration of its door; null if the VM has no door.
    egress: Value,
    /// How the VM begins; without it there are no snapshots.
    begins: Option<&'static str>,
}

impl Vm {
    /// Launches a keeper whose guest is `script`; `$PORT` and `$CONTROL` are the descriptors of the port and the control.
    fn launch(name: &str, boot_timeout_ms: u64, script: &str) -> Self {
        let vm = Self::new(name, boot_timeout_ms);
        let (state, _) = vm.relaunch(script);
        assert_eq!(state, "created");
        vm
    }

    fn new(name: &str, boot_timeout_ms: u64) -> Self {
        let dir =
            std::env::temp_dir().join(format!("voidbox-hostile-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        Self {
            dir,
            boot_timeout_ms,
            guest_silence_ms: 60_000,
            egress: Value::Null,
            begins: None,
        }
    }

    fn relaunch(&self, script: &str) -> (String, Option<i32>) {
        self.launch_by(Command::new(env!("CARGO_BIN_EXE_voidbox-vm")), script)
    }

    fn launch_by(&self, mut command: Command, script: &str) -> (String, Option<i32>) {
        let mut config = json!({
            "v": 1, "vmKey": "run/scope/0", "memoryMib": 64, "vcpus": 1, "diskMib": 16,
            "kernel": { "path": "/dev/null", "kind": "debian" }, "initramfs": "/dev/null",
            "vmm": {
                "name": "test", "program": "/bin/bash",
                "args": ["-c", format!("PORT={{fd}}; CONTROL={{control}}; {script}")],
            },
            "bootTimeoutMs": self.boot_timeout_ms, "orphanTimeoutMs": 20_000,
            "guestSilenceMs": self.guest_silence_ms,
        });
        if let Some(begins) = self.begins {
            config["vmm"]["begins"] = begins.into();
            let snapshots = self.dir.with_extension("snapshots");
            config["snapshots"] = json!({ "dir": snapshots, "maxMib": 1 });
        }
        if !self.egress.is_null() {
            config["egress"] = self.egress.clone();
        }
        let mut launch = command
            .args(["launch", "--dir"])
            .arg(&self.dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        launch
            .stdin
            .take()
            .unwrap()
            .write_all(config.to_string().as_bytes())
            .unwrap();
        let output = launch.wait_with_output().unwrap();
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        (
            answer["state"].as_str().unwrap().to_owned(),
            output.status.code(),
        )
    }

    fn call(&self, op: &str) -> Value {
        let answer = self.ask(op, || std::fs::write(self.dir.join("asked"), "").unwrap());
        serde_json::from_str(&answer).unwrap()
    }

    /// Returns the answer's line; `asked` is called after the request was sent.
    fn ask(&self, op: &str, asked: impl FnOnce()) -> String {
        let mut stream = UnixStream::connect(self.dir.join("k.sock")).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        let request = json!({ "v": 1, "id": 1, "op": op, "timeoutMs": 15_000 });
        stream.write_all(format!("{request}\n").as_bytes()).unwrap();
        asked();
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).unwrap();
        line
    }

    /// Waits for the keeper's end, and returns `exit.json`.
    fn exit(&self) -> Value {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let bytes = std::fs::read(self.dir.join("exit.json")).unwrap_or_default();
            if let Ok(exit) = serde_json::from_slice(&bytes) {
                return exit;
            }
            assert!(Instant::now() < deadline, "the keeper did not end");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Vm {
    fn drop(&mut self) {
        let keeper = std::fs::read(self.dir.join("keeper.json")).unwrap_or_default();
        if !self.dir.join("exit.json").exists()
            && let Ok(keeper) = serde_json::from_slice::<Value>(&keeper)
        {
            let pid = keeper["pid"].to_string();
            let _ = Command::new("kill").args(["-9", &pid]).status();
        }
        let _ = std::fs::remove_dir_all(&self.dir);
        let _ = std::fs::remove_dir_all(self.dir.with_extension("snapshots"));
    }
}

fn ready_fails_with(name: &str, boot_timeout_ms: u64, script: &str, code: &str) -> Value {
    let vm = Vm::launch(name, boot_timeout_ms, script);
    let answer = vm.call("ready");
    assert_eq!(answer["error"]["code"], code, "{answer}");
    let exit = vm.exit();
    assert_eq!(exit["code"], code, "{exit}");
    assert_eq!(vm.relaunch(script).0, "stopped");
    exit
}

#[test]
fn a_guest_without_a_hello_is_booted_twice_and_given_up() {
    let script = "exec sleep 60";
    let exit = ready_fails_with("silent", SHORT_BOOT_MS, script, "vm/boot-timeout");
    assert_eq!(exit["boots"], 2);
}

#[test]
fn garbage_a_huge_length_and_half_a_frame_end_the_vm() {
    let sent = |bytes: &str| format!("{WHEN_ASKED} printf '{bytes}' >&$PORT; exec sleep 60");
    let garbage = sent("not a frame at all");
    ready_fails_with("garbage", LONG_BOOT_MS, &garbage, "vm/protocol");
    let huge = sent(r"\377\377\377\377\040");
    ready_fails_with("huge", LONG_BOOT_MS, &huge, "vm/protocol");
    let half = r"printf '\020\000\000\000\040{' >&$PORT; exec sleep 60";
    ready_fails_with("half", SHORT_BOOT_MS, half, "vm/boot-timeout");
}

/// Starts a guest that sets its session, with the mailbox or without, and then sends `frame`.
fn ends_a_session(name: &str, pong_flags: u8, frame: &str) {
    let hello =
        r#"printf '\063\000\000\000\040{"protocol":1,"agent":"hostile","bootMs":1}        '"#;
    let pong = format!(r"printf '\005\000\000\000\004\001\000\000\000\{pong_flags:03o}'");
    let configured = r"printf '\006\000\000\000\057\000\000\000\000{}'";
    let script = format!(
        "take() {{ head -c $1 <&$PORT >/dev/null; }}; {hello} >&$PORT; take 42; {pong} >&$PORT; take 5; \
         {configured} >&$PORT; printf '{frame}' >&$PORT; exec sleep 60"
    );
    let vm = Vm::launch(name, LONG_BOOT_MS, &script);
    let exit = vm.exit();
    assert_eq!(exit["code"], "vm/protocol", "{name}: {exit}");
    let message = exit["message"].as_str().unwrap();
    assert!(!message.contains("before it was ready"), "{name}: {exit}");
}

#[test]
fn mail_that_cannot_be_ends_the_vm() {
    const WITH: u8 = 3;
    const WITHOUT: u8 = 1;
    let mail =
        |slot_and_bytes: &str| format!(r"\011\000\000\000\060\001\000\000\000{slot_and_bytes}");
    let taken = |slot: &str| format!(r"\005\000\000\000\061\001\000\000\000{slot}");
    let one_byte = mail(r"\000\001\000\000\000");
    for (name, flags, frame) in [
        ("no-mailbox", WITHOUT, one_byte.clone()),
        ("no-mailbox-taken", WITHOUT, taken(r"\000")),
        ("nobody-asked", WITH, one_byte),
        ("no-slot", WITH, mail(r"\004\001\000\000\000")),
        ("no-bytes", WITH, mail(r"\000\000\000\000\000")),
        ("beyond-the-slot", WITH, mail(r"\003\001\000\004\000")),
        ("four-gib", WITH, mail(r"\000\377\377\377\377")),
        (
            "short",
            WITH,
            r"\006\000\000\000\060\001\000\000\000\000\001".to_owned(),
        ),
        ("taken-and-not-sent", WITH, taken(r"\000")),
        ("taken-from-nowhere", WITH, taken(r"\377")),
    ] {
        ends_a_session(name, flags, &frame);
    }
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
fn a_vmm_that_breaks_the_protocol_of_its_control_ends_the_vm() {
    let configured = said(0x2f, 0, "{}");
    for (name, words) in [("no-ready", "nonsense"), ("no-word", "ready\nnonsense")] {
        let then = format!("printf '{words}\n' >&$CONTROL;");
        let vm = Vm::launch(name, LONG_BOOT_MS, &session_then(&configured, &then));
        let exit = vm.exit();
        assert_eq!(
            (&exit["reason"], &exit["code"]),
            (&json!("protocol"), &json!("vm/protocol"))
        );
        let message = exit["message"].as_str().unwrap();
        assert!(message.contains("nonsense"), "{exit}");
    }
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
    let deadline = Instant::now() + Duration::from_secs(5);
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
    let deadline = Instant::now() + Duration::from_secs(5);
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

/// Returns a Bash script that says hello, and reads the session and the head of its configuration, of which `$length`
/// bytes remain. It leaves them and the keeper's next frames unread until it calls `take`.
fn session_then(answer_configure: &str, then: &str) -> String {
    session_with(1, answer_configure, then)
}

/// Like `session_then`, with other flags in the guest's `Pong`.
fn session_with(flags: u8, answer_configure: &str, then: &str) -> String {
    let hello =
        r#"printf '\063\000\000\000\040{"protocol":1,"agent":"hostile","bootMs":1}        '"#;
    let pong = format!(r"printf '\005\000\000\000\004\001\000\000\000\{flags:03o}'");
    format!(
        "take() {{ head -c $1 <&$PORT >/dev/null; }}; {hello} >&$PORT; take 42; {pong} >&$PORT; \
         length=$(head -c 4 <&$PORT | od -An -tu4); take 1; \
         {answer_configure} {then} exec sleep 60"
    )
}

/// Returns Bash code that sends one frame.
fn said(kind: u8, id: u32, body: &str) -> String {
    let frame = frame(kind, id, body.as_bytes());
    let escaped: String = frame.iter().map(|byte| format!("\\{byte:03o}")).collect();
    format!("printf '{escaped}' >&$PORT;")
}

fn frame(kind: u8, id: u32, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).unwrap();
    let mut frame = length.to_le_bytes().to_vec();
    frame.push(kind);
    frame.extend(id.to_le_bytes());
    frame.extend(body);
    frame
}

/// Returns the keeper's answers, line by line, to a request whose guest falls silent.
fn silent_guest_answers(name: &str, then: &str, op: Value, sent: &[u8]) -> (Vec<Value>, Value) {
    // The guest sends its answer only after the request: an earlier answer would be another breach of the protocol.
    let then = format!("take $length; take 1; {then}");
    let mut vm = Vm::new(name, LONG_BOOT_MS);
    vm.guest_silence_ms = 600;
    assert_eq!(
        vm.relaunch(&session_then(&said(47, 0, "{}"), &then)).0,
        "created"
    );
    let answer = |op| serde_json::from_str::<Value>(&vm.ask(op, || {})).unwrap();
    assert!(answer("ready")["ok"].is_object(), "{name}");
    let fence = answer("attach")["ok"]["fence"].clone();
    let mut stream = UnixStream::connect(vm.dir.join("k.sock")).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(15)))
        .unwrap();
    let mut request = op;
    for (field, value) in [("v", json!(1)), ("id", json!(1)), ("fence", fence)] {
        request[field] = value;
    }
    stream.write_all(format!("{request}\n").as_bytes()).unwrap();
    // A keeper that gives up early reads no more.
    let _ = stream.write_all(sent);
    let mut lines = Vec::new();
    let mut reader = BufReader::new(stream);
    loop {
        let mut line = Vec::new();
        match reader.read_until(b'\n', &mut line) {
            Ok(0) => break,
            Ok(_) => lines.extend(serde_json::from_slice::<Value>(&line)),
            Err(error) => panic!("{name}: the keeper waits with its guest: {error}"),
        }
    }
    (lines, vm.exit())
}

#[test]
fn a_guest_that_goes_silent_in_an_exchange_loses_its_vm() {
    let path = "/workspace/x";
    // The first request has the id 1.
    let present = &said(19, 1, r#"{"sizeBytes":9,"mode":420}"#);
    let is_folder = &said(41, 1, r#"{"kind":"dir"}"#);
    let tar = [0u8; 1024];
    let cases: [(&str, &str, Value, &[u8]); 7] = [
        (
            "no-file",
            "",
            json!({ "op": "file.get", "path": path }),
            &[],
        ),
        (
            "no-bytes",
            present,
            json!({ "op": "file.get", "path": path }),
            &[],
        ),
        ("no-tar", "", json!({ "op": "tar.get", "path": path }), &[]),
        (
            "no-entries",
            is_folder,
            json!({ "op": "tar.get", "path": path }),
            &[],
        ),
        (
            "no-answer",
            "",
            json!({ "op": "tar.put", "path": path }),
            &tar,
        ),
        (
            "no-file-answer",
            "",
            json!({ "op": "file.put", "path": path, "mode": 420, "sizeBytes": 0 }),
            &[],
        ),
        ("no-figures", "", json!({ "op": "stats" }), &[]),
    ];
    for (name, said, op, sent) in cases {
        let (lines, exit) = silent_guest_answers(name, said, op, sent);
        assert_eq!(exit["code"], "vm/protocol", "{name}: {exit}");
        let message = exit["message"].as_str().unwrap();
        assert!(message.contains("went silent"), "{name}: {exit}");
        if !name.starts_with("no-bytes") && !name.starts_with("no-entries") {
            let last = lines.last().unwrap();
            assert_eq!(last["error"]["code"], "vm/protocol", "{name}: {last}");
        }
    }
}

#[test]
fn a_guest_that_stands_still_under_a_command_loses_its_vm() {
    let start = json!({
        "op": "exec.start", "execKey": "a/0/1", "program": "sleep", "args": ["9"], "env": {}, "cwd": "/",
        "uid": 1000, "gid": 1000, "stdinBytes": null, "timeoutMs": 3_600_000, "maxOutputBytes": 1024,
    });
    let (lines, exit) = silent_guest_answers("no-pulse", "", start, &[]);
    assert_eq!(lines[0]["ok"]["known"], false, "{lines:?}");
    assert_eq!(exit["code"], "vm/protocol", "{exit}");
    let message = exit["message"].as_str().unwrap();
    assert!(message.contains("went silent"), "{exit}");
}

/// Returns a guest that reads every frame, and answers each request for its figures; `to_exec` is its reaction to a
/// command.
fn lively_guest(to_exec: &str) -> String {
    guest_that_reacts(1, &format!("1) {to_exec} ;;"))
}

/// Like `lively_guest`, with other flags in its `Pong`, and reactions to frames as cases of Bash.
fn guest_that_reacts(flags: u8, cases: &str) -> String {
    let hello =
        r#"printf '\063\000\000\000\040{"protocol":1,"agent":"hostile","bootMs":1}        '"#;
    let pong = format!(r"printf '\005\000\000\000\004\001\000\000\000\{flags:03o}'");
    let configured = said(47, 0, "{}");
    let figures = r#"{"memoryTotalBytes":1,"memoryAvailableBytes":1,"diskFreeBytes":1,"processes":0,"oomKills":0}"#;
    let length = figures.len() + 4;
    format!(
        r#"heard() {{
             set -- $(head -c 5 <&$PORT | od -An -v -tu1) && size=$(($1 + $2 * 256)) && kind=$5 &&
             set -- $(head -c $size <&$PORT | od -An -v -tu1) && id=$(printf '\\%03o' $1 $2 $3 $4)
           }}
           {hello} >&$PORT; heard; {pong} >&$PORT; heard; {configured}
           while heard; do
             case $kind in
               {cases}
               43) printf '\{length:03o}\000\000\000\054'"$id"'{figures}' >&$PORT ;;
             esac
           done"#
    )
}

#[test]
fn a_guest_that_lives_and_never_starts_a_command_loses_its_vm() {
    let start = json!({
        "v": 1, "id": 1, "op": "exec.start", "fence": 1, "execKey": "a/0/1", "program": "sleep", "args": ["9"],
        "env": {}, "cwd": "/", "uid": 1000, "gid": 1000, "stdinBytes": null, "timeoutMs": 3_600_000,
        "maxOutputBytes": 1024,
    });
    let begin = |name: &str, to_exec: &str| {
        let mut vm = Vm::new(name, LONG_BOOT_MS);
        vm.guest_silence_ms = 1_000;
        assert_eq!(vm.relaunch(&lively_guest(to_exec)).0, "created");
        assert!(vm.call("ready")["ok"].is_object(), "{name}");
        assert_eq!(vm.call("attach")["ok"]["fence"], 1);
        let mut stream = UnixStream::connect(vm.dir.join("k.sock")).unwrap();
        stream.write_all(format!("{start}\n").as_bytes()).unwrap();
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).unwrap();
        assert!(line.contains(r#""known":false"#), "{name}: {line}");
        vm
    };
    let exit = begin("not-started", ":").exit();
    assert_eq!(exit["code"], "vm/protocol", "{exit}");
    let message = exit["message"].as_str().unwrap();
    assert!(message.contains("a/0/1 was not started"), "{exit}");
    // A command that has started may be silent until its deadline.
    let vm = begin("started", &said(33, 1, r#"{"pid":7}"#));
    std::thread::sleep(Duration::from_millis(2_500));
    assert_eq!(vm.call("status")["ok"]["state"], "ready");
}

/// Flags of a guest that says that it freezes its disk.
const FREEZES: u8 = 33;
/// The size of the disk in tests of checkpoints.
const DISK_BYTES: usize = 3 << 20;

/// Returns Bash code that answers the newest request.
fn answers(kind: u8, body: &str) -> String {
    let length = body.len() + 4;
    format!(r#"printf '\{length:03o}\000\000\000\{kind:03o}'"$id"'{body}' >&$PORT"#)
}

/// A VM with a disk, for checkpoints into a folder of its run directory.
struct Checkpoints {
    vm: Vm,
    folder: PathBuf,
}

impl Checkpoints {
    fn launch(name: &str, flags: u8, cases: &str) -> Self {
        let vm = Vm::new(name, LONG_BOOT_MS);
        assert_eq!(vm.relaunch(&guest_that_reacts(flags, cases)).0, "created");
        assert!(vm.call("ready")["ok"].is_object(), "{name}");
        assert_eq!(vm.call("attach")["ok"]["fence"], 1);
        std::fs::write(vm.dir.join("scratch.img"), vec![7; DISK_BYTES]).unwrap();
        let folder = vm.dir.join("kept");
        std::fs::create_dir(&folder).unwrap();
        Self { vm, folder }
    }

    fn begin(&self) -> BufReader<UnixStream> {
        self.send(json!({ "op": "checkpoint", "dest": self.folder.join("disk"), "limitMs": 5_000 }))
    }

    fn send(&self, mut request: Value) -> BufReader<UnixStream> {
        let mut stream = UnixStream::connect(self.vm.dir.join("k.sock")).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(15)))
            .unwrap();
        for (field, value) in [("v", 1), ("id", 1), ("fence", 1)] {
            request[field] = json!(value);
        }
        stream.write_all(format!("{request}\n").as_bytes()).unwrap();
        BufReader::new(stream)
    }

    /// Returns the code of the error, after the first answer.
    fn fails(&self) -> String {
        let mut client = self.begin();
        assert!(answer_of(&mut client)["ok"].is_object());
        let answer = answer_of(&mut client);
        answer["error"]["code"].as_str().unwrap_or_default().into()
    }

    fn is_empty_soon(&self) -> bool {
        let deadline = Instant::now() + Duration::from_secs(10);
        while std::fs::read_dir(&self.folder).unwrap().count() > 0 {
            if Instant::now() > deadline {
                return false;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        true
    }
}

fn answer_of(client: &mut BufReader<UnixStream>) -> Value {
    let mut line = String::new();
    client.read_line(&mut line).unwrap();
    serde_json::from_str(&line).unwrap_or(Value::Null)
}

const CANCELLED: &str = r#"{"code":"cancelled","message":"x"}"#;
const LIMIT: &str = r#"{"code":"limit","message":"x"}"#;

fn frozen_until(end: &str) -> String {
    format!("58) {} ;; 45) {} ;;", answers(59, "{}"), answers(42, end))
}

#[test]
fn a_checkpoint_is_kept_only_if_the_guest_confirms_its_freeze() {
    use std::os::unix::fs::PermissionsExt;
    let kept = Checkpoints::launch("frozen", FREEZES, &frozen_until(CANCELLED));
    let mut client = kept.begin();
    assert!(answer_of(&mut client)["ok"].is_object());
    let answer = answer_of(&mut client);
    assert!(answer["ok"]["usedBytes"].as_u64().unwrap() > 0, "{answer}");
    let disk = kept.folder.join("disk");
    assert!(std::fs::read(&disk).unwrap() == vec![7; DISK_BYTES]);
    let mode = std::fs::metadata(&disk).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(std::fs::read_dir(&kept.folder).unwrap().count(), 1);
    // A disk that is there is never replaced.
    assert_eq!(answer_of(&mut kept.begin())["error"]["code"], "host/io");
    assert_eq!(std::fs::read_dir(&kept.folder).unwrap().count(), 1);

    let late = Checkpoints::launch("thawed", FREEZES, &frozen_until(LIMIT));
    assert_eq!(late.fails(), "vm/checkpoint-failed");
    assert!(late.is_empty_soon());
    let refuses = format!("58) {} ;;", answers(42, r#"{"code":"io","message":"x"}"#));
    let broken = Checkpoints::launch("refuses", FREEZES, &refuses);
    assert_eq!(broken.fails(), "vm/checkpoint-failed");
    assert!(broken.is_empty_soon());
    let earlier = Checkpoints::launch("earlier", 1, &frozen_until(CANCELLED));
    let answer = answer_of(&mut earlier.begin());
    assert_eq!(answer["error"]["code"], "vm/checkpoint-failed", "{answer}");
}

#[test]
fn a_checkpoint_ends_with_its_client_and_with_a_command_that_starts() {
    let waits = Checkpoints::launch("waits", FREEZES, "58) : ;;");
    let mut client = waits.begin();
    assert!(answer_of(&mut client)["ok"].is_object());
    assert_eq!(answer_of(&mut waits.begin())["error"]["code"], "vm/busy");
    assert_eq!(std::fs::read_dir(&waits.folder).unwrap().count(), 1);
    drop(client);
    assert!(waits.is_empty_soon());

    let mut client = waits.begin();
    assert!(answer_of(&mut client)["ok"].is_object());
    let start = json!({
        "op": "exec.start", "execKey": "a/0/1", "program": "sleep", "args": ["9"], "env": {}, "cwd": "/",
        "uid": 1000, "gid": 1000, "stdinBytes": null, "timeoutMs": 3_600_000, "maxOutputBytes": 1024,
    });
    assert_eq!(answer_of(&mut waits.send(start))["ok"]["known"], false);
    assert_eq!(answer_of(&mut client)["error"]["code"], "vm/busy");
    assert!(waits.is_empty_soon());
    // The command runs, so the next checkpoint does not begin.
    assert_eq!(answer_of(&mut waits.begin())["error"]["code"], "vm/busy");
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

/// The first id of the streams that a guest opens.
const FIRST_TUNNEL: u32 = 1 << 31;
const CREDIT: u8 = 34;
const DATA: u8 = 35;
const STREAM_END: u8 = 36;
const CANCEL: u8 = 45;
const CONNECT: u8 = 50;

fn connect(id: u32) -> Vec<u8> {
    let body = br#"{"to":"host","host":"a.example","port":443}"#;
    frame(CONNECT, id, body)
}

/// Starts a session with a door on both sides, or on neither, and then sends the frames of a guest.
fn sends_frames(name: &str, has_door: bool, frames: &[u8]) -> Vm {
    sends_in_pieces(name, has_door, frames, frames.len(), 0)
}

/// Sends `piece_bytes` at once. Before the next piece, the guest waits until `answers` more requests have their last
/// answer.
fn sends_in_pieces(
    name: &str,
    has_door: bool,
    frames: &[u8],
    piece_bytes: usize,
    answers: usize,
) -> Vm {
    let file = std::env::temp_dir().join(format!("voidbox-frames-{name}-{}", std::process::id()));
    std::fs::write(&file, frames).unwrap();
    let mut vm = Vm::new(name, LONG_BOOT_MS);
    let flags = match has_door {
        true => {
            vm.egress = json!({ "allow": [], "services": [] });
            5
        }
        false => 1,
    };
    // The script reads the keeper's answers, because the keeper must not wait for a guest that reads nothing.
    let send = format!(
        "cat <&$PORT >answers & exec 9<{file}; for piece in $(seq {pieces}); do \
         head -c {piece_bytes} <&9 >&$PORT; \
         until [ $(LC_ALL=C grep -aoE '\"\\}}|\\{{\\}}' answers | wc -l) -ge $((piece * {answers})) ]; do sleep 0.01; done; \
         done; touch sent; wait;",
        file = file.display(),
        pieces = frames.len().div_ceil(piece_bytes),
    );
    let script = session_with(flags, &said(47, 0, "{}"), &send);
    assert_eq!(vm.relaunch(&script).0, "created");
    vm
}

#[test]
fn tunnels_that_cannot_be_end_the_vm() {
    let id = FIRST_TUNNEL + 7;
    let data = frame(DATA, id, &[0; 65_536]);
    let credit = |bytes: u32| {
        let mut body = vec![0];
        body.extend(bytes.to_le_bytes());
        frame(CREDIT, id, &body)
    };
    let end = frame(STREAM_END, id, b"{}");
    let many: Vec<u8> = (0..129).flat_map(|n| connect(FIRST_TUNNEL + n)).collect();
    for (name, has_door, frames) in [
        ("no-door", false, connect(id)),
        ("a-request-of-the-keepers", true, connect(7)),
        ("twice", true, [connect(id), connect(id)].concat()),
        ("data-of-nothing", true, data.clone()),
        ("end-of-nothing", true, end.clone()),
        ("answer-of-a-guest", true, frame(51, id, b"{}")),
        (
            "beyond-the-window",
            true,
            [connect(id), data.repeat(3)].concat(),
        ),
        (
            "behind-its-end",
            true,
            [connect(id), end.clone(), frame(DATA, id, b"x")].concat(),
        ),
        (
            "endless-credit",
            true,
            [connect(id), credit(u32::MAX), credit(u32::MAX)].concat(),
        ),
        ("too-many", true, many),
        ("no-json", true, frame(CONNECT, id, b"{\"to\":\"host\"")),
        (
            "no-port",
            true,
            frame(
                CONNECT,
                id,
                br#"{"to":"host","host":"a.example","port":65536}"#,
            ),
        ),
        (
            "huge",
            true,
            frame(
                CONNECT,
                id,
                json!({ "to": "host", "host": "x".repeat(2 << 20), "port": 1 })
                    .to_string()
                    .as_bytes(),
            ),
        ),
    ] {
        let vm = sends_frames(name, has_door, &frames);
        let exit = vm.exit();
        assert_eq!(exit["code"], "vm/protocol", "{name}: {exit}");
    }
}

#[test]
fn a_flood_of_tunnels_is_bounded_in_memory_and_in_what_is_kept_of_it() {
    let name = "\u{1b}[2J\u{202e}".to_owned() + &"n".repeat(4_000);
    let wanted = json!({ "to": "host", "host": name, "port": 443 }).to_string();
    let pair = |number: u32| {
        let id = FIRST_TUNNEL + number;
        let cancel = frame(CANCEL, id, b"{}");
        [frame(CONNECT, id, wanted.as_bytes()), cancel].concat()
    };
    let frames: Vec<u8> = (0..4_000).flat_map(pair).collect();
    // A guest that did not wait for answers would exceed its limit of open streams, and break the protocol.
    let vm = sends_in_pieces("flood", true, &frames, 40 * pair(0).len(), 40);
    let deadline = Instant::now() + Duration::from_secs(60);
    while !vm.dir.join("sent").exists() {
        let exit = std::fs::read_to_string(vm.dir.join("exit.json")).unwrap_or_default();
        assert!(exit.is_empty(), "the VM ended: {exit}");
        assert!(Instant::now() < deadline, "the keeper does not read on");
        std::thread::sleep(Duration::from_millis(20));
    }
    let status = vm.call("status");
    assert_eq!(status["ok"]["state"], "ready", "{status}");
    let refused = status["ok"]["refusedConnections"].as_u64().unwrap();
    let notices = std::fs::read_to_string(vm.dir.join("notices")).unwrap();
    assert!(refused > 0 && !notices.is_empty(), "{refused} refused");
    assert!(notices.len() <= (512 << 10) + 64, "{} bytes", notices.len());
    assert!(
        notices
            .chars()
            .all(|letter| letter == '\n' || !letter.is_control())
    );
    for line in notices.lines() {
        let notice: Value = serde_json::from_str(line).unwrap();
        let host = notice["host"].as_str().unwrap_or_default();
        assert!(host.len() <= 255 && host.is_ascii(), "{line}");
        let reason = notice["reason"].as_str().unwrap_or_default();
        assert!(reason.len() <= 1024, "{} bytes of reason", reason.len());
    }
    let keeper: Value =
        serde_json::from_slice(&std::fs::read(vm.dir.join("keeper.json")).unwrap()).unwrap();
    let statm = std::fs::read_to_string(format!("/proc/{}/statm", keeper["pid"])).unwrap();
    let pages: u64 = statm.split(' ').nth(1).unwrap().parse().unwrap();
    assert!(pages * 4096 < 64 << 20, "{pages} pages are resident");
}

const WAITING: &str = r#"printf '\016\000\000\000\070{"protocol":1}' >&$PORT;"#;

/// Launches a guest with snapshots, which begins as `begins` says.
fn launch_with_snapshots(name: &str, begins: &'static str, script: &str) -> Vm {
    launch_within(name, begins, LONG_BOOT_MS, script)
}

fn launch_within(name: &str, begins: &'static str, boot_timeout_ms: u64, script: &str) -> Vm {
    let mut vm = Vm::new(name, boot_timeout_ms);
    vm.begins = Some(begins);
    assert_eq!(vm.relaunch(script).0, "created", "{name}");
    vm
}

#[test]
fn a_guest_that_abuses_its_wait_is_refused_by_name() {
    let hello = r#"printf '\063\000\000\000\040{"protocol":1,"agent":"hostile","bootMs":1}        ' >&$PORT;"#;
    let twice = format!("{WHEN_ASKED} {WAITING} {WAITING} exec sleep 60");
    let late = format!("{WHEN_ASKED} {hello} {WAITING} exec sleep 60");
    let bare = format!(r"{WHEN_ASKED} printf '\000\000\000\000\070' >&$PORT; exec sleep 60");
    let flood = format!("{WHEN_ASKED} while :; do {WAITING} done");
    let huge = format!(r"{WHEN_ASKED} printf '\377\377\377\377\070' >&$PORT; exec sleep 60");
    for (name, script, named) in [
        ("wait-twice", &twice, "expected Hello, got Waiting"),
        ("wait-late", &late, "expected Pong, got Waiting"),
        ("wait-bare", &bare, "does not parse"),
        ("wait-flood", &flood, "expected Hello, got Waiting"),
        ("wait-huge", &huge, "4294967295"),
    ] {
        let vm = launch_with_snapshots(name, "bootToSave", script);
        let answer = vm.call("ready");
        assert_eq!(answer["error"]["code"], "vm/protocol", "{name}: {answer}");
        let exit = vm.exit();
        let message = exit["message"].as_str().unwrap();
        assert!(message.contains(named), "{name}: {exit}");
    }
    // Without snapshots, no guest has a reason to wait.
    let vm = Vm::launch("wait-unasked", LONG_BOOT_MS, &twice);
    vm.call("ready");
    let exit = vm.exit();
    let message = exit["message"].as_str().unwrap();
    assert!(message.contains("expected Hello, got Waiting"), "{exit}");
}

#[test]
fn a_guest_that_never_waits_boots_and_the_reason_is_named() {
    let script = session_then(&said(47, 0, "{}"), "");
    let vm = launch_with_snapshots("wait-never", "bootToSave", &script);
    let answer = vm.call("ready");
    assert_eq!(answer["ok"]["start"]["kind"], "cold", "{answer}");
    let note = "no snapshot was made: the guest does not wait";
    assert_eq!(answer["ok"]["start"]["note"], note, "{answer}");
}

#[test]
fn a_guest_that_waits_gets_its_start_and_boots_also_without_its_snapshot() {
    let script = format!(
        "take() {{ head -c $1 <&$PORT >/dev/null; }}; {WAITING} \
         length=$(head -c 4 <&$PORT | od -An -tu4); head -c 1 <&$PORT >kind; head -c $length <&$PORT >start; {}",
        session_then(&said(47, 0, "{}"), "")
    );
    let vm = launch_with_snapshots("wait-well", "bootToSave", &script);
    let answer = vm.call("ready");
    assert_eq!(answer["ok"]["start"]["kind"], "cold", "{answer}");
    let note = answer["ok"]["start"]["note"].as_str().unwrap();
    assert!(note.contains("this VMM has no snapshots"), "{answer}");
    let start = std::fs::read(vm.dir.join("start")).unwrap();
    let start: Value = serde_json::from_slice(&start).unwrap();
    assert_eq!(start["scratchBytes"], 16 << 20, "{start}");
    assert_eq!(std::fs::read(vm.dir.join("kind")).unwrap(), [57]);
}

/// The first life of each guest is a copy; the second one boots.
#[test]
fn a_copy_that_breaks_the_protocol_or_ends_costs_a_boot_and_the_reason_is_named() {
    let good = session_then(&said(47, 0, "{}"), "");
    let copy_waits = &format!("{WAITING} exec sleep 60;");
    for (name, first, named) in [
        (
            "copy-garbage",
            "printf 'not a frame at all' >&$PORT; exec sleep 60;",
            "broke the protocol",
        ),
        ("copy-waits", copy_waits, "got Waiting"),
        ("copy-ends", "exit 3;", "exit status: 3"),
        (
            "copy-silent",
            "exec sleep 60;",
            "sent no hello within 5000 ms",
        ),
    ] {
        let script = format!("[ -e second ] || {{ touch second; {first} }}; {good}");
        // A copy may use half of the boot limit.
        let vm = launch_within(name, "snapshot", 10_000, &script);
        let answer = vm.call("ready");
        assert_eq!(answer["ok"]["start"]["kind"], "cold", "{name}: {answer}");
        let note = answer["ok"]["start"]["note"].as_str().unwrap_or_default();
        assert!(note.starts_with("snapshot test: "), "{name}: {answer}");
        assert!(note.contains(named), "{name}: {answer}");
        assert!(note.ends_with("the VM boots instead"), "{name}: {answer}");
    }
}
