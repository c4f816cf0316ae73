use std::io::{Read as _, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use super::*;
use crate::virtio::driver::{Driver, Offered};

const CID: u32 = 3;
const PORT: u32 = 1024;
const GUEST_PORT: u32 = 5000;
const GUEST_ROOM: u32 = 64 << 10;

/// A guest with the device, and the keeper's end of the socket.
struct Guest {
    driver: Driver,
    keeper: UnixStream,
    offered: VecDeque<Offered>,
    /// The guest's room, which each packet names.
    room: u32,
    taken: u32,
}

impl Guest {
    fn new() -> Self {
        let (ours, keeper) = UnixStream::pair().unwrap();
        keeper.set_nonblocking(true).unwrap();
        let vsock = Vsock::new(ours.into(), CID, PORT).unwrap();
        Self {
            driver: Driver::start(Box::new(vsock)),
            keeper,
            offered: VecDeque::new(),
            room: GUEST_ROOM,
            taken: 0,
        }
    }

    /// A guest that has offered buffers and whose connection is accepted.
    fn connected() -> Self {
        let mut guest = Self::new();
        guest.offer(8, 4096);
        guest.send(op::REQUEST, &[]);
        assert_eq!(guest.receive_op(), op::RESPONSE);
        guest
    }

    fn offer(&mut self, count: usize, bytes: usize) {
        for _ in 0..count {
            let offered = self.driver.offer(RECEIVE, &[], &[bytes]);
            self.offered.push_back(offered);
        }
        self.driver.kick(RECEIVE);
    }

    fn header(&self, op: u16, length: usize) -> Header {
        Header {
            source_cid: CID.into(),
            destination_cid: HOST_CID,
            source_port: GUEST_PORT,
            destination_port: PORT,
            length: u32::try_from(length).unwrap(),
            kind: STREAM,
            op,
            flags: 0,
            room: self.room,
            taken: self.taken,
        }
    }

    fn send(&mut self, op: u16, data: &[u8]) {
        let header = self.header(op, data.len());
        self.send_header(header, data);
    }

    fn send_header(&mut self, header: Header, data: &[u8]) {
        let bytes = header.bytes();
        let output: &[&[u8]] = if data.is_empty() {
            &[&bytes]
        } else {
            &[&bytes, data]
        };
        self.driver.offer(TRANSMIT, output, &[]);
        self.driver.kick(TRANSMIT);
        while self.driver.take_used(TRANSMIT).is_some() {}
    }

    fn shut_down(&mut self, flags: u32) {
        let header = Header {
            flags,
            ..self.header(op::SHUTDOWN, 0)
        };
        self.send_header(header, &[]);
    }

    /// Lets the device do what its source allows, as the thread of the devices does.
    fn serve(&mut self) {
        for _ in 0..10_000 {
            let Some(source) = self.driver.transport.source() else {
                return;
            };
            let mut poll = crate::poll::Poll::default();
            let place = poll.add(source.fd, source.events);
            poll.wait(Some(Duration::ZERO)).unwrap();
            let events = poll.events(place);
            if events == 0 {
                return;
            }
            self.driver.transport.source_ready(events);
        }
        panic!("the device spins");
    }

    /// Takes the next packet, and offers its buffer again.
    fn receive(&mut self) -> Option<(Header, Vec<u8>)> {
        self.serve();
        let (head, written) = self.driver.take_used(RECEIVE)?;
        let offered = self.offered.pop_front().unwrap();
        assert_eq!(head, offered.head);
        let bytes = self.driver.input_of(offered);
        let mut bytes = bytes[..written as usize].to_vec();
        let data = bytes.split_off(HEADER_BYTES as usize);
        let header = parse(&bytes);
        assert_eq!(header.length as usize, data.len());
        assert_eq!(header.destination_cid, u64::from(CID));
        Some((header, data))
    }

    fn receive_op(&mut self) -> u16 {
        self.receive().expect("a packet").0.op
    }

    fn read_keeper(&mut self) -> Vec<u8> {
        let mut all = Vec::new();
        let _ = self.keeper.read_to_end(&mut all);
        all
    }
}

fn parse(bytes: &[u8]) -> Header {
    let u64_at = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let u16_at = |at: usize| u16::from_le_bytes(bytes[at..at + 2].try_into().unwrap());
    Header {
        source_cid: u64_at(0),
        destination_cid: u64_at(8),
        source_port: u32_at(16),
        destination_port: u32_at(20),
        length: u32_at(24),
        kind: u16_at(28),
        op: u16_at(30),
        flags: u32_at(32),
        room: u32_at(36),
        taken: u32_at(40),
    }
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length)
        .map(|at| u8::try_from(at * 7 % 251).unwrap())
        .collect()
}

#[test]
fn a_connection_carries_bytes_in_both_directions() {
    let mut guest = Guest::connected();
    guest.send(op::DATA, b"hello");
    assert_eq!(guest.read_keeper(), b"hello");
    guest.keeper.write_all(b"world").unwrap();
    let (header, data) = guest.receive().unwrap();
    assert_eq!((header.op, data.as_slice()), (op::DATA, &b"world"[..]));
    assert_eq!(header.source_port, PORT);
    assert_eq!(header.taken, 5);
    assert_eq!(header.room, ROOM_BYTES);
}

#[test]
fn bytes_of_the_keeper_longer_than_a_buffer_arrive_whole_and_in_order() {
    let mut guest = Guest::connected();
    let sent = pattern(6 << 10);
    guest.keeper.write_all(&sent).unwrap();
    let mut all = Vec::new();
    while all.len() < sent.len() {
        let (header, data) = guest.receive().expect("more data");
        assert_eq!(header.op, op::DATA);
        assert!(data.len() <= 4096 - HEADER_BYTES as usize);
        all.extend(data);
    }
    assert_eq!(all, sent);
}

#[test]
fn bytes_of_the_guest_survive_short_writes_and_count_once_they_are_delivered() {
    let mut guest = Guest::connected();
    guest.offer(100, 4096);
    let sent = pattern(200 << 10);
    let mut read: Vec<u8> = Vec::new();
    let mut known = 0u32;
    let mut at = 0;
    let limit = Instant::now() + Duration::from_secs(20);
    while read.len() < sent.len() {
        assert!(Instant::now() < limit);
        let in_flight = u32::try_from(at).unwrap() - known;
        let room = (ROOM_BYTES - in_flight) as usize;
        let next = (at + room.min(16 << 10)).min(sent.len());
        if next > at {
            guest.send(op::DATA, &sent[at..next]);
            at = next;
        }
        // The keeper reads in pieces of its own.
        let mut piece = [0; 5000];
        if let Ok(count) = guest.keeper.read(&mut piece) {
            read.extend(&piece[..count]);
        }
        while let Some((header, _)) = guest.receive() {
            assert_eq!(header.op, op::CREDIT_UPDATE);
            // Only what the socket has taken counts.
            assert!(header.taken as usize <= at);
            known = header.taken;
        }
    }
    assert_eq!(read, sent);
}

#[test]
fn a_keeper_that_does_not_read_costs_256_kib_and_no_byte_is_lost() {
    let mut guest = Guest::connected();
    let piece = pattern(32 << 10);
    let mut sent = 0usize;
    let mut taken = 0;
    // The guest keeps to its credit until no update comes.
    loop {
        let room = ROOM_BYTES as usize - (sent - taken);
        if room < piece.len() {
            match guest.receive() {
                Some((header, _)) => taken = header.taken as usize,
                None => break,
            }
            guest.offer(1, 4096);
        } else {
            guest.send(op::DATA, &piece);
            sent += piece.len();
        }
    }
    assert!(sent - taken <= ROOM_BYTES as usize);
    let mut read = 0;
    while read < sent {
        let bytes = guest.read_keeper();
        for (place, byte) in bytes.iter().enumerate() {
            assert_eq!(*byte, piece[(read + place) % piece.len()]);
        }
        read += bytes.len();
        guest.serve();
    }
    assert_eq!(read, sent);
}

#[test]
fn a_guest_beyond_its_credit_loses_its_connection() {
    let mut guest = Guest::connected();
    let piece = pattern(64 << 10);
    let mut resets = 0;
    for _ in 0..40 {
        guest.send(op::DATA, &piece);
        while let Some((header, _)) = guest.receive() {
            resets += usize::from(header.op == op::RESET);
            guest.offer(1, 4096);
        }
    }
    assert!(resets > 0);
}

#[test]
fn a_guest_that_does_not_read_stops_the_keeper_until_it_has_room() {
    let mut guest = Guest::new();
    guest.offer(100, 4096);
    guest.room = 10_000;
    guest.send(op::REQUEST, &[]);
    assert_eq!(guest.receive_op(), op::RESPONSE);
    guest.keeper.write_all(&pattern(30_000)).unwrap();
    let mut got = 0;
    let mut asked = 0;
    while let Some((header, data)) = guest.receive() {
        got += data.len();
        asked += usize::from(header.op == op::CREDIT_REQUEST);
    }
    assert_eq!(
        (got, asked),
        (10_000, 1),
        "all of its room, and one question"
    );
    assert!(
        guest.driver.transport.source().is_none(),
        "it waits for the guest alone"
    );
    guest.taken = 4_000;
    guest.send(op::CREDIT_UPDATE, &[]);
    while let Some((_, data)) = guest.receive() {
        got += data.len();
    }
    assert_eq!(got, 14_000);
}

#[test]
fn counts_wrap_around_at_four_gib() {
    let request = Header {
        room: 1000,
        taken: 0,
        ..Header::default()
    };
    let mut connection = Connection::accept(&request);
    for _ in 0..5 {
        connection.send(u32::MAX / 4);
    }
    let sent = (u32::MAX / 4).wrapping_mul(5);
    connection.learn(&Header {
        taken: sent.wrapping_sub(400),
        ..request
    });
    assert_eq!(connection.credit(), 600);
    connection.learn(&Header {
        taken: sent.wrapping_add(1),
        ..request
    });
    assert_eq!(
        connection.credit(),
        0,
        "a guest that took what was never sent"
    );
}

#[test]
fn the_guest_learns_that_the_keeper_has_closed_behind_all_data() {
    let mut guest = Guest::connected();
    guest.keeper.write_all(&pattern(5000)).unwrap();
    let (mut keeper, _) = UnixStream::pair().unwrap();
    std::mem::swap(&mut guest.keeper, &mut keeper);
    drop(keeper);
    let mut got = 0;
    let last = loop {
        let (header, data) = guest.receive().expect("data, then the end");
        if header.op != op::DATA {
            break header;
        }
        got += data.len();
    };
    assert_eq!(got, 5000);
    assert_eq!(last.op, op::SHUTDOWN);
    assert_eq!(last.flags, NO_MORE_RECEIVED | NO_MORE_SENT);
    // Nothing is left to wait for: a closed socket must not keep the thread busy.
    assert!(guest.driver.transport.source().is_none());
    guest.send(op::RESET, &[]);
    assert!(guest.receive().is_none());
}

#[test]
fn a_keeper_that_only_stops_sending_still_reads() {
    let mut guest = Guest::connected();
    guest.keeper.shutdown(std::net::Shutdown::Write).unwrap();
    let (header, _) = guest.receive().unwrap();
    assert_eq!((header.op, header.flags), (op::SHUTDOWN, NO_MORE_SENT));
    guest.send(op::DATA, b"last words");
    assert_eq!(guest.read_keeper(), b"last words");
}

#[test]
fn a_guest_that_sends_to_a_closed_keeper_learns_it() {
    let mut guest = Guest::new();
    guest.offer(8, 4096);
    guest.room = 0;
    guest.send(op::REQUEST, &[]);
    guest.receive();
    guest.receive();
    let (mut keeper, _) = UnixStream::pair().unwrap();
    std::mem::swap(&mut guest.keeper, &mut keeper);
    drop(keeper);
    guest.send(op::DATA, b"x");
    let (header, _) = guest.receive().unwrap();
    assert_eq!(header.op, op::SHUTDOWN);
    assert_eq!(header.flags, NO_MORE_RECEIVED | NO_MORE_SENT);
}

#[test]
fn the_keeper_sees_the_end_of_the_guest_behind_all_data() {
    for end in ["shutdown", "reset", "driver"] {
        let mut guest = Guest::connected();
        guest.send(op::DATA, b"bye");
        match end {
            "shutdown" => guest.shut_down(NO_MORE_RECEIVED | NO_MORE_SENT),
            "reset" => guest.send(op::RESET, &[]),
            _ => guest.driver.restart(),
        }
        if end == "shutdown" {
            assert_eq!(guest.receive_op(), op::RESET, "the guest need not wait");
        }
        guest.keeper.set_nonblocking(false).unwrap();
        let mut all = Vec::new();
        guest.keeper.read_to_end(&mut all).unwrap();
        assert_eq!(all, b"bye", "{end}");
    }
}

#[test]
fn a_guest_that_only_stops_sending_still_receives() {
    let mut guest = Guest::connected();
    guest.shut_down(NO_MORE_SENT);
    assert_eq!(guest.keeper.read(&mut [0; 8]).unwrap(), 0);
    guest.keeper.write_all(b"answer").unwrap();
    assert_eq!(guest.receive().unwrap().1, b"answer");
    guest.send(op::DATA, b"more");
    assert_eq!(
        guest.receive_op(),
        op::RESET,
        "it said that it sends no more"
    );
}

/// Sends until bytes wait for the keeper. Returns the number of all that were sent.
fn fill_keeper(guest: &mut Guest) -> usize {
    let piece = pattern(64 << 10);
    let mut sent = 0;
    while guest
        .driver
        .transport
        .source()
        .is_none_or(|source| source.events & libc::POLLOUT == 0)
    {
        guest.send(op::DATA, &piece);
        sent += piece.len();
        while guest.receive().is_some() {
            guest.offer(1, 4096);
        }
    }
    sent
}

#[test]
fn a_slow_keeper_learns_of_a_reset_of_the_device_although_bytes_wait_for_it() {
    for is_closed in [false, true] {
        let mut guest = Guest::connected();
        let sent = fill_keeper(&mut guest);
        if is_closed {
            guest.shut_down(NO_MORE_RECEIVED | NO_MORE_SENT);
        }
        guest.driver.restart();
        guest.keeper.set_nonblocking(false).unwrap();
        let limit = Some(Duration::from_secs(10));
        guest.keeper.set_read_timeout(limit).unwrap();
        let mut all = Vec::new();
        guest.keeper.read_to_end(&mut all).expect("an end");
        assert!((1..sent).contains(&all.len()), "{} of {sent}", all.len());
    }
}

#[test]
fn what_waits_for_a_slow_keeper_arrives_after_the_end_of_the_guest() {
    let mut guest = Guest::connected();
    let sent = fill_keeper(&mut guest);
    guest.shut_down(NO_MORE_RECEIVED | NO_MORE_SENT);
    let mut read = 0;
    let limit = Instant::now() + Duration::from_secs(10);
    loop {
        let mut bytes = [0; 8192];
        match guest.keeper.read(&mut bytes) {
            Ok(0) => break,
            Ok(count) => read += count,
            Err(_) => guest.serve(),
        }
        assert!(Instant::now() < limit);
    }
    assert_eq!(read, sent);
}

#[test]
fn other_connections_ports_cids_and_kinds_are_reset_and_the_first_one_lives() {
    let mut guest = Guest::connected();
    let request = guest.header(op::REQUEST, 0);
    for other in [
        Header {
            source_port: 5001,
            ..request
        },
        Header {
            destination_port: 22,
            ..request
        },
        Header {
            destination_cid: 4,
            ..request
        },
        Header {
            destination_cid: 1,
            ..request
        },
        Header { kind: 2, ..request },
        Header {
            op: op::DATA,
            source_port: 6000,
            ..request
        },
        Header {
            op: 99,
            source_port: 6000,
            ..request
        },
    ] {
        guest.send_header(other, &[]);
        let (header, _) = guest.receive().expect("a reset");
        assert_eq!(header.op, op::RESET);
        assert_eq!(header.source_port, other.destination_port);
        assert_eq!(header.source_cid, other.destination_cid);
        assert_eq!(header.destination_port, other.source_port);
        guest.offer(1, 4096);
    }
    for silent in [
        Header {
            source_cid: 7,
            ..request
        },
        Header {
            op: op::RESET,
            source_port: 6000,
            ..request
        },
    ] {
        guest.send_header(silent, &[]);
        assert!(guest.receive().is_none());
    }
    guest.send(op::DATA, b"lives");
    assert_eq!(guest.read_keeper(), b"lives");
}

#[test]
fn packets_that_a_connection_cannot_have_end_it() {
    for op in [op::REQUEST, op::RESPONSE, 0, 8, u16::MAX] {
        let mut guest = Guest::connected();
        guest.send(op, &[]);
        assert_eq!(guest.receive_op(), op::RESET);
        assert_eq!(guest.keeper.read(&mut [0; 8]).unwrap(), 0);
    }
}

#[test]
fn there_is_one_connection_in_the_life_of_a_vm() {
    let mut guest = Guest::connected();
    guest.send(op::RESET, &[]);
    guest.send(op::REQUEST, &[]);
    assert_eq!(guest.receive_op(), op::RESET);
}

#[test]
fn a_driver_may_reset_the_device_before_it_connects() {
    let mut guest = Guest::new();
    for _ in 0..3 {
        guest.driver.restart();
        guest.offered.clear();
    }
    guest.offer(2, 4096);
    guest.send(op::REQUEST, &[]);
    assert_eq!(guest.receive_op(), op::RESPONSE);
}

#[test]
fn a_flood_of_refused_packets_waits_for_the_guests_buffers() {
    let mut guest = Guest::new();
    let request = Header {
        destination_port: 22,
        ..guest.header(op::REQUEST, 0)
    };
    let bytes = request.bytes();
    for _ in 0..100 {
        guest.driver.offer(TRANSMIT, &[&bytes], &[]);
    }
    guest.driver.kick(TRANSMIT);
    let mut used = 0;
    while guest.driver.take_used(TRANSMIT).is_some() {
        used += 1;
    }
    assert_eq!(used, MAX_RESETS);
    guest.offer(110, 44);
    let mut resets = 0;
    while guest.receive().is_some() {
        resets += 1;
    }
    assert_eq!(resets, 100);
}

#[test]
fn an_end_has_its_place_however_full_the_guests_buffers_are() {
    let mut guest = Guest::connected();
    // All buffers are full of data.
    guest.keeper.write_all(&pattern(60_000)).unwrap();
    guest.serve();
    guest.shut_down(NO_MORE_RECEIVED | NO_MORE_SENT);
    guest.offer(1, 4096);
    let mut last = None;
    while let Some((header, _)) = guest.receive() {
        last = Some(header.op);
    }
    assert_eq!(last, Some(op::RESET));
}

#[test]
fn malformed_packets_and_buffers_fail_the_device_and_end_the_connection() {
    let broken: [fn(&mut Guest); 5] = [
        |guest| {
            guest.driver.offer(TRANSMIT, &[&[0; 43]], &[]);
            guest.driver.kick(TRANSMIT);
        },
        |guest| {
            let header = Header {
                length: 1,
                ..guest.header(op::DATA, 0)
            };
            guest.send_header(header, &[]);
        },
        |guest| {
            let header = Header {
                length: u32::MAX,
                ..guest.header(op::DATA, 0)
            };
            guest.send_header(header, b"x");
        },
        |guest| {
            guest.send(op::CREDIT_REQUEST, &[]);
            while guest.receive().is_some() {}
            while !guest.offered.is_empty() {
                guest.send(op::CREDIT_REQUEST, &[]);
                guest.receive();
            }
            guest.offer(1, 43);
            guest.send(op::CREDIT_REQUEST, &[]);
        },
        |guest| {
            guest.keeper.write_all(&pattern(40_000)).unwrap();
            while guest.receive().is_some() {}
            guest.offer(1, 44);
            guest.serve();
        },
    ];
    for (at, broken) in broken.into_iter().enumerate() {
        let mut guest = Guest::connected();
        broken(&mut guest);
        assert!(guest.driver.needs_reset(), "{at}");
        guest.keeper.set_nonblocking(false).unwrap();
        let mut all = Vec::new();
        let ended = guest.keeper.read_to_end(&mut all);
        assert!(ended.is_ok() || at == 4, "{at}: {ended:?}");
        guest.driver.restart();
        assert!(!guest.driver.needs_reset());
    }
}

#[test]
fn a_round_trip_costs_one_kick_and_one_interrupt() {
    let mut guest = Guest::connected();
    let (mut kicks, mut interrupts) = (0, 0);
    let _ = guest.driver.interrupt.line().read();
    for _ in 0..100 {
        for queue in [RECEIVE, TRANSMIT] {
            while queue == TRANSMIT && guest.driver.take_used(queue).is_some() {}
            guest.driver.want_interrupt(queue);
        }
        let request = [&guest.header(op::DATA, 4).bytes()[..], b"ping"].concat();
        guest.driver.offer(TRANSMIT, &[&request], &[]);
        kicks += usize::from(guest.driver.wants_kick(TRANSMIT));
        guest.driver.kick(TRANSMIT);
        assert_eq!(guest.read_keeper(), b"ping");
        guest.keeper.write_all(b"pong").unwrap();
        assert_eq!(guest.receive().unwrap().1, b"pong");
        guest.taken += 4;
        interrupts += guest.driver.interrupt.line().read().unwrap_or(0);
        // The guest offers the buffer again.
        let offered = guest.driver.offer(RECEIVE, &[], &[4096]);
        guest.offered.push_back(offered);
        kicks += usize::from(guest.driver.wants_kick(RECEIVE));
    }
    assert_eq!((kicks, interrupts), (100, 100));
}

#[test]
fn a_guest_that_only_sends_learns_of_its_buffers_before_they_run_out() {
    let mut guest = Guest::connected();
    let _ = guest.driver.interrupt.line().read();
    guest.driver.want_interrupt(TRANSMIT);
    let mut sent = 0;
    while guest.driver.interrupt.line().read().is_err() {
        let bytes = guest.header(op::CREDIT_UPDATE, 0).bytes();
        guest.driver.offer(TRANSMIT, &[&bytes], &[]);
        guest.driver.kick(TRANSMIT);
        sent += 1;
        assert!(sent < usize::from(QUEUE_SIZE) / 2);
    }
}
