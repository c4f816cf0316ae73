//! The helper's side is the test's: what it may say, and what it may not.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream, UdpSocket};
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use rustix::cmsg_space;
use rustix::net::{
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, sendmsg, socketpair,
};
use voidbox_protocol::body::{Empty, StreamEnd};
use voidbox_protocol::decode::{Phase, read_frame};
use voidbox_protocol::message::Message;
use voidbox_protocol::{FIRST_TUNNEL_ID, MAX_OPEN_TUNNELS};

use super::*;
use crate::door::handoff::{MAX_EARLY_BYTES, receive_answer, receive_end, send_wanted};
use crate::outbox::Outbox;

const PATIENCE: Duration = Duration::from_secs(20);

/// PID 1's side of the door, with the helper's end of the control socket and the keeper's of the port.
struct Door {
    tunnels: Arc<Tunnels>,
    control: OwnedFd,
    outbox: Arc<Outbox>,
    port: UnixStream,
    serving: thread::JoinHandle<()>,
    next_id: u32,
}

impl Door {
    fn new() -> Self {
        let outbox = Arc::new(Outbox::default());
        let (port, mut agent) = UnixStream::pair().unwrap();
        port.set_read_timeout(Some(PATIENCE)).unwrap();
        let written = outbox.clone();
        thread::spawn(move || written.write_to(&mut agent));
        let tunnels = Arc::new(Tunnels::new(outbox.clone(), None));
        let (control, mine) = socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )
        .unwrap();
        sockopt::set_socket_timeout(&control, sockopt::Timeout::Recv, Some(PATIENCE)).unwrap();
        let its = tunnels.clone();
        Self {
            tunnels,
            control,
            outbox,
            port,
            serving: thread::spawn(move || serve_helper(&its, &mine)),
            next_id: FIRST_TUNNEL_ID,
        }
    }

    fn ask(&self) -> UnixStream {
        let (line, end) = UnixStream::pair().unwrap();
        line.set_read_timeout(Some(PATIENCE)).unwrap();
        send_wanted(self.control.as_fd(), &wanted(), end.as_fd()).unwrap();
        line
    }

    /// A line whose connection the keeper has, with the tunnel's id.
    fn line(&mut self) -> (UnixStream, u32) {
        let mut line = self.ask();
        let id = self.next_id;
        self.next_id += 1;
        assert_eq!(self.receive(), (id, Message::Connect(wanted())));
        self.tell(id, Message::Connected(Empty {}));
        assert_eq!(receive_answer(&mut line).unwrap(), Ok(()));
        (line, id)
    }

    /// A program's end of a connection that was handed over with `early`.
    fn handed_over(&mut self, early: &[u8]) -> (TcpStream, UnixStream, u32) {
        let (mut line, id) = self.line();
        let (program, socket) = connection();
        hand(&line, early.len(), &[socket.as_fd()]);
        line.write_all(early).unwrap();
        (program, line, id)
    }

    fn tell(&self, id: u32, message: Message) {
        assert!(self.tunnels.on_message(id, message).unwrap());
    }

    fn receive(&mut self) -> (u32, Message) {
        let frame = read_frame(&mut self.port, Phase::Session).unwrap().unwrap();
        Message::decode(frame).unwrap()
    }

    /// The bytes of a tunnel and its last word.
    fn receive_rest(&mut self, id: u32) -> (Vec<u8>, Message) {
        let mut bytes = Vec::new();
        loop {
            match self.receive() {
                (got, Message::Data(more)) if got == id => bytes.extend(more),
                (got, Message::Credit(..)) if got == id => {}
                (got, last) => {
                    assert_eq!(got, id, "{last:?}");
                    return (bytes, last);
                }
            }
        }
    }

    /// The tunnel is given up, its line says nothing, and others go on.
    fn expect_refused(&mut self, mut line: UnixStream, id: u32, what: &str) {
        assert_eq!(self.receive(), (id, Message::Cancel(Empty {})), "{what}");
        let said = line.read(&mut [0]);
        assert!(is_over(&said), "{what}: {said:?}");
        self.tell(id, Message::Cancel(Empty {}));
        assert!(!self.serving.is_finished(), "{what}");
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.outbox.close();
    }
}

fn wanted() -> Connect {
    Connect::Host {
        host: "a.example".into(),
        port: 443,
    }
}

/// A program's end of a connection, and the one that the helper has accepted.
fn connection() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let program = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    program.set_read_timeout(Some(PATIENCE)).unwrap();
    program.set_write_timeout(Some(PATIENCE)).unwrap();
    (program, listener.accept().unwrap().0)
}

/// Sends a hand-over of so many early bytes with these descriptors.
fn hand(line: &UnixStream, early_bytes: usize, fds: &[BorrowedFd<'_>]) {
    let length = u32::try_from(early_bytes).unwrap().to_le_bytes();
    send_fds(line.as_fd(), &length, fds);
}

fn send_fds(socket: BorrowedFd<'_>, bytes: &[u8], fds: &[BorrowedFd<'_>]) {
    let mut space = [std::mem::MaybeUninit::uninit(); cmsg_space!(ScmRights(8))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() {
        assert!(ancillary.push(SendAncillaryMessage::ScmRights(fds)));
    }
    let bytes = &[io::IoSlice::new(bytes)];
    sendmsg(socket, bytes, &mut ancillary, SendFlags::NOSIGNAL).unwrap();
}

/// True once nobody has the other end of `reader` any more.
fn is_closed(mut reader: impl Read) -> bool {
    matches!(reader.read(&mut [0]), Ok(0))
}

/// The other end is closed, perhaps over bytes that it had not read; a timeout is another thing.
fn is_over(read: &io::Result<usize>) -> bool {
    match read {
        Ok(count) => *count == 0,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    }
}

fn pattern(size: usize) -> Vec<u8> {
    (0..=250u8).cycle().take(size).collect()
}

#[test]
fn what_was_read_of_a_connection_goes_first_and_each_direction_ends_by_itself() {
    let mut door = Door::new();
    let (mut program, mut line, id) = door.handed_over(b"early ");
    program.write_all(b"late").unwrap();
    program.shutdown(Shutdown::Write).unwrap();
    let end = Message::StreamEnd(StreamEnd::default());
    assert_eq!(door.receive_rest(id), (b"early late".to_vec(), end.clone()));
    // The program has said all, and still hears.
    door.tell(id, Message::Data(b"down".to_vec()));
    let mut got = [0; 4];
    program.read_exact(&mut got).unwrap();
    assert_eq!(&got, b"down");
    door.tell(id, end.clone());
    assert!(is_closed(&program) && receive_end(&mut line));

    // The other way round: the server has said all, and still hears.
    let (mut program, mut line, id) = door.handed_over(b"");
    door.tell(id, Message::Data(b"down".to_vec()));
    door.tell(id, end.clone());
    let mut got = Vec::new();
    program.read_to_end(&mut got).unwrap();
    assert_eq!(got, b"down");
    program.write_all(b"up").unwrap();
    drop(program);
    assert_eq!(door.receive_rest(id), (b"up".to_vec(), end));
    assert!(receive_end(&mut line));
}

#[test]
fn a_helper_has_read_64_kib_at_most_and_they_may_come_in_pieces() {
    assert_eq!(MAX_EARLY_BYTES, 64 << 10);
    let mut door = Door::new();
    let (mut line, id) = door.line();
    let (program, socket) = connection();
    hand(&line, MAX_EARLY_BYTES, &[socket.as_fd()]);
    let early = pattern(MAX_EARLY_BYTES);
    for piece in early.chunks(10_000) {
        line.write_all(piece).unwrap();
        thread::sleep(Duration::from_millis(5));
    }
    drop(program);
    let (got, last) = door.receive_rest(id);
    assert!(got == early && last == Message::StreamEnd(StreamEnd::default()));

    let (line, id) = door.line();
    let (program, socket) = connection();
    hand(&line, MAX_EARLY_BYTES + 1, &[socket.as_fd()]);
    drop(socket);
    door.expect_refused(line, id, "one byte more");
    assert!(is_closed(program));
}

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

    // A head that is cut off.
    let (line, id) = door.line();
    let (program, socket) = connection();
    send_fds(line.as_fd(), &[0; 3], &[socket.as_fd()]);
    drop(socket);
    door.expect_refused(line, id, "three bytes");
    assert!(is_closed(program));
    // A helper that goes away instead.
    let (line, id) = door.line();
    drop(line);
    assert_eq!(door.receive(), (id, Message::Cancel(Empty {})));

    other.write_all(b"x").unwrap();
    assert_eq!(door.receive(), (other_id, Message::Data(b"x".to_vec())));
}

#[test]
fn a_connection_of_another_machine_is_no_programs() {
    for (address, expected) in [
        ("127.0.0.1", true),
        ("127.0.1.32", true),
        ("::1", true),
        ("::ffff:127.0.0.1", true),
        ("10.0.2.2", false),
        ("0.0.0.0", false),
        ("::", false),
        ("::ffff:10.0.2.2", false),
        ("fe80::1", false),
    ] {
        assert_eq!(is_loopback(address.parse().unwrap()), expected, "{address}");
    }
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
    // It was never taken, and is closed with the line.
    assert!(is_over(&second.read(&mut [0])));
}

#[test]
fn a_helper_that_keeps_a_connection_or_its_bytes_back_holds_up_nothing() {
    let mut door = Door::new();
    // No connection comes, and the keeper gives it up.
    let (line, id) = door.line();
    door.tell(id, Message::Cancel(Empty {}));
    door.expect_refused(line, id, "no connection");
    // The bytes do not come; the program sees that its connection broke.
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
fn a_program_that_does_not_read_holds_up_no_thread_once_the_keeper_gives_up() {
    let mut door = Door::new();
    // Of a socket that waits: the helper shares it, and may set that at any time.
    let (mut line, id) = door.line();
    let (unread, socket) = UnixStream::pair().unwrap();
    sockopt::set_socket_send_buffer_size(&socket, 4096).unwrap();
    hand(&line, 0, &[socket.as_fd()]);
    for _ in 0..2 {
        door.tell(id, Message::Data(pattern(60_000)));
    }
    thread::sleep(Duration::from_millis(50));
    door.tell(id, Message::Cancel(Empty {}));
    let mut end = [7];
    assert_eq!(line.read(&mut end).unwrap(), 1);
    assert_eq!(end, [0]);
    drop(unread);
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
        // Its end of the control socket is closed.
        assert_eq!(rustix::io::read(&door.control, &mut [0u8]), Ok(0), "{what}");
        program.write_all(b"x").unwrap();
        assert_eq!(door.receive(), (id, Message::Data(b"x".to_vec())), "{what}");
    }
}

#[test]
fn a_guest_has_128_tunnels_and_a_helper_that_asks_for_more_is_told_so() {
    assert_eq!(MAX_OPEN_TUNNELS, 128);
    let mut door = Door::new();
    let mut lines: Vec<_> = (0..MAX_OPEN_TUNNELS).map(|_| door.line()).collect();
    for _ in 0..3 {
        let answer = receive_answer(&mut door.ask()).unwrap();
        assert_eq!(answer.unwrap_err().0, Refusal::Limit);
    }
    let (line, id) = lines.pop().unwrap();
    drop(line);
    assert_eq!(door.receive(), (id, Message::Cancel(Empty {})));
    door.tell(id, Message::Cancel(Empty {}));
    door.line();
}
