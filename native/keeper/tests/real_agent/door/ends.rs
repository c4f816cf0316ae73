//! A server, the VM or the keeper ends in the middle: the errors of the program, and the notices.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::{Server, read_head, vm};

#[test]
fn a_server_that_breaks_off_is_seen_to_do_so() {
    let server = Server::new(|mut stream| {
        let head = read_head(&mut stream);
        let until_close = head.starts_with("GET /close");
        let length = if until_close {
            ""
        } else {
            "Content-Length: 100\r\n"
        };
        stream
            .write_all(format!("HTTP/1.1 200 OK\r\n{length}\r\nhalf").as_bytes())
            .unwrap();
        thread::sleep(Duration::from_millis(100));
        // A socket that is closed with unread bytes is reset.
        if until_close {
            thread::sleep(Duration::from_millis(100));
        }
    });
    let door = vm("door-broken", &server, |_| ());
    for (path, extra) in [("/length", ""), ("/close", "unread")] {
        let head = format!(
            "GET http://a.example{path} HTTP/1.1\r\nContent-Length: {}\r\n\r\n{extra}",
            extra.len()
        );
        let (status, mut stream) = door.ask(&head);
        assert_eq!(status, 200);
        let mut got = Vec::new();
        let ended = stream.read_to_end(&mut got);
        assert_eq!(
            ended.unwrap_err().kind(),
            ErrorKind::ConnectionReset,
            "{path}: {got:?}"
        );
    }
}

#[test]
fn the_end_of_a_vm_is_that_of_its_connections_and_their_notices_are_the_last_to_be_read() {
    let server = Server::echo();
    let door = vm("door-stopped", &server, |_| ());
    let mut held: Vec<TcpStream> = (0..3).map(|_| door.tunnel("a.example:443")).collect();
    for stream in &mut held {
        stream.write_all(b"x").unwrap();
        stream.read_exact(&mut [0]).unwrap();
    }
    let notices = door.vm.stream("notices", json!({ "offset": 0 }));
    let fence = door.vm.attach();
    door.vm.call("stop", json!({ "fence": fence }));
    let text = String::from_utf8(notices.rest()).unwrap();
    let ends: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(ends.len(), 3, "{text}");
    for end in ends {
        assert_eq!(
            (&end["kind"], &end["end"]),
            (&json!("closed"), &json!("reset"))
        );
        assert_eq!(
            (&end["sentBytes"], &end["receivedBytes"]),
            (&json!(1), &json!(1))
        );
    }
}

#[test]
fn a_keeper_that_is_killed_in_mid_transfer_ends_the_connections() {
    let server = Server::new(|mut stream| while stream.write_all(&[7; 64 << 10]).is_ok() {});
    let door = vm("door-killed", &server, |_| ());
    let mut stream = door.tunnel("a.example:443");
    stream.read_exact(&mut vec![0; 1 << 20]).unwrap();
    let pid = door.vm.keeper_pid().unwrap().to_string();
    let killed = std::process::Command::new("kill")
        .args(["-9", &pid])
        .status();
    assert!(killed.unwrap().success());
    let mut rest = Vec::new();
    let ended = stream.read_to_end(&mut rest);
    assert!(
        !matches!(&ended, Err(error) if error.kind() == ErrorKind::WouldBlock),
        "the connection stays open"
    );
}
