//! The handshake, and peers that break the protocol.

mod keeper;

use keeper::{Keeper, ping};
use voidbox_protocol::body::{Configure, Empty, ErrorCode, ExecStarted, PathRequest};
use voidbox_protocol::decode::{Phase, read_frame};
use voidbox_protocol::handshake::{Hello, Ping, Pong, Start};
use voidbox_protocol::message::Message;

fn refused(first: &[u8]) {
    let mut keeper = Keeper::connect();
    keeper.send_raw(first);
    keeper.socket.shutdown(std::net::Shutdown::Write).unwrap();
    assert!(!keeper.expect_close().success(), "{first:?}");
}

#[test]
fn anything_before_the_session_ends_the_connection() {
    refused(&Message::Stats(Empty {}).encode(1).unwrap());
    refused(&[0xff; 64]);
    refused(&[0, 0, 0, 0, 200]);
    refused(&[65, 0, 0, 0, 3]);
    refused(&ping(7).encode().unwrap()[..20]);
    let other_version = Ping {
        version: 2,
        ..ping(7)
    };
    refused(&other_version.encode().unwrap());
    let pong = Pong {
        version: 1,
        flags: 1,
    };
    refused(&pong.encode().unwrap());
}

#[test]
fn the_same_key_is_welcome_again_and_another_is_not() {
    let mut keeper = Keeper::start();
    keeper.send_raw(&ping(7).encode().unwrap());
    let again = read_frame(&mut keeper.socket, Phase::Session)
        .unwrap()
        .unwrap();
    Pong::decode(&again).unwrap();
    keeper.send_raw(&ping(8).encode().unwrap());
    assert!(!keeper.expect_close().success());
}

#[test]
fn broken_frames_of_a_session_end_it() {
    let broken: [Vec<u8>; 6] = [
        vec![0, 0, 0, 0, 200],
        [&u32::MAX.to_le_bytes()[..], &[1]].concat(),
        vec![2, 0, 0, 0, 43, b'{', b'}'],
        vec![6, 0, 0, 0, 1, 9, 0, 0, 0, b'{', b'}'],
        Message::ExecStarted(ExecStarted { pid: 1 })
            .encode(9)
            .unwrap(),
        [10, 0, 0, 0, 43, 1].to_vec(),
    ];
    for bytes in broken {
        let mut keeper = Keeper::start();
        keeper.send_raw(&bytes);
        keeper.socket.shutdown(std::net::Shutdown::Write).unwrap();
        assert!(!keeper.expect_close().success(), "{bytes:?}");
    }
}

#[test]
fn an_id_that_is_in_use_ends_the_session() {
    let mut keeper = Keeper::start();
    let id = keeper.start_exec(keeper.script("sleep 1000"));
    keeper.send(id, &Message::Stats(Empty {}));
    assert!(!keeper.expect_close().success());
}

#[test]
fn requests_wait_for_configure_which_comes_once() {
    let mut keeper = Keeper::connect();
    keeper.send_raw(&ping(7).encode().unwrap());
    read_frame(&mut keeper.socket, Phase::Handshake).unwrap();
    let id = keeper.send_new(&Message::Stats(Empty {}));
    assert_eq!(keeper.expect_error(id).code, ErrorCode::BadRequest);
    let configure = Message::Configure(Configure {
        clock_unix_ms: 0,
        hostname: "h".into(),
        entropy: "00".into(),
        mounts: Vec::new(),
        door: None,
    });
    let id = keeper.send_new(&configure);
    assert_eq!(keeper.receive_answer(id), Message::Configured(Empty {}));
    let id = keeper.send_new(&configure);
    assert_eq!(keeper.expect_error(id).code, ErrorCode::BadRequest);
    let id = keeper.send_new(&Message::Stats(Empty {}));
    match keeper.receive_answer(id) {
        Message::StatsResponse(stats) => assert!(stats.memory_total_bytes > 0),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_257th_request_is_refused_and_the_others_live() {
    let mut keeper = Keeper::start();
    let first = keeper.start_exec(keeper.script("sleep 1000"));
    for _ in 1..256 {
        // Uploads that wait for their bytes are the cheapest open requests.
        let path = keeper.text_path("tar");
        keeper.send_new(&Message::TarPut(PathRequest { path }));
    }
    let id = keeper.send_new(&Message::Stats(Empty {}));
    loop {
        match keeper.receive() {
            (got, Message::ExecStarted(_)) => assert_eq!(got, first),
            (got, Message::Error(error)) => {
                assert_eq!(got, id);
                assert_eq!(error.code, ErrorCode::Limit);
                break;
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn frames_of_a_request_that_is_over_are_dropped() {
    let mut keeper = Keeper::start();
    assert_eq!(keeper.run("echo a").text(), "a");
    keeper.send(2, &Message::Cancel(Empty {}));
    keeper.send(2, &Message::Data(vec![0; 64]));
    assert_eq!(keeper.run("echo b").text(), "b");
}

#[test]
fn shutdown_and_a_closed_connection_are_clean_ends() {
    let mut keeper = Keeper::start();
    keeper.send_new(&Message::Shutdown(Empty {}));
    assert!(keeper.expect_close().success());
    let keeper = Keeper::start();
    keeper.socket.shutdown(std::net::Shutdown::Write).unwrap();
    assert!(keeper.expect_close().success());
}

fn configuration() -> Message {
    Message::Configure(Configure {
        clock_unix_ms: 0,
        hostname: "test".into(),
        entropy: String::new(),
        mounts: Vec::new(),
        door: None,
    })
}

fn start() -> Vec<u8> {
    let start = Start {
        clock_unix_ms: 0,
        entropy: String::new(),
        scratch_bytes: 0,
        scratch: "/dev/vda".into(),
        root: None,
    };
    start.encode().unwrap()
}

#[test]
fn a_guest_at_rest_has_no_session_until_start_and_takes_another_key_then() {
    let mut keeper = Keeper::start();
    assert_eq!(keeper.run("echo before").text(), "before");
    let id = keeper.send_new(&Message::Rest(Empty {}));
    assert!(matches!(keeper.receive(), (got, Message::Resting(_)) if got == id));

    keeper.send_raw(&start());
    let hello = read_frame(&mut keeper.socket, Phase::Handshake);
    Hello::decode(&hello.unwrap().unwrap()).unwrap();
    keeper.send_raw(&ping(8).encode().unwrap());
    let pong = read_frame(&mut keeper.socket, Phase::Handshake);
    Pong::decode(&pong.unwrap().unwrap()).unwrap();
    let early = keeper.send_new(&Message::Stats(Empty {}));
    assert_eq!(keeper.expect_error(early).code, ErrorCode::BadRequest);
    let id = keeper.send_new(&configuration());
    assert!(matches!(keeper.receive(), (got, Message::Configured(_)) if got == id));
    assert_eq!(keeper.run("echo after").text(), "after");

    let id = keeper.send_new(&Message::Rest(Empty {}));
    assert!(matches!(keeper.receive(), (got, Message::Resting(_)) if got == id));
    drop(keeper);
}

#[test]
fn a_guest_rests_only_while_it_is_idle_and_configured() {
    let mut keeper = Keeper::start();
    let exec = keeper.start_exec(keeper.script("sleep 1000"));
    let started = keeper.receive_answer(exec);
    assert!(matches!(started, Message::ExecStarted(_)));
    let id = keeper.send_new(&Message::Rest(Empty {}));
    let refused = keeper.expect_error(id);
    assert_eq!(refused.code, ErrorCode::BadRequest);
    assert_eq!(refused.message, "another request is open");
    keeper.send(exec, &Message::Cancel(Empty {}));
    while !matches!(keeper.receive_answer(exec), Message::ExecResponse(_)) {}
    // The session is as it was.
    assert_eq!(keeper.run("echo on").text(), "on");

    let mut keeper = Keeper::connect();
    keeper.send_raw(&ping(7).encode().unwrap());
    read_frame(&mut keeper.socket, Phase::Handshake).unwrap();
    let id = keeper.send_new(&Message::Rest(Empty {}));
    let refused = keeper.expect_error(id);
    assert_eq!(refused.message, "the guest is not configured yet");
}

#[test]
fn a_frame_behind_rest_ends_the_guest() {
    let mut keeper = Keeper::start();
    let rest = Message::Rest(Empty {}).encode(1000).unwrap();
    keeper.send_raw(&[rest, ping(7).encode().unwrap()].concat());
    assert!(!keeper.expect_close().success());
}

#[test]
fn a_guest_at_rest_takes_nothing_but_start() {
    let mut keeper = Keeper::start();
    keeper.send_new(&Message::Rest(Empty {}));
    keeper.receive();
    keeper.send_raw(&ping(7).encode().unwrap());
    assert!(!keeper.expect_close().success());
}
