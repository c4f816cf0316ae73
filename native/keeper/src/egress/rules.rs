//! The rules of a launch configuration.

use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::address::{Guarded, has_v4, has_v6};
use super::name::Host;

/// The limit of ports in one rule.
const MAX_PORTS: usize = 32;
/// The limit of a service's name in bytes.
const MAX_SERVICE_NAME_BYTES: usize = 63;

/// The allowed hosts: the whole internet, or the hosts of some rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Allow {
    Any,
    Rules(Vec<Rule>),
}

/// The ports of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ports {
    Any,
    These(Vec<u16>),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Rule {
    /// A host by its name.
    Host { name: String, ports: Ports },
    /// All hosts below a name, without the name itself.
    Subdomains { name: String, ports: Ports },
    /// Addresses: `198.41.0.0/16`.
    Network { cidr: String, ports: Ports },
}

impl fmt::Display for Rule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rule::Host { name, .. } => formatter.write_str(name),
            Rule::Subdomains { name, .. } => write!(formatter, "*.{name}"),
            Rule::Network { cidr, .. } => formatter.write_str(cidr),
        }
    }
}

impl Ports {
    fn has(&self, port: u16) -> bool {
        match self {
            Ports::Any => true,
            Ports::These(ports) => ports.contains(&port),
        }
    }

    fn check(&self) -> Result<(), String> {
        match self {
            Ports::Any => Ok(()),
            Ports::These(ports) if ports.is_empty() || ports.len() > MAX_PORTS => {
                Err(format!("{} ports, expected 1 to {MAX_PORTS}", ports.len()))
            }
            Ports::These(ports) if ports.contains(&0) => Err("port 0 is not a port".into()),
            Ports::These(_) => Ok(()),
        }
    }
}

impl Rule {
    pub(super) fn check(&self) -> Result<(), String> {
        let (Rule::Host { ports, .. }
        | Rule::Subdomains { ports, .. }
        | Rule::Network { ports, .. }) = self;
        ports.check()?;
        match self {
            Rule::Host { name, .. } | Rule::Subdomains { name, .. } => {
                match Host::parse(name).map_err(|why| format!("{name:?}: {why}"))? {
                    Host::Name(same) if same == *name => Ok(()),
                    other => Err(format!("{name:?} is not the name {other} in lower case")),
                }
            }
            Rule::Network { cidr, .. } => network(cidr)
                .map(|_| ())
                .ok_or_else(|| format!("{cidr:?} is not a network, such as 198.41.0.0/16")),
        }
    }

    pub(super) fn has_name(&self, host: &Host, port: u16) -> bool {
        let Host::Name(wanted) = host else {
            return false;
        };
        match self {
            Rule::Host { name, ports } => wanted == name && ports.has(port),
            Rule::Subdomains { name, ports } => {
                let above = wanted
                    .strip_suffix(name.as_str())
                    .and_then(|rest| rest.strip_suffix('.'));
                above.is_some_and(|rest| !rest.is_empty()) && ports.has(port)
            }
            Rule::Network { .. } => false,
        }
    }

    pub(super) fn has_port(&self, port: u16) -> bool {
        let (Rule::Host { ports, .. }
        | Rule::Subdomains { ports, .. }
        | Rule::Network { ports, .. }) = self;
        ports.has(port)
    }

    /// Returns true if the address may decide.
    pub(super) fn may_have_address(&self, port: u16) -> bool {
        matches!(self, Rule::Network { ports, .. } if ports.has(port))
    }

    pub(super) fn has_address(&self, address: IpAddr, port: u16) -> bool {
        let Rule::Network { cidr, ports } = self else {
            return false;
        };
        let is_within = match (network(cidr), address) {
            (Some((IpAddr::V4(network), prefix)), IpAddr::V4(address)) => {
                has_v4(network, prefix, address)
            }
            (Some((IpAddr::V6(network), prefix)), IpAddr::V6(address)) => {
                has_v6(network, prefix, address)
            }
            _ => false,
        };
        is_within && ports.has(port)
    }
}

impl Rule {
    /// Returns true if the rule contains the address at this port, and names no more than the guarded network.
    pub(super) fn names(&self, guarded: &Guarded, address: IpAddr, port: u16) -> bool {
        let Rule::Network { cidr, .. } = self else {
            return false;
        };
        let is_narrow =
            network(cidr).is_some_and(|(_, prefix)| prefix >= u32::from(guarded.prefix));
        is_narrow && self.has_address(address, port)
    }
}

fn network(cidr: &str) -> Option<(IpAddr, u32)> {
    let (address, prefix) = cidr.split_once('/')?;
    let address: IpAddr = address.parse().ok()?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let is_number = !prefix.is_empty() && prefix.bytes().all(|byte| byte.is_ascii_digit());
    let prefix: u32 = prefix
        .parse()
        .ok()
        .filter(|bits| is_number && *bits <= most)?;
    Some((address, prefix))
}

/// A service that a guest reaches by a name of its own, wherever it listens: also on the host's loopback.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Service {
    pub name: String,
    /// The host's name, which the host of the VM resolves.
    pub host: String,
    /// The port on both sides.
    pub port: u16,
}

impl Service {
    pub(super) fn check(&self) -> Result<(), String> {
        let is_letter =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let has_form = (1..=MAX_SERVICE_NAME_BYTES).contains(&self.name.len())
            && self.name.bytes().all(is_letter)
            && matches!(Host::parse(&self.name), Ok(Host::Name(_)));
        if !has_form || self.name == "localhost" || self.name == "voidbox" {
            return Err(format!(
                "{:?} cannot name a service: use 1 to 63 lower-case letters, digits and hyphens, not localhost or voidbox",
                self.name
            ));
        }
        Host::parse(&self.host).map_err(|why| format!("{:?}: {why}", self.host))?;
        match self.port {
            0 => Err("port 0 is not a port".into()),
            _ => Ok(()),
        }
    }

    /// Returns true if the service is on the host's loopback.
    pub(super) fn is_loopback(&self) -> bool {
        match Host::parse(&self.host) {
            Ok(Host::Address(address)) => address.is_loopback(),
            Ok(Host::Name(name)) => name == "localhost",
            Err(_) => false,
        }
    }
}

/// The limits of a guest's use of the door.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Limits {
    /// The limit of concurrent connections.
    pub connections: usize,
    /// The limit of new connections in a second; the same number may start at once.
    pub connections_per_second: u32,
    /// The limit of bytes of all connections of the VM, in both directions.
    pub total_bytes: u64,
    /// The time for which a connection may pass no byte in either direction.
    pub idle_ms: u64,
    /// The limit for the lookup of a name, and again for the connection.
    pub connect_ms: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 64,
            connections_per_second: 50,
            total_bytes: 64 << 30,
            idle_ms: 15 * 60 * 1000,
            connect_ms: 10_000,
        }
    }
}

impl Limits {
    pub(super) fn check(&self) -> Result<(), String> {
        let most = Self::default().connections;
        if !(1..=most).contains(&self.connections) {
            return Err(format!(
                "limits.connections is {}, expected 1 to {most}",
                self.connections
            ));
        }
        if !(1..=10_000).contains(&self.connections_per_second) {
            return Err(format!(
                "limits.connectionsPerSecond is {}, expected 1 to 10000",
                self.connections_per_second
            ));
        }
        Ok(())
    }
}

/// Parses `"any"` or a list.
fn any_or<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "expected \"any\" or a list")]
    enum Either<T> {
        Word(String),
        List(T),
    }
    match Either::deserialize(deserializer)? {
        Either::Word(word) if word == "any" => Ok(None),
        Either::Word(word) => Err(serde::de::Error::custom(format!(
            "{word:?}, expected \"any\" or a list"
        ))),
        Either::List(list) => Ok(Some(list)),
    }
}

impl<'de> Deserialize<'de> for Allow {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(any_or(deserializer)?.map_or(Allow::Any, Allow::Rules))
    }
}

impl<'de> Deserialize<'de> for Ports {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(any_or(deserializer)?.map_or(Ports::Any, Ports::These))
    }
}

impl Serialize for Allow {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Allow::Any => "any".serialize(serializer),
            Allow::Rules(rules) => rules.serialize(serializer),
        }
    }
}

impl Serialize for Ports {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Ports::Any => "any".serialize(serializer),
            Ports::These(ports) => ports.serialize(serializer),
        }
    }
}
