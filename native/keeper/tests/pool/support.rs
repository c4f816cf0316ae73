//! The folder of a host whose guests are shell scripts, and clients of its keepers.

use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

pub const KEEPER: &str = env!("CARGO_BIN_EXE_voidbox-vm");
pub const KEY: &str = "run/scope/0";

/// A guest that gets `Start`, and then opens its session. It boots in the second life that its keeper gives it.
const GUEST: &str = r#"PORT={fd}; take() { head -c $1 <&$PORT >/dev/null; }
next() { length=$(head -c 4 <&$PORT | od -An -tu4); take 1; }
life=life-$(grep -o '[0-9]*' keeper.json | head -1)
[ -e $life ] || { touch $life; next; head -c $length <&$PORT >start.json; }
printf '\063\000\000\000\040{"protocol":1,"agent":"hostile","bootMs":1}        ' >&$PORT; take 42
printf '\005\000\000\000\004\001\000\000\000\005' >&$PORT
next; printf '\006\000\000\000\057\000\000\000\000{}' >&$PORT; exec sleep 60"#;

/// The folder of the run directories of a host, and all keepers in it.
pub struct Vms(pub PathBuf);

impl Vms {
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("voidbox-pool-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(path.join("vms")).unwrap();
        Self(path)
    }

    pub fn dir(&self, name: &str) -> PathBuf {
        self.0.join("vms").join(name)
    }

    pub fn config(&self, change: impl FnOnce(&mut Value)) -> Value {
        let mut config = json!({
            "v": 1, "vmKey": KEY, "memoryMib": 64, "vcpus": 1, "diskMib": 16,
            "kernel": { "path": "/dev/null", "kind": "debian" }, "initramfs": "/dev/null",
            "vmm": { "name": "test", "program": "/bin/bash", "args": ["-c", GUEST], "begins": "snapshot" },
            "snapshots": { "dir": self.0.join("snapshots"), "maxMib": 1 },
            "bootTimeoutMs": 15_000, "orphanTimeoutMs": 30_000,
        });
        change(&mut config);
        config
    }

    pub fn launch(&self, name: &str, change: impl FnOnce(&mut Value)) -> Value {
        let launch = self.begin_launch(name, change);
        serde_json::from_slice(&launch.wait_with_output().unwrap().stdout).unwrap()
    }

    pub fn begin_launch(&self, name: &str, change: impl FnOnce(&mut Value)) -> Child {
        let mut launch = Command::new(KEEPER)
            .args(["launch", "--dir"])
            .arg(self.dir(name))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let config = self.config(change).to_string();
        let mut stdin = launch.stdin.take().unwrap();
        stdin.write_all(config.as_bytes()).unwrap();
        drop(stdin);
        launch
    }

    /// Launches a VM that waits, and returns the id of its VMM once it does.
    pub fn pool(&self, name: &str) -> u64 {
        let made = self.launch(name, |config| {
            config["waits"] = true.into();
            config["vmKey"] = name.into();
        });
        assert_eq!(made["state"], "created", "{made}");
        self.until_waiting(name)
    }

    pub fn until_waiting(&self, name: &str) -> u64 {
        let mut pid = 0;
        wait_until("the VM does not wait", || {
            let status = Client::open(&self.dir(name)).ok("status", json!({}));
            pid = status["vmmPid"].as_u64().unwrap_or(0);
            let mut files = fs::read_dir(self.dir(name)).unwrap().flatten();
            let lives = files.any(|file| file.file_name().to_string_lossy().starts_with("life-"));
            lives && status["state"] == "waiting"
        });
        pid
    }

    pub fn keeper_pid(&self, name: &str) -> String {
        self.find_keeper(name).expect("the folder has a keeper")
    }

    fn find_keeper(&self, name: &str) -> Option<String> {
        let file = fs::read(self.dir(name).join("keeper.json")).ok()?;
        let file: Value = serde_json::from_slice(&file).unwrap();
        Some(file["pid"].to_string())
    }

    /// Kills a keeper with SIGKILL, and returns once its lock is free.
    pub fn kill(&self, name: &str) {
        let pid = self.keeper_pid(name);
        let killed = Command::new("kill").args(["-9", &pid]).status();
        assert!(killed.unwrap().success());
        wait_until("the keeper lives", || self.state(name) != "running");
    }

    pub fn state(&self, name: &str) -> String {
        let output = Command::new(KEEPER)
            .args(["status", "--dir"])
            .arg(self.dir(name))
            .output();
        let answer: Value = serde_json::from_slice(&output.unwrap().stdout).unwrap();
        answer["state"].as_str().unwrap().to_owned()
    }

    /// Waits for the guest of a key, and returns the status; `None` if its keeper or its VM ends before that.
    pub fn find_ready(&self, name: &str) -> Option<Value> {
        let mut client = Client::find(&self.dir(name)).ok()?;
        let wait = json!({ "timeoutMs": 15_000 });
        let status = client.try_ask("ready", wait).ok()?["ok"].take();
        (!status.is_null()).then_some(status)
    }

    /// Waits for the guest of a key, and returns the status and the id of the VMM.
    pub fn ready(&self, name: &str) -> (Value, u64) {
        let mut status = Client::open(&self.dir(name)).ask("ready", json!({ "timeoutMs": 15_000 }));
        if !status["error"].is_null() {
            let log = fs::read_to_string(self.dir(name).join("keeper.log"));
            let now = Client::open(&self.dir(name)).ok("status", json!({}));
            let files: Vec<_> = fs::read_dir(self.dir(name)).unwrap().flatten().collect();
            panic!(
                "{:?} {name} is not ready: {status}, {log:?} {now} {files:?}",
                self.0
            );
        }
        let status = status["ok"].take();
        let pid = status["vmmPid"].as_u64().unwrap();
        (status, pid)
    }
}

impl Drop for Vms {
    fn drop(&mut self) {
        for entry in fs::read_dir(self.0.join("vms")).unwrap().flatten() {
            let name = entry.file_name().into_string().unwrap();
            // A keeper removes its folder at its end, which may be now.
            if let Some(pid) = self.find_keeper(&name)
                && self.state(&name) == "running"
            {
                let _ = Command::new("kill").args(["-9", &pid]).status();
            }
        }
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub struct Client(BufReader<UnixStream>);

impl Client {
    pub fn open(dir: &Path) -> Self {
        Self::find(dir).expect("the keeper listens")
    }

    fn find(dir: &Path) -> io::Result<Self> {
        let stream = UnixStream::connect(dir.join("k.sock"))?;
        stream.set_read_timeout(Some(Duration::from_secs(20)))?;
        Ok(Self(BufReader::new(stream)))
    }

    pub fn ask(&mut self, op: &str, request: Value) -> Value {
        self.try_ask(op, request).expect("the keeper answers")
    }

    fn try_ask(&mut self, op: &str, mut request: Value) -> io::Result<Value> {
        request["v"] = 1.into();
        request["id"] = 1.into();
        request["op"] = op.into();
        let line = format!("{request}\n");
        self.0.get_mut().write_all(line.as_bytes())?;
        let mut answer = String::new();
        self.0.read_line(&mut answer)?;
        Ok(serde_json::from_str(&answer)?)
    }

    pub fn ok(&mut self, op: &str, request: Value) -> Value {
        let mut answer = self.ask(op, request);
        assert!(answer["error"].is_null(), "{op}: {answer}");
        answer["ok"].take()
    }
}

pub fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let since = Instant::now();
    while !done() {
        assert!(since.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
