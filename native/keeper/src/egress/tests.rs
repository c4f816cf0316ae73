use serde_json::{Value, json};
use voidbox_protocol::body::Connect;

use super::*;

fn egress(value: Value) -> Egress {
    let egress: Egress = serde_json::from_value(value).unwrap();
    egress.check().unwrap();
    egress
}

/// Returns the verdict on a request if its name resolves to this address.
fn reaches(egress: &Egress, host: &str, port: u16, address: &str) -> Result<String, Refused> {
    reaches_from(egress, host, port, address, &Surroundings::default())
}

fn reaches_from(
    egress: &Egress,
    host: &str,
    port: u16,
    address: &str,
    surroundings: &Surroundings<'_>,
) -> Result<String, Refused> {
    let wanted = Connect::Host {
        host: host.into(),
        port,
    };
    match egress.judge_name(&wanted)? {
        ByName::Service(service) => Ok(format!("service {}", service.name)),
        ByName::Host {
            host,
            port,
            by_name,
        } => {
            let address = match host {
                Host::Address(address) => address,
                Host::Name(_) => address.parse().unwrap(),
            };
            egress.judge_address((&host, port, by_name), address, surroundings)?;
            Ok(format!("{host} {port}"))
        }
    }
}

const PUBLIC: &str = "93.184.215.14";

fn web(name: &str) -> Value {
    json!({ "kind": "host", "name": name, "ports": [80, 443] })
}

#[test]
fn a_name_is_allowed_by_itself_or_by_what_is_above_it() {
    let egress = egress(json!({ "allow": [
        web("a.example"),
        { "kind": "subdomains", "name": "b.example", "ports": [443] },
    ]}));
    for (host, port) in [
        ("a.example", 443),
        ("A.Example.", 80),
        ("x.b.example", 443),
        ("y.x.b.example", 443),
    ] {
        assert!(
            reaches(&egress, host, port, PUBLIC).is_ok(),
            "{host}:{port}"
        );
    }
    for (host, port) in [
        ("a.example", 8080),
        ("x.a.example", 443),
        ("b.example", 443),
        ("xb.example", 443),
        ("x.b.example", 80),
        ("b.example.evil.example", 443),
        ("a.example.evil.example", 443),
        (PUBLIC, 443),
    ] {
        assert!(
            reaches(&egress, host, port, PUBLIC).is_err(),
            "{host}:{port}"
        );
    }
}

#[test]
fn deny_wins_over_what_is_allowed_by_name_and_by_address() {
    let egress = egress(json!({
        "allow": "any",
        "deny": [
            { "kind": "subdomains", "name": "a.example", "ports": "any" },
            { "kind": "network", "cidr": "93.184.0.0/16", "ports": [443] },
        ],
    }));
    assert!(reaches(&egress, "a.example", 25, PUBLIC).is_ok());
    assert!(reaches(&egress, "x.a.example", 25, PUBLIC).is_err());
    assert!(reaches(&egress, "a.example", 443, PUBLIC).is_err());
    assert!(reaches(&egress, PUBLIC, 443, PUBLIC).is_err());
    assert!(reaches(&egress, PUBLIC, 80, PUBLIC).is_ok());
}

#[test]
fn a_network_allows_addresses_and_names_that_stand_for_them() {
    let egress = egress(json!({ "allow": [
        { "kind": "network", "cidr": "93.184.215.0/24", "ports": [443] },
        { "kind": "network", "cidr": "2606:4700::/32", "ports": [443] },
    ]}));
    assert!(reaches(&egress, PUBLIC, 443, PUBLIC).is_ok());
    assert!(reaches(&egress, "any.example", 443, PUBLIC).is_ok());
    assert!(reaches(&egress, "2606:4700::1", 443, PUBLIC).is_ok());
    assert!(reaches(&egress, "[2606:4700::1]", 443, PUBLIC).is_ok());
    assert!(reaches(&egress, "any.example", 443, "93.184.216.1").is_err());
    assert!(reaches(&egress, PUBLIC, 80, PUBLIC).is_err());
}

#[test]
fn what_trusts_its_network_is_closed_however_it_is_named() {
    let open = egress(json!({ "allow": "any" }));
    let wide = egress(json!({ "allow": [
        { "kind": "network", "cidr": "0.0.0.0/0", "ports": "any" },
        { "kind": "network", "cidr": "::/0", "ports": "any" },
    ]}));
    let closed = [
        "127.0.0.1",
        "127.255.255.254",
        "0.0.0.0",
        "10.0.0.1",
        "100.64.0.1",
        "100.127.255.255",
        "169.254.169.254",
        "172.16.0.1",
        "172.31.255.255",
        "192.0.0.1",
        "192.168.1.1",
        "198.18.0.1",
        "224.0.0.1",
        "239.255.255.255",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::ffff:127.0.0.1",
        "::ffff:93.184.215.14",
        "::127.0.0.1",
        "::ffff:0:127.0.0.1",
        "64:ff9b::7f00:1",
        "64:ff9b:1::7f00:1",
        "2002:7f00:1::",
        "2001:0:7f00:1::",
        "fd00:ec2::254",
        "fc00::1",
        "fe80::1",
        "fec0::1",
        "ff02::1",
    ];
    for egress in [&open, &wide] {
        for address in closed {
            assert!(reaches(egress, address, 7233, PUBLIC).is_err(), "{address}");
            // A name with this address is rejected too (DNS rebinding).
            assert!(
                reaches(egress, "a.example", 7233, address).is_err(),
                "{address}"
            );
        }
        for address in [
            PUBLIC,
            "100.63.255.255",
            "172.32.0.1",
            "2606:4700::1",
            "2003::1",
        ] {
            assert!(reaches(egress, address, 443, PUBLIC).is_ok(), "{address}");
        }
    }
}

#[test]
fn the_platforms_address_of_azure_is_closed_unless_a_rule_names_it_by_number() {
    let network = |cidr: &str| json!({ "kind": "network", "cidr": cidr, "ports": [80] });
    let azure = "168.63.129.16";
    for allow in [
        json!("any"),
        json!([network("0.0.0.0/0")]),
        json!([network("168.63.129.0/24"), web("a.example")]),
    ] {
        let egress = egress(json!({ "allow": allow }));
        for host in [azure, "a.example"] {
            let refused = reaches(&egress, host, 80, azure).unwrap_err();
            assert_eq!(refused.cause, Cause::Closed);
            assert!(
                refused.reason.contains("`168.63.129.16:80` in `allow`"),
                "{}",
                refused.reason
            );
        }
    }
    let named = egress(json!({ "allow": [network("168.63.129.16/32")] }));
    assert!(reaches(&named, azure, 80, azure).is_ok());
    assert!(reaches(&named, azure, 32526, azure).is_err());
}

#[test]
fn a_network_of_the_host_is_closed_unless_a_rule_names_it_by_number() {
    let network = |cidr: &str| json!({ "kind": "network", "cidr": cidr, "ports": "any" });
    for (near, other, neighbour) in [
        (("93.184.215.0", 24), "93.184.216.1", PUBLIC),
        (("2606:4700::", 64), "2606:4700:0:1::1", "2606:4700::1"),
    ] {
        let near = (near.0.parse().unwrap(), near.1);
        let surroundings = Surroundings {
            networks: vec![Guarded::of_host(near)],
            ..Surroundings::default()
        };
        let reach = |allow: &Value, host: &str, address: &str| {
            let egress = egress(json!({ "allow": allow }));
            reaches_from(&egress, host, 443, address, &surroundings)
        };
        for allow in [
            json!("any"),
            json!([network("0.0.0.0/0"), network("::/0"), web("a.example")]),
            json!([network("93.184.214.0/23"), network("2606:4700::/63")]),
        ] {
            for host in [neighbour, "a.example"] {
                let refused = reach(&allow, host, neighbour).unwrap_err();
                assert!(
                    refused.reason.contains("directly connected"),
                    "{}",
                    refused.reason
                );
            }
        }
        for allow in [
            json!([network(&format!("{}/{}", near.0, near.1))]),
            json!([network(&format!(
                "{neighbour}/{}",
                if near.1 == 24 { 32 } else { 128 }
            ))]),
        ] {
            assert!(reach(&allow, neighbour, neighbour).is_ok(), "{allow}");
        }
        let elsewhere = Surroundings::default();
        let open = egress(json!({ "allow": "any" }));
        assert!(reaches_from(&open, other, 443, other, &elsewhere).is_ok());
    }
}

#[test]
fn a_number_that_a_resolver_takes_for_an_address_is_no_host() {
    let open = egress(json!({ "allow": "any" }));
    for host in [
        "2130706433",
        "0x7f000001",
        "0X7F.1",
        "017700000001",
        "127.1",
        "127.0.1",
        "0177.0.0.1",
        "1.2.3.4.5",
        "a.0x7f",
        "",
        ".",
        "a..b",
        "-a b",
        "a/b",
        "a@b",
        "a:80",
        "[127.0.0.1]",
        "fe80::1%lo",
        "::1]",
        "ä.example",
        "a\0b",
        "a\nb",
        "127.0.0.1%00.example",
    ] {
        assert!(reaches(&open, host, 7233, PUBLIC).is_err(), "{host:?}");
    }
    let long = "a.".repeat(127) + "b";
    assert!(reaches(&open, &long, 443, PUBLIC).is_err());
}

#[test]
fn services_are_reached_by_their_names_and_those_of_the_loopback_by_the_gateway() {
    let egress = egress(json!({ "allow": [], "services": [
        { "name": "db", "host": "10.1.2.3", "port": 5432 },
        { "name": "llm", "host": "127.0.0.1", "port": 11434 },
    ]}));
    let service = |name: &str| Connect::Service { name: name.into() };
    assert!(matches!(
        egress.judge_name(&service("db")),
        Ok(ByName::Service(found)) if found.host == "10.1.2.3"
    ));
    assert!(egress.judge_name(&service("other")).is_err());
    assert_eq!(reaches(&egress, "db", 5432, PUBLIC).unwrap(), "service db");
    assert_eq!(
        reaches(&egress, "10.0.2.2", 11434, PUBLIC).unwrap(),
        "service llm"
    );
    for (host, port) in [
        ("db", 5433),
        ("10.0.2.2", 5432),
        ("10.0.2.2", 7233),
        ("10.1.2.3", 5432),
        ("127.0.0.1", 11434),
        ("localhost", 11434),
    ] {
        assert!(
            reaches(&egress, host, port, "127.0.0.1").is_err(),
            "{host}:{port}"
        );
    }
}

#[test]
fn nothing_is_looked_up_that_no_rule_could_allow() {
    let names = egress(json!({ "allow": [web("a.example")] }));
    let wanted = Connect::Host {
        host: "secret.evil.example".into(),
        port: 443,
    };
    assert!(names.judge_name(&wanted).is_err());
}

#[test]
fn each_bound_and_each_wrong_rule_is_named() {
    let rule = web("a.example");
    let service = json!({ "name": "s", "host": "a.example", "port": 1 });
    let many = |count: usize| vec![rule.clone(); count];
    let services = |count: usize| -> Vec<Value> {
        (0..count)
            .map(|index| json!({ "name": format!("s{index}"), "host": "a", "port": 1 }))
            .collect()
    };
    let ports =
        |ports: Value| json!({ "allow": [{ "kind": "host", "name": "a", "ports": ports }] });
    egress(json!({ "allow": many(256), "deny": many(256), "services": services(32) }));
    egress(ports(json!(vec![1; 32])));
    for (value, named) in [
        (json!({ "allow": many(257) }), "allow"),
        (json!({ "allow": "any", "deny": many(257) }), "deny"),
        (json!({ "allow": [], "services": services(33) }), "services"),
        (
            json!({ "allow": [], "services": [service.clone(), service] }),
            "two services",
        ),
        (json!({ "allow": [web("A.example")] }), "allow[0]"),
        (json!({ "allow": [web("127.0.0.1")] }), "allow[0]"),
        (
            json!({ "allow": [{ "kind": "network", "cidr": "1.2.3.4/33", "ports": "any" }] }),
            "1.2.3.4/33",
        ),
        (
            json!({ "allow": [{ "kind": "network", "cidr": "1.2.3.4", "ports": "any" }] }),
            "1.2.3.4",
        ),
        (ports(json!([])), "0 ports"),
        (ports(json!(vec![1; 33])), "33 ports"),
        (ports(json!([0])), "port 0"),
        (
            json!({ "allow": [], "services": [{ "name": "localhost", "host": "a", "port": 1 }] }),
            "localhost",
        ),
        (
            json!({ "allow": [], "services": [{ "name": "a b", "host": "a", "port": 1 }] }),
            "a b",
        ),
        (
            json!({ "allow": [], "services": [{ "name": "a", "host": "a b", "port": 1 }] }),
            "a b",
        ),
        (
            json!({ "allow": [], "limits": { "connections": 65 } }),
            "limits.connections",
        ),
        (
            json!({ "allow": [], "limits": { "connectionsPerSecond": 0 } }),
            "limits.connectionsPerSecond",
        ),
    ] {
        let egress: Egress = serde_json::from_value(value).unwrap();
        let failure = egress.check().unwrap_err();
        assert!(failure.message.contains(named), "{named}: {failure}");
    }
    for value in [
        json!({ "allow": "all" }),
        json!({ "allow": [{ "kind": "port", "ports": "any" }] }),
        json!({ "allow": [], "surprise": 1 }),
        ports(json!("some")),
    ] {
        assert!(serde_json::from_value::<Egress>(value).is_err());
    }
}
