//! A guest with the device, and a test that plays the server.

use super::*;
use crate::virtio::driver::Driver;

struct Guest {
    driver: Driver,
    server: UnixStream,
}

fn message(bytes: usize, fill: u8) -> Vec<u8> {
    let mut message = vec![fill; bytes];
    message[..4].copy_from_slice(&u32::try_from(bytes).unwrap().to_le_bytes());
    message
}

impl Guest {
    fn new() -> Self {
        let (ours, server) = UnixStream::pair().unwrap();
        let folders = Folders::new(ours.into(), "mounts").unwrap();
        Self {
            driver: Driver::start(Box::new(folders)),
            server,
        }
    }

    fn serve(&mut self, answer: &[u8]) -> Vec<u8> {
        let mut length = [0; 4];
        self.server.read_exact(&mut length).unwrap();
        let bytes = message_bytes(&length).unwrap();
        let mut request = vec![0; bytes];
        request[..4].copy_from_slice(&length);
        self.server.read_exact(&mut request[4..]).unwrap();
        self.server.write_all(answer).unwrap();
        request
    }

    fn ready(&mut self) -> Progress {
        self.driver.transport.source_ready(libc::POLLIN)
    }
}

#[test]
fn requests_of_a_queue_are_answered_one_after_the_other() {
    let mut guest = Guest::new();
    assert_eq!(guest.driver.transport.source(), None);
    let first = message(30, 1);
    let second = message(MESSAGE_BYTES, 2);
    let one = guest
        .driver
        .offer(0, &[&first[..4], &first[4..]], &[7, 100]);
    let two = guest.driver.offer(0, &[&second], &[64]);
    guest.driver.kick(0);
    assert_eq!(guest.driver.take_used(0), None);
    let answer = message(60, 9);
    assert_eq!(guest.serve(&answer), first);
    assert_eq!(guest.ready(), Progress::More);
    assert_eq!(guest.driver.take_used(0), Some((one.head, 60)));
    assert_eq!(guest.driver.input_of(one)[..60], answer);
    // The second request is longer than the socket takes at once.
    guest.driver.kick(0);
    let mut server = guest.server.try_clone().unwrap();
    let served = std::thread::spawn(move || {
        let mut request = vec![0; MESSAGE_BYTES];
        server.read_exact(&mut request).unwrap();
        server.write_all(&message(20, 3)).unwrap();
        request
    });
    while guest.driver.transport.source().is_some() {
        guest.ready();
    }
    assert_eq!(served.join().unwrap(), second);
    assert_eq!(guest.driver.take_used(0), Some((two.head, 20)));
    assert!(!guest.driver.needs_reset());
}

#[test]
fn a_request_that_is_no_message_fails_the_device_until_a_reset() {
    let mut long = message(MESSAGE_BYTES + 1, 0);
    let mut lies = message(30, 0);
    lies[0] = 31;
    for request in [
        &b"abc"[..],
        &message(7, 0)[..6],
        &lies,
        &[0; 30],
        &[255; 30],
        &mut long,
    ] {
        let mut guest = Guest::new();
        guest.driver.offer(0, &[request], &[64]);
        guest.driver.kick(0);
        assert!(guest.driver.needs_reset(), "{} bytes", request.len());
        guest.driver.restart();
        let offered = guest.driver.offer(0, &[&message(7, 5)], &[64]);
        guest.driver.kick(0);
        guest.serve(&message(8, 1));
        guest.ready();
        assert_eq!(guest.driver.take_used(0), Some((offered.head, 8)));
    }
}

#[test]
fn an_answer_without_room_fails_the_device() {
    let mut guest = Guest::new();
    guest.driver.offer(0, &[&message(7, 0)], &[10]);
    guest.driver.kick(0);
    guest.serve(&message(11, 0));
    guest.ready();
    assert!(guest.driver.needs_reset());
}

#[test]
fn an_answer_to_a_request_before_a_reset_reaches_no_buffer() {
    let mut guest = Guest::new();
    guest.driver.offer(0, &[&message(7, 1)], &[64]);
    guest.driver.kick(0);
    guest.driver.restart();
    let offered = guest.driver.offer(0, &[&message(9, 2)], &[64]);
    guest.driver.kick(0);
    guest.serve(&message(50, 1));
    assert_eq!(guest.ready(), Progress::More);
    assert_eq!(guest.driver.take_used(0), None);
    guest.driver.kick(0);
    assert_eq!(guest.serve(&message(12, 2)), message(9, 2));
    guest.ready();
    assert_eq!(guest.driver.take_used(0), Some((offered.head, 12)));
}

#[test]
fn a_server_that_ends_or_breaks_the_protocol_fails_the_device_for_good() {
    for answer in [
        &b""[..],
        &[0; 4],
        &[255; 4],
        &[6, 0, 0, 0],
        &[9, 0, 0, 0, 1],
    ] {
        let mut guest = Guest::new();
        guest.driver.offer(0, &[&message(7, 1)], &[64]);
        guest.driver.kick(0);
        guest.server.write_all(answer).unwrap();
        guest.server.shutdown(std::net::Shutdown::Write).unwrap();
        guest.ready();
        assert!(guest.driver.needs_reset(), "{answer:?}");
        guest.driver.restart();
        guest.driver.offer(0, &[&message(7, 1)], &[64]);
        guest.driver.kick(0);
        assert!(guest.driver.needs_reset(), "{answer:?}");
    }
}
