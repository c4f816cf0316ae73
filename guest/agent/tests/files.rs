//! Files and tars in and out.

mod keeper;

use std::fs;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use keeper::{Keeper, pattern, user};
use voidbox_protocol::body::{
    Empty, ErrorCode, FileKind, PathRequest, ReadFileResponse, StreamEnd, TarGetResponse, WriteFile,
};
use voidbox_protocol::credit::WINDOW_BYTES;
use voidbox_protocol::frame::MAX_CHUNK_BYTES;
use voidbox_protocol::message::{Message, Stream};

fn path_request(path: &str) -> PathRequest {
    PathRequest { path: path.into() }
}

fn write(keeper: &mut Keeper, path: &str, bytes: &[u8], announced: usize) -> Message {
    let id = keeper.send_new(&Message::WriteFile(WriteFile {
        path: path.into(),
        mode: 0o640,
        size_bytes: announced as u64,
    }));
    match keeper.send_data(id, bytes) {
        Some((_, early)) => early,
        None => keeper.receive_answer(id),
    }
}

fn read(keeper: &mut Keeper, path: &str) -> Result<Vec<u8>, Box<Message>> {
    let id = keeper.send_new(&Message::ReadFile(path_request(path)));
    match keeper.receive_answer(id) {
        Message::ReadFileResponse(ReadFileResponse::Present { size_bytes, .. }) => {
            let (bytes, end) = keeper.receive_data(id);
            assert_eq!(end, StreamEnd::default());
            assert_eq!(bytes.len() as u64, size_bytes);
            Ok(bytes)
        }
        other => Err(Box::new(other)),
    }
}

#[test]
fn a_large_file_goes_in_and_comes_out() {
    let mut keeper = Keeper::start();
    let bytes = pattern(64 << 20);
    let path = keeper.text_path("a/b/large");
    let answer = write(&mut keeper, &path, &bytes, bytes.len());
    assert_eq!(answer, Message::WriteFileResponse(Empty {}));
    let metadata = fs::metadata(&path).unwrap();
    assert_eq!(metadata.uid(), user());
    assert_eq!(metadata.mode() & 0o7777, 0o640);
    assert!(read(&mut keeper, &path).unwrap() == bytes);
}

#[test]
fn a_file_of_another_size_than_announced_leaves_the_old_one() {
    let mut keeper = Keeper::start();
    let path = keeper.text_path("f");
    write(&mut keeper, &path, b"old", 3);
    for (bytes, announced) in [(&b"new!"[..], 3), (&b"ne"[..], 3)] {
        match write(&mut keeper, &path, bytes, announced) {
            Message::Error(error) => assert_eq!(error.code, ErrorCode::BadRequest),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(fs::read(&path).unwrap(), b"old");
    assert_eq!(fs::read_dir(keeper.folder()).unwrap().count(), 2);
}

#[test]
fn a_cancelled_write_leaves_nothing() {
    let mut keeper = Keeper::start();
    let id = keeper.send_new(&Message::WriteFile(WriteFile {
        path: keeper.text_path("f"),
        mode: 0o644,
        size_bytes: 100,
    }));
    keeper.send(id, &Message::Data(b"part".to_vec()));
    keeper.send(id, &Message::Cancel(Empty {}));
    assert_eq!(keeper.expect_error(id).code, ErrorCode::Cancelled);
    assert!(!keeper.path("f").exists());
}

#[test]
fn a_write_replaces_a_link_and_not_what_it_leads_to() {
    let mut keeper = Keeper::start();
    let (link, target) = (keeper.text_path("link"), keeper.path("target"));
    fs::write(&target, "kept").unwrap();
    symlink(&target, &link).unwrap();
    write(&mut keeper, &link, b"new", 3);
    assert_eq!(fs::read(&target).unwrap(), b"kept");
    assert!(fs::symlink_metadata(&link).unwrap().is_file());
}

#[test]
fn reading_has_the_users_rights_and_follows_no_link_of_proc() {
    let mut keeper = Keeper::start();
    let folder = keeper.folder().to_owned();
    let not_allowed =
        |answer: Result<Vec<u8>, Box<Message>>| match answer.map_err(|message| *message) {
            Err(Message::Error(error)) => assert_eq!(error.code, ErrorCode::BadOutput),
            other => panic!("{other:?}"),
        };
    fs::write(folder.join("secret"), "s").unwrap();
    fs::set_permissions(folder.join("secret"), fs::Permissions::from_mode(0o000)).unwrap();
    symlink("secret", folder.join("to-secret")).unwrap();
    symlink("/proc/self/fd/0", folder.join("to-proc")).unwrap();
    for name in ["secret", "to-secret", "to-proc"] {
        let path = keeper.text_path(name);
        not_allowed(read(&mut keeper, &path));
    }
    let shadow = "/etc/shadow".to_owned();
    not_allowed(read(&mut keeper, &shadow));
}

/// An agent that is not root has only the rights of its user, and returns one code for every denied file.
#[test]
fn what_the_user_owns_leaves_whatever_its_mode() {
    let mut keeper = Keeper::start();
    let script = "mkdir -p tree/dark/deep; echo x > tree/zero; echo y > tree/dark/deep/file
        ln -s file tree/dark/deep/link; chmod 000 tree/zero tree/dark/deep/file tree/dark/deep
        chmod 000 tree/dark; echo z > single; chmod 000 single";
    assert_eq!(keeper.run(script).end().exit_code, 0);
    let tree = keeper.text_path("tree");
    let paths = ["single", "tree/zero", "tree/dark/deep/file"].map(|name| keeper.text_path(name));
    if rustix::process::geteuid().is_root() {
        let (_, tar, end) = tar_get(&mut keeper, &tree);
        assert_eq!(end.error, None);
        let mut archive = tar::Archive::new(tar.as_slice());
        let entries: Vec<(String, u32)> = archive
            .entries()
            .unwrap()
            .map(|entry| {
                let entry = entry.unwrap();
                let path = entry.path().unwrap().display().to_string();
                (path, entry.header().mode().unwrap())
            })
            .collect();
        let link_mode = entries[3].1;
        assert_eq!(
            entries,
            [
                ("dark/".to_owned(), 0),
                ("dark/deep/".to_owned(), 0),
                ("dark/deep/file".to_owned(), 0),
                ("dark/deep/link".to_owned(), link_mode),
                ("zero".to_owned(), 0),
            ]
        );
        for (path, expected) in paths.iter().zip(["z\n", "x\n", "y\n"]) {
            let bytes = read(&mut keeper, path).unwrap();
            assert_eq!(bytes, expected.as_bytes(), "{path}");
        }
    } else {
        let (_, _, end) = tar_get(&mut keeper, &tree);
        assert_eq!(end.error.unwrap().code, ErrorCode::BadOutput);
        for path in &paths {
            match read(&mut keeper, path).map_err(|message| *message) {
                Err(Message::Error(error)) => assert_eq!(error.code, ErrorCode::BadOutput),
                other => panic!("{path}: {other:?}"),
            }
        }
    }
    keeper.run("chmod -R u+rwX tree single").end();
}

/// The user makes a link, or replaces a part of a folder, to read another user's files.
#[test]
fn what_another_user_owns_does_not_leave() {
    let mut keeper = Keeper::start();
    let folder = keeper.folder().to_owned();
    fs::create_dir(folder.join("other")).unwrap();
    fs::write(folder.join("other/secret"), "s").unwrap();
    for name in ["other/secret", "other"] {
        fs::set_permissions(folder.join(name), fs::Permissions::from_mode(0o000)).unwrap();
    }
    let script = "mkdir mine; ln -s ../other/secret mine/file; ln -s ../other mine/folder";
    assert_eq!(keeper.run(script).end().exit_code, 0);
    for name in [
        "mine/file",
        "mine/folder",
        "mine/folder/secret",
        "other/secret",
    ] {
        let path = keeper.text_path(name);
        let read = read(&mut keeper, &path).map_err(|message| *message);
        assert!(matches!(read, Err(Message::Error(_))), "{name}: {read:?}");
    }
    fs::set_permissions(folder.join("other"), fs::Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn what_is_no_file_is_absent_and_a_crooked_path_is_refused() {
    let mut keeper = Keeper::start();
    for path in ["relative", "/tmp/../etc/passwd"] {
        match read(&mut keeper, path).map_err(|message| *message) {
            Err(Message::Error(error)) => assert_eq!(error.code, ErrorCode::BadRequest, "{path}"),
            other => panic!("{path}: {other:?}"),
        }
    }
    let fifo = keeper.text_path("fifo");
    assert_eq!(keeper.run("mkfifo fifo").end().exit_code, 0);
    let nothing = keeper.text_path("nothing/at/all");
    for path in [&fifo, &nothing, "/dev/zero", "/tmp"] {
        let answer = read(&mut keeper, path).unwrap_err();
        let absent = Message::ReadFileResponse(ReadFileResponse::Absent);
        assert_eq!(*answer, absent, "{path}");
    }
}

#[test]
fn folders_are_made_and_paths_are_told_apart() {
    let mut keeper = Keeper::start();
    let made = keeper.text_path("x/y/z");
    let id = keeper.send_new(&Message::MkdirP(path_request(&made)));
    assert_eq!(keeper.receive_answer(id), Message::MkdirPResponse(Empty {}));
    fs::write(keeper.path("x/file"), "12345").unwrap();
    symlink("nowhere", keeper.path("x/dangling")).unwrap();
    let cases = [
        ("x/y/z", FileKind::Dir),
        ("x/file", FileKind::File),
        ("x/dangling", FileKind::Symlink),
        ("x/nothing", FileKind::Absent),
    ];
    for (name, kind) in cases {
        let path = keeper.text_path(name);
        let id = keeper.send_new(&Message::FileStat(path_request(&path)));
        match keeper.receive_answer(id) {
            Message::FileStatResponse(stat) => {
                assert_eq!(stat.kind, kind, "{name}");
                assert_eq!(stat.exists, kind != FileKind::Absent);
                assert!(kind != FileKind::File || stat.size_bytes == 5);
            }
            other => panic!("{other:?}"),
        }
    }
}

fn tar_get(keeper: &mut Keeper, path: &str) -> (TarGetResponse, Vec<u8>, StreamEnd) {
    let id = keeper.send_new(&Message::TarGet(path_request(path)));
    match keeper.receive_answer(id) {
        Message::TarGetResponse(TarGetResponse::Absent) => {
            (TarGetResponse::Absent, Vec::new(), StreamEnd::default())
        }
        Message::TarGetResponse(kind) => {
            let (bytes, end) = keeper.receive_data(id);
            (kind, bytes, end)
        }
        other => panic!("{other:?}"),
    }
}

fn tar_put(keeper: &mut Keeper, path: &str, tar: &[u8]) -> Message {
    let id = keeper.send_new(&Message::TarPut(path_request(path)));
    match keeper.send_data(id, tar) {
        Some((_, early)) => early,
        None => keeper.receive_answer(id),
    }
}

/// Lists every entry in its order; folders have the time at which they were made, which differs.
fn listing(tar: &[u8]) -> Vec<String> {
    let mut archive = tar::Archive::new(tar);
    let entries = archive.entries().unwrap().map(|entry| {
        let mut entry = entry.unwrap();
        let mut content = Vec::new();
        entry.read_to_end(&mut content).unwrap();
        let header = entry.header();
        let time = match header.entry_type() {
            tar::EntryType::Regular | tar::EntryType::Symlink => header.mtime().unwrap(),
            _ => 0,
        };
        let sum = content.iter().fold(0u64, |sum, byte| {
            sum.wrapping_mul(31).wrapping_add((*byte).into())
        });
        format!(
            "{:?} {:o} {time} {} {sum:x} {} {:?}",
            header.entry_type(),
            header.mode().unwrap(),
            content.len(),
            entry.path().unwrap().display(),
            entry.link_name().unwrap(),
        )
    });
    entries.collect()
}

#[test]
fn a_tree_goes_out_and_in_and_out_the_same() {
    let mut keeper = Keeper::start();
    let long = "n".repeat(150);
    let script = format!(
        "mkdir -p src/d/{long} src/empty src/ro; echo hi > src/d/f; echo x > src/d/{long}/{long}; \
         head -c 700000 /dev/urandom > src/big; chmod 700 src/d/f; ln -s d/f src/link; \
         ln -s ../big src/d/up; echo r > src/ro/r; chmod 555 src/ro"
    );
    assert_eq!(keeper.run(&script).end().exit_code, 0);
    let (source, copy) = (keeper.text_path("src"), keeper.text_path("copy"));
    let (kind, tar, end) = tar_get(&mut keeper, &source);
    assert_eq!(kind, TarGetResponse::Dir);
    assert_eq!(end, StreamEnd::default());
    match tar_put(&mut keeper, &copy, &tar) {
        Message::TarPutResponse(done) => {
            assert_eq!(done.entries, 10);
            assert_eq!(done.bytes, 700_000 + 3 + 2 + 2);
        }
        other => panic!("{other:?}"),
    }
    let (_, again, _) = tar_get(&mut keeper, &copy);
    assert_eq!(listing(&again), listing(&tar));
    assert_eq!(
        fs::read_link(keeper.path("copy/d/up")).unwrap(),
        Path::new("../big")
    );
    assert_eq!(
        fs::metadata(keeper.path("copy/ro")).unwrap().mode() & 0o777,
        0o555
    );
    assert_eq!(
        keeper
            .run("diff -r src copy && chmod -R u+w src copy")
            .end()
            .exit_code,
        0
    );
}

#[test]
fn one_file_and_nothing_have_tars_of_their_own_kind() {
    let mut keeper = Keeper::start();
    fs::write(keeper.path("f"), "12").unwrap();
    let (file, nothing) = (keeper.text_path("f"), keeper.text_path("nothing"));
    let (kind, tar, _) = tar_get(&mut keeper, &file);
    assert_eq!(kind, TarGetResponse::File);
    let mut archive = tar::Archive::new(tar.as_slice());
    let names: Vec<_> = archive
        .entries()
        .unwrap()
        .map(|entry| entry.unwrap().path().unwrap().into_owned())
        .collect();
    assert_eq!(names, [Path::new("f")]);
    assert_eq!(tar_get(&mut keeper, &nothing).0, TarGetResponse::Absent);
}

#[test]
fn a_tree_with_a_fifo_ends_with_an_error_that_names_it() {
    let mut keeper = Keeper::start();
    keeper.run("mkdir out; mkfifo out/pipe; echo a > out/a");
    let path = keeper.text_path("out");
    let (_, _, end) = tar_get(&mut keeper, &path);
    assert!(end.error.unwrap().message.contains("pipe"));
}

/// Type, name, link target and content.
type RawEntry<'a> = (tar::EntryType, &'a str, &'a str, &'a [u8]);

/// Returns a tar of raw entries, with names that no library would write.
fn hostile_tar(entries: &[RawEntry<'_>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (entry_type, name, link, content) in entries {
        let mut header = tar::Header::new_gnu();
        let gnu = header.as_gnu_mut().unwrap();
        gnu.name[..name.len()].copy_from_slice(name.as_bytes());
        gnu.linkname[..link.len()].copy_from_slice(link.as_bytes());
        header.set_entry_type(*entry_type);
        header.set_mode(0o6755);
        header.set_size(content.len() as u64);
        header.set_cksum();
        bytes.extend_from_slice(header.as_bytes());
        bytes.extend_from_slice(content);
        bytes.resize(bytes.len().next_multiple_of(512), 0);
    }
    bytes.resize(bytes.len() + 1024, 0);
    bytes
}

#[test]
fn hostile_tars_are_refused() {
    use tar::EntryType::{Block, Fifo, Link, Regular, Symlink};
    let mut keeper = Keeper::start();
    let path = keeper.text_path("in");
    let outside = keeper.path("outside");
    let absolute = outside.to_str().unwrap();
    let cases: Vec<Vec<RawEntry<'_>>> = vec![
        vec![(Regular, "../outside", "", b"x")],
        vec![(Regular, "a/../../outside", "", b"x")],
        vec![(Regular, absolute, "", b"x")],
        vec![(Symlink, "l", "..", b"")],
        vec![(Symlink, "l", "/etc", b"")],
        vec![(Symlink, "d/l", "../..", b"")],
        vec![(Link, "l", "../outside", b"")],
        vec![(Fifo, "p", "", b"")],
        vec![(Block, "b", "", b"")],
        vec![(Symlink, "l", "d", b""), (Regular, "l/x", "", b"x")],
    ];
    for entries in &cases {
        match tar_put(&mut keeper, &path, &hostile_tar(entries)) {
            Message::Error(_) => {}
            other => panic!("{entries:?}: {other:?}"),
        }
    }
    match tar_put(&mut keeper, &path, b"this is no tar at all") {
        Message::Error(error) => assert_eq!(error.code, ErrorCode::BadRequest),
        other => panic!("{other:?}"),
    }
    assert!(!outside.exists());
}

#[test]
fn an_entry_replaces_a_planted_link_and_no_special_bits_arrive() {
    let mut keeper = Keeper::start();
    fs::write(keeper.path("kept"), "kept").unwrap();
    assert_eq!(
        keeper
            .run("mkdir in; ln -s ../kept in/f; ln -s .. in/d")
            .end()
            .exit_code,
        0
    );
    let path = keeper.text_path("in");
    let tar = hostile_tar(&[(tar::EntryType::Regular, "f", "", b"new")]);
    assert!(matches!(
        tar_put(&mut keeper, &path, &tar),
        Message::TarPutResponse(_)
    ));
    assert_eq!(fs::read(keeper.path("kept")).unwrap(), b"kept");
    assert_eq!(
        fs::metadata(keeper.path("in/f")).unwrap().mode() & 0o7777,
        0o755
    );
    let through = hostile_tar(&[(tar::EntryType::Regular, "d/planted", "", b"x")]);
    assert!(matches!(
        tar_put(&mut keeper, &path, &through),
        Message::Error(_)
    ));
    assert!(!keeper.path("planted").exists());
}

#[test]
fn a_tar_that_is_cut_is_no_success() {
    let mut keeper = Keeper::start();
    let path = keeper.text_path("in");
    let tar = hostile_tar(&[(tar::EntryType::Regular, "f", "", &[7; 5000])]);
    assert!(matches!(
        tar_put(&mut keeper, &path, &tar[..2000]),
        Message::Error(_)
    ));
}

#[test]
fn data_beyond_the_window_ends_the_connection() {
    let mut keeper = Keeper::start();
    // A request that accepts no data never grants credit.
    let path = keeper.text_path("big");
    fs::write(&path, pattern(1 << 20)).unwrap();
    let id = keeper.send_new(&Message::ReadFile(path_request(&path)));
    for _ in 0..=WINDOW_BYTES as usize / MAX_CHUNK_BYTES {
        keeper.send(id, &Message::Data(vec![0; MAX_CHUNK_BYTES]));
    }
    assert!(!keeper.expect_close().success());
}

#[test]
fn credit_above_the_window_ends_the_connection() {
    let mut keeper = Keeper::start();
    let id = keeper.start_exec(keeper.script("sleep 1000"));
    keeper.send(id, &Message::Credit(Stream::Stdout, 1));
    assert!(!keeper.expect_close().success());
}
