//! Addresses that no rule opens, because their listeners trust their network.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Networks of version 4, with their prefix and their description.
const CLOSED_V4: &[([u8; 4], u32, &str)] = &[
    ([0, 0, 0, 0], 8, "an address of this network"),
    ([10, 0, 0, 0], 8, "private"),
    ([100, 64, 0, 0], 10, "in a carrier's network"),
    ([127, 0, 0, 0], 8, "the host's loopback"),
    ([169, 254, 0, 0], 16, "link-local (metadata services)"),
    ([172, 16, 0, 0], 12, "private"),
    ([192, 0, 0, 0], 24, "reserved"),
    ([192, 0, 2, 0], 24, "reserved"),
    ([192, 88, 99, 0], 24, "a relay to version 6"),
    ([192, 168, 0, 0], 16, "private"),
    ([198, 18, 0, 0], 15, "reserved"),
    ([198, 51, 100, 0], 24, "reserved"),
    ([203, 0, 113, 0], 24, "reserved"),
    ([224, 0, 0, 0], 4, "a multicast address"),
    ([240, 0, 0, 0], 4, "reserved"),
];

/// Networks of version 6.
const CLOSED_V6: &[([u16; 8], u32, &str)] = &[
    ([0, 0, 0, 0, 0, 0, 0, 1], 128, "the host's loopback"),
    (
        [0, 0, 0, 0, 0, 0, 0, 0],
        96,
        "an address of version 4 in another form",
    ),
    (
        [0, 0, 0, 0, 0, 0xffff, 0, 0],
        96,
        "an address of version 4 in another form",
    ),
    (
        [0, 0, 0, 0, 0xffff, 0, 0, 0],
        96,
        "an address of version 4 in another form",
    ),
    (
        [0x64, 0xff9b, 0, 0, 0, 0, 0, 0],
        96,
        "an address of version 4 in another form",
    ),
    (
        [0x64, 0xff9b, 1, 0, 0, 0, 0, 0],
        48,
        "an address of version 4 in another form",
    ),
    ([0x100, 0, 0, 0, 0, 0, 0, 0], 64, "reserved"),
    ([0x2001, 0, 0, 0, 0, 0, 0, 0], 23, "reserved"),
    ([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32, "reserved"),
    (
        [0x2002, 0, 0, 0, 0, 0, 0, 0],
        16,
        "an address of version 4 in another form",
    ),
    ([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20, "reserved"),
    ([0x5f00, 0, 0, 0, 0, 0, 0, 0], 16, "reserved"),
    ([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7, "private"),
    ([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10, "link-local"),
    ([0xfec0, 0, 0, 0, 0, 0, 0, 0], 10, "private"),
    ([0xff00, 0, 0, 0, 0, 0, 0, 0], 8, "a multicast address"),
];

/// Returns why a guest never reaches this address; `None` for an address of the internet.
pub fn why_closed(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => CLOSED_V4
            .iter()
            .find(|(network, prefix, _)| has_v4(Ipv4Addr::from(*network), *prefix, address))
            .map(|(_, _, what)| *what),
        IpAddr::V6(address) => CLOSED_V6
            .iter()
            .find(|(network, prefix, _)| has_v6(Ipv6Addr::from(*network), *prefix, address))
            .map(|(_, _, what)| *what),
    }
}

/// Addresses of the internet that a rule opens only if it names them by number.
const GUARDED: &[([u8; 4], u8, &str)] = &[(
    [168, 63, 129, 16],
    32,
    "Azure's platform address, where hosts get their secrets",
)];

/// A network that a rule opens only if it names it, or a part of it, by number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guarded {
    pub network: IpAddr,
    pub prefix: u8,
    pub what: &'static str,
}

impl Guarded {
    /// Describes a network to which this host is directly connected.
    pub fn of_host((network, prefix): (IpAddr, u8)) -> Self {
        Self {
            network,
            prefix,
            what: "a network that this host is directly connected to",
        }
    }

    pub(super) fn explain(&self, address: IpAddr, port: u16) -> String {
        let (network, prefix, what) = (self.network, self.prefix, self.what);
        let rule = match address {
            IpAddr::V4(address) => format!("{address}:{port}"),
            IpAddr::V6(address) => format!("[{address}]:{port}"),
        };
        let is_one = prefix == if address.is_ipv4() { 32 } else { 128 };
        match is_one {
            true => format!("{address} is {what}; only `{rule}` in `allow` opens it"),
            false => format!(
                "{address} is in {network}/{prefix}, {what}; only `{rule}` or a part of that network in `allow` opens it"
            ),
        }
    }
}

/// Returns the guarded networks that contain this address.
pub fn find_guarded(address: IpAddr) -> Vec<Guarded> {
    let IpAddr::V4(address) = address else {
        return Vec::new();
    };
    GUARDED
        .iter()
        .filter(|(network, prefix, _)| {
            has_v4(Ipv4Addr::from(*network), u32::from(*prefix), address)
        })
        .map(|(network, prefix, what)| Guarded {
            network: Ipv4Addr::from(*network).into(),
            prefix: *prefix,
            what,
        })
        .collect()
}

pub fn has_v4(network: Ipv4Addr, prefix: u32, address: Ipv4Addr) -> bool {
    let shift = 32 - prefix.min(32);
    u32::from(network).checked_shr(shift) == u32::from(address).checked_shr(shift)
}

pub fn has_v6(network: Ipv6Addr, prefix: u32, address: Ipv6Addr) -> bool {
    let shift = 128 - prefix.min(128);
    u128::from(network).checked_shr(shift) == u128::from(address).checked_shr(shift)
}
