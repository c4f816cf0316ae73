//! Guests and VMMs that fail during a checkpoint.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::support::{LONG_BOOT_MS, Vm, guest_that_reacts};

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
fn a_vmm_that_ends_during_a_checkpoint_leaves_nothing_of_it() {
    let frozen = answers(59, "{}");
    for (name, cases) in [
        ("ends-asked", "58) exit 3 ;;".to_owned()),
        ("ends-frozen", format!("58) {frozen}; exit 3 ;;")),
        // It is asked to thaw once the copy is complete.
        ("ends-copied", format!("58) {frozen} ;; 45) exit 3 ;;")),
    ] {
        let ends = Checkpoints::launch(name, FREEZES, &cases);
        assert_eq!(ends.fails(), "vm/lost", "{name}");
        assert!(ends.is_empty_soon(), "{name}");
    }
}
