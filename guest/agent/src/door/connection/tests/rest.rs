//! The rest of a long answer, which bypasses the helper on its way to the program.

use super::*;
use crate::door::handoff::send_rest;

/// A request that the helper forwards: its end of the pair, the line, the tunnel.
struct Request {
    server: UnixStream,
    line: UnixStream,
    id: u32,
}

impl Request {
    fn new(door: &mut Door) -> Self {
        let (line, id) = door.line();
        let (server, socket) = UnixStream::pair().unwrap();
        server.set_read_timeout(Some(PATIENCE)).unwrap();
        hand(&line, 0, &[socket.as_fd()]);
        Self { server, line, id }
    }

    /// Stops receiving, and returns the bytes that have arrived.
    fn stop(&mut self) -> Vec<u8> {
        self.server.shutdown(Shutdown::Read).unwrap();
        let mut got = Vec::new();
        self.server.read_to_end(&mut got).unwrap();
        got
    }

    fn expect_end(&mut self, is_whole: bool) {
        let mut end = [7];
        assert_eq!(self.line.read(&mut end).unwrap(), 1);
        assert_eq!(end, [u8::from(is_whole)]);
    }

    /// Checks that the tunnel was given up, and that the helper was told about it.
    fn expect_reset(mut self, door: &mut Door, what: &str) {
        let (_, last) = door.receive_rest(self.id);
        assert_eq!(last, Message::Cancel(Empty {}), "{what}");
        self.expect_end(false);
        door.tell(self.id, Message::Cancel(Empty {}));
        assert!(!door.serving.is_finished(), "{what}");
    }
}

#[test]
fn the_rest_begins_where_the_helper_stopped_and_ends_where_it_said() {
    let mut door = Door::new();
    let mut request = Request::new(&mut door);
    let answer = pattern(100_000);
    door.tell(request.id, Message::Data(answer[..40_000].to_vec()));
    let mut begun = vec![0; 10_000];
    request.server.read_exact(&mut begun).unwrap();
    // Some bytes are on their way to the helper, some arrive between its stop and its message, and some after it.
    begun.extend(request.stop());
    door.tell(request.id, Message::Data(answer[40_000..70_000].to_vec()));
    thread::sleep(Duration::from_millis(30));
    let (mut program, socket) = connection();
    let left = (answer.len() - begun.len()) as u64;
    send_rest(&request.line, socket.as_fd(), left).unwrap();
    door.tell(request.id, Message::Data(answer[70_000..].to_vec()));
    request.expect_end(true);
    let mut rest = vec![0; answer.len() - begun.len()];
    program.read_exact(&mut rest).unwrap();
    assert!([begun, rest].concat() == answer);

    // The request's own body still passes, and the program's connection belongs to the helper again.
    request.server.write_all(b"up").unwrap();
    assert_eq!(door.receive_bytes(request.id, 2), b"up".to_vec());
    (&socket).write_all(b"next answer").unwrap();
    let mut next = [0; 11];
    program.read_exact(&mut next).unwrap();
    assert_eq!(&next, b"next answer");

    // The helper and the server end the connection.
    let end = Message::StreamEnd(StreamEnd::default());
    drop(request.server);
    assert_eq!(door.receive_rest(request.id), (vec![], end.clone()));
    door.tell(request.id, end);
    assert!(receive_end(&mut request.line));
}

#[test]
fn bytes_behind_the_rest_are_nobodys() {
    let mut door = Door::new();
    let mut request = Request::new(&mut door);
    request.stop();
    let (mut program, socket) = connection();
    send_rest(&request.line, socket.as_fd(), 5).unwrap();
    drop(socket);
    door.tell(request.id, Message::Data(b"12345+and more".to_vec()));
    request.expect_end(true);
    request.expect_reset(&mut door, "more than said");
    let mut got = Vec::new();
    program.read_to_end(&mut got).unwrap();
    assert_eq!(got, b"12345");
}

#[test]
fn an_answer_that_is_cut_breaks_the_programs_connection() {
    let cut_by = [
        ("the server", Message::StreamEnd(StreamEnd::default())),
        ("the keeper", Message::Cancel(Empty {})),
    ];
    for (what, cut) in cut_by {
        for is_before in [true, false] {
            let mut door = Door::new();
            let mut request = Request::new(&mut door);
            let (mut program, socket) = connection();
            if !is_before {
                request.stop();
                send_rest(&request.line, socket.as_fd(), 10).unwrap();
                door.tell(request.id, Message::Data(b"12345".to_vec()));
                program.read_exact(&mut [0; 5]).unwrap();
            }
            door.tell(request.id, cut.clone());
            if is_before {
                request.stop();
                // The keeper's message may have ended the connection by now.
                let _ = send_rest(&request.line, socket.as_fd(), 10);
            }
            drop(socket);
            if matches!(cut, Message::StreamEnd(_)) {
                let (_, last) = door.receive_rest(request.id);
                assert_eq!(last, Message::Cancel(Empty {}), "{what}");
            }
            request.expect_end(false);
            if !is_before {
                let ended = program.read(&mut [0]).unwrap_err();
                assert_eq!(ended.kind(), ErrorKind::ConnectionReset, "{what}");
            }
        }
    }
}

#[test]
fn a_program_that_goes_before_its_rest_ends_the_tunnel() {
    let mut door = Door::new();
    let mut request = Request::new(&mut door);
    request.stop();
    let (program, socket) = connection();
    send_rest(&request.line, socket.as_fd(), 1 << 40).unwrap();
    drop((program, socket));
    for _ in 0..2 {
        door.tell(request.id, Message::Data(pattern(60_000)));
        thread::sleep(Duration::from_millis(30));
    }
    request.expect_reset(&mut door, "no program");
}

#[test]
fn a_program_that_does_not_read_its_rest_holds_up_no_thread_once_the_keeper_gives_up() {
    let mut door = Door::new();
    let mut request = Request::new(&mut door);
    request.stop();
    let (_unread, socket) = UnixStream::pair().unwrap();
    sockopt::set_socket_send_buffer_size(&socket, 4096).unwrap();
    send_rest(&request.line, socket.as_fd(), 1 << 40).unwrap();
    for _ in 0..2 {
        door.tell(request.id, Message::Data(pattern(60_000)));
    }
    thread::sleep(Duration::from_millis(50));
    door.tell(request.id, Message::Cancel(Empty {}));
    request.expect_end(false);
}

#[test]
fn a_rest_that_does_not_keep_to_the_form_ends_its_tunnel_alone() {
    let mut door = Door::new();
    let (mut other, _line, other_id) = door.handed_over(b"");
    let (reader, writer) = std::io::pipe().unwrap();
    let (_program, socket) = connection();
    let (_second, more) = connection();
    let good = 10u64.to_le_bytes();
    for (what, bytes, fds) in [
        ("no connection", &good[..], vec![]),
        ("two connections", &good, vec![socket.as_fd(), more.as_fd()]),
        ("a pipe", &good, vec![writer.as_fd()]),
        ("nothing left", &[0; 8], vec![socket.as_fd()]),
        ("cut off", &good[..7], vec![socket.as_fd()]),
    ] {
        let request = Request::new(&mut door);
        send_fds(request.line.as_fd(), bytes, &fds);
        request.expect_reset(&mut door, what);
    }
    // The helper stops, and ends instead of sending the program's connection.
    let mut request = Request::new(&mut door);
    request.stop();
    door.tell(request.id, Message::Data(b"x".to_vec()));
    thread::sleep(Duration::from_millis(30));
    drop(request.line);
    let (_, last) = door.receive_rest(request.id);
    assert_eq!(last, Message::Cancel(Empty {}));
    // A helper that stops and stays silent blocks no connection once the keeper gives up.
    let mut silent = Request::new(&mut door);
    silent.stop();
    door.tell(silent.id, Message::Data(b"x".to_vec()));
    thread::sleep(Duration::from_millis(30));
    door.tell(silent.id, Message::Cancel(Empty {}));
    silent.expect_end(false);
    let (_, last) = door.receive_rest(silent.id);
    assert_eq!(last, Message::Cancel(Empty {}));

    other.write_all(b"x").unwrap();
    assert_eq!(door.receive(), (other_id, Message::Data(b"x".to_vec())));
    drop(reader);
}

#[test]
fn a_rest_outlives_its_helper() {
    let mut door = Door::new();
    let mut request = Request::new(&mut door);
    request.stop();
    let (mut program, socket) = connection();
    send_rest(&request.line, socket.as_fd(), 10).unwrap();
    door.tell(request.id, Message::Data(b"12345".to_vec()));
    program.read_exact(&mut [0; 5]).unwrap();
    drop((request.server, request.line, socket));
    let end = Message::StreamEnd(StreamEnd::default());
    assert_eq!(door.receive_rest(request.id), (vec![], end.clone()));
    door.tell(request.id, Message::Data(b"67890".to_vec()));
    door.tell(request.id, end);
    let mut got = Vec::new();
    program.read_to_end(&mut got).unwrap();
    assert_eq!(got, b"67890");
}
