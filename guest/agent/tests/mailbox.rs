//! Data passes through the mailbox: a file that both sides have open replaces the disk.

mod keeper;

use std::fs;

use keeper::{Keeper, pattern};
use voidbox_protocol::body::{
    Empty, ErrorCode, PathRequest, ReadFileResponse, StreamEnd, WriteFile,
};
use voidbox_protocol::mailbox::{Mail, SLOT_BYTES, SLOTS_PER_SIDE};
use voidbox_protocol::message::Message;

fn write_request(keeper: &mut Keeper, name: &str, size: usize) -> u32 {
    let path = keeper.text_path(name);
    keeper.send_new(&Message::WriteFile(WriteFile {
        path,
        mode: 0o640,
        size_bytes: size as u64,
    }))
}

#[test]
fn a_file_goes_in_and_out_and_every_slot_comes_back() {
    let mut keeper = Keeper::start_with_mailbox();
    // The size is no multiple of a slot or page, and large enough that each slot is used again.
    let bytes = pattern(4 * usize::from(SLOTS_PER_SIDE) * SLOT_BYTES + 100_001);
    let id = write_request(&mut keeper, "large", bytes.len());
    keeper.send_mail(id, &bytes);
    assert_eq!(
        keeper.receive_answer(id),
        Message::WriteFileResponse(Empty {})
    );
    assert!(fs::read(keeper.path("large")).unwrap() == bytes);

    let path = keeper.text_path("large");
    let id = keeper.send_new(&Message::ReadFile(PathRequest { path }));
    let head = keeper.receive_answer(id);
    assert!(matches!(
        head,
        Message::ReadFileResponse(ReadFileResponse::Present { .. })
    ));
    let (got, end) = keeper.receive_data(id);
    assert_eq!(end, StreamEnd::default());
    assert!(got == bytes);
    assert!(keeper.mail_seen > 0, "nothing came through the mailbox");
}

#[test]
fn who_finds_no_free_slot_sends_data() {
    let mut keeper = Keeper::start_with_mailbox();
    let bytes = pattern(SLOT_BYTES);
    fs::write(keeper.path("f"), &bytes).unwrap();
    let path = keeper.text_path("f");
    // The agent never gives these slots back.
    for _ in 0..SLOTS_PER_SIDE {
        let id = keeper.send_new(&Message::ReadFile(PathRequest { path: path.clone() }));
        keeper.receive_answer(id);
        assert!(matches!(keeper.receive_answer(id), Message::Mail(_)));
        assert!(matches!(keeper.receive_answer(id), Message::StreamEnd(_)));
    }
    let id = keeper.send_new(&Message::ReadFile(PathRequest { path }));
    keeper.receive_answer(id);
    assert!(keeper.receive_data(id).0 == bytes);
    assert_eq!(keeper.mail_seen, 0);
}

#[test]
fn slots_of_a_request_that_fails_or_is_over_come_back() {
    let mut keeper = Keeper::start_with_mailbox();
    let id = write_request(&mut keeper, "short", 3);
    keeper.put_mail(id, 0, b"four");
    keeper.put_mail(id, 1, b"more");
    let mut back = Vec::new();
    let mut failed = false;
    while !failed || back.len() < 2 {
        match keeper.receive() {
            (_, Message::MailTaken(slot)) => back.push(slot),
            (got, Message::Error(error)) if got == id => {
                assert_eq!(error.code, ErrorCode::BadRequest);
                failed = true;
            }
            other => panic!("{other:?}"),
        }
    }
    back.sort_unstable();
    assert_eq!(back, [0, 1]);
    keeper.put_mail(id, 2, b"late");
    assert_eq!(keeper.receive(), (id, Message::MailTaken(2)));
    assert!(!keeper.path("short").exists());
}

#[test]
fn mail_that_cannot_be_ends_the_session() {
    let mail = Message::Mail(Mail::new(0, 1).unwrap());
    let mut without = Keeper::start();
    let id = write_request(&mut without, "f", 1);
    without.send(id, &mail);
    assert!(!without.expect_close().success());

    let mut for_an_exec = Keeper::start_with_mailbox();
    let id = for_an_exec.start_exec(for_an_exec.script("sleep 1000"));
    for_an_exec.send(id, &mail);
    assert!(!for_an_exec.expect_close().success());

    let mut not_sent = Keeper::start_with_mailbox();
    not_sent.send(9, &Message::MailTaken(0));
    assert!(!not_sent.expect_close().success());

    let mut beyond_the_window = Keeper::start_with_mailbox();
    let id = write_request(&mut beyond_the_window, "f", 64 * SLOT_BYTES);
    for _ in 0..64 {
        // The references to one slot arrive faster than any file can be written.
        let mail = Mail::new(0, u32::try_from(SLOT_BYTES).unwrap()).unwrap();
        let frame = Message::Mail(mail).encode(id).unwrap();
        if std::io::Write::write_all(&mut beyond_the_window.socket, &frame).is_err() {
            break;
        }
    }
    assert!(!beyond_the_window.expect_close().success());
}
