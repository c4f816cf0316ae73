//! From a guest's request to a connection: the rules, one lookup, the address that was judged.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use voidbox_protocol::body::{Connect, ErrorCode};

use super::NoConnection;
use crate::egress::{ByName, Cause, Egress, Host, Refused, Service};

/// Lookups at once. One that the resolver does not answer holds a thread until it gives up.
const MAX_LOOKUPS: usize = 16;
/// Addresses of a name that are tried.
const MAX_ADDRESSES: usize = 4;

pub struct Dialer {
    egress: Egress,
    lookups: Arc<Semaphore>,
    #[cfg(feature = "test-vmm")]
    looked_up: std::cell::RefCell<std::collections::HashMap<String, usize>>,
}

impl From<Refused> for NoConnection {
    fn from(Refused { cause, reason }: Refused) -> Self {
        Self {
            code: ErrorCode::NotAllowed,
            cause: match cause {
                Cause::Rules => "rules",
                Cause::Closed => "closed",
            },
            reason,
        }
    }
}

fn failed(reason: String) -> NoConnection {
    NoConnection {
        code: ErrorCode::Io,
        cause: "failed",
        reason,
    }
}

impl Dialer {
    pub fn new(egress: Egress) -> Self {
        Self {
            egress,
            lookups: Arc::new(Semaphore::new(MAX_LOOKUPS)),
            #[cfg(feature = "test-vmm")]
            looked_up: Default::default(),
        }
    }

    fn limit(&self) -> Duration {
        Duration::from_millis(self.egress.limits.connect_ms)
    }

    pub async fn dial(&self, wanted: &Connect) -> Result<TcpStream, NoConnection> {
        let (host, port, is_allowed) = match self.egress.judge_name(wanted)? {
            ByName::Service(service) => return self.dial_service(service).await,
            ByName::Host {
                host,
                port,
                is_allowed,
            } => (host, port, is_allowed),
        };
        let found = self.addresses(&host).await?;
        let judge = |address: &IpAddr| -> Result<(), Refused> {
            self.egress
                .judge_address(&host, port, is_allowed, *address)?;
            match is_own(*address) {
                true => Err(Refused::closed(format!(
                    "{address} is this host's own; only `services` reach it"
                ))),
                false => Ok(()),
            }
        };
        let mut refused = None;
        let mut open = Vec::new();
        for address in found {
            match judge(&address) {
                Ok(()) => open.push(address),
                Err(why) => {
                    refused.get_or_insert(why);
                }
            }
        }
        if let (true, Some(why)) = (open.is_empty(), refused) {
            return Err(why.into());
        }
        self.dial_first(&host, &open, port).await
    }

    /// A service is wherever the launch configuration says.
    async fn dial_service(&self, service: &Service) -> Result<TcpStream, NoConnection> {
        let host = Host::parse(&service.host).map_err(|why| failed(why.into()))?;
        let addresses = self.addresses(&host).await?;
        self.dial_first(&host, &addresses, service.port).await
    }

    /// What a host stands for: asked once, so that what is dialled is what was judged.
    async fn addresses(&self, host: &Host) -> Result<Vec<IpAddr>, NoConnection> {
        let name = match host {
            Host::Address(address) => return Ok(vec![*address]),
            Host::Name(name) => name.clone(),
        };
        #[cfg(feature = "test-vmm")]
        if let Some(addresses) = self.test_addresses(&name) {
            return Ok(addresses);
        }
        let shown = name.clone();
        let lookups = self.lookups.clone();
        let lookup = async move {
            let permit = lookups
                .acquire_owned()
                .await
                .map_err(std::io::Error::other)?;
            let found = tokio::task::spawn_blocking(move || {
                // The permit goes with the thread: a lookup that nobody waits for still takes one.
                let _permit = permit;
                std::net::ToSocketAddrs::to_socket_addrs(&(name.as_str(), 0))
                    .map(|found| found.map(|address| address.ip()).collect::<Vec<_>>())
            });
            found.await.map_err(std::io::Error::other)?
        };
        match timeout(self.limit(), lookup).await {
            Ok(Ok(addresses)) if !addresses.is_empty() => Ok(addresses),
            Ok(Ok(_)) => Err(failed(format!("{shown} has no address"))),
            Ok(Err(error)) => Err(failed(format!("looking up {shown}: {error}"))),
            Err(_) => Err(failed(format!(
                "looking up {shown} took longer than {} ms",
                self.limit().as_millis()
            ))),
        }
    }

    async fn dial_first(
        &self,
        host: &Host,
        addresses: &[IpAddr],
        port: u16,
    ) -> Result<TcpStream, NoConnection> {
        let mut last = failed(format!("{host} has no address"));
        for address in addresses.iter().take(MAX_ADDRESSES) {
            let target = self.target(host, SocketAddr::new(*address, port));
            match timeout(self.limit(), TcpStream::connect(target)).await {
                Ok(Ok(stream)) => {
                    let _ = stream.set_nodelay(true);
                    return Ok(stream);
                }
                Ok(Err(error)) => last = failed(format!("connecting to {host}: {error}")),
                Err(_) => {
                    let ms = self.limit().as_millis();
                    last = failed(format!("connecting to {host} took longer than {ms} ms"));
                }
            }
        }
        Err(last)
    }

    #[cfg(not(feature = "test-vmm"))]
    fn target(&self, _host: &Host, target: SocketAddr) -> SocketAddr {
        target
    }

    #[cfg(feature = "test-vmm")]
    fn target(&self, host: &Host, target: SocketAddr) -> SocketAddr {
        let known = self.egress.test_hosts.get(&host.to_string());
        known.and_then(|known| known.dial).unwrap_or(target)
    }

    #[cfg(feature = "test-vmm")]
    fn test_addresses(&self, name: &str) -> Option<Vec<IpAddr>> {
        let known = self.egress.test_hosts.get(name)?;
        let mut looked_up = self.looked_up.borrow_mut();
        let count = looked_up.entry(name.to_owned()).or_default();
        let at = (*count).min(known.addresses.len().saturating_sub(1));
        *count += 1;
        known.addresses.get(at).cloned()
    }
}

/// True for an address that this host has: what listens there may trust who comes from it. Nothing is
/// sent; the kernel alone says from which address it would go.
fn is_own(address: IpAddr) -> bool {
    let any: IpAddr = match address {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let local = UdpSocket::bind((any, 0)).and_then(|socket| {
        socket.connect((address, 9))?;
        socket.local_addr()
    });
    local.is_ok_and(|local| local.ip() == address)
}

#[cfg(test)]
mod tests {
    use super::is_own;

    #[test]
    fn an_address_of_this_host_is_known() {
        assert!(is_own("127.0.0.1".parse().unwrap()));
        assert!(!is_own("192.0.2.1".parse().unwrap()));
    }
}
