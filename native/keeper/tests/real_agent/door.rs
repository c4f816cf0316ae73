//! The door: programs of the guest, its agent and the keeper, with servers on this machine.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{MIB, Vm};

const PATIENCE: Duration = Duration::from_secs(20);
const PUBLIC: &str = "93.184.215.14";

/// A server that counts its connections and serves each on a thread.
struct Server {
    port: u16,
    accepted: Arc<AtomicUsize>,
}

impl Server {
    fn new(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let accepted = Arc::new(AtomicUsize::new(0));
        let (count, serve) = (accepted.clone(), Arc::new(serve));
        thread::spawn(move || {
            for stream in listener.incoming() {
                count.fetch_add(1, Ordering::SeqCst);
                let serve = serve.clone();
                thread::spawn(move || serve(stream.unwrap()));
            }
        });
        Self { port, accepted }
    }

    /// Gives back what it gets, and ends when the client does.
    fn echo() -> Self {
        Self::new(|mut stream| {
            let mut buffer = vec![0; 64 << 10];
            while let Ok(count @ 1..) = stream.read(&mut buffer) {
                if stream.write_all(&buffer[..count]).is_err() {
                    return;
                }
            }
        })
    }

    fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }
}

/// A VM whose door is open for `a.example`, which is this server.
fn vm(name: &str, server: &Server, change: impl FnOnce(&mut Value)) -> Door {
    vm_with(name, server, json!({}), change)
}

/// The same with `extra` in its launch configuration.
fn vm_with(name: &str, server: &Server, mut extra: Value, change: impl FnOnce(&mut Value)) -> Door {
    let mut egress = json!({
        "allow": [{ "kind": "host", "name": "a.example", "ports": [80, 443] }],
        "services": [],
        "testHosts": {
            "a.example": { "addresses": [[PUBLIC]], "dial": format!("127.0.0.1:{}", server.port) },
        },
    });
    change(&mut egress);
    extra["egress"] = egress;
    let vm = Vm::with_agent(name, extra);
    let fence = vm.attach();
    vm.start(
        fence,
        "proxy",
        "echo $http_proxy; echo $NO_PROXY",
        json!({}),
    );
    vm.wait("proxy");
    let output = String::from_utf8(vm.output("proxy", "stdout", 0).rest()).unwrap();
    let (proxy, direct) = output.trim().split_once('\n').unwrap();
    let proxy = proxy.strip_prefix("http://").unwrap().to_owned();
    Door {
        vm,
        proxy,
        direct: direct.to_owned(),
    }
}

struct Door {
    vm: Vm,
    proxy: String,
    direct: String,
}

impl Door {
    fn open(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.proxy).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Sends a head and gives the status, with the connection behind the response's head.
    fn ask(&self, head: &str) -> (u16, TcpStream) {
        let mut stream = self.open();
        stream.write_all(head.as_bytes()).unwrap();
        let status = status(&read_head(&mut stream));
        (status, stream)
    }

    fn connect(&self, authority: &str) -> (u16, TcpStream) {
        self.ask(&format!("CONNECT {authority} HTTP/1.1\r\n\r\n"))
    }

    fn tunnel(&self, authority: &str) -> TcpStream {
        let (status, stream) = self.connect(authority);
        assert_eq!(status, 200, "{authority}");
        stream
    }

    /// The notices, once there are so many.
    fn notices(&self, count: usize) -> Vec<Value> {
        let mut stream = self.vm.stream("notices", json!({ "offset": 0 }));
        assert_eq!(stream.head["ok"]["offset"], 0);
        (0..count).map(|_| stream.line()).collect()
    }
}

fn read_head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && matches!(stream.read(&mut byte), Ok(1)) {
        head.push(byte[0]);
    }
    String::from_utf8(head).unwrap()
}

fn status(head: &str) -> u16 {
    let word = head.split(' ').nth(1).unwrap_or_else(|| panic!("{head:?}"));
    word.parse().unwrap()
}

fn pattern(count: u64) -> Vec<u8> {
    (0..count).map(|index| (index * 7 % 251) as u8).collect()
}

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
        ("door-port", json!({ "testVmmArgs": ["--fd", "{fd}"] })),
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
fn each_request_is_decided_by_its_url_and_its_host_header_is_the_urls() {
    let server = Server::new(|mut stream| {
        let head = read_head(&mut stream);
        let body = "seen: ".to_owned() + &head;
        let answer = format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(answer.as_bytes()).unwrap();
    });
    let door = vm("door-forward", &server, |_| ());
    let (status_1, mut stream) =
        door.ask("GET http://a.example/x?y HTTP/1.1\r\nHost: evil.example\r\n\r\n");
    assert_eq!(status_1, 200);
    let seen = read_head(&mut stream);
    assert!(
        seen.contains("GET /x?y HTTP/1.1\r\nHost: a.example\r\n"),
        "{seen}"
    );
    assert!(!seen.contains("evil"), "{seen}");
    // The same connection, another host: decided again.
    stream
        .write_all(b"GET http://evil.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n")
        .unwrap();
    assert_eq!(status(&read_head(&mut stream)), 403);
    assert_eq!(server.accepted(), 1);
    let kinds: Vec<Value> = door
        .notices(2)
        .iter()
        .map(|notice| notice["kind"].clone())
        .collect();
    assert_eq!(kinds, ["closed", "refused"]);
}

#[test]
fn a_connection_goes_on_also_behind_an_answer_that_comes_at_once() {
    // Before the request: nothing of that may count as still on its way.
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
                // A connection to the server each: 50 in a second are allowed.
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
            // An event for each part of the request, as it comes.
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
fn no_name_and_no_number_leads_to_a_port_of_the_hosts_loopback() {
    let server = Server::echo();
    let port = server.port;
    let open = |egress: &mut Value| {
        egress["allow"] = "any".into();
        egress["testHosts"] = json!({
            "rebind.example": { "addresses": [["127.0.0.1"]] },
            "mixed.example": { "addresses": [["127.0.0.1", "::1", "::ffff:127.0.0.1"]] },
        });
    };
    let door = vm("door-loopback", &server, open);
    for host in [
        "127.0.0.1",
        "127.1.2.3",
        "localhost",
        "LOCALHOST.",
        "rebind.example",
        "mixed.example",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
        "0.0.0.0",
        "[::]",
        "10.0.2.2",
        "169.254.169.254",
        "2130706433",
        "0x7f000001",
        "0x7f.1",
        "0177.0.0.1",
        "127.1",
        "017700000001",
    ] {
        let (status, _) = door.connect(&format!("{host}:{port}"));
        assert_eq!(status, 403, "CONNECT {host}");
        let head = format!("GET http://{host}:{port}/ HTTP/1.1\r\nHost: a.example\r\n\r\n");
        assert_eq!(door.ask(&head).0, 403, "GET {host}");
        thread::sleep(Duration::from_millis(45));
    }
    for authority in [
        format!("a.example:80@127.0.0.1:{port}"),
        format!("127.0.0.1:{port}#a.example:443"),
        format!("a.example:443 127.0.0.1:{port}"),
        format!("http://127.0.0.1:{port}"),
        format!("127.0.0.1:{port}/"),
        format!("127.0.0.1%00.a.example:{port}"),
    ] {
        assert_eq!(door.connect(&authority).0, 400, "{authority}");
    }
    let own = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
    if own.connect("192.0.2.1:9").is_ok() {
        let own = own.local_addr().unwrap().ip();
        assert_eq!(
            door.connect(&format!("{own}:{port}")).0,
            403,
            "the host's own {own}"
        );
    }
    assert_eq!(server.accepted(), 0);
    let status = door.vm.call("status", json!({}));
    assert!(
        status["ok"]["refusedConnections"].as_u64().unwrap() >= 44,
        "{status}"
    );
}

#[test]
fn a_name_is_looked_up_once_for_a_connection_and_anew_for_the_next() {
    let server = Server::echo();
    let door = vm("door-rebind", &server, |egress| {
        egress["testHosts"]["a.example"]["addresses"] = json!([[PUBLIC], ["127.0.0.1"]]);
    });
    let mut stream = door.tunnel("a.example:443");
    stream.write_all(b"x").unwrap();
    stream.read_exact(&mut [0]).unwrap();
    // The name now stands for the loopback: a second lookup is judged as the first one was.
    assert_eq!(door.connect("a.example:443").0, 403);
    assert_eq!(server.accepted(), 1);
    let reason = door.notices(1)[0]["reason"].as_str().unwrap().to_owned();
    assert!(
        reason.contains("127.0.0.1 is the host's loopback"),
        "{reason}"
    );
}

#[test]
fn a_service_is_reached_by_its_address_and_by_the_gateways() {
    let server = Server::echo();
    let port = server.port;
    let door = vm("door-service", &server, |egress| {
        egress["allow"] = json!([]);
        egress["services"] = json!([{ "name": "db", "host": "127.0.0.1", "port": port }]);
    });
    assert_eq!(door.direct, "localhost,127.0.0.1,::1,db,127.0.1.1");
    for mut stream in [
        TcpStream::connect(("127.0.1.1", port)).unwrap(),
        door.tunnel(&format!("10.0.2.2:{port}")),
        door.tunnel(&format!("db:{port}")),
    ] {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(b"hello").unwrap();
        let mut got = [0; 5];
        stream.read_exact(&mut got).unwrap();
        assert_eq!(&got, b"hello");
    }
    assert_eq!(door.connect(&format!("127.0.0.1:{port}")).0, 403);
    assert_eq!(door.connect("10.0.2.2:1").0, 403);
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
    // They ask for nothing yet.
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
        egress["limits"] = json!({ "idleMs": 300, "totalBytes": 100_000 });
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
            // Sends for as long as somebody takes it.
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
    // What waited comes when it is read.
    held[0].read_exact(&mut vec![0; 4 << 20]).unwrap();
}

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
        // Closed over unread bytes, a socket is reset.
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
