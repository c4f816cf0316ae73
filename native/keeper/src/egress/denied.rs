//! The addresses of names in `deny`: a guest's request for such an address by number is refused.

use std::net::IpAddr;

use super::rules::{Allow, Rule};

/// The limit of addresses that are kept for one name. New ones replace the oldest.
const MAX_ADDRESSES: usize = 256;

/// The addresses to which the names in `deny` have resolved since the VM began.
#[derive(Debug, Default)]
pub struct Denied {
    rules: Vec<(Rule, Vec<IpAddr>)>,
}

impl Denied {
    /// Creates an empty list if no rule of `allow` lets an address decide, because then only names open connections.
    pub fn new(allow: &Allow, deny: &[Rule]) -> Self {
        let reaches_numbers = match allow {
            Allow::Any => true,
            Allow::Rules(rules) => rules
                .iter()
                .any(|rule| matches!(rule, Rule::Network { .. })),
        };
        let rules = deny
            .iter()
            .filter(|rule| reaches_numbers && matches!(rule, Rule::Host { .. }))
            .map(|rule| (rule.clone(), Vec::new()));
        Self {
            rules: rules.collect(),
        }
    }

    /// Returns the names to look up, each once.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self
            .rules
            .iter()
            .filter_map(|(rule, _)| match rule {
                Rule::Host { name, .. } => Some(name.clone()),
                _ => None,
            })
            .collect();
        names.sort();
        names.dedup();
        names
    }

    pub fn add(&mut self, resolved: &str, found: &[IpAddr]) {
        for (rule, addresses) in &mut self.rules {
            if !matches!(rule, Rule::Host { name, .. } if name == resolved) {
                continue;
            }
            addresses.retain(|address| !found.contains(address));
            addresses.extend(found);
            let over = addresses.len().saturating_sub(MAX_ADDRESSES);
            addresses.drain(..over);
        }
    }

    /// Returns the rule whose name has resolved to this address.
    pub(super) fn find(&self, address: IpAddr, port: u16) -> Option<&Rule> {
        self.rules
            .iter()
            .find(|(rule, addresses)| rule.has_port(port) && addresses.contains(&address))
            .map(|(rule, _)| rule)
    }
}
