//! The destinations of connections: allowed and refused names, numbers and addresses.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::{PATIENCE, PUBLIC, Server, read_head, status, vm};

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
    // The same connection requests another host, which is decided again.
    stream
        .write_all(b"GET http://evil.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n")
        .unwrap();
    assert_eq!(status(&read_head(&mut stream)), 403);
    server.assert_accepted(1);
    let mut kinds: Vec<String> = door
        .notices(2)
        .iter()
        .map(|notice| notice["kind"].to_string())
        .collect();
    // The server closes the first connection while the guest asks again: either may be first.
    kinds.sort();
    assert_eq!(kinds, [r#""closed""#, r#""refused""#]);
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
    // The name now resolves to the loopback: the second lookup is judged like the first.
    assert_eq!(door.connect("a.example:443").0, 403);
    server.assert_accepted(1);
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
fn a_network_of_this_host_is_reached_only_by_a_rule_that_names_it_by_number() {
    let server = Server::echo();
    let near = |egress: &mut Value, allow: Value| {
        egress["allow"] = allow;
        egress["testNetworks"] = json!([["93.184.215.0", 24]]);
        egress["testHosts"][PUBLIC] = egress["testHosts"]["a.example"].clone();
    };
    let open = vm("door-near-open", &server, |egress| {
        near(egress, "any".into())
    });
    for host in [PUBLIC, "a.example"] {
        assert_eq!(open.connect(&format!("{host}:443")).0, 403, "{host}");
    }
    let reason = open.notices(2)[1]["reason"].as_str().unwrap().to_owned();
    assert!(reason.contains("93.184.215.0/24"), "{reason}");
    assert_eq!(server.accepted(), 0);
    let rule = json!([{ "kind": "network", "cidr": format!("{PUBLIC}/32"), "ports": [443] }]);
    let named = vm("door-near-named", &server, |egress| near(egress, rule));
    named.tunnel(&format!("{PUBLIC}:443"));
    server.assert_accepted(1);
}

#[test]
fn an_address_of_a_denied_name_is_refused_by_its_number() {
    let server = Server::echo();
    let door = vm("door-denied-name", &server, |egress| {
        egress["allow"] = "any".into();
        egress["deny"] = json!([{ "kind": "host", "name": "a.example", "ports": "any" }]);
        egress["testHosts"][PUBLIC] = egress["testHosts"]["a.example"].clone();
    });
    for host in ["a.example", PUBLIC] {
        assert_eq!(door.connect(&format!("{host}:443")).0, 403, "{host}");
    }
    assert_eq!(server.accepted(), 0);
}
