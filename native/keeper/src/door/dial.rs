//! Turns a guest's request into a connection: the rules, one lookup, and the address that the rules allowed.

use std::cell::RefCell;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;
use voidbox_protocol::body::{Connect, ErrorCode};

use super::no_connection::NoConnection;
use crate::egress::{ByName, Cause, Denied, Egress, Guarded, Host, Refused, Service, Surroundings};
use crate::host::routes::{Nearness, read_nearness};

/// The limit of concurrent lookups. A lookup without an answer holds a thread until it gives up.
const MAX_LOOKUPS: usize = 16;
/// The number of a name's addresses that are tried.
const MAX_ADDRESSES: usize = 4;
/// The number of concurrent lookups of names in `deny`, in addition to lookups of the guest.
const MAX_DENIED_LOOKUPS: usize = 4;
/// The interval between two lookups of the names in `deny`.
const DENIED_INTERVAL: Duration = Duration::from_secs(60);

pub struct Dialer {
    egress: Egress,
    lookups: Arc<Semaphore>,
    denied_lookups: Arc<Semaphore>,
    denied: RefCell<Denied>,
    /// True once each name in `deny` has been looked up for the first time.
    is_denied_known: watch::Sender<bool>,
    #[cfg(feature = "test-vmm")]
    looked_up: RefCell<std::collections::HashMap<String, usize>>,
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
        let denied = Denied::new(&egress.allow, &egress.deny);
        let is_denied_known = watch::Sender::new(denied.names().is_empty());
        Self {
            egress,
            lookups: Arc::new(Semaphore::new(MAX_LOOKUPS)),
            denied_lookups: Arc::new(Semaphore::new(MAX_DENIED_LOOKUPS)),
            denied: RefCell::new(denied),
            is_denied_known,
            #[cfg(feature = "test-vmm")]
            looked_up: Default::default(),
        }
    }

    fn limit(&self) -> Duration {
        Duration::from_millis(self.egress.limits.connect_ms)
    }

    /// Looks up the names in `deny` until the VM ends, because their addresses are closed by number too.
    pub async fn follow_denied(self: Rc<Self>) {
        let names = self.denied.borrow().names();
        if names.is_empty() {
            return;
        }
        loop {
            let mut lookups = JoinSet::new();
            for name in names.clone() {
                let dialer = self.clone();
                lookups.spawn_local(async move {
                    // A name without an address denies no address. The next round repeats the lookup.
                    let found = dialer.look_up(&name, &dialer.denied_lookups).await;
                    let found = found.unwrap_or_default();
                    dialer.denied.borrow_mut().add(&name, &found);
                });
            }
            while lookups.join_next().await.is_some() {}
            self.is_denied_known.send_replace(true);
            tokio::time::sleep(DENIED_INTERVAL).await;
        }
    }

    pub async fn dial(&self, wanted: &Connect) -> Result<TcpStream, NoConnection> {
        let (host, port, by_name) = match self.egress.judge_name(wanted)? {
            ByName::Service(service) => return self.dial_service(service).await,
            ByName::Host {
                host,
                port,
                by_name,
            } => (host, port, by_name),
        };
        let found = self.addresses(&host).await?;
        let mut is_known = self.is_denied_known.subscribe();
        let known = timeout(self.limit(), is_known.wait_for(|is_known| *is_known)).await;
        if !matches!(known, Ok(Ok(_))) {
            let ms = self.limit().as_millis();
            let why = format!("looking up the names of `deny` took longer than {ms} ms");
            return Err(failed(why));
        }
        let mut refused = None;
        let mut open = Vec::new();
        for address in found {
            let Nearness { is_own, networks } = self
                .nearness(address)
                .map_err(|error| failed(format!("reading the networks of this host: {error}")))?;
            let denied = self.denied.borrow();
            let surroundings = Surroundings {
                is_own,
                networks: networks.into_iter().map(Guarded::of_host).collect(),
                denied: Some(&denied),
            };
            let judged = (&host, port, by_name);
            match self.egress.judge_address(judged, address, &surroundings) {
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

    /// Connects to a service wherever the launch configuration places it.
    async fn dial_service(&self, service: &Service) -> Result<TcpStream, NoConnection> {
        let host = Host::parse(&service.host).map_err(|why| failed(why.into()))?;
        let addresses = self.addresses(&host).await?;
        self.dial_first(&host, &addresses, service.port).await
    }

    /// Returns the addresses of a host. The name is looked up once, so that the dialled address is the one that the
    /// rules allowed.
    async fn addresses(&self, host: &Host) -> Result<Vec<IpAddr>, NoConnection> {
        let name = match host {
            Host::Address(address) => return Ok(vec![*address]),
            Host::Name(name) => name,
        };
        self.look_up(name, &self.lookups).await
    }

    async fn look_up(
        &self,
        name: &str,
        lookups: &Arc<Semaphore>,
    ) -> Result<Vec<IpAddr>, NoConnection> {
        let resolve = self.resolver(name);
        let shown = name.to_owned();
        let lookups = lookups.clone();
        let lookup = async move {
            let permit = lookups
                .acquire_owned()
                .await
                .map_err(std::io::Error::other)?;
            let found = tokio::task::spawn_blocking(move || {
                // The thread keeps the permit: a lookup whose request has given up still uses a thread.
                let _permit = permit;
                resolve()
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

    #[cfg(not(feature = "test-vmm"))]
    fn nearness(&self, address: IpAddr) -> std::io::Result<Nearness> {
        read_nearness(address)
    }

    #[cfg(feature = "test-vmm")]
    fn nearness(&self, address: IpAddr) -> std::io::Result<Nearness> {
        let mut nearness = read_nearness(address)?;
        let networks = self.egress.test_networks.iter().copied();
        let near = networks.filter(|network| crate::host::routes::has_address(*network, address));
        nearness.networks.extend(near);
        Ok(nearness)
    }

    #[cfg(not(feature = "test-vmm"))]
    fn resolver(&self, name: &str) -> Resolve {
        by_the_host(name)
    }

    #[cfg(feature = "test-vmm")]
    fn resolver(&self, name: &str) -> Resolve {
        let Some(known) = self.egress.test_hosts.get(name) else {
            return by_the_host(name);
        };
        let mut looked_up = self.looked_up.borrow_mut();
        let count = looked_up.entry(name.to_owned()).or_default();
        let at = (*count).min(known.addresses.len().saturating_sub(1));
        *count += 1;
        let addresses = known.addresses.get(at).cloned().unwrap_or_default();
        let takes = Duration::from_millis(known.lookup_ms);
        Box::new(move || {
            std::thread::sleep(takes);
            Ok(addresses)
        })
    }
}

/// Looks up a name, and blocks until the lookup ends.
type Resolve = Box<dyn FnOnce() -> std::io::Result<Vec<IpAddr>> + Send>;

fn by_the_host(name: &str) -> Resolve {
    let name = name.to_owned();
    Box::new(move || {
        std::net::ToSocketAddrs::to_socket_addrs(&(name.as_str(), 0))
            .map(|found| found.map(|address| address.ip()).collect())
    })
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream as Program};
    use std::os::fd::AsRawFd;
    use std::time::Instant;

    use serde_json::{Value, json};

    use super::*;

    const PUBLIC: &str = "93.184.215.14";

    fn dialer(connect_ms: u64, hosts: Value) -> Dialer {
        let egress = json!({
            "allow": "any",
            "limits": { "connectMs": connect_ms },
            "testHosts": hosts,
        });
        Dialer::new(serde_json::from_value(egress).unwrap())
    }

    fn host(name: &str) -> Connect {
        let host = name.to_owned();
        Connect::Host { host, port: 443 }
    }

    #[tokio::test]
    async fn a_host_that_does_not_answer_has_ten_seconds() {
        assert_eq!(crate::egress::Limits::default().connect_ms, 10_000);
        // If the queue is full, the kernel drops requests for a connection.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        // SAFETY: a plain call on a descriptor that is open.
        assert_eq!(unsafe { libc::listen(listener.as_raw_fd(), 0) }, 0);
        let at = listener.local_addr().unwrap();
        let short = Duration::from_millis(200);
        let queued: Vec<Program> = std::iter::from_fn(|| Program::connect_timeout(&at, short).ok())
            .take(16)
            .collect();
        assert!(queued.len() < 16, "the queue has no end");
        let slow = json!({ "slow.example": { "addresses": [[PUBLIC]], "dial": at } });
        let begun = Instant::now();
        let refused = dialer(300, slow).dial(&host("slow.example")).await;
        let NoConnection { cause, reason, .. } = refused.err().unwrap();
        assert_eq!(cause, "failed");
        assert_eq!(reason, "connecting to slow.example took longer than 300 ms");
        assert!(begun.elapsed() < Duration::from_secs(5));
    }

    #[tokio::test]
    async fn an_address_of_a_denied_name_is_refused_by_number_and_by_names_that_no_rule_has() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let egress = json!({
            "allow": [
                { "kind": "network", "cidr": "0.0.0.0/0", "ports": "any" },
                { "kind": "host", "name": "shared.example", "ports": [443] },
            ],
            "deny": [{ "kind": "host", "name": "ads.example", "ports": "any" }],
            "testHosts": {
                "ads.example": { "addresses": [[PUBLIC], ["93.184.215.15"]], "dial": at },
                "shared.example": { "addresses": [[PUBLIC]], "dial": at },
                "other.example": { "addresses": [[PUBLIC]], "dial": at },
                PUBLIC: { "addresses": [], "dial": at },
                "93.184.215.16": { "addresses": [], "dial": at },
            },
        });
        let dialer = Rc::new(Dialer::new(serde_json::from_value(egress).unwrap()));
        let local = tokio::task::LocalSet::new();
        local.spawn_local(dialer.clone().follow_denied());
        local
            .run_until(async {
                let reason = async |name: &str| match dialer.dial(&host(name)).await {
                    Ok(_) => "connected".to_owned(),
                    Err(no) => no.reason,
                };
                let denied =
                    format!("{PUBLIC} is an address of ads.example, which `deny` contains");
                assert_eq!(reason(PUBLIC).await, denied);
                assert_eq!(reason("other.example").await, denied);
                assert_eq!(reason("ads.example").await, "`deny` contains ads.example");
                assert_eq!(reason("shared.example").await, "connected");
                assert_eq!(reason("93.184.215.16").await, "connected");
            })
            .await;
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_that_a_denied_name_had_before_stays_denied() {
        let egress = json!({
            "allow": "any",
            "deny": [{ "kind": "host", "name": "ads.example", "ports": [443] }],
            "testHosts": {
                "ads.example": { "addresses": [[PUBLIC], ["93.184.215.15"]] },
            },
        });
        let dialer = Rc::new(Dialer::new(serde_json::from_value(egress).unwrap()));
        let local = tokio::task::LocalSet::new();
        local.spawn_local(dialer.clone().follow_denied());
        local
            .run_until(async {
                while dialer.looked_up.borrow().get("ads.example") != Some(&2) {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
                tokio::time::sleep(Duration::from_secs(1)).await;
                for address in [PUBLIC, "93.184.215.15"] {
                    let refused = dialer.dial(&host(address)).await.err().unwrap();
                    assert!(refused.reason.contains("ads.example"), "{}", refused.reason);
                }
            })
            .await;
    }

    #[tokio::test]
    async fn sixteen_lookups_are_under_way_at_once_and_the_next_waits_for_one_of_them() {
        let hosts = json!({
            "slow.example": { "addresses": [[PUBLIC]], "dial": null, "lookupMs": 1_500 },
            "fast.example": { "addresses": [["127.0.0.1"]], "dial": null },
        });
        let dialer = Rc::new(dialer(400, hosts));
        let local = tokio::task::LocalSet::new();
        let reason = async |dialer: Rc<Dialer>, name: &str| -> String {
            dialer.dial(&host(name)).await.err().unwrap().reason
        };
        local
            .run_until(async {
                let closed = reason(dialer.clone(), "fast.example").await;
                assert!(closed.contains("the host's loopback"), "{closed}");
                let mut slow = tokio::task::JoinSet::new();
                for _ in 0..MAX_LOOKUPS {
                    let dialer = dialer.clone();
                    slow.spawn_local(async move { reason(dialer, "slow.example").await });
                }
                tokio::task::yield_now().await;
                let waited = reason(dialer.clone(), "fast.example").await;
                assert_eq!(waited, "looking up fast.example took longer than 400 ms");
                while let Some(late) = slow.join_next().await {
                    let late = late.unwrap();
                    assert_eq!(late, "looking up slow.example took longer than 400 ms");
                }
                // The requests have given up, but their lookups still hold their permits.
                assert_eq!(dialer.lookups.available_permits(), 0);
                tokio::time::sleep(Duration::from_millis(1_500)).await;
                let closed = reason(dialer.clone(), "fast.example").await;
                assert!(closed.contains("the host's loopback"), "{closed}");
            })
            .await;
    }
}
