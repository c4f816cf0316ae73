//! Transfers of any size in both directions arrive whole and in order.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::thread;
use std::time::Duration;

use serde_json::json;

use super::{Server, pattern, read_head, vm, vm_with};
use crate::support::{MIB, agent, test_vmm};

#[test]
fn a_tunnel_carries_both_directions_and_each_ends_by_itself() {
    let server = Server::echo();
    let door = vm("door-tunnel", &server, |_| ());
    let mut stream = door.tunnel("A.example.:443");
    let sent = pattern(300_000);
    let mut writer = stream.try_clone().unwrap();
    let bytes = sent.clone();
    let sender = thread::spawn(move || {
        writer.write_all(&bytes).unwrap();
        writer.shutdown(Shutdown::Write).unwrap();
    });
    let mut got = Vec::new();
    stream.read_to_end(&mut got).unwrap();
    sender.join().unwrap();
    assert!(got == sent);
    let notice = &door.notices(1)[0];
    assert_eq!(notice["kind"], "closed");
    assert_eq!(
        (&notice["host"], &notice["port"]),
        (&json!("A.example."), &json!(443))
    );
    assert_eq!(notice["end"], "clean");
    assert_eq!(notice["sentBytes"], 300_000);
    assert_eq!(notice["receivedBytes"], 300_000);
}

#[test]
fn large_answers_come_through_the_mailbox_and_through_the_port_alike() {
    let bytes = pattern(6_000_000);
    let answer = bytes.clone();
    let server = Server::new(move |mut stream| stream.write_all(&answer).unwrap());
    for (name, extra) in [
        ("door-mail", json!({})),
        (
            "door-port",
            json!({ "vmm": test_vmm(agent(), &["--fd", "{fd}"]) }),
        ),
    ] {
        let door = vm_with(name, &server, extra, |_| ());
        let mut both: Vec<TcpStream> = (0..2).map(|_| door.tunnel("a.example:443")).collect();
        for stream in &mut both {
            let mut got = Vec::new();
            stream.read_to_end(&mut got).unwrap();
            assert!(got == bytes, "{name}: {} bytes", got.len());
        }
        drop(both);
        for notice in door.notices(2) {
            assert_eq!(notice["receivedBytes"], 6_000_000, "{name}: {notice}");
        }
    }
}

#[test]
fn a_connection_goes_on_also_behind_an_answer_that_comes_at_once() {
    // The server's answer precedes the request, so no byte of the request may count as still in flight.
    let server = Server::new(|mut stream| {
        stream
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            .unwrap();
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let door = vm("door-again", &server, |_| ());
    for request in [
        "GET http://a.example/ HTTP/1.1\r\n\r\n",
        "POST http://a.example/ HTTP/1.1\r\nContent-Length: 2\r\n\r\nok",
    ] {
        let mut stream = door.open();
        let answered = (0..100)
            .take_while(|_| {
                // Each request has its own connection to the server, and the limit is 50 in a second.
                thread::sleep(Duration::from_millis(20));
                stream.write_all(request.as_bytes()).is_ok()
                    && read_head(&mut stream).starts_with("HTTP/1.1 200 ")
            })
            .count();
        assert_eq!(answered, 100, "{request}");
    }
}

#[test]
fn a_body_goes_up_while_its_answer_comes_down() {
    let server = Server::new(|mut stream| {
        let head = read_head(&mut stream);
        assert!(head.contains("Transfer-Encoding: chunked"), "{head}");
        stream
            .write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            .unwrap();
        let mut buffer = [0u8; 6];
        for _ in 0..2 {
            // The server sends an event for each part of the request, when it arrives.
            stream.read_exact(&mut buffer).unwrap();
            stream.write_all(b"2\r\nok\r\n").unwrap();
        }
        stream.write_all(b"0\r\n\r\n").unwrap();
    });
    let door = vm("door-stream", &server, |_| ());
    let (status, mut stream) =
        door.ask("POST http://a.example/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n");
    assert_eq!(status, 200);
    let mut event = [0u8; 7];
    for _ in 0..2 {
        stream.write_all(b"1\r\nx\r\n").unwrap();
        stream.read_exact(&mut event).unwrap();
        assert_eq!(&event, b"2\r\nok\r\n");
    }
}

#[test]
fn large_transfers_pass_whole_both_ways() {
    let server = Server::echo();
    let door = vm("door-large", &server, |_| ());
    let mut stream = door.tunnel("a.example:443");
    let block = pattern(MIB);
    let mut writer = stream.try_clone().unwrap();
    let sent = block.clone();
    let sender = thread::spawn(move || {
        for _ in 0..64 {
            writer.write_all(&sent).unwrap();
        }
        writer.shutdown(Shutdown::Write).unwrap();
    });
    let mut got = vec![0; block.len()];
    for number in 0..64 {
        stream.read_exact(&mut got).unwrap();
        assert!(got == block, "block {number}");
    }
    assert_eq!(stream.read(&mut got).unwrap(), 0);
    sender.join().unwrap();
}

#[test]
fn a_gibibyte_passes_whole() {
    const BLOCKS: usize = 1024;
    let server = Server::new(|mut stream| {
        let block = pattern(MIB);
        for _ in 0..BLOCKS {
            if stream.write_all(&block).is_err() {
                return;
            }
        }
    });
    let door = vm("door-gibibyte", &server, |_| ());
    let mut stream = door.tunnel("a.example:443");
    let block = pattern(MIB);
    let mut got = vec![0; block.len()];
    for number in 0..BLOCKS {
        stream.read_exact(&mut got).unwrap();
        assert!(got == block, "block {number}");
    }
    assert_eq!(stream.read(&mut got).unwrap(), 0);
    drop(stream);
    let notice = &door.notices(1)[0];
    assert_eq!(notice["receivedBytes"], 1u64 << 30);
    assert_eq!(notice["end"], "clean");
}
