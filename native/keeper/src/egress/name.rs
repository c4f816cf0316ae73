//! Parses hosts in the form that programs use.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

const MAX_NAME_BYTES: usize = 253;
const MAX_LABEL_BYTES: usize = 63;
/// The address by which guests of user-mode networks reach their host.
const GATEWAY: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 2, 2));

/// A name or an address, in its normal form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Host {
    /// A name in lower case, without a dot at its end.
    Name(String),
    Address(IpAddr),
}

impl fmt::Display for Host {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Host::Name(name) => formatter.write_str(name),
            Host::Address(address) => address.fmt(formatter),
        }
    }
}

impl Host {
    /// Parses names of letters, digits, hyphens and underscores, and addresses in their usual form. Rejects other texts
    /// that a resolver would read as an address: `0x7f.1`, `2130706433`.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let bare = text
            .strip_prefix('[')
            .and_then(|inner| inner.strip_suffix(']'))
            .filter(|inner| inner.contains(':'))
            .unwrap_or(text);
        if let Ok(address) = bare.parse::<IpAddr>() {
            return Ok(Host::Address(address));
        }
        let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        if name.is_empty() || name.len() > MAX_NAME_BYTES {
            return Err("a host has 1 to 253 bytes");
        }
        for label in name.split('.') {
            let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
            if label.is_empty() || label.len() > MAX_LABEL_BYTES || !label.bytes().all(is_letter) {
                return Err(
                    "this is not a host: expected labels of letters, digits, `-` and `_`, with dots between",
                );
            }
        }
        if name.rsplit('.').next().is_some_and(is_number) {
            return Err("this is a number, not an address in its usual form");
        }
        Ok(Host::Name(name))
    }

    pub fn is_named(&self, other: &str) -> bool {
        matches!(self, Host::Name(name) if name == other)
    }

    pub fn is_gateway(&self) -> bool {
        *self == Host::Address(GATEWAY)
    }
}

/// Returns true for text that `inet_aton` reads as a part of an address: digits, or hexadecimal digits after `0x`.
fn is_number(label: &str) -> bool {
    let hex = label.strip_prefix("0x");
    match hex {
        Some(digits) => digits.bytes().all(|byte| byte.is_ascii_hexdigit()),
        None => label.bytes().all(|byte| byte.is_ascii_digit()),
    }
}
