//! The tests act as the helper: they send allowed and forbidden messages.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream, UdpSocket};
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use rustix::cmsg_space;
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
    sendmsg, socketpair, sockopt,
};
use voidbox_protocol::body::{Empty, StreamEnd};
use voidbox_protocol::decode::{Phase, read_frame};
use voidbox_protocol::message::Message;
use voidbox_protocol::{FIRST_TUNNEL_ID, MAX_OPEN_TUNNELS};

use super::*;
use crate::door::handoff::{MAX_EARLY_BYTES, receive_answer, receive_end, send_wanted};
use crate::outbox::Outbox;

mod hostile;
mod rest;
mod tunnels;

const PATIENCE: Duration = Duration::from_secs(20);

/// PID 1's side of the door, with the helper's end of the control socket and the keeper's end of the port.
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

    /// Returns a line whose connection the keeper has opened, and the tunnel's id.
    fn line(&mut self) -> (UnixStream, u32) {
        let mut line = self.ask();
        let id = self.next_id;
        self.next_id += 1;
        assert_eq!(self.receive(), (id, Message::Connect(wanted())));
        self.tell(id, Message::Connected(Empty {}));
        assert_eq!(receive_answer(&mut line).unwrap(), Ok(()));
        (line, id)
    }

    /// Returns a program's end of a connection that was handed over with `early`.
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

    /// Returns the bytes of a tunnel and its last message.
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

    /// Returns `count` bytes of a tunnel.
    fn receive_bytes(&mut self, id: u32, count: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        while bytes.len() < count {
            match self.receive() {
                (got, Message::Data(more)) if got == id => bytes.extend(more),
                (got, Message::Credit(..)) if got == id => {}
                other => panic!("{other:?}"),
            }
        }
        bytes
    }

    /// Checks that the tunnel is given up, that its line gets no message, and that other tunnels stay open.
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

/// Returns a program's end of a connection, and the end that the helper has accepted.
fn connection() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let program = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    program.set_read_timeout(Some(PATIENCE)).unwrap();
    program.set_write_timeout(Some(PATIENCE)).unwrap();
    (program, listener.accept().unwrap().0)
}

/// Sends a hand-over of `early_bytes` early bytes with these descriptors.
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

/// Returns true once no process has the other end of `reader`.
fn is_closed(mut reader: impl Read) -> bool {
    matches!(reader.read(&mut [0]), Ok(0))
}

/// Returns true if the other end is closed, perhaps with unread bytes; a timeout does not count.
fn is_over(read: &io::Result<usize>) -> bool {
    match read {
        Ok(count) => *count == 0,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    }
}

fn pattern(size: usize) -> Vec<u8> {
    (0..=250u8).cycle().take(size).collect()
}
