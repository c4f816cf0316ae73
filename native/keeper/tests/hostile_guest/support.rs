//! The keeper of a guest that is a script, and the frames of such a guest.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Two boots with this limit are soon over.
pub const SHORT_BOOT_MS: u64 = 400;
/// Longer than the steps of a test before its VM ends on its own, however busy the machine is.
pub const LONG_BOOT_MS: u64 = 15_000;
/// The first lines of a guest that misbehaves only after its keeper was asked whether it is ready.
pub const WHEN_ASKED: &str = "until [ -e asked ]; do sleep 0.02; done;";

/// A VM by its run directory, which is also the guest's working folder.
pub struct Vm {
    pub dir: PathBuf,
    pub boot_timeout_ms: u64,
    pub guest_silence_ms: u64,
    /// The configuration of its door; null if the VM has no door.
    pub egress: Value,
    /// How the VM begins; without it there are no snapshots.
    pub begins: Option<&'static str>,
}

impl Vm {
    /// Launches a keeper whose guest is `script`; `$PORT` and `$CONTROL` are the descriptors of the port and the control.
    pub fn launch(name: &str, boot_timeout_ms: u64, script: &str) -> Self {
        let vm = Self::new(name, boot_timeout_ms);
        let (state, _) = vm.relaunch(script);
        assert_eq!(state, "created");
        vm
    }

    pub fn new(name: &str, boot_timeout_ms: u64) -> Self {
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

    pub fn relaunch(&self, script: &str) -> (String, Option<i32>) {
        self.launch_by(Command::new(env!("CARGO_BIN_EXE_voidbox-vm")), script)
    }

    pub fn launch_by(&self, mut command: Command, script: &str) -> (String, Option<i32>) {
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

    pub fn call(&self, op: &str) -> Value {
        let answer = self.ask(op, || std::fs::write(self.dir.join("asked"), "").unwrap());
        serde_json::from_str(&answer).unwrap()
    }

    /// Returns the answer's line; `asked` is called after the request was sent.
    pub fn ask(&self, op: &str, asked: impl FnOnce()) -> String {
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
    pub fn exit(&self) -> Value {
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

pub fn ready_fails_with(name: &str, boot_timeout_ms: u64, script: &str, code: &str) -> Value {
    let vm = Vm::launch(name, boot_timeout_ms, script);
    let answer = vm.call("ready");
    assert_eq!(answer["error"]["code"], code, "{answer}");
    let exit = vm.exit();
    assert_eq!(exit["code"], code, "{exit}");
    assert_eq!(vm.relaunch(script).0, "stopped");
    exit
}

/// Returns a Bash script that says hello, and reads the session and the head of its configuration, of which `$length`
/// bytes remain. It leaves them and the keeper's next frames unread until it calls `take`.
pub fn session_then(answer_configure: &str, then: &str) -> String {
    session_with(1, answer_configure, then)
}

/// Like `session_then`, with other flags in the guest's `Pong`.
pub fn session_with(flags: u8, answer_configure: &str, then: &str) -> String {
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
pub fn said(kind: u8, id: u32, body: &str) -> String {
    let frame = frame(kind, id, body.as_bytes());
    let escaped: String = frame.iter().map(|byte| format!("\\{byte:03o}")).collect();
    format!("printf '{escaped}' >&$PORT;")
}

pub fn frame(kind: u8, id: u32, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).unwrap();
    let mut frame = length.to_le_bytes().to_vec();
    frame.push(kind);
    frame.extend(id.to_le_bytes());
    frame.extend(body);
    frame
}

/// Like `lively_guest`, with other flags in its `Pong`, and reactions to frames as cases of Bash.
pub fn guest_that_reacts(flags: u8, cases: &str) -> String {
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
