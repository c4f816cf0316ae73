//! VMs that wait, and the launches that take them. A crash at each step leaves a VM of the pool or of the key. The guest
//! is a shell script; there is no jail and no VM.

mod crashes;
mod support;

use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use support::{Client, KEEPER, KEY, Vms, wait_until};

#[test]
fn a_launch_takes_a_vm_that_waits_with_its_own_configuration() {
    let vms = Vms::new("take");
    let waiting = vms.pool("pool-a");
    assert!(!vms.dir("pool-a").join("started").exists());
    let made = vms.launch("key", |config| {
        config["diskMib"] = 32.into();
        config["egress"] = json!({ "allow": "any" });
    });
    assert_eq!(made["state"], "created", "{made}");
    let (status, pid) = vms.ready("key");
    assert_eq!(pid, waiting);
    assert_eq!(status["vmKey"], KEY);
    assert_eq!(status["start"]["kind"], "snapshot", "{status}");
    assert_eq!(status["start"]["pooled"], true, "{status}");
    assert_eq!(status["refusedConnections"], 0, "it has a door");
    assert!(!vms.dir("pool-a").exists());
    assert!(vms.dir("key").join("started").exists());
    let start = fs::read(vms.dir("key").join("start.json")).unwrap();
    let start: Value = serde_json::from_slice(&start).unwrap();
    assert_eq!(start["scratchBytes"], 32 << 20);
    let intent = fs::read(vms.dir("key").join("intent.json")).unwrap();
    let intent: Value = serde_json::from_slice(&intent).unwrap();
    assert_eq!(intent["vmKey"], KEY);
    assert!(intent["waits"].is_null(), "{intent}");
    assert_eq!(vms.launch("key", |_| ())["state"], "attached");
    let mut client = Client::open(&vms.dir("key"));
    let fence = client.ok("attach", json!({}))["fence"].clone();
    assert_eq!(fence, 2, "the launch had the first one");
    client.ok("stop", json!({ "fence": fence }));
    wait_until("the keeper lives", || vms.state("key") == "stopped");
}

#[test]
fn a_launch_with_other_parts_takes_no_vm_of_the_pool() {
    let vms = Vms::new("other");
    vms.pool("pool-a");
    let made = vms.launch("key", |config| config["memoryMib"] = 65.into());
    assert_eq!(made["state"], "created");
    let (status, _) = vms.ready("key");
    assert_eq!(status["start"]["pooled"], false, "{status}");
    vms.until_waiting("pool-a");
}

#[test]
fn a_taken_vm_refuses_another_key_and_a_wrong_folder() {
    let vms = Vms::new("twice");
    vms.pool("pool-a");
    vms.pool("pool-b");
    let mut client = Client::open(&vms.dir("pool-a"));
    let fence = client.ok("attach", json!({}))["fence"].clone();
    let take = |dir: &str, key: &str| {
        let config = vms.config(|config| config["vmKey"] = key.into());
        json!({ "fence": fence, "dir": vms.dir(dir), "config": config })
    };
    let refused = client.ask("take", take("pool-b", KEY));
    let message = refused["error"]["message"].as_str().unwrap();
    assert!(
        message.contains("is not the folder of this VM"),
        "{message}"
    );
    client.ok("take", take("pool-a", KEY));
    let mut client = Client::open(&vms.dir("pool-a"));
    client.ok("take", take("pool-a", KEY));
    let refused = client.ask("take", take("pool-a", "run/other/0"));
    assert_eq!(refused["error"]["code"], "api/bad-request", "{refused}");
}

#[test]
fn launches_at_once_share_no_vm() {
    let vms = Vms::new("at-once");
    let waiting = vms.pool("pool-a");
    let keys = ["key-1", "key-2", "key-3"];
    std::thread::scope(|scope| {
        for key in keys.into_iter().chain(keys) {
            let vms = &vms;
            scope.spawn(move || {
                let made = vms.launch(key, |config| config["vmKey"] = key.into());
                let state = made["state"].as_str().unwrap();
                assert!(["created", "attached"].contains(&state), "{made}");
            });
        }
    });
    let all: Vec<_> = keys.iter().map(|key| vms.ready(key)).collect();
    for ((status, _), key) in all.iter().zip(keys) {
        assert_eq!(status["vmKey"], key);
    }
    let taken: Vec<_> = all
        .iter()
        .filter(|(status, _)| status["start"]["pooled"] == true)
        .collect();
    assert!(taken.iter().all(|(_, pid)| *pid == waiting));
    assert!(taken.len() <= 1);
}

#[test]
fn a_launch_without_room_ends_the_oldest_vm_that_waits() {
    let vms = Vms::new("room");
    let budget = json!({ "memoryMib": 1024, "overheadMib": 0 });
    for name in ["pool-b", "pool-a"] {
        let made = vms.launch(name, |config| {
            config["waits"] = true.into();
            config["budget"] = budget.clone();
        });
        assert_eq!(made["state"], "created", "{made}");
        vms.until_waiting(name);
    }
    let third = vms.launch("pool-c", |config| {
        config["waits"] = true.into();
        config["budget"] = budget.clone();
    });
    assert_eq!(third["error"]["code"], "vm/no-capacity", "{third}");
    let large = |mib: u32| {
        let budget = budget.clone();
        move |config: &mut Value| {
            config["memoryMib"] = mib.into();
            config["budget"] = budget;
        }
    };
    assert_eq!(vms.launch("key-1", large(950))["state"], "created");
    assert!(!vms.dir("pool-b").exists(), "the oldest one stays");
    assert!(vms.dir("pool-a").exists());
    let refused = vms.launch("key-2", large(100));
    assert_eq!(refused["error"]["code"], "vm/no-capacity", "{refused}");
    assert!(!vms.dir("pool-a").exists());
}

#[test]
fn a_vm_that_waits_ends_with_its_worker_until_a_launch_attaches() {
    for is_taken in [false, true] {
        let vms = Vms::new(&format!("tie-{is_taken}"));
        vms.pool("pool-a");
        let mut worker = Client::open(&vms.dir("pool-a"));
        let fence = worker.ok("attach", json!({}))["fence"].clone();
        worker.ok("tie", json!({ "fence": fence }));
        if is_taken {
            Client::open(&vms.dir("pool-a")).ok("attach", json!({}));
        }
        drop(worker);
        if is_taken {
            assert_eq!(vms.launch("key", |_| ())["state"], "created");
            assert_eq!(vms.ready("key").0["start"]["pooled"], true);
        } else {
            wait_until("the folder stays", || !vms.dir("pool-a").exists());
        }
    }
}

#[test]
fn a_sweep_removes_the_folders_of_dead_workers_only() {
    let vms = Vms::new("sweep");
    vms.pool("pool-a");
    vms.pool("pool-b");
    vms.kill("pool-a");
    let sweep = Command::new(KEEPER)
        .args(["sweep", "--vms"])
        .arg(vms.0.join("vms"))
        .status();
    assert!(sweep.unwrap().success());
    assert!(!vms.dir("pool-a").exists());
    vms.until_waiting("pool-b");
}
