//! VMs of a process that launched them for itself: they end with the process, and count like all others.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::support::{Stream, Vm};

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("voidbox-vms-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn tie(vm: &Vm, fence: u64, keep: bool) -> Stream {
    let stream = vm.stream("tie", json!({ "fence": fence, "keep": keep }));
    assert_eq!(stream.head["ok"], json!({}), "{}", stream.head);
    stream
}

fn wait_until_empty(folder: &Path) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while let Some(left) = std::fs::read_dir(folder).unwrap().next() {
        assert!(Instant::now() < deadline, "{left:?} stays");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_tied_vm_ends_with_its_client_and_leaves_nothing() {
    let folder = Folder::new("tied");
    let extra = json!({ "discard": true, "orphanTimeoutMs": 1_500, "note": { "name": "mine" } });
    let vm = Vm::in_folder(&folder.0, "vm", extra).unwrap();
    let intent = std::fs::read(vm.dir.join("intent.json")).unwrap();
    let intent: Value = serde_json::from_slice(&intent).unwrap();
    assert_eq!(intent["note"]["name"], "mine");
    let fence = vm.attach();
    let life = tie(&vm, fence, false);
    let marker = vm.guest_path("runs");
    vm.start(fence, "k", &format!("touch {marker}; sleep 60"), json!({}));
    // This is longer than the lease: only the connection keeps the VM.
    std::thread::sleep(Duration::from_millis(2_500));
    assert_eq!(vm.call("status", json!({}))["ok"]["state"], "ready");
    drop(life);
    wait_until_empty(&folder.0);
}

#[test]
fn a_vm_that_is_kept_outlives_its_client_for_its_lease() {
    let vm = Vm::with_agent("tie-keep", json!({ "orphanTimeoutMs": 5_000 }));
    let fence = vm.attach();
    drop(tie(&vm, fence, true));
    std::thread::sleep(Duration::from_millis(700));
    assert_eq!(vm.call("status", json!({}))["ok"]["state"], "ready");
    assert_eq!(vm.exit()["reason"], "orphaned");
}

#[test]
fn a_higher_fence_takes_a_tied_vm_over() {
    let vm = Vm::with_agent("tie-over", json!({}));
    let first = tie(&vm, vm.attach(), false);
    let fence = vm.attach();
    assert_eq!(first.rest(), b"", "its connection is ended");
    let stale = vm.call("tie", json!({ "fence": fence - 1 }));
    assert_eq!(stale["error"]["code"], "fence/stale");
    let second = tie(&vm, fence, false);
    assert_eq!(
        vm.call("renew", json!({ "fence": fence }))["error"],
        Value::Null
    );
    drop(second);
    let exit = vm.exit();
    assert_eq!(exit["reason"], "stopped");
    assert!(exit["message"].as_str().unwrap().contains("tied"), "{exit}");
}

#[test]
fn vms_of_a_folder_never_take_more_than_its_budget() {
    let folder = Folder::new("budget");
    // Each VM needs 64 and 36 MiB.
    let extra = json!({ "budget": { "memoryMib": 250, "overheadMib": 36 } });
    let launched: Vec<_> = std::thread::scope(|scope| {
        let launches: Vec<_> = (0..6)
            .map(|index| {
                let (folder, extra) = (&folder.0, extra.clone());
                scope.spawn(move || Vm::in_folder(folder, &format!("vm{index}"), extra))
            })
            .collect();
        launches
            .into_iter()
            .map(|one| one.join().unwrap())
            .collect()
    });
    let (mut admitted, mut refused) = (Vec::new(), Vec::new());
    for launch in launched {
        match launch {
            Ok(vm) => admitted.push(vm),
            Err(answer) => refused.push(answer),
        }
    }
    assert_eq!((admitted.len(), refused.len()), (2, 4), "{refused:?}");
    for answer in refused {
        assert_eq!(answer["error"]["code"], "vm/no-capacity");
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(
            message.ends_with("200 of 250 MiB are taken by 2 VMs"),
            "{message}"
        );
    }
    // A killed VM uses no memory from then on, although no process notifies its launch.
    let killed = admitted.pop().unwrap();
    let pid = killed.keeper_pid().unwrap().to_string();
    assert!(
        std::process::Command::new("kill")
            .args(["-9", &pid])
            .status()
            .unwrap()
            .success()
    );
    let deadline = Instant::now() + Duration::from_secs(20);
    let next = loop {
        match Vm::in_folder(&folder.0, "next", extra.clone()) {
            Ok(vm) => break vm,
            Err(answer) => assert!(Instant::now() < deadline, "{answer}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    // A VM of a build without an overhead in its budget is counted too.
    drop(next);
    let rest = json!({});
    let old = Vm::in_folder(&folder.0, "old", rest).unwrap();
    let answer = Vm::in_folder(&folder.0, "last", extra).err().unwrap();
    assert_eq!(answer["error"]["code"], "vm/no-capacity", "{answer}");
    drop((old, admitted));
}
