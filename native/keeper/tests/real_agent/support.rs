//! A keeper's client for tests, and the agent as its guest.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

pub const MIB: u64 = 1 << 20;
/// The limit of a single answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
const KEEPER: &str = env!("CARGO_BIN_EXE_voidbox-vm");

/// Returns the agent of this checkout, built in the same folder as the keeper.
pub fn agent() -> &'static Path {
    static AGENT: OnceLock<PathBuf> = OnceLock::new();
    AGENT.get_or_init(|| {
        let folder = Path::new(KEEPER).parent().unwrap();
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args([
            "build",
            "-q",
            "--locked",
            "-p",
            "voidbox-agent",
            "--target-dir",
        ]);
        cargo.arg(folder.parent().unwrap());
        if folder.ends_with("release") {
            cargo.arg("--release");
        }
        assert!(
            cargo.status().unwrap().success(),
            "the agent does not compile"
        );
        folder.join("voidbox-agent")
    })
}

/// Returns the setting `vmm` for a program that holds the guest port.
pub fn test_vmm(program: &Path, args: &[&str]) -> Value {
    json!({ "name": "test", "program": program, "args": args })
}

pub struct Vm {
    pub dir: PathBuf,
    guest: PathBuf,
    mount_point: Option<PathBuf>,
}

impl Vm {
    /// Launches a keeper whose guest is the agent; `extra` overrides its launch configuration.
    pub fn with_agent(name: &str, extra: Value) -> Self {
        Self::launch(name, extra, Command::new(KEEPER))
    }

    /// Launches in a folder of VMs; the error is the answer of a launch that created no VM.
    pub fn in_folder(folder: &Path, name: &str, extra: Value) -> Result<Self, Value> {
        let vm = Self::at(folder.join(name), name);
        let answer = vm.try_launch(extra, Command::new(KEEPER));
        match answer["state"].as_str() {
            Some("created") => Ok(vm),
            _ => Err(answer),
        }
    }

    /// Launches with a limit of `bytes` for every file.
    pub fn with_agent_and_file_limit(name: &str, bytes: u64) -> Self {
        let mut command = Command::new("bash");
        let script = format!(
            "trap '' XFSZ; ulimit -f {}; exec \"$0\" \"$@\"",
            bytes / 1024
        );
        command.args(["-c", &script, KEEPER]);
        Self::launch(name, json!({}), command)
    }

    /// Launches with a run directory on a file system of `mib` MiB, in a mount namespace of the keeper.
    pub fn with_agent_on_small_disk(name: &str, mib: u64, extra: Value) -> Self {
        let disk = std::env::temp_dir().join(format!("voidbox-disk-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&disk);
        std::fs::create_dir(&disk).unwrap();
        let mut command = Command::new("unshare");
        // SAFETY: a plain call that cannot fail.
        match unsafe { libc::geteuid() } {
            0 => command.arg("--mount"),
            _ => command.args(["--user", "--map-current-user", "--keep-caps", "--mount"]),
        };
        let script = format!(
            "mount -t tmpfs -o size={mib}m tmpfs {0:?} && exec \"$0\" \"$@\"",
            disk
        );
        command.args(["bash", "-c", &script, KEEPER]);
        let mut vm = Self::at(disk.join("vm"), name);
        let pid = vm.launch_by(extra, command);
        // This path shows that file system to this process; the folder on which it is mounted stays empty.
        vm.dir = PathBuf::from(format!("/proc/{pid}/root{}", vm.dir.display()));
        vm.mount_point = Some(disk);
        vm
    }

    fn launch(name: &str, extra: Value, command: Command) -> Self {
        let name = format!("voidbox-keeper-{name}-{}", std::process::id());
        let vm = Self::at(std::env::temp_dir().join(&name), &name);
        vm.launch_by(extra, command);
        vm
    }

    fn at(dir: PathBuf, name: &str) -> Self {
        // The agent serves files as a user that cannot enter a run directory.
        let guest = std::env::temp_dir().join(format!("{name}-guest"));
        for folder in [&dir, &guest] {
            let _ = std::fs::remove_dir_all(folder);
        }
        std::fs::create_dir(&guest).unwrap();
        std::fs::set_permissions(&guest, std::fs::Permissions::from_mode(0o777)).unwrap();
        Self {
            dir,
            guest,
            mount_point: None,
        }
    }

    /// Launches, and returns the keeper's process id.
    fn launch_by(&self, extra: Value, command: Command) -> u64 {
        let answer = self.try_launch(extra, command);
        assert_eq!(answer["state"], "created", "{answer}");
        answer["pid"].as_u64().unwrap()
    }

    fn try_launch(&self, extra: Value, mut command: Command) -> Value {
        let mut config = json!({
            "v": 1, "vmKey": "run/scope/0", "memoryMib": 64, "vcpus": 1, "diskMib": 16,
            "kernel": { "path": "/dev/null", "kind": "debian" }, "initramfs": "/dev/null",
            "vmm": test_vmm(agent(), &["--fd", "{fd}", "--mailbox-fd", "{mailbox}"]),
            "bootTimeoutMs": 15_000, "orphanTimeoutMs": 600_000,
        });
        for (key, value) in extra.as_object().unwrap() {
            config[key] = value.clone();
        }
        let mut launch = command
            .args(["launch", "--dir"])
            .arg(&self.dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdin = launch.stdin.take().unwrap();
        { stdin }.write_all(config.to_string().as_bytes()).unwrap();
        let output = launch.wait_with_output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Returns a path that commands and files of the guest may use.
    pub fn guest_path(&self, name: &str) -> String {
        self.guest.join(name).to_str().unwrap().to_owned()
    }

    pub fn stream(&self, op: &str, fields: Value) -> Stream {
        let mut stream = Stream::connect(&self.dir);
        let mut request = json!({ "v": 1, "id": 1, "op": op });
        for (key, value) in fields.as_object().unwrap() {
            request[key] = value.clone();
        }
        stream.send(&request);
        stream.head = stream.line();
        stream
    }

    pub fn call(&self, op: &str, fields: Value) -> Value {
        self.stream(op, fields).head
    }

    pub fn attach(&self) -> u64 {
        self.call("attach", json!({}))["ok"]["fence"]
            .as_u64()
            .unwrap()
    }

    /// Starts a shell script; `extra` overrides fields of the request.
    pub fn start(&self, fence: u64, key: &str, script: &str, extra: Value) -> Value {
        let answer = self.call("exec.start", start(fence, key, script, &extra));
        assert!(answer["ok"].is_object(), "{answer}");
        answer["ok"].clone()
    }

    pub fn wait(&self, key: &str) -> Value {
        let answer = self.call("exec.wait", json!({ "execKey": key }));
        assert!(answer["ok"].is_object(), "{answer}");
        answer["ok"].clone()
    }

    pub fn acknowledge(&self, fence: u64, key: &str) {
        let answer = self.call("exec.ack", json!({ "fence": fence, "execKey": key }));
        assert_eq!(answer["ok"], json!({}));
    }

    pub fn output(&self, key: &str, stream: &str, offset: u64) -> Stream {
        let fields = json!({ "execKey": key, "stream": stream, "offset": offset });
        let stream = self.stream("exec.output", fields);
        assert_eq!(stream.head["ok"]["offset"], offset);
        stream
    }

    pub fn keeper_pid(&self) -> Option<u64> {
        let file = std::fs::read(self.dir.join("keeper.json")).ok()?;
        serde_json::from_slice::<Value>(&file).ok()?["pid"].as_u64()
    }

    pub fn keeper_resident_bytes(&self) -> u64 {
        let path = format!("/proc/{}/statm", self.keeper_pid().unwrap());
        let statm = std::fs::read_to_string(path).unwrap();
        let pages: u64 = statm.split(' ').nth(1).unwrap().parse().unwrap();
        pages * 4096
    }

    /// Waits for the keeper's end, and returns `exit.json`.
    pub fn exit(&self) -> Value {
        let deadline = Instant::now() + ANSWER_TIMEOUT;
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
        // The guest dies with a killed keeper.
        if !self.dir.join("exit.json").exists()
            && let Some(pid) = self.keeper_pid()
        {
            let _ = Command::new("kill").args(["-9", &pid.to_string()]).status();
        }
        for folder in [&self.dir, &self.guest]
            .into_iter()
            .chain(&self.mount_point)
        {
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

/// Returns the fields of an `exec.start` for a shell script.
pub fn start(fence: u64, key: &str, script: &str, extra: &Value) -> Value {
    // SAFETY: plain calls that cannot fail.
    let own = unsafe { (libc::geteuid(), libc::getegid()) };
    // Only root can give a command another user.
    let (uid, gid) = if own.0 == 0 { (1000, 1000) } else { own };
    let mut fields = json!({
        "fence": fence, "execKey": key, "program": "sh", "args": ["-c", script], "env": {},
        "cwd": "/tmp", "uid": uid, "gid": gid, "stdinBytes": null, "timeoutMs": 60_000,
        "maxOutputBytes": 256 << 20,
    });
    for (name, value) in extra.as_object().unwrap() {
        fields[name] = value.clone();
    }
    fields
}

pub struct Stream {
    pub head: Value,
    pub socket: BufferedSocket,
}

/// A socket with a buffer, so that bytes read after an answer line are not lost.
pub struct BufferedSocket(BufReader<UnixStream>);

impl Read for BufferedSocket {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Write for BufferedSocket {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.get_mut().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Stream {
    pub fn connect(dir: &Path) -> Self {
        let socket = UnixStream::connect(dir.join("k.sock")).unwrap();
        socket.set_read_timeout(Some(ANSWER_TIMEOUT)).unwrap();
        Self {
            head: Value::Null,
            socket: BufferedSocket(BufReader::new(socket)),
        }
    }

    pub fn send(&mut self, request: &Value) {
        self.socket
            .write_all(format!("{request}\n").as_bytes())
            .unwrap();
    }

    pub fn line(&mut self) -> Value {
        let mut line = String::new();
        self.socket.0.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    /// Returns all bytes up to the stream's end.
    pub fn rest(mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.socket.read_to_end(&mut bytes).unwrap();
        bytes
    }
}

/// A client process that holds an open stream, and is stopped by SIGSTOP; dropping this kills it.
pub struct StoppedReader(Child);

pub fn stopped_reader(stream: &Stream) -> StoppedReader {
    let socket = OwnedFd::from(stream.socket.0.get_ref().try_clone().unwrap());
    let child = Command::new("sh")
        .args(["-c", "kill -STOP $$; exec cat"])
        .stdin(socket)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let stat = format!("/proc/{}/stat", child.id());
    let deadline = Instant::now() + ANSWER_TIMEOUT;
    while !std::fs::read_to_string(&stat).unwrap().contains(") T ") {
        assert!(Instant::now() < deadline, "the client does not stop");
        std::thread::sleep(Duration::from_millis(5));
    }
    StoppedReader(child)
}

impl Drop for StoppedReader {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
