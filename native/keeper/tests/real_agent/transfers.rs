//! Files and tars over the keeper's API.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::fs::{PermissionsExt, symlink};

use serde_json::{Value, json};

use crate::support::{MIB, Vm, agent, test_vmm};

#[test]
fn files_go_in_and_out_and_what_is_not_there_is_absent() {
    let without_mailbox = json!({ "vmm": test_vmm(agent(), &["--fd", "{fd}"]) });
    for (name, extra) in [("files", json!({})), ("port-files", without_mailbox)] {
        files_go_in_and_out(&Vm::with_agent(name, extra));
    }
}

fn files_go_in_and_out(vm: &Vm) {
    let fence = vm.attach();
    let path = vm.guest_path("deep/er/file");
    let bytes: Vec<u8> = (0..5 * MIB + 3).map(|index| (index % 249) as u8).collect();
    let request = json!({ "fence": fence, "path": path, "mode": 0o640, "sizeBytes": bytes.len() });
    let mut put = vm.stream("file.put", request);
    put.socket.write_all(&bytes).unwrap();
    assert_eq!(put.line()["ok"], json!({}));
    let got = vm.stream("file.get", json!({ "fence": fence, "path": path }));
    assert_eq!(got.head["ok"]["sizeBytes"], bytes.len());
    assert!(got.rest() == bytes, "the file comes back as it went");
    let nothing = json!({ "fence": fence, "path": vm.guest_path("nothing") });
    assert_eq!(vm.stream("file.get", nothing).head["ok"]["absent"], true);
}

/// Returns the guest's files below `name` as the client's tar, and the answer before it.
fn tar_of(vm: &Vm, fence: u64, name: &str) -> (Value, Vec<u8>) {
    let request = json!({ "fence": fence, "path": vm.guest_path(name) });
    let got = vm.stream("tar.get", request);
    (got.head.clone(), got.rest())
}

/// A tar ends with two blocks of zeroes, unless it was cut off.
fn is_complete(tar: &[u8]) -> bool {
    tar.len() >= 1024 && tar[tar.len() - 1024..].iter().all(|byte| *byte == 0)
}

/// Returns each entry's path, permission bits and content: bytes of a file, the target of a link, or nothing.
fn entries(tar: &[u8]) -> BTreeMap<String, (u32, Vec<u8>)> {
    let mut archive = tar::Archive::new(tar);
    let read = archive.entries().unwrap().map(|entry| {
        let mut entry = entry.unwrap();
        let owner = (entry.header().uid().unwrap(), entry.header().gid().unwrap());
        assert_eq!(owner, (0, 0), "an owner of the guest's means nothing here");
        let path = entry.path().unwrap().to_str().unwrap().to_owned();
        let mut held = Vec::new();
        match entry.link_name().unwrap() {
            Some(target) => held.extend(target.to_str().unwrap().bytes()),
            None => assert!(entry.read_to_end(&mut held).is_ok()),
        }
        (path, (entry.header().mode().unwrap(), held))
    });
    read.collect()
}

#[test]
fn a_tar_holds_a_folder_whole_and_gives_no_right_away() {
    let vm = Vm::with_agent("tar-get", json!({}));
    let fence = vm.attach();
    let tree = vm.guest_path("tree");
    let long = "n".repeat(120);
    let bytes: Vec<u8> = (0..2 * MIB + 3).map(|index| (index % 247) as u8).collect();
    std::fs::create_dir_all(format!("{tree}/a/empty")).unwrap();
    std::fs::write(format!("{tree}/a/{long}"), &bytes).unwrap();
    std::fs::write(format!("{tree}/tool"), "#!").unwrap();
    std::fs::set_permissions(
        format!("{tree}/tool"),
        std::fs::Permissions::from_mode(0o4755),
    )
    .unwrap();
    symlink("a/empty", format!("{tree}/link")).unwrap();
    let (head, tar) = tar_of(&vm, fence, "tree");
    assert_eq!(head["ok"], json!({ "kind": "dir" }));
    assert!(is_complete(&tar));
    let found = entries(&tar);
    let names: Vec<&str> = found
        .keys()
        .map(|path| path.trim_end_matches('/'))
        .collect();
    assert_eq!(
        names,
        ["a", "a/empty", &format!("a/{long}"), "link", "tool"]
    );
    assert!(
        found[&format!("a/{long}")].1 == bytes,
        "the file comes back as it was"
    );
    assert_eq!(found["tool"], (0o755, b"#!".to_vec()));
    assert_eq!(found["link"].1, b"a/empty");
}

#[test]
fn a_tar_of_one_file_is_said_to_be_one_and_what_is_not_there_is_absent() {
    let vm = Vm::with_agent("tar-get-file", json!({}));
    let fence = vm.attach();
    std::fs::write(vm.guest_path("file"), "one").unwrap();
    let (head, tar) = tar_of(&vm, fence, "file");
    assert_eq!(head["ok"], json!({ "kind": "file" }));
    assert!(is_complete(&tar));
    assert_eq!(entries(&tar)["file"].1, b"one");
    let (head, tar) = tar_of(&vm, fence, "nothing");
    assert_eq!(head["ok"], json!({ "absent": true }));
    assert_eq!(tar, b"");
}

#[test]
fn a_tar_breaks_off_before_what_may_not_leave_a_guest() {
    let vm = Vm::with_agent("tar-get-hostile", json!({}));
    let fence = vm.attach();
    let out = vm.guest_path("out");
    std::fs::create_dir(&out).unwrap();
    symlink("../../../../etc/passwd", format!("{out}/link")).unwrap();
    let pipes = vm.guest_path("pipes");
    vm.start(
        fence,
        "pipe",
        &format!("mkdir {pipes} && mkfifo {pipes}/one"),
        json!({}),
    );
    assert_eq!(vm.wait("pipe")["exitCode"], 0);
    let big = vm.guest_path("big");
    std::fs::create_dir(&big).unwrap();
    // This is larger than the guest's disk and memory together.
    let sparse = std::fs::File::create(format!("{big}/sparse")).unwrap();
    sparse.set_len(1 << 30).unwrap();
    for (name, reason) in [
        ("out", "does not stay inside"),
        ("pipes", "a Fifo"),
        ("big", "more than"),
    ] {
        let (head, tar) = tar_of(&vm, fence, name);
        assert_eq!(head["ok"], json!({ "kind": "dir" }));
        assert!(!is_complete(&tar), "{name}");
        let log = std::fs::read_to_string(vm.dir.join("keeper.log")).unwrap();
        assert!(log.lines().last().unwrap().contains(reason), "{log}");
    }
    assert_eq!(vm.call("status", json!({}))["ok"]["state"], "ready");
}

#[test]
fn a_tar_that_was_put_comes_back() {
    let vm = Vm::with_agent("tar-round", json!({}));
    let fence = vm.attach();
    let path = vm.guest_path("tree");
    let mut put = vm.stream("tar.put", json!({ "fence": fence, "path": path }));
    let mut builder = tar::Builder::new(&mut put.socket);
    let mut header = tar::Header::new_gnu();
    header.set_size(3);
    header.set_mode(0o640);
    let contents = b"one".as_slice();
    builder.append_data(&mut header, "a/1", contents).unwrap();
    builder.finish().unwrap();
    drop(builder);
    assert_eq!(put.line()["ok"]["bytes"], 3);
    let (_, tar) = tar_of(&vm, fence, "tree");
    assert!(is_complete(&tar));
    assert_eq!(entries(&tar)["a/1"], (0o640, b"one".to_vec()));
}

/// Returns a VM, its fence, and a path at which nothing can be written, because it is below a regular file.
fn with_impossible_path(name: &str) -> (Vm, u64, String) {
    let vm = Vm::with_agent(name, json!({}));
    let fence = vm.attach();
    std::fs::write(vm.guest_path("file"), "").unwrap();
    let path = vm.guest_path("file/below");
    (vm, fence, path)
}

fn assert_refused(answer: &Value) {
    assert_eq!(answer["error"]["code"], "guest/error", "{answer}");
}

#[test]
fn a_client_that_sends_all_before_it_reads_learns_why_its_file_was_refused() {
    let (vm, fence, path) = with_impossible_path("refused-file");
    let bytes = vec![7; 64 << 20];
    let request = json!({ "fence": fence, "path": path, "mode": 0o644, "sizeBytes": bytes.len() });
    let mut put = vm.stream("file.put", request);
    put.socket.write_all(&bytes).unwrap();
    assert_refused(&put.line());
}

#[test]
fn a_client_that_sends_all_before_it_reads_learns_why_its_tar_was_refused() {
    let (vm, fence, path) = with_impossible_path("refused-tar");
    let mut put = vm.stream("tar.put", json!({ "fence": fence, "path": path }));
    let mut builder = tar::Builder::new(&mut put.socket);
    let mut header = tar::Header::new_gnu();
    header.set_size(64 << 20);
    header.set_mode(0o644);
    let contents = std::io::repeat(7).take(64 << 20);
    builder.append_data(&mut header, "big", contents).unwrap();
    builder.finish().unwrap();
    drop(builder);
    assert_refused(&put.line());
}

#[test]
fn a_refusal_does_not_wait_for_the_next_byte() {
    let (vm, fence, path) = with_impossible_path("refused-early");
    let request = json!({ "fence": fence, "path": path, "mode": 0o644, "sizeBytes": 1 });
    assert_refused(&vm.stream("file.put", request).line());
    let request = json!({ "fence": fence, "path": path });
    assert_refused(&vm.stream("tar.put", request).line());
}

#[test]
fn what_stands_behind_a_tars_end_costs_nobody_the_answer() {
    let vm = Vm::with_agent("tar-padding", json!({}));
    let fence = vm.attach();
    let path = vm.guest_path("tree");
    let mut put = vm.stream("tar.put", json!({ "fence": fence, "path": path }));
    put.socket.write_all(&[0; 1024]).unwrap();
    put.socket.write_all(&vec![0; 16 << 20]).unwrap();
    assert_eq!(put.line()["ok"]["entries"], 0);
}

#[test]
fn a_client_that_was_refused_is_let_go_once_it_has_read_why() {
    let (vm, _, path) = with_impossible_path("refused-fence");
    let stale = json!({ "fence": 0, "path": path, "mode": 0o644, "sizeBytes": 1 });
    let mut put = vm.stream("file.put", stale);
    assert_eq!(put.head["error"]["code"], "fence/stale");
    assert_eq!(put.socket.read(&mut [0]).unwrap(), 0);
}
