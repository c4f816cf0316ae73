//! Reads the networks to which this host is directly connected from its kernel.
//!
//! The kernel is asked over netlink for each connection, so that a network that the host joins a second later counts
//! too.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

/// A network: an address and the length of its prefix in bits.
pub type Prefix = (IpAddr, u8);

/// How this host reaches an address.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Nearness {
    /// The address belongs to this host.
    pub is_own: bool,
    /// The networks that contain the address and to which the host is directly connected.
    pub networks: Vec<Prefix>,
}

/// The size limit of one answer of the kernel.
const MAX_ANSWER_BYTES: usize = 64 << 10;
/// The limit of answers to one question. On a host with more addresses, reading fails.
const MAX_ANSWERS: usize = 256;

const HEADER_BYTES: usize = 16;
/// Constants of Linux; some C libraries lack them.
const RTA_VIA: u16 = 18;
const RTA_ENCAP: u16 = 22;
/// The flag with which the kernel returns the entry of its table instead of the single address.
const RTM_F_FIB_MATCH: u32 = 0x2000;

/// Reads how this host reaches the address. Fails if the kernel does not answer.
pub fn read_nearness(address: IpAddr) -> io::Result<Nearness> {
    let mut kernel = Kernel::open()?;
    let mut is_own = false;
    let mut networks = Vec::new();
    for (own, network) in kernel.read_addresses()? {
        is_own |= own == address;
        // A prefix of no bits matches every address, so it is not a network.
        if network.1 > 0 && has_address(network, address) {
            networks.push(network);
        }
    }
    let Some(route) = kernel.read_route(address)? else {
        return Ok(Nearness { is_own, networks });
    };
    // The routes of a tunnel lead to all hosts behind it; only the tunnel's own addresses are its network.
    let is_connected = route.prefix > 0
        && !route.has_gateway
        && match route.device {
            Some(device) => !kernel.is_tunnel(device)?,
            None => false,
        };
    if is_connected {
        networks.push((mask(address, route.prefix), route.prefix));
    }
    Ok(Nearness {
        is_own: is_own || route.is_local,
        networks,
    })
}

/// Returns true if the network contains the address.
pub fn has_address((network, prefix): Prefix, address: IpAddr) -> bool {
    network.is_ipv4() == address.is_ipv4() && mask(network, prefix) == mask(address, prefix)
}

/// Returns the address with only the bits of the prefix.
fn mask(address: IpAddr, prefix: u8) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let bits = u32::MAX.checked_shl(32 - u32::from(prefix.min(32)));
            Ipv4Addr::from(u32::from(address) & bits.unwrap_or(0)).into()
        }
        IpAddr::V6(address) => {
            let bits = u128::MAX.checked_shl(128 - u32::from(prefix.min(128)));
            Ipv6Addr::from(u128::from(address) & bits.unwrap_or(0)).into()
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Route {
    prefix: u8,
    has_gateway: bool,
    is_local: bool,
    device: Option<u32>,
}

struct Kernel {
    socket: OwnedFd,
    buffer: Vec<u8>,
}

impl Kernel {
    fn open() -> io::Result<Self> {
        let socket = rustix::net::socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            // Protocol 0 of netlink: routes, addresses and devices.
            None,
        )?;
        Ok(Self {
            socket,
            buffer: vec![0; MAX_ANSWER_BYTES],
        })
    }

    /// Reads all addresses of the host with their networks. For a point-to-point link, the network is the peer's.
    fn read_addresses(&mut self) -> io::Result<Vec<(IpAddr, Prefix)>> {
        let mut addresses = Vec::new();
        let dump = libc::NLM_F_DUMP.unsigned_abs();
        self.ask(libc::RTM_GETADDR, dump, &[0; 8], |kind, body| {
            if kind != libc::RTM_NEWADDR {
                return;
            }
            let Some((head, rest)) = body.split_at_checked(8) else {
                return;
            };
            let find = |wanted: u16| {
                attributes(rest)
                    .find(|(kind, _)| *kind == wanted)
                    .and_then(|(_, value)| read_address(value))
            };
            if let Some(peer) = find(libc::IFA_ADDRESS) {
                let own = find(libc::IFA_LOCAL).unwrap_or(peer);
                addresses.push((own, (mask(peer, head[1]), head[1])));
            }
        })?;
        Ok(addresses)
    }

    /// Reads the route to an address; `None` if the host has no route.
    fn read_route(&mut self, address: IpAddr) -> io::Result<Option<Route>> {
        let (family, bytes) = match address {
            IpAddr::V4(address) => (libc::AF_INET, address.octets().to_vec()),
            IpAddr::V6(address) => (libc::AF_INET6, address.octets().to_vec()),
        };
        let bits = u8::try_from(bytes.len() * 8).unwrap_or(u8::MAX);
        let mut body = vec![u8::try_from(family).unwrap_or(0), bits];
        body.extend([0; 6]);
        body.extend(RTM_F_FIB_MATCH.to_ne_bytes());
        let length = u16::try_from(bytes.len() + 4).unwrap_or(u16::MAX);
        body.extend(length.to_ne_bytes());
        body.extend(libc::RTA_DST.to_ne_bytes());
        body.extend(bytes);
        let mut route = None;
        let asked = self.ask(libc::RTM_GETROUTE, 0, &body, |kind, body| {
            if kind == libc::RTM_NEWROUTE {
                route = read_route(body);
            }
        });
        match asked {
            Ok(()) if route.is_some() => Ok(route),
            Ok(()) => Err(io::Error::other("the kernel names no route")),
            Err(error) if is_no_route(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn is_tunnel(&mut self, device: u32) -> io::Result<bool> {
        let mut body = vec![0; 16];
        body[4..8].copy_from_slice(&device.to_ne_bytes());
        let mut flags = None;
        self.ask(libc::RTM_GETLINK, 0, &body, |kind, body| {
            if kind == libc::RTM_NEWLINK {
                flags = read_u32(body, 8);
            }
        })?;
        let flags = flags.ok_or_else(|| io::Error::other("the kernel names no such device"))?;
        let tunnel = (libc::IFF_POINTOPOINT | libc::IFF_NOARP).unsigned_abs();
        Ok(flags & tunnel != 0)
    }

    /// Sends one question, and passes each answer on: its kind, and the bytes after its header.
    fn ask(
        &mut self,
        kind: u16,
        flags: u32,
        body: &[u8],
        mut answer: impl FnMut(u16, &[u8]),
    ) -> io::Result<()> {
        let flags = u16::try_from(flags | libc::NLM_F_REQUEST.unsigned_abs()).unwrap_or(0);
        let length = u32::try_from(HEADER_BYTES + body.len()).unwrap_or(0);
        let mut question = length.to_ne_bytes().to_vec();
        question.extend(kind.to_ne_bytes());
        question.extend(flags.to_ne_bytes());
        question.extend([0; 8]);
        question.extend(body);
        rustix::net::send(&self.socket, &question, SendFlags::empty())?;
        let is_dump = u32::from(flags) & libc::NLM_F_DUMP.unsigned_abs() != 0;
        for _ in 0..MAX_ANSWERS {
            let (_, count) =
                rustix::net::recv(&self.socket, &mut self.buffer[..], RecvFlags::TRUNC)?;
            let mut rest = self
                .buffer
                .get(..count)
                .ok_or_else(|| io::Error::other("an answer of the kernel is too long"))?;
            while let (Some(length), Some(kind)) = (read_u32(rest, 0), read_u16(rest, 4)) {
                let length = usize::try_from(length).unwrap_or(usize::MAX);
                let Some(body) = rest.get(HEADER_BYTES..length) else {
                    return Err(io::Error::other("an answer of the kernel is cut off"));
                };
                match i32::from(kind) {
                    libc::NLMSG_DONE => return Ok(()),
                    libc::NLMSG_ERROR => {
                        let code = body
                            .first_chunk()
                            .map_or(0, |bytes| i32::from_ne_bytes(*bytes));
                        return Err(io::Error::from_raw_os_error(code.saturating_neg()));
                    }
                    _ => answer(kind, body),
                }
                rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
            }
            if !is_dump {
                return Ok(());
            }
        }
        Err(io::Error::other("the kernel has too many answers"))
    }
}

fn is_no_route(error: &io::Error) -> bool {
    let known = [
        libc::ENETUNREACH,
        libc::EHOSTUNREACH,
        libc::EACCES,
        libc::EINVAL,
        libc::EAFNOSUPPORT,
    ];
    error
        .raw_os_error()
        .is_some_and(|code| known.contains(&code))
}

fn read_route(body: &[u8]) -> Option<Route> {
    let (head, rest) = body.split_at_checked(12)?;
    let mut route = Route {
        prefix: head[1],
        has_gateway: false,
        is_local: head[7] == libc::RTN_LOCAL,
        device: None,
    };
    for (kind, value) in attributes(rest) {
        match kind {
            libc::RTA_OIF => route.device = read_u32(value, 0),
            libc::RTA_GATEWAY | RTA_VIA | libc::RTA_MULTIPATH | RTA_ENCAP => {
                route.has_gateway = true;
            }
            _ => {}
        }
    }
    Some(route)
}

/// Iterates over attributes with their kinds. A malformed attribute ends the iteration.
fn attributes(mut rest: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(read_u16(rest, 0)?);
        let kind = read_u16(rest, 2)?;
        let value = rest.get(4..length)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

fn read_address(value: &[u8]) -> Option<IpAddr> {
    if let Ok(bytes) = <[u8; 4]>::try_from(value) {
        return Some(IpAddr::from(bytes));
    }
    <[u8; 16]>::try_from(value).ok().map(IpAddr::from)
}

fn read_u16(bytes: &[u8], at: usize) -> Option<u16> {
    let bytes = bytes.get(at..at + 2)?;
    Some(u16::from_ne_bytes(bytes.try_into().ok()?))
}

fn read_u32(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at + 4)?;
    Some(u32::from_ne_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(address: &str) -> Nearness {
        read_nearness(address.parse().unwrap()).unwrap()
    }

    #[test]
    fn the_hosts_own_addresses_and_their_networks_are_known() {
        let own = read("127.0.0.1");
        assert!(own.is_own);
        let loopback = ("127.0.0.0".parse().unwrap(), 8);
        assert!(own.networks.contains(&loopback), "{own:?}");
        assert!(read("127.1.2.3").is_own);
    }

    #[test]
    fn a_network_has_the_addresses_of_its_prefix() {
        let network = |text: &str, prefix: u8| (text.parse().unwrap(), prefix);
        for (network, address, expected) in [
            (network("203.0.113.7", 24), "203.0.113.200", true),
            (network("203.0.113.7", 24), "203.0.114.1", false),
            (network("203.0.113.7", 32), "203.0.113.8", false),
            (network("0.0.0.0", 0), "198.51.100.1", true),
            (network("2001:db8:1::", 64), "2001:db8:1::ffff", true),
            (network("2001:db8:1::", 64), "2001:db8:2::1", false),
            (network("::", 0), "198.51.100.1", false),
        ] {
            let has = has_address(network, address.parse().unwrap());
            assert_eq!(has, expected, "{network:?} {address}");
        }
    }

    #[test]
    fn a_route_without_a_gateway_and_one_with_a_gateway_are_told_apart() {
        let head = [2, 24, 0, 0, 254, 2, 253, 1, 0, 0, 0, 0];
        let device = attribute(libc::RTA_OIF, &2_u32.to_ne_bytes());
        let gateway = attribute(libc::RTA_GATEWAY, &[192, 0, 2, 1]);
        let direct = read_route(&[&head[..], &device].concat()).unwrap();
        assert_eq!(
            direct,
            Route {
                prefix: 24,
                has_gateway: false,
                is_local: false,
                device: Some(2)
            }
        );
        let far = read_route(&[&head[..], &device, &gateway].concat()).unwrap();
        assert!(far.has_gateway);
        assert_eq!(read_route(&head[..5]), None);
    }

    /// This variable is set in the process that has its own network.
    const IN_NETWORK: &str = "VOIDBOX_TEST_IN_NETWORK";

    #[test]
    fn networks_of_addresses_and_of_routes_without_a_gateway_are_near() {
        if std::env::var_os(IN_NETWORK).is_none() {
            return run_in_own_network(
                "host::routes::tests::networks_of_addresses_and_of_routes_without_a_gateway_are_near",
            );
        }
        let mut kernel = Kernel::open().unwrap();
        kernel.change(libc::RTM_NEWLINK, &link_up());
        for (address, prefix) in [("198.51.100.5", 25), ("2600:db8:1::5", 64)] {
            kernel.change(libc::RTM_NEWADDR, &own_address(address, prefix));
        }
        for (network, prefix) in [
            ("192.0.2.64", 26),
            ("2600:db8:9::", 64),
            ("0.0.0.0", 0),
            ("::", 0),
        ] {
            kernel.change(libc::RTM_NEWROUTE, &route(network, prefix, None));
        }
        kernel.change(
            libc::RTM_NEWROUTE,
            &route("203.0.113.0", 24, Some("192.0.2.65")),
        );
        for near in [
            "198.51.100.1",
            "192.0.2.70",
            "2600:db8:1::77",
            "2600:db8:9::1",
        ] {
            assert!(!read(near).networks.is_empty(), "{near}");
        }
        for far in [
            "198.51.100.130",
            "192.0.2.1",
            "203.0.113.9",
            "2600:db8:2::1",
        ] {
            assert!(read(far).networks.is_empty(), "{far}: {:?}", read(far));
        }
        assert!(read("198.51.100.5").is_own);
        assert!(read("2600:db8:1::5").is_own);
    }

    /// Runs one test of this program again, in a process with an empty network that it may change.
    fn run_in_own_network(test: &str) {
        use std::os::unix::process::CommandExt;

        // SAFETY: a plain call.
        let user = unsafe { libc::geteuid() };
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", test]).env(IN_NETWORK, "1");
        // SAFETY: the process has one thread between fork and exec, and only system calls follow.
        unsafe {
            command.pre_exec(move || {
                let flags = libc::CLONE_NEWNET | if user == 0 { 0 } else { libc::CLONE_NEWUSER };
                if libc::unshare(flags) != 0 {
                    return Err(io::Error::last_os_error());
                }
                match user {
                    0 => Ok(()),
                    user => std::fs::write("/proc/self/uid_map", format!("0 {user} 1")),
                }
            });
        }
        let output = command.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{text}");
        assert!(text.contains("1 passed"), "{text}");
    }

    impl Kernel {
        /// Makes a change that the kernel must confirm.
        fn change(&mut self, kind: u16, body: &[u8]) {
            let flags = libc::NLM_F_ACK | libc::NLM_F_CREATE;
            let done = self.ask(kind, flags.unsigned_abs(), body, |_, _| ());
            let code = done.err().and_then(|error| error.raw_os_error());
            assert_eq!(code, Some(0), "kind {kind}: {body:?}");
        }
    }

    const LOOPBACK: u32 = 1;

    fn link_up() -> Vec<u8> {
        let up = libc::IFF_UP.unsigned_abs().to_ne_bytes();
        [[0; 4], LOOPBACK.to_ne_bytes(), up, up].concat()
    }

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let length = u16::try_from(value.len() + 4).unwrap();
        [&length.to_ne_bytes()[..], &kind.to_ne_bytes()[..], value].concat()
    }

    fn octets(address: &str) -> (u8, Vec<u8>) {
        let (family, bytes) = match address.parse().unwrap() {
            IpAddr::V4(address) => (libc::AF_INET, address.octets().to_vec()),
            IpAddr::V6(address) => (libc::AF_INET6, address.octets().to_vec()),
        };
        (u8::try_from(family).unwrap(), bytes)
    }

    fn own_address(address: &str, prefix: u8) -> Vec<u8> {
        let (family, bytes) = octets(address);
        let head = [family, prefix, 0, 0];
        let mut body = [&head[..], &LOOPBACK.to_ne_bytes()].concat();
        body.extend(attribute(libc::IFA_LOCAL, &bytes));
        body.extend(attribute(libc::IFA_ADDRESS, &bytes));
        body
    }

    fn route(network: &str, prefix: u8, gateway: Option<&str>) -> Vec<u8> {
        let (family, bytes) = octets(network);
        let scope = match gateway {
            Some(_) => libc::RT_SCOPE_UNIVERSE,
            None => libc::RT_SCOPE_LINK,
        };
        let (table, protocol) = (libc::RT_TABLE_MAIN, libc::RTPROT_STATIC);
        let kind = libc::RTN_UNICAST;
        let mut body = vec![family, prefix, 0, 0, table, protocol, scope, kind];
        body.extend([0; 4]);
        body.extend(attribute(libc::RTA_DST, &bytes));
        body.extend(attribute(libc::RTA_OIF, &LOOPBACK.to_ne_bytes()));
        if let Some(gateway) = gateway {
            body.extend(attribute(libc::RTA_GATEWAY, &octets(gateway).1));
        }
        body
    }
}
