//! Kills of the launch, the keeper and the VMM while a VM is taken.

use std::fs;
use std::process::Command;
use std::time::Duration;

use serde_json::json;

use super::support::{Client, KEY, Vms, wait_until};

#[test]
fn a_launch_that_died_after_the_rename_is_continued_with_the_same_vm() {
    let vms = Vms::new("renamed");
    let waiting = vms.pool("pool-a");
    fs::rename(vms.dir("pool-a"), vms.dir("key")).unwrap();
    assert_eq!(vms.launch("key", |_| ())["state"], "created");
    let (status, pid) = vms.ready("key");
    assert_eq!((pid, &status["start"]["pooled"]), (waiting, &true.into()));
}

#[test]
fn a_keeper_that_is_killed_before_the_marker_costs_a_launch_and_no_stage() {
    for step in ["wait", "rename", "intent"] {
        let vms = Vms::new(&format!("killed-{step}"));
        let waiting = vms.pool("pool-a");
        if step != "wait" {
            fs::rename(vms.dir("pool-a"), vms.dir("key")).unwrap();
        }
        let holder = if step == "wait" { "pool-a" } else { "key" };
        // A keeper that fails between its two steps ends once its client has left.
        let mut connected = None;
        if step == "intent" {
            // The marker cannot be written, so the keeper stays between its two steps.
            fs::create_dir(vms.dir("key").join("started.new")).unwrap();
            let mut client = Client::open(&vms.dir("key"));
            let fence = client.ok("attach", json!({}))["fence"].clone();
            let take = json!({
                "fence": fence, "dir": vms.dir("key"), "config": vms.config(|_| ()),
            });
            assert_eq!(client.ask("take", take)["error"]["code"], "host/io");
            let intent = fs::read_to_string(vms.dir("key").join("intent.json")).unwrap();
            assert!(intent.contains(KEY), "{intent}");
            fs::remove_dir(vms.dir("key").join("started.new")).unwrap();
            connected = Some(client);
        }
        vms.kill(holder);
        drop(connected);
        assert_eq!(vms.state(holder), "new", "{step}");
        assert_eq!(vms.launch("key", |_| ())["state"], "created", "{step}");
        let (status, pid) = vms.ready("key");
        assert_ne!(pid, waiting, "{step}");
        assert_eq!(status["start"]["pooled"], false, "{step}: {status}");
    }
}

/// A full disk refuses the intent of a take, and then that of the launch too.
#[test]
fn a_take_whose_intent_cannot_be_written_leaves_a_free_folder_of_its_key() {
    let vms = Vms::new("no-intent");
    let waiting = vms.pool("pool-a");
    fs::create_dir(vms.dir("pool-a").join("intent.json.new")).unwrap();
    let refused = vms.begin_launch("key", |_| ());
    assert!(!refused.wait_with_output().unwrap().status.success());
    assert!(!vms.dir("pool-a").exists(), "two owners");
    wait_until("the keeper lives", || vms.state("key") == "new");
    fs::remove_dir(vms.dir("key").join("intent.json.new")).unwrap();
    assert_eq!(vms.launch("key", |_| ())["state"], "created");
    let (status, pid) = vms.ready("key");
    assert_ne!(pid, waiting);
    assert_eq!(status["start"]["pooled"], false, "{status}");
}

/// A full disk refuses the marker of a take, when the folder has the intent of the key. The keeper that waited ends, and
/// the launch begins a VM of the key, whose keeper decides about its own marker.
#[test]
fn a_take_whose_marker_cannot_be_written_leaves_a_vm_of_its_key_only() {
    let vms = Vms::new("no-marker");
    vms.pool("pool-a");
    let waiting = vms.keeper_pid("pool-a");
    fs::create_dir(vms.dir("pool-a").join("started.new")).unwrap();
    let made = vms.launch("key", |_| ());
    assert_eq!(made["state"], "created", "{made}");
    assert_ne!(made["pid"].to_string(), waiting);
    assert!(!vms.dir("pool-a").exists(), "two owners");
    wait_until("the keeper lives", || vms.state("key") == "stopped");
    let next = vms.launch("next", |config| config["vmKey"] = "run/scope/1".into());
    assert_eq!(next["state"], "created", "{next}");
    vms.ready("next");
}

#[test]
fn a_keeper_that_is_killed_after_the_take_is_a_lost_vm_of_its_key() {
    let vms = Vms::new("killed-taken");
    vms.pool("pool-a");
    assert_eq!(vms.launch("key", |_| ())["state"], "created");
    vms.kill("key");
    assert_eq!(vms.launch("key", |_| ())["state"], "lost");
    assert!(!vms.dir("pool-a").exists());
}

#[test]
fn a_vmm_that_is_killed_while_it_waits_ends_its_place_in_the_pool() {
    let vms = Vms::new("killed-vmm");
    let waiting = vms.pool("pool-a").to_string();
    Command::new("kill")
        .args(["-9", &waiting])
        .status()
        .unwrap();
    wait_until("the folder stays", || !vms.dir("pool-a").exists());
}

/// The kills come at ten moments of a take, which lasts some 20 ms. The VM has one owner after each of them, and the key
/// gets a VM: a lost one is followed by the VM of the next generation.
#[test]
fn kills_at_any_moment_of_a_take_lose_no_key_and_leave_one_owner() {
    for victim in ["launch", "keeper", "vmm"] {
        for step in 0..10 {
            let vms = Vms::new(&format!("moment-{victim}-{step}"));
            let waiting = vms.pool("pool-a");
            let keeper = vms.keeper_pid("pool-a");
            let mut launch = vms.begin_launch("key", |_| ());
            std::thread::sleep(Duration::from_millis(step * 4));
            let pid = match victim {
                "launch" => launch.id().to_string(),
                "keeper" => keeper,
                _ => waiting.to_string(),
            };
            // The victim may have ended already.
            let _ = Command::new("kill").args(["-9", &pid]).output();
            let _ = launch.wait();
            let what = format!("{victim}, {} ms", step * 4);
            let [pooled, keyed] = ["pool-a", "key"].map(|name| vms.state(name) == "running");
            assert!(!(pooled && keyed), "{what}: two owners");
            let mut name = "key";
            // A launch may attach to a keeper that has not seen the end of its VMM yet.
            let status = (0..3).find_map(|_| {
                let mut made = vms.launch("key", |_| ());
                // A VM that had begun is lost, and a VM whose end is recorded is stopped.
                if made["state"] == "lost" || made["state"] == "stopped" {
                    name = "next";
                    made = vms.launch(name, |config| config["vmKey"] = "run/scope/1".into());
                }
                let state = made["state"].as_str().unwrap_or_default();
                assert!(["created", "attached"].contains(&state), "{what}: {made}");
                vms.find_ready(name)
            });
            let status = status.unwrap_or_else(|| panic!("{what}: no VM is ready"));
            assert_eq!(status["state"], "ready", "{what}");
        }
    }
}
