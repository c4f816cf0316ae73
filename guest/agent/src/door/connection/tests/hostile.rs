//! A helper that sends malformed messages, or withholds messages that it owes.

use super::*;

#[test]
fn what_is_no_connection_of_a_program_ends_its_tunnel_alone_and_stays_open_nowhere() {
    let mut door = Door::new();
    let (mut other, _line, other_id) = door.handed_over(b"");
    let refused = |door: &mut Door, what: &str, fds: Vec<OwnedFd>| {
        let (line, id) = door.line();
        let borrowed: Vec<BorrowedFd<'_>> = fds.iter().map(AsFd::as_fd).collect();
        hand(&line, 0, &borrowed);
        drop(fds);
        door.expect_refused(line, id, what);
    };
    refused(&mut door, "no descriptor", vec![]);
    for count in [2, 3, 8] {
        let (programs, sockets): (Vec<_>, Vec<_>) = (0..count).map(|_| connection()).unzip();
        let sockets = sockets.into_iter().map(OwnedFd::from).collect();
        refused(&mut door, &format!("{count} descriptors"), sockets);
        assert!(programs.iter().all(is_closed), "{count} descriptors");
    }
    let (reader, writer) = std::io::pipe().unwrap();
    refused(&mut door, "a pipe", vec![writer.into()]);
    assert!(is_closed(reader));

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let file = File::create(&path).unwrap();
    refused(&mut door, "a file", vec![file.into()]);
    let links = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let targets: Vec<_> = links.flat_map(|fd| std::fs::read_link(fd.path())).collect();
    assert!(!targets.contains(&path), "{targets:?}");

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    refused(&mut door, "a listener", vec![listener.into()]);
    assert!(TcpStream::connect(address).is_err());
    let datagrams = UdpSocket::bind("127.0.0.1:0").unwrap();
    datagrams.connect(address).unwrap();
    refused(&mut door, "datagrams", vec![datagrams.into()]);
    let (_pair, datagrams) = UnixDatagram::pair().unwrap();
    refused(&mut door, "a pair of datagrams", vec![datagrams.into()]);
    let loose = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    refused(&mut door, "not connected", vec![loose]);

    // The head is cut off.
    let (line, id) = door.line();
    let (program, socket) = connection();
    send_fds(line.as_fd(), &[0; 3], &[socket.as_fd()]);
    drop(socket);
    door.expect_refused(line, id, "three bytes");
    assert!(is_closed(program));
    // The helper ends instead.
    let (line, id) = door.line();
    drop(line);
    assert_eq!(door.receive(), (id, Message::Cancel(Empty {})));

    other.write_all(b"x").unwrap();
    assert_eq!(door.receive(), (other_id, Message::Data(b"x".to_vec())));
}

#[test]
fn a_line_takes_one_connection() {
    let mut door = Door::new();
    let (mut first, mut line, id) = door.handed_over(b"");
    first.write_all(b"1").unwrap();
    assert_eq!(door.receive(), (id, Message::Data(b"1".to_vec())));
    let (mut second, socket) = connection();
    hand(&line, 0, &[socket.as_fd()]);
    drop(socket);
    second.write_all(b"2").unwrap();
    first.write_all(b"1").unwrap();
    assert_eq!(door.receive(), (id, Message::Data(b"1".to_vec())));
    drop(first);
    door.tell(id, Message::StreamEnd(StreamEnd::default()));
    assert_eq!(
        door.receive_rest(id),
        (vec![], Message::StreamEnd(StreamEnd::default()))
    );
    assert!(receive_end(&mut line));
    // The second connection was never accepted, and closes with the line.
    assert!(is_over(&second.read(&mut [0])));
}

#[test]
fn a_helper_that_keeps_a_connection_or_its_bytes_back_holds_up_nothing() {
    let mut door = Door::new();
    // No connection arrives, and the keeper gives it up.
    let (line, id) = door.line();
    door.tell(id, Message::Cancel(Empty {}));
    door.expect_refused(line, id, "no connection");
    // The early bytes do not arrive; the program sees that its connection broke.
    let (line, id) = door.line();
    let (mut program, socket) = connection();
    hand(&line, 10, &[socket.as_fd()]);
    drop(socket);
    thread::sleep(Duration::from_millis(50));
    door.tell(id, Message::Cancel(Empty {}));
    door.expect_refused(line, id, "no bytes");
    let ended = program.read(&mut [0]).unwrap_err();
    assert_eq!(ended.kind(), ErrorKind::ConnectionReset);
}

#[test]
fn a_request_that_does_not_keep_to_the_form_ends_the_helper_and_nothing_that_was_handed_over() {
    let request = b"\0\xbb\x01a.example";
    let (pair, datagrams) = (UnixStream::pair().unwrap(), UnixDatagram::pair().unwrap());
    let file = File::open("/dev/null").unwrap();
    let (line, other) = (pair.0.as_fd(), pair.1.as_fd());
    for (what, bytes, fds) in [
        ("no line", &request[..], vec![]),
        ("two lines", request, vec![line, other]),
        ("a file", request, vec![file.as_fd()]),
        ("datagrams", request, vec![datagrams.0.as_fd()]),
        ("an unknown kind", b"\x07\0\0a", vec![line]),
        ("too short", b"\0\0", vec![line]),
    ] {
        let mut door = Door::new();
        let (mut program, _line, id) = door.handed_over(b"");
        send_fds(door.control.as_fd(), bytes, &fds);
        // PID 1 has closed its end of the control socket.
        assert_eq!(rustix::io::read(&door.control, &mut [0u8]), Ok(0), "{what}");
        program.write_all(b"x").unwrap();
        assert_eq!(door.receive(), (id, Message::Data(b"x".to_vec())), "{what}");
    }
}
