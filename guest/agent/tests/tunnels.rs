//! Bytes of tunnels pass through the mailbox in parallel to those of the port.

mod keeper;

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use keeper::{Keeper, pattern};
use voidbox_protocol::body::{Connect, Door, DoorService, Empty, StreamEnd};
use voidbox_protocol::credit::{SendWindow, TUNNEL_MAIL_GRANT_BYTES, TUNNEL_MAIL_WINDOW_BYTES};
use voidbox_protocol::decode::{Phase, read_frame};
use voidbox_protocol::handshake::{FLAG_DOOR, FLAG_DOOR_MAIL, Hello, Start};
use voidbox_protocol::mailbox::{SLOTS_PER_SIDE, Slots};
use voidbox_protocol::message::{Message, Stream, encode_data};

const PIECE_BYTES: usize = 64 << 10;
/// After this silence, no side can send more.
const QUIET: Duration = Duration::from_millis(700);

/// A door with one service, and its address.
fn door_to_service() -> (Door, SocketAddr) {
    // The address of the first service; no other program listens on it.
    let address = TcpListener::bind("127.0.1.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let service = DoorService {
        name: "raw".into(),
        port: address.port(),
    };
    let door = Door {
        proxy: false,
        services: vec![service],
    };
    (door, address)
}

/// Starts an agent with one service; returns it, a program's connection, and the tunnel's id.
fn open_tunnel(flags: u8) -> (Keeper, TcpStream, u32) {
    let (door, address) = door_to_service();
    let mut keeper = Keeper::start_with_door(flags, door);
    let (program, id) = connect_to_service(&mut keeper, address);
    (keeper, program, id)
}

/// Opens a tunnel for a new connection of a program.
fn connect_to_service(keeper: &mut Keeper, address: SocketAddr) -> (TcpStream, u32) {
    let program = TcpStream::connect(address).unwrap();
    let (id, wanted) = keeper.receive();
    assert_eq!(
        wanted,
        Message::Connect(Connect::Service { name: "raw".into() })
    );
    keeper.send(id, &Message::Connected(Empty {}));
    (program, id)
}

/// Sends until no credit arrives, and returns the sent bytes. Every slot has been given back.
fn fill(keeper: &mut Keeper, id: u32) -> Vec<u8> {
    let mut window = SendWindow::of(TUNNEL_MAIL_WINDOW_BYTES);
    let mut slots = Slots::default();
    let mut sent = Vec::new();
    let piece = pattern(PIECE_BYTES);
    loop {
        while window.left() > PIECE_BYTES
            && let Some(slot) = slots.take()
        {
            window.take(PIECE_BYTES);
            keeper.put_mail(id, slot, &piece);
            sent.extend_from_slice(&piece);
        }
        match keeper.receive_within(QUIET) {
            Some((got, Message::Credit(Stream::Data, more))) if got == id => {
                window.grant(more).unwrap();
            }
            Some((_, Message::MailTaken(slot))) => slots.give_back(slot).unwrap(),
            Some(other) => panic!("{other:?}"),
            None => break,
        }
    }
    // Some room remains for late messages.
    assert!(window.left() <= PIECE_BYTES, "{} bytes left", window.left());
    assert!(slots.all_free());
    sent
}

#[test]
fn mail_and_data_come_in_their_order() {
    let (mut keeper, mut program, id) = open_tunnel(FLAG_DOOR_MAIL);
    let bytes = pattern(200_000);
    keeper.put_mail(id, 0, &bytes[..100_001]);
    keeper.send_raw(&encode_data(id, &bytes[100_001..100_011]).unwrap());
    keeper.put_mail(id, 3, &bytes[100_011..]);
    keeper.send(id, &Message::StreamEnd(StreamEnd::default()));
    let mut got = Vec::new();
    program.read_to_end(&mut got).unwrap();
    assert!(got == bytes);
    program.write_all(b"up").unwrap();
    program.shutdown(Shutdown::Write).unwrap();
    let (mut back, mut up, mut granted) = (Vec::new(), Vec::new(), 0);
    loop {
        match keeper.receive() {
            (_, Message::MailTaken(slot)) => back.push(slot),
            (_, Message::Credit(Stream::Data, more)) => granted += more,
            (_, Message::Data(bytes)) => up.extend(bytes),
            (got, Message::StreamEnd(_)) if got == id => break,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(back, [0, 3]);
    assert_eq!(up, b"up");
    assert!(granted >= 200_000 - TUNNEL_MAIL_GRANT_BYTES);
}

#[test]
fn a_program_that_does_not_read_holds_no_slot_and_loses_nothing() {
    let (mut keeper, mut program, id) = open_tunnel(FLAG_DOOR_MAIL);
    let sent = fill(&mut keeper, id);
    keeper.send(id, &Message::StreamEnd(StreamEnd::default()));
    let mut got = Vec::new();
    program.read_to_end(&mut got).unwrap();
    assert!(got == sent);
}

#[test]
fn slots_of_a_tunnel_that_is_over_come_back() {
    let (mut keeper, program, id) = open_tunnel(FLAG_DOOR_MAIL);
    fill(&mut keeper, id);
    // The connection breaks, because the program leaves bytes unread.
    drop(program);
    while !matches!(keeper.receive(), (got, Message::Cancel(_)) if got == id) {}
    // This message crosses the guest's last message.
    keeper.put_mail(id, 1, b"late");
    assert_eq!(keeper.receive(), (id, Message::MailTaken(1)));
    keeper.send(id, &Message::Cancel(Empty {}));
    keeper.put_mail(id, 2, b"later");
    assert_eq!(keeper.receive(), (id, Message::MailTaken(2)));
}

/// Starts an agent whose door has only a proxy; returns it and the proxy's address for programs.
fn start_with_proxy() -> (Keeper, String) {
    let door = Door {
        proxy: true,
        services: vec![],
    };
    let mut keeper = Keeper::start_with_door(FLAG_DOOR_MAIL, door);
    let told = keeper.run("echo $http_proxy");
    let proxy = told.text().trim().strip_prefix("http://").unwrap();
    (keeper, proxy.to_owned())
}

/// Reads the head of the proxy's answer.
fn read_head(program: &mut TcpStream) -> String {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && matches!(program.read(&mut byte), Ok(1)) {
        head.push(byte[0]);
    }
    String::from_utf8(head).unwrap()
}

/// Opens a tunnel through the proxy; `early` is sent together with the head of the request.
fn connect(keeper: &mut Keeper, proxy: &str, early: &str) -> (TcpStream, u32) {
    let mut program = TcpStream::connect(proxy).unwrap();
    program
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    let head = format!("CONNECT a.example:443 HTTP/1.1\r\n\r\n{early}");
    program.write_all(head.as_bytes()).unwrap();
    let (id, wanted) = keeper.receive();
    let host = "a.example".to_owned();
    assert_eq!(wanted, Message::Connect(Connect::Host { host, port: 443 }));
    keeper.send(id, &Message::Connected(Empty {}));
    let head = read_head(&mut program);
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    (program, id)
}

#[test]
fn tunnels_that_were_handed_over_outlive_the_helper() {
    let (mut keeper, proxy) = start_with_proxy();
    let (mut program, id) = connect(&mut keeper, &proxy, "early");
    assert_eq!(keeper.receive(), (id, Message::Data(b"early".to_vec())));

    let helpers = keeper.children();
    assert_eq!(helpers.len(), 1, "{helpers:?}");
    rustix::process::kill_process(helpers[0], rustix::process::Signal::KILL).unwrap();
    let since = Instant::now();
    while keeper
        .children()
        .first()
        .is_none_or(|pid| *pid == helpers[0])
    {
        assert!(since.elapsed() < Duration::from_secs(20), "no other helper");
        std::thread::sleep(Duration::from_millis(20));
    }

    program.write_all(b"up").unwrap();
    assert_eq!(keeper.receive(), (id, Message::Data(b"up".to_vec())));
    keeper.send_raw(&encode_data(id, b"down").unwrap());
    keeper.send(id, &Message::StreamEnd(StreamEnd::default()));
    let mut got = Vec::new();
    program.read_to_end(&mut got).unwrap();
    assert_eq!(got, b"down");
    drop(program);
    while !matches!(keeper.receive(), (got, Message::StreamEnd(_)) if got == id) {}
    // The next helper serves like the first one.
    connect(&mut keeper, &proxy, "");
}

/// Sends a server's bytes and their end as a keeper does; returns the guest's last message.
fn send_all(keeper: &mut Keeper, id: u32, bytes: &[u8]) -> Message {
    let mut window = SendWindow::of(TUNNEL_MAIL_WINDOW_BYTES);
    let mut slots = Slots::default();
    let mut left = bytes;
    let mut has_ended = false;
    loop {
        while !left.is_empty()
            && window.left() >= PIECE_BYTES
            && let Some(slot) = slots.take()
        {
            let (piece, rest) = left.split_at(PIECE_BYTES.min(left.len()));
            window.take(piece.len());
            keeper.put_mail(id, slot, piece);
            left = rest;
        }
        if left.is_empty() && !has_ended {
            keeper.send(id, &Message::StreamEnd(StreamEnd::default()));
            has_ended = true;
        }
        match keeper.receive() {
            (got, Message::Credit(Stream::Data, more)) if got == id => window.grant(more).unwrap(),
            (_, Message::MailTaken(slot)) => slots.give_back(slot).unwrap(),
            (got, last) => {
                assert_eq!(got, id, "{last:?}");
                return last;
            }
        }
    }
}

#[test]
fn a_long_answer_reaches_its_program_and_the_connection_goes_on() {
    let (mut keeper, proxy) = start_with_proxy();
    let mut program = TcpStream::connect(&proxy).unwrap();
    program
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    let body = pattern(1_000_000);
    for (sent, is_cut) in [(body.len(), false), (body.len(), false), (600_000, true)] {
        program
            .write_all(b"GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n")
            .unwrap();
        let (id, wanted) = keeper.receive();
        let host = "a.example".to_owned();
        assert_eq!(wanted, Message::Connect(Connect::Host { host, port: 80 }));
        keeper.send(id, &Message::Connected(Empty {}));
        assert!(matches!(keeper.receive(), (got, Message::Data(_)) if got == id));
        let mut reader = program.try_clone().unwrap();
        let reading = std::thread::spawn(move || {
            let head = read_head(&mut reader);
            let mut got = vec![0; 1_000_000];
            let mut at = 0;
            let end = loop {
                match reader.read(&mut got[at..]) {
                    Ok(0) => break None,
                    Ok(count) => at += count,
                    Err(error) => break Some(error.kind()),
                }
                if at == got.len() {
                    break None;
                }
            };
            (head, got[..at].to_vec(), end)
        });
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
        let answer = [head.as_bytes(), &body[..sent]].concat();
        let last = send_all(&mut keeper, id, &answer);
        let (head, got, end) = reading.join().unwrap();
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        assert!(got == body[..got.len()]);
        if is_cut {
            assert_eq!(end, Some(std::io::ErrorKind::ConnectionReset));
            assert!(matches!(last, Message::Cancel(_)), "{last:?}");
        } else {
            assert_eq!((got.len(), end), (body.len(), None));
            assert!(matches!(last, Message::StreamEnd(_)), "{last:?}");
        }
    }
}

#[test]
fn mail_that_a_tunnel_cannot_have_ends_the_session() {
    let (mut not_agreed, _program, id) = open_tunnel(0);
    not_agreed.put_mail(id, 0, b"x");
    assert!(!not_agreed.expect_close().success());

    let (mut beyond, _program, id) = open_tunnel(FLAG_DOOR_MAIL);
    for _ in 0..64 {
        for slot in 0..SLOTS_PER_SIDE {
            // No program accepts this much without reading.
            let piece = vec![0; PIECE_BYTES];
            let frame = Message::Mail(
                voidbox_protocol::mailbox::Mail::new(slot, u32::try_from(piece.len()).unwrap())
                    .unwrap(),
            )
            .encode(id)
            .unwrap();
            if beyond.socket.write_all(&frame).is_err() {
                break;
            }
        }
    }
    assert!(!beyond.expect_close().success());
}

#[test]
fn a_guest_at_rest_has_no_door_and_the_next_session_has_its_own() {
    let (door, address) = door_to_service();
    let mut keeper = Keeper::start_with_door(0, door);
    let (program, _) = connect_to_service(&mut keeper, address);
    drop(program);
    let id = keeper.send_new(&Message::Rest(Empty {}));
    // The end of the tunnel may cross the request.
    while !matches!(keeper.receive(), (got, Message::Resting(_)) if got == id) {}
    assert!(TcpStream::connect(address).is_err());
    assert_eq!(keeper.children(), []);

    let start = Start {
        clock_unix_ms: 0,
        entropy: String::new(),
        scratch_bytes: 0,
        scratch: "/dev/vda".into(),
        root: None,
    };
    keeper.send_raw(&start.encode().unwrap());
    let hello = read_frame(&mut keeper.socket, Phase::Handshake);
    Hello::decode(&hello.unwrap().unwrap()).unwrap();
    let (door, address) = door_to_service();
    keeper.forget_mailbox();
    let mut keeper = keeper.configured(FLAG_DOOR, Some(door));
    let (mut program, id) = connect_to_service(&mut keeper, address);
    keeper.send_raw(&encode_data(id, b"down").unwrap());
    keeper.send(id, &Message::StreamEnd(StreamEnd::default()));
    let mut got = String::new();
    program.read_to_string(&mut got).unwrap();
    assert_eq!(got, "down");
}
