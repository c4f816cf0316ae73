//! Parses the `host:port` of a request.

use super::problem::Problem;

/// The limit of a host in bytes.
const MAX_HOST_BYTES: usize = 255;

/// Splits `host:port` or `[address]:port`; with a default port, also a host without a port. Everything else is
/// rejected, because two readers could interpret it differently.
pub fn split(text: &str, default_port: Option<u16>) -> Result<(String, u16), Problem> {
    let wrong = || Problem::new(400, format!("{text:?} is not a host and a port"));
    let (host, rest) = match text.strip_prefix('[') {
        Some(inner) => {
            let (host, rest) = inner.split_once(']').ok_or_else(wrong)?;
            let is_address = |byte: u8| byte.is_ascii_hexdigit() || matches!(byte, b':' | b'.');
            if !host.contains(':') || !host.bytes().all(is_address) {
                return Err(wrong());
            }
            (host, rest)
        }
        None => {
            let end = text.find(':').unwrap_or(text.len());
            let (host, rest) = text.split_at(end);
            let is_name =
                |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
            if !host.bytes().all(is_name) {
                return Err(wrong());
            }
            (host, rest)
        }
    };
    if host.is_empty() || host.len() > MAX_HOST_BYTES {
        return Err(wrong());
    }
    let port = match (rest.strip_prefix(':'), default_port) {
        (Some(digits), _) => port_of(digits).ok_or_else(wrong)?,
        (None, Some(port)) if rest.is_empty() => port,
        _ => return Err(wrong()),
    };
    Ok((host.to_owned(), port))
}

fn port_of(digits: &str) -> Option<u16> {
    let is_port =
        (1..=5).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|port| is_port && *port > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_addresses_with_a_port_are_taken() {
        for (text, host, port) in [
            ("a.example:443", "a.example", 443),
            ("127.0.0.1:80", "127.0.0.1", 80),
            ("[::1]:7233", "::1", 7233),
            ("[::ffff:127.0.0.1]:1", "::ffff:127.0.0.1", 1),
        ] {
            assert_eq!(split(text, None).unwrap(), (host.to_owned(), port));
        }
        assert_eq!(split("a", Some(80)).unwrap(), ("a".to_owned(), 80));
        assert_eq!(split("[::1]", Some(80)).unwrap(), ("::1".to_owned(), 80));
    }

    #[test]
    fn what_could_be_read_in_two_ways_is_refused() {
        for text in [
            "",
            ":443",
            "a.example",
            "a.example:",
            "a.example:0",
            "a.example:65536",
            "a.example:+80",
            "a.example: 80",
            "a.example:080080",
            "a.example:80:443",
            "user@a.example:443",
            "a.example:443@b.example:443",
            "a.example:443/",
            "a.example/:443",
            "a.example#b:443",
            "a.example?b:443",
            "a.example\\b:443",
            "a%2eexample:443",
            "a example:443",
            "a.example\t:443",
            "[::1:443",
            "[a]:443",
            "[::1%lo]:443",
            "[::1]443",
            "::1:443",
            "ä.example:443",
            "[]:443",
        ] {
            assert!(split(text, None).is_err(), "{text}");
        }
        assert!(split(&format!("{}:80", "a".repeat(256)), None).is_err());
    }
}
