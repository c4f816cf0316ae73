//! `vectors/` pins the bytes of every message, in both directions.

mod samples;

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use voidbox_protocol::decode::{Phase, read_frame};
use voidbox_protocol::frame::{Frame, FrameType, MAX_CHUNK_BYTES, MAX_CONTROL_BYTES};
use voidbox_protocol::handshake::{Hello, Ping, Pong, Start, Waiting};
use voidbox_protocol::message::{Message, MessageError, Stream, encode_data, encode_output};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("vectors")
}

fn pinned(name: &str) -> Vec<u8> {
    let text = fs::read_to_string(folder().join(format!("{name}.hex"))).unwrap();
    let hex: String = text.split_whitespace().collect();
    (0..hex.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
        .collect()
}

fn only_frame(bytes: &[u8]) -> Frame {
    let mut reader = bytes;
    let frame = read_frame(&mut reader, Phase::Session).unwrap().unwrap();
    assert!(reader.is_empty(), "bytes behind the frame");
    frame
}

#[test]
fn every_message_has_the_pinned_bytes() {
    for (name, bytes) in samples::vectors() {
        assert_eq!(bytes, pinned(name), "{name}");
    }
}

#[test]
fn every_pinned_message_decodes_to_its_sample() {
    assert_eq!(
        Waiting::decode(&only_frame(&pinned("waiting"))).unwrap(),
        samples::waiting()
    );
    assert_eq!(
        Start::decode(&only_frame(&pinned("start"))).unwrap(),
        samples::start()
    );
    assert_eq!(
        Hello::decode(&only_frame(&pinned("hello"))).unwrap(),
        samples::hello()
    );
    assert_eq!(
        Ping::decode(&only_frame(&pinned("ping"))).unwrap(),
        samples::ping()
    );
    assert_eq!(
        Pong::decode(&only_frame(&pinned("pong"))).unwrap(),
        samples::pong()
    );
    for (name, message) in samples::messages() {
        let decoded = Message::decode(only_frame(&pinned(name))).unwrap();
        assert_eq!(decoded, (samples::REQUEST_ID, message), "{name}");
    }
}

#[test]
fn every_frame_type_has_a_vector_and_every_vector_a_sample() {
    let types: BTreeSet<FrameType> = samples::vectors()
        .iter()
        .map(|(_, bytes)| only_frame(bytes).frame_type)
        .collect();
    assert_eq!(types, FrameType::ALL.iter().copied().collect());
    let files: BTreeSet<String> = fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let named: BTreeSet<String> = samples::vectors()
        .iter()
        .map(|(name, _)| format!("{name}.hex"))
        .collect();
    assert_eq!(files, named);
}

#[test]
fn a_payload_that_does_not_parse_is_an_error() {
    let broken: [(FrameType, &[u8]); 21] = [
        (FrameType::ExecRequest, b"\0\0\0\0{\"program\":1}"),
        (FrameType::ExecRequest, b"\0\0\0\0"),
        (FrameType::Stats, b"\0\0\0"),
        (FrameType::Credit, b"\0\0\0\0\x01\0\0\0"),
        (FrameType::Credit, b"\0\0\0\0\x09\0\0\0\0"),
        (FrameType::ExecOutput, b"\0\0\0\0"),
        (FrameType::ExecOutput, b"\0\0\0\0\x03x"),
        (FrameType::TarGetResponse, b"\0\0\0\0{}"),
        (FrameType::Mail, b"\0\0\0\0\0\x01\0\0"),
        (FrameType::Mail, b"\0\0\0\0\x04\x01\0\0\0"),
        (FrameType::Mail, b"\0\0\0\0\0\0\0\0\0"),
        (FrameType::Mail, b"\0\0\0\0\0\x01\0\x04\0"),
        (FrameType::Connect, b"\0\0\0\0{}"),
        (FrameType::Connect, b"\0\0\0\0{\"to\":\"file\"}"),
        (
            FrameType::Connect,
            b"\0\0\0\0{\"to\":\"host\",\"host\":\"a\",\"port\":65536}",
        ),
        (FrameType::Connected, b"\0\0\0\0"),
        (FrameType::MailTaken, b"\0\0\0\0"),
        (FrameType::MailTaken, b"\0\0\0\0\x04"),
        (FrameType::Clock, b"\0\0\0\0{\"stepMs\":0.5}"),
        (FrameType::ClockResponse, b"\0\0\0\0{}"),
        (FrameType::ClockResponse, b"\0\0\0\0{\"unixMs\":-1}"),
    ];
    for (frame_type, payload) in broken {
        let frame = Frame {
            frame_type,
            payload: payload.to_vec(),
        };
        assert!(
            Message::decode(frame).is_err(),
            "{frame_type:?} {payload:?}"
        );
    }
}

#[test]
fn a_handshake_frame_is_no_message() {
    let frame = only_frame(&pinned("ping"));
    assert!(matches!(
        Message::decode(frame),
        Err(MessageError::Handshake(FrameType::Ping))
    ));
}

#[test]
fn caps_hold_for_the_sender_too() {
    let long = vec![0; MAX_CHUNK_BYTES + 1];
    assert!(encode_data(1, &long).is_err());
    assert!(encode_output(1, Stream::Stdout, &long).is_err());
    assert!(encode_data(1, &long[1..]).is_ok());
    assert!(encode_output(1, Stream::Stdin, b"x").is_err());
    let path = "x".repeat(MAX_CONTROL_BYTES);
    let request = Message::MkdirP(voidbox_protocol::body::PathRequest { path });
    assert!(request.encode(1).is_err());
}
