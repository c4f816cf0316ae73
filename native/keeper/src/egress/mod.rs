//! The hosts that a guest may reach: the rules of its launch configuration, and their verdict on one request.
//!
//! This module uses no sockets. [`Egress::judge_name`] decides what depends only on the name, and
//! [`Egress::judge_address`] decides about each address of the name.

mod address;
mod denied;
mod name;
mod rules;

pub use address::Guarded;
pub use denied::Denied;
pub use name::Host;
pub use rules::{Allow, Limits, Ports, Rule, Service};

use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use voidbox_protocol::body::Connect;

use crate::error::Failure;

/// The limit of rules in each list.
const MAX_RULES: usize = 256;
/// The limit of a guest's services.
const MAX_SERVICES: usize = 32;

/// The hosts and services that a guest may reach. A guest without it has no door.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Egress {
    pub allow: Allow,
    /// Overrides everything in `allow`, but does not apply to services.
    #[serde(default)]
    pub deny: Vec<Rule>,
    #[serde(default)]
    pub services: Vec<Service>,
    #[serde(default)]
    pub limits: Limits,
    /// The addresses of names in tests, and the targets of their connections.
    #[cfg(feature = "test-vmm")]
    #[serde(default)]
    pub test_hosts: std::collections::HashMap<String, TestHost>,
    /// Networks that count, in tests, as directly connected to this host, in addition to its own.
    #[cfg(feature = "test-vmm")]
    #[serde(default)]
    pub test_networks: Vec<(IpAddr, u8)>,
}

#[cfg(feature = "test-vmm")]
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TestHost {
    /// The addresses for the first lookup and for later ones; the last entry repeats.
    pub addresses: Vec<Vec<IpAddr>>,
    /// Dialled instead of an allowed address.
    pub dial: Option<std::net::SocketAddr>,
    /// The time that a lookup takes.
    #[serde(default)]
    pub lookup_ms: u64,
}

/// The reason for a refusal, for the program that sent the request and for the notice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    pub cause: Cause,
    pub reason: String,
}

/// The part of the configuration that would have to change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// No rule of `allow` matches it.
    Rules,
    /// No rule may allow it: `deny`, a closed address, no such service.
    Closed,
}

impl Refused {
    pub fn closed(reason: impl Into<String>) -> Self {
        Self {
            cause: Cause::Closed,
            reason: reason.into(),
        }
    }
}

/// The verdict on the name of a request.
#[derive(Debug, PartialEq, Eq)]
pub enum ByName<'a> {
    Service(&'a Service),
    /// Each address of this host must still be judged.
    Host {
        host: Host,
        port: u16,
        by_name: NameAllowed,
    },
}

/// The result of `allow` for a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameAllowed {
    /// A rule names it.
    Named,
    /// Everything is allowed.
    Any,
    /// A rule must allow the address.
    ByAddress,
}

/// The facts, besides the rules, that decide about a connection.
#[derive(Debug, Default)]
pub struct Surroundings<'a> {
    /// The address belongs to this host.
    pub is_own: bool,
    /// Networks of this host that contain the address.
    pub networks: Vec<Guarded>,
    pub denied: Option<&'a Denied>,
}

impl Egress {
    /// Checks the limits, and rejects ambiguous rules.
    pub fn check(&self) -> Result<(), Failure> {
        let wrong = |why: String| {
            Err(Failure::bad_request(format!(
                "launch configuration: egress: {why}"
            )))
        };
        let allow: &[Rule] = match &self.allow {
            Allow::Any => &[],
            Allow::Rules(rules) => rules,
        };
        for (list, rules) in [("allow", allow), ("deny", &self.deny)] {
            if rules.len() > MAX_RULES {
                return wrong(format!(
                    "{list} has {} rules, at most {MAX_RULES}",
                    rules.len()
                ));
            }
            for (index, rule) in rules.iter().enumerate() {
                if let Err(why) = rule.check() {
                    return wrong(format!("{list}[{index}]: {why}"));
                }
            }
        }
        if self.services.len() > MAX_SERVICES {
            let count = self.services.len();
            return wrong(format!("{count} services, at most {MAX_SERVICES}"));
        }
        for (index, service) in self.services.iter().enumerate() {
            if let Err(why) = service.check() {
                return wrong(format!("services[{index}]: {why}"));
            }
            let is_double = |other: &Service| other.name == service.name;
            if self.services[..index].iter().any(is_double) {
                return wrong(format!("two services are named {:?}", service.name));
            }
        }
        self.limits.check().or_else(wrong)
    }

    /// Decides everything that needs no lookup.
    pub fn judge_name(&self, wanted: &Connect) -> Result<ByName<'_>, Refused> {
        let (text, port) = match wanted {
            Connect::Service { name } => {
                let found = self.services.iter().find(|service| service.name == *name);
                return found
                    .map(ByName::Service)
                    .ok_or_else(|| Refused::closed("there is no such service"));
            }
            Connect::Host { host, port } => (host, *port),
        };
        let host = Host::parse(text).map_err(Refused::closed)?;
        if let Some(service) = self.service_at(&host, port) {
            return Ok(ByName::Service(service));
        }
        if host.is_gateway() {
            let why = format!(
                "10.0.2.2 reaches only services of this host, and no service has port {port}"
            );
            return Err(Refused::closed(why));
        }
        if port == 0 {
            return Err(Refused::closed("port 0 is not a port"));
        }
        let denied = self.deny.iter().find(|rule| rule.has_name(&host, port));
        if let Some(rule) = denied {
            return Err(Refused::closed(format!("`deny` contains {rule}")));
        }
        let by_name = match &self.allow {
            Allow::Any => NameAllowed::Any,
            Allow::Rules(rules) if rules.iter().any(|rule| rule.has_name(&host, port)) => {
                NameAllowed::Named
            }
            Allow::Rules(rules) if rules.iter().any(|rule| rule.may_have_address(port)) => {
                NameAllowed::ByAddress
            }
            Allow::Rules(_) => return Err(self.nothing_allows(&host, port)),
        };
        Ok(ByName::Host {
            host,
            port,
            by_name,
        })
    }

    /// Decides about one address of a host.
    pub fn judge_address(
        &self,
        (host, port, by_name): (&Host, u16, NameAllowed),
        address: IpAddr,
        surroundings: &Surroundings<'_>,
    ) -> Result<(), Refused> {
        if let Some(what) = address::why_closed(address) {
            let why = format!("{address} is {what}; only `services` reach those");
            return Err(Refused::closed(why));
        }
        if surroundings.is_own {
            let why = format!("{address} is this host's own; only `services` reach it");
            return Err(Refused::closed(why));
        }
        let allowed: &[Rule] = match &self.allow {
            Allow::Any => &[],
            Allow::Rules(rules) => rules,
        };
        let guarded = address::find_guarded(address);
        for network in guarded.iter().chain(&surroundings.networks) {
            if !allowed
                .iter()
                .any(|rule| rule.names(network, address, port))
            {
                return Err(Refused::closed(network.explain(address, port)));
            }
        }
        let denied = self
            .deny
            .iter()
            .find(|rule| rule.has_address(address, port));
        if let Some(rule) = denied {
            return Err(Refused::closed(format!(
                "{address}: `deny` contains {rule}"
            )));
        }
        // A name in `allow` may share its server with a name in `deny`.
        let denied = surroundings
            .denied
            .filter(|_| by_name != NameAllowed::Named)
            .and_then(|denied| denied.find(address, port));
        if let Some(rule) = denied {
            let why = format!("{address} is an address of {rule}, which `deny` contains");
            return Err(Refused::closed(why));
        }
        let is_allowed = by_name != NameAllowed::ByAddress
            || allowed.iter().any(|rule| rule.has_address(address, port));
        match is_allowed {
            true => Ok(()),
            false => Err(self.nothing_allows(host, port)),
        }
    }

    fn nothing_allows(&self, host: &Host, port: u16) -> Refused {
        Refused {
            cause: Cause::Rules,
            reason: format!("`egress` does not allow {host} at port {port}"),
        }
    }

    /// Finds a service by its own name and port, or by the address that other virtual machines use for their host.
    fn service_at(&self, host: &Host, port: u16) -> Option<&Service> {
        self.services.iter().find(|service| {
            service.port == port
                && (host.is_named(&service.name) || host.is_gateway() && service.is_loopback())
        })
    }
}

#[cfg(test)]
mod tests;
