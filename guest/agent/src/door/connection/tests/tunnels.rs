//! Connections that are handed over correctly, up to their ends and limits.

use super::*;

#[test]
fn what_was_read_of_a_connection_goes_first_and_each_direction_ends_by_itself() {
    let mut door = Door::new();
    let (mut program, mut line, id) = door.handed_over(b"early ");
    program.write_all(b"late").unwrap();
    program.shutdown(Shutdown::Write).unwrap();
    let end = Message::StreamEnd(StreamEnd::default());
    assert_eq!(door.receive_rest(id), (b"early late".to_vec(), end.clone()));
    // The program has sent everything, and still receives.
    door.tell(id, Message::Data(b"down".to_vec()));
    let mut got = [0; 4];
    program.read_exact(&mut got).unwrap();
    assert_eq!(&got, b"down");
    door.tell(id, end.clone());
    assert!(is_closed(&program) && receive_end(&mut line));

    // In the other direction: the server has sent everything, and still receives.
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
fn a_program_that_does_not_read_holds_up_no_thread_once_the_keeper_gives_up() {
    let mut door = Door::new();
    // The socket blocks: the helper shares it, and may set this at any time.
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
