//! Full saves of a VM whose VMM and guest do the steps of a script.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::native_vmm::{FOLDER, PAUSE, PAUSED, RESUME, RESUMED, STARTED, fake_vmm, wait_until};
use crate::support::{Stream, Vm};

const READY: [&str; 2] = [STARTED, "hello rest"];
const CONTINUES: [&str; 4] = [RESUME, RESUMED, "start", "hello rest"];

/// Launches a VM whose VMM does these steps after its guest is ready.
fn launch(name: &str, steps: &[&str], extra: Value) -> Vm {
    let script = Path::new(FOLDER).join(format!("full-{name}"));
    std::fs::write(&script, [&READY, steps].concat().join("\n")).unwrap();
    let mut config = json!({
        "vmm": { "name": "vmm", "program": fake_vmm(), "kvm": "/dev/null" }, "fullSaves": true,
        "kernel": { "path": script, "kind": "debian" }, "initramfs": script,
    });
    for (key, value) in extra.as_object().unwrap() {
        config[key] = value.clone();
    }
    let vm = Vm::with_agent(&format!("full-{name}"), config);
    let ready = vm.call("ready", json!({ "timeoutMs": 20_000 }));
    assert!(ready["ok"].is_object(), "{ready}");
    vm
}

/// The steps of a save by this request, with this id.
fn saved(request: &str, id: u32) -> Vec<String> {
    let asked = format!(r#"expect {{"do":"{request}"}}"#);
    let answer = format!(r#"say {{"event":"saved","id":"{id:032x}"}}"#);
    let before = ["rest", PAUSE, PAUSED].map(str::to_owned);
    [&before[..], &[asked, answer], &CONTINUES.map(str::to_owned)].concat()
}

struct Saves {
    folder: tempfile::TempDir,
    fence: u64,
}

impl Saves {
    fn of(vm: &Vm) -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            fence: vm.attach(),
        }
    }

    fn dest(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn ask(&self, vm: &Vm, name: &str, pages: &str) -> Stream {
        let fields = json!({ "fence": self.fence, "dest": self.dest(name), "pages": pages });
        vm.stream("checkpoint.full", fields)
    }

    /// Returns the last answer of a save.
    fn save(&self, vm: &Vm, name: &str, pages: &str) -> Value {
        let mut stream = self.ask(vm, name, pages);
        match stream.head.get("error") {
            Some(_) => stream.head,
            None => stream.line(),
        }
    }

    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.folder.path()).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

fn why(answer: &Value) -> &str {
    assert_eq!(answer["error"]["code"], "vm/checkpoint-failed", "{answer}");
    answer["error"]["message"].as_str().unwrap()
}

#[test]
fn a_vm_is_saved_with_its_memory_and_its_disk_and_continues() {
    let steps = [saved("saveFull", 1), saved("saveDiff", 2)].concat();
    let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
    let vm = launch("saved", &steps, json!({}));
    let saves = Saves::of(&vm);
    let early = saves.save(&vm, "early", "changed");
    assert!(why(&early).contains("no full save"), "{early}");

    let base = saves.save(&vm, "base", "all");
    assert_eq!(
        (
            &base["ok"]["id"],
            &base["ok"]["parent"],
            &base["ok"]["links"]
        ),
        (&json!(format!("{:032x}", 1)), &Value::Null, &json!(1)),
        "{base}"
    );
    let diff = saves.save(&vm, "diff", "changed");
    assert_eq!(
        (
            &diff["ok"]["id"],
            &diff["ok"]["parent"],
            &diff["ok"]["links"]
        ),
        (&json!(format!("{:032x}", 2)), &base["ok"]["id"], &json!(2)),
        "{diff}"
    );
    assert_eq!(saves.names(), ["base", "diff"]);
    for name in ["base", "diff"] {
        let folder = saves.dest(name);
        assert_eq!(folder.metadata().unwrap().mode() & 0o777, 0o700);
        for (file, bytes) in [("state", 0), ("memory", 64 << 20), ("disk", 16 << 20)] {
            let found = folder.join(file).metadata().unwrap();
            assert_eq!(
                (found.mode() & 0o777, found.len()),
                (0o600, bytes),
                "{file}"
            );
        }
        // The disk has the file system of the VM.
        assert!(folder.join("disk").metadata().unwrap().blocks() > 0);
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 3);
    }
    let ready = vm.call("ready", json!({ "timeoutMs": 20_000 }));
    assert_eq!(ready["ok"]["state"], "ready", "{ready}");
    assert_eq!(ready["ok"]["boots"], 1);
}

#[test]
fn a_vmm_that_keeps_the_files_of_a_save_cannot_change_it_later() {
    let mut steps = saved("saveFull", 1);
    steps[3] = r#"take {"do":"saveFull"}"#.into();
    steps.insert(4, "fill first".into());
    let later = ["nap", "fill other", "print filled again"];
    let steps: Vec<&str> = steps.iter().map(String::as_str).chain(later).collect();
    let vm = launch("keeps", &steps, json!({}));
    let saves = Saves::of(&vm);
    let answer = saves.save(&vm, "base", "all");
    assert!(answer["ok"].is_object(), "{answer}");
    let console = || std::fs::read_to_string(vm.dir.join("console.log")).unwrap_or_default();
    wait_until("the VMM writes again", || {
        console().contains("filled again")
    });
    for file in ["state", "memory"] {
        let bytes = std::fs::read(saves.dest("base").join(file)).unwrap();
        assert_eq!(&bytes[..5], b"first", "{file}");
    }
}

#[test]
fn a_vmm_that_refuses_a_save_continues_its_vm() {
    let refused = [
        "rest",
        PAUSE,
        PAUSED,
        r#"expect {"do":"saveFull"}"#,
        r#"say {"event":"refused","why":"the guest uses nested virtualization"}"#,
    ];
    let steps = [&refused[..], &CONTINUES].concat();
    let vm = launch("refused", &steps, json!({}));
    let saves = Saves::of(&vm);
    let answer = saves.save(&vm, "base", "all");
    assert!(why(&answer).contains("nested virtualization"), "{answer}");
    assert_eq!(saves.names(), Vec::<String>::new());
    let ready = vm.call("ready", json!({ "timeoutMs": 20_000 }));
    assert!(ready["ok"].is_object(), "{ready}");
}

#[test]
fn a_client_that_leaves_during_a_save_leaves_no_files_and_its_vm_continues() {
    let steps = saved("saveFull", 1);
    let (before, behind) = steps.split_at(4);
    let steps: Vec<&str> = before.iter().map(String::as_str).chain(["nap"]).collect();
    let behind: Vec<&str> = behind.iter().map(String::as_str).collect();
    let vm = launch("left", &[steps, behind].concat(), json!({}));
    let saves = Saves::of(&vm);
    let stream = saves.ask(&vm, "base", "all");
    assert!(stream.head["ok"].is_object());
    let state = || vm.call("status", json!({}))["ok"]["state"].clone();
    wait_until("the guest rests", || state() == "booting");
    drop(stream);
    wait_until("the guest is back", || state() == "ready");
    wait_until("the files are removed", || saves.names().is_empty());
    // The state that no file has is no parent of a diff.
    let answer = saves.save(&vm, "diff", "changed");
    assert!(why(&answer).contains("no full save"), "{answer}");
}

#[test]
fn a_vm_whose_guest_does_not_continue_after_its_save_ends_with_the_reason() {
    let steps = saved("saveFull", 1);
    let without_hello = &steps[..steps.len() - 1];
    let steps: Vec<&str> = without_hello.iter().map(String::as_str).collect();
    let vm = launch("silent", &steps, json!({ "bootTimeoutMs": 1_500 }));
    let saves = Saves::of(&vm);
    // The save itself is complete.
    let answer = saves.save(&vm, "base", "all");
    assert!(answer["ok"].is_object(), "{answer}");
    let exit = vm.exit();
    assert_eq!(exit["reason"], "lost", "{exit}");
    let message = exit["message"].as_str().unwrap();
    assert!(
        message.contains("did not continue within 1500 ms"),
        "{exit}"
    );
}

#[test]
fn a_vmm_that_breaks_its_control_during_a_save_ends_its_vm() {
    let steps = [
        "rest",
        PAUSE,
        PAUSED,
        r#"expect {"do":"saveFull"}"#,
        r#"say {"event":"saved","id":"../state"}"#,
    ];
    let vm = launch("violation", &steps, json!({}));
    let saves = Saves::of(&vm);
    let answer = saves.save(&vm, "base", "all");
    assert!(answer["error"].is_object(), "{answer}");
    assert_eq!(vm.exit()["reason"], "protocol");
    wait_until("the files are removed", || saves.names().is_empty());
}

#[test]
fn a_vm_without_the_permission_or_an_agent_that_cannot_rest_is_not_saved() {
    let without = launch("without", &[], json!({ "fullSaves": false }));
    let answer = Saves::of(&without).save(&without, "base", "all");
    assert!(why(&answer).contains("without fullSaves"), "{answer}");

    let script = Path::new(FOLDER).join("full-of-an-old-agent");
    std::fs::write(&script, [STARTED, "hello"].join("\n")).unwrap();
    let config = json!({
        "kernel": { "path": script, "kind": "debian" }, "initramfs": script,
    });
    let old = launch("old", &[], config);
    let answer = Saves::of(&old).save(&old, "base", "all");
    assert!(why(&answer).contains("cannot rest"), "{answer}");
}

/// The configuration of a VM that continues from the saves in these folders.
fn continues(saves: &Saves, names: &[&str]) -> Value {
    let link = |name: &&str| {
        let folder = saves.dest(name);
        json!({ "id": *name, "state": folder.join("state"), "memory": folder.join("memory") })
    };
    let chain: Vec<Value> = names.iter().map(link).collect();
    let disk = saves.dest(names[names.len() - 1]).join("disk");
    json!({
        "vmm": { "name": "vmm", "program": fake_vmm(), "kvm": "/dev/null" }, "fullSaves": true,
        "kernel": { "path": fake_vmm(), "kind": "debian" }, "initramfs": fake_vmm(),
        "from": { "disk": disk, "chain": chain },
    })
}

/// Saves a VM, and lets the VMs that continue from it do these steps.
fn saves_of(name: &str, steps: &[&str]) -> Saves {
    let from = [saved("saveFull", 1), saved("saveDiff", 2)].concat();
    let from: Vec<&str> = from.iter().map(String::as_str).collect();
    let vm = launch(name, &from, json!({}));
    let saves = Saves::of(&vm);
    for (name, pages) in [("base", "all"), ("diff", "changed")] {
        let answer = saves.save(&vm, name, pages);
        assert!(answer["ok"].is_object(), "{answer}");
        // This VMM has written nothing.
        std::fs::write(saves.dest(name).join("state"), steps.join("\n")).unwrap();
    }
    saves
}

#[test]
fn a_vm_continues_from_a_chain_and_its_next_diff_belongs_to_it() {
    let more = saved("saveDiff", 3);
    let more: Vec<&str> = more.iter().map(String::as_str).collect();
    let saves = saves_of(
        "chain",
        &[&[STARTED, "start", "hello rest"], &more[..]].concat(),
    );
    let vm = Vm::with_agent("full-continues", continues(&saves, &["base", "diff"]));
    let ready = vm.call("ready", json!({ "timeoutMs": 20_000 }));
    let start = &ready["ok"]["start"];
    assert_eq!(
        (&start["kind"], &start["key"]),
        (&json!("snapshot"), &json!("diff")),
        "{ready}"
    );
    let own = Saves::of(&vm);
    let diff = own.save(&vm, "third", "changed");
    assert_eq!(
        (&diff["ok"]["parent"], &diff["ok"]["links"]),
        (&json!("diff"), &json!(3)),
        "{diff}"
    );
}

#[test]
fn a_chain_has_eight_saves_and_the_next_one_has_all_pages() {
    let names: Vec<String> = (1..=8).map(|number| format!("save-{number}")).collect();
    let diffs = (2..=8).flat_map(|number| saved("saveDiff", number));
    let steps: Vec<String> = saved("saveFull", 1)
        .into_iter()
        .chain(diffs)
        .chain(saved("saveFull", 9))
        .collect();
    let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
    let vm = launch("links", &steps, json!({}));
    let saves = Saves::of(&vm);
    for (at, name) in names.iter().enumerate() {
        let pages = if at == 0 { "all" } else { "changed" };
        let answer = saves.save(&vm, name, pages);
        assert_eq!(answer["ok"]["links"], at + 1, "{answer}");
        let continues = [STARTED, "start", "hello rest"].join("\n");
        std::fs::write(saves.dest(name).join("state"), continues).unwrap();
    }
    let ninth = saves.save(&vm, "ninth", "changed");
    assert_eq!(why(&ninth), "the chain has 8 links: save all pages");
    let next = saves.save(&vm, "next", "all");
    assert_eq!(next["ok"]["links"], 1, "{next}");

    let mut chain: Vec<&str> = names.iter().map(String::as_str).collect();
    let whole = Vm::with_agent("full-eight-links", continues(&saves, &chain));
    let ready = whole.call("ready", json!({ "timeoutMs": 20_000 }));
    assert_eq!(ready["ok"]["start"]["key"], "save-8", "{ready}");
    chain.push("next");
    let folder = tempfile::tempdir().unwrap();
    let refused = Vm::in_folder(folder.path(), "nine", continues(&saves, &chain));
    let refused = refused.err().unwrap();
    let message = refused["error"]["message"].as_str().unwrap();
    assert!(message.contains("from.chain has 9 links"), "{refused}");
}

#[test]
fn a_chain_that_the_vmm_refuses_ends_the_vm_and_never_boots_it() {
    let refusal = r#"say {"event":"ended","reason":{"kind":"badConfiguration","key":"restore.diffs[0].stateFd"}}"#;
    let saves = saves_of("refuses", &[refusal, "exit 2"]);
    let exit = Vm::with_agent("full-refused-chain", continues(&saves, &["base", "diff"])).exit();
    assert_eq!(
        (&exit["code"], &exit["boots"]),
        (&json!("vm/checkpoint-unfit"), &json!(0)),
        "{exit}"
    );
    let message = exit["message"].as_str().unwrap();
    assert!(message.contains("restore.diffs[0].stateFd"), "{exit}");
}

#[test]
fn a_file_that_others_could_change_and_a_disk_of_another_size_are_refused() {
    let saves = saves_of("unfit", &[]);
    let mut larger = continues(&saves, &["base"]);
    larger["diskMib"] = 32.into();
    let folder = tempfile::tempdir().unwrap();
    let answer = Vm::in_folder(folder.path(), "larger", larger)
        .err()
        .unwrap();
    assert_eq!(answer["error"]["code"], "vm/checkpoint-unfit", "{answer}");

    let state = saves.dest("base").join("state");
    std::fs::set_permissions(&state, std::fs::Permissions::from_mode(0o620)).unwrap();
    let exit = Vm::with_agent("full-shared", continues(&saves, &["base"])).exit();
    assert_eq!(exit["code"], "vm/checkpoint-unfit", "{exit}");
    let message = exit["message"].as_str().unwrap();
    assert!(
        message.contains("another user could have changed it"),
        "{exit}"
    );
}
