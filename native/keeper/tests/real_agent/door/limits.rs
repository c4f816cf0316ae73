//! The limits of a guest: connections, their rate, idle time and bytes. A connection at its limit does not affect
//! others.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{PATIENCE, Server, read_head, status, vm};
use crate::support::MIB;

#[test]
fn at_most_so_many_connections_are_open_and_those_go_on() {
    let server = Server::echo();
    let door = vm("door-many", &server, |egress| {
        egress["limits"] = json!({ "connections": 64, "connectionsPerSecond": 1000 });
    });
    let mut open: Vec<TcpStream> = (0..64).map(|_| door.tunnel("a.example:443")).collect();
    for _ in 0..3 {
        assert_eq!(door.connect("a.example:443").0, 503);
    }
    for stream in &mut open {
        stream.write_all(b"x").unwrap();
        stream.read_exact(&mut [0]).unwrap();
    }
    drop(open.pop());
    let deadline = Instant::now() + PATIENCE;
    while door.connect("a.example:443").0 != 200 {
        assert!(
            Instant::now() < deadline,
            "the place of a closed connection stays taken"
        );
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_guest_has_128_connections_to_its_proxy_and_one_more_is_told_so() {
    let server = Server::echo();
    let door = vm("door-programs", &server, |_| ());
    // These connections send no request yet.
    let mut held: Vec<TcpStream> = (0..128).map(|_| door.open()).collect();
    let told = read_head(&mut door.open());
    assert_eq!(status(&told), 503, "{told}");
    held[0]
        .write_all(b"CONNECT a.example:443 HTTP/1.1\r\n\r\n")
        .unwrap();
    assert_eq!(status(&read_head(&mut held[0])), 200);
    drop(held.pop());
    let deadline = Instant::now() + PATIENCE;
    while status(&read_head(&mut {
        let mut stream = door.open();
        let _ = stream.write_all(b"CONNECT a.example:443 HTTP/1.1\r\n\r\n");
        stream
    })) != 200
    {
        assert!(Instant::now() < deadline, "its place stays taken");
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_flood_is_refused_by_its_rate_and_the_vm_goes_on() {
    let server = Server::echo();
    let door = vm("door-flood", &server, |egress| {
        egress["limits"] = json!({ "connectionsPerSecond": 5 });
    });
    let mut first = door.tunnel("a.example:443");
    let statuses: Vec<u16> = (0..40).map(|_| door.connect("a.example:443").0).collect();
    assert!(statuses.contains(&503), "{statuses:?}");
    first.write_all(b"x").unwrap();
    first.read_exact(&mut [0]).unwrap();
    thread::sleep(Duration::from_millis(1100));
    assert_eq!(door.connect("a.example:443").0, 200);
}

#[test]
fn an_idle_connection_is_ended_and_so_is_one_beyond_the_bytes_of_all() {
    let server = Server::echo();
    let door = vm("door-limits", &server, |egress| {
        egress["limits"] = json!({ "idleMs": 1_000, "totalBytes": 100_000 });
    });
    let mut idle = door.tunnel("a.example:443");
    let ended = idle.read(&mut [0]);
    assert!(
        matches!(&ended, Err(error) if error.kind() == ErrorKind::ConnectionReset),
        "{ended:?}"
    );
    let mut greedy = door.tunnel("a.example:443");
    let mut got = 0;
    let block = [0u8; 4096];
    let broke = (0..100).find_map(|_| {
        let passed = greedy
            .write_all(&block)
            .and_then(|()| greedy.read(&mut [0; 4096]));
        got += passed.as_ref().map_or(0, |count| *count);
        passed.is_err().then_some(())
    });
    assert!(broke.is_some() && got < 100_000, "{got} bytes came back");
    assert_eq!(door.connect("a.example:443").0, 503);
    let ends: Vec<Value> = door
        .notices(2)
        .iter()
        .map(|notice| notice["end"].clone())
        .collect();
    assert_eq!(ends, ["idle", "limit"]);
}

#[test]
fn who_does_not_read_holds_up_nobody_and_costs_little() {
    let server = Server::new(|mut stream| {
        let mut first = [0];
        let _ = stream.read_exact(&mut first);
        match first[0] {
            b'e' => drop(stream.write_all(b"e")),
            // Sends as long as the other end reads.
            _ => while stream.write_all(&[7; 64 << 10]).is_ok() {},
        }
    });
    let door = vm("door-slow", &server, |_| ());
    let before = door.vm.keeper_resident_bytes();
    let mut held: Vec<TcpStream> = (0..20).map(|_| door.tunnel("a.example:443")).collect();
    for stream in &mut held {
        stream.write_all(b"s").unwrap();
    }
    thread::sleep(Duration::from_millis(500));
    let mut other = door.tunnel("a.example:443");
    other.write_all(b"e").unwrap();
    other.read_exact(&mut [0]).unwrap();
    let grown = door.vm.keeper_resident_bytes().saturating_sub(before);
    assert!(grown < 24 * MIB, "the keeper has grown by {grown} bytes");
    // Waiting bytes arrive when they are read.
    held[0].read_exact(&mut vec![0; 4 << 20]).unwrap();
}
