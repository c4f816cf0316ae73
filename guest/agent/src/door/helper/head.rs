//! Parses heads of requests and responses, and rewrites them for forwarding.

use httparse::{EMPTY_HEADER, Header, Status};

use super::authority;
use super::body::Framing;
use super::problem::Problem;

/// The limits of a head: its bytes and its headers.
pub const MAX_HEAD_BYTES: usize = 64 << 10;
const MAX_HEADERS: usize = 128;

/// Headers that apply to one connection only. `transfer-encoding` is one of them, but the body is forwarded as it
/// arrives.
const HOP_HEADERS: &[&str] = &[
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "upgrade",
];

/// A request of a program to the proxy.
#[derive(Debug, PartialEq, Eq)]
pub enum Request {
    /// A connection for any bytes.
    Tunnel {
        host: String,
        port: u16,
    },
    Forward(Forward),
}

/// A request to forward.
#[derive(Debug, PartialEq, Eq)]
pub struct Forward {
    pub host: String,
    pub port: u16,
    /// The head that is sent to the server.
    pub head: Vec<u8>,
    pub body: Framing,
    pub is_head_method: bool,
    pub keep_alive: bool,
}

/// Parses the head of a request, and returns its length; `None` if the head is incomplete.
pub fn parse_request(bytes: &[u8]) -> Result<Option<(Request, usize)>, Problem> {
    let mut headers = [EMPTY_HEADER; MAX_HEADERS];
    let mut parsed = httparse::Request::new(&mut headers);
    let length = match parsed.parse(bytes) {
        Ok(Status::Complete(length)) => length,
        Ok(Status::Partial) if bytes.len() < MAX_HEAD_BYTES => return Ok(None),
        Ok(Status::Partial) | Err(httparse::Error::TooManyHeaders) => {
            let text =
                format!("a head of more than {MAX_HEAD_BYTES} bytes or {MAX_HEADERS} headers");
            return Err(Problem::new(431, text));
        }
        Err(error) => return Err(Problem::new(400, format!("this is not HTTP: {error}"))),
    };
    let (Some(method), Some(target), Some(version)) = (parsed.method, parsed.path, parsed.version)
    else {
        return Err(Problem::new(400, "this is not HTTP"));
    };
    if method == "CONNECT" {
        let (host, port) = authority::split(target, None)?;
        return Ok(Some((Request::Tunnel { host, port }, length)));
    }
    let forward = forward(method, target, version, parsed.headers)?;
    Ok(Some((Request::Forward(forward), length)))
}

fn forward(
    method: &str,
    target: &str,
    version: u8,
    headers: &[Header<'_>],
) -> Result<Forward, Problem> {
    let scheme = target.get(..7).map(str::to_ascii_lowercase);
    if scheme.as_deref() != Some("http://") {
        let text = format!(
            "{target:?} is not a URL that begins with http://; this is a proxy: ask it for CONNECT host:port or for a whole http:// URL"
        );
        return Err(Problem::new(400, text));
    }
    let rest = &target[7..];
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let (host, port) = authority::split(authority, Some(80))?;
    let path = path.split('#').next().unwrap_or_default();
    let slash = if path.starts_with('/') { "" } else { "/" };
    let mut head =
        format!("{method} {slash}{path} HTTP/1.{version}\r\nHost: {authority}\r\n").into_bytes();
    // The URL determines the server; a Host header that differs is dropped.
    push_headers(&mut head, headers, &["host"]);
    head.extend_from_slice(b"Connection: close\r\n\r\n");
    Ok(Forward {
        host,
        port,
        head,
        body: request_framing(version, headers)?,
        is_head_method: method == "HEAD",
        keep_alive: is_kept_alive(version, headers),
    })
}

fn push_headers(head: &mut Vec<u8>, headers: &[Header<'_>], without: &[&str]) {
    let named: Vec<String> = values(headers, "connection")
        .flat_map(|value| value.split(','))
        .map(|name| name.trim().to_ascii_lowercase())
        .collect();
    for header in headers {
        let name = header.name.to_ascii_lowercase();
        let is_hop = HOP_HEADERS.contains(&name.as_str()) || named.contains(&name);
        // Without these headers, the server would read the body as the next message.
        let frames = matches!(name.as_str(), "content-length" | "transfer-encoding");
        if without.contains(&name.as_str()) || is_hop && !frames {
            continue;
        }
        head.extend_from_slice(header.name.as_bytes());
        head.extend_from_slice(b": ");
        head.extend_from_slice(header.value);
        head.extend_from_slice(b"\r\n");
    }
}

fn values<'a>(headers: &'a [Header<'_>], name: &'a str) -> impl Iterator<Item = &'a str> {
    headers
        .iter()
        .filter(move |header| header.name.eq_ignore_ascii_case(name))
        .map(|header| std::str::from_utf8(header.value).unwrap_or("?"))
}

fn is_kept_alive(version: u8, headers: &[Header<'_>]) -> bool {
    let says = |word: &str| {
        values(headers, "connection")
            .chain(values(headers, "proxy-connection"))
            .flat_map(|value| value.split(','))
            .any(|option| option.trim().eq_ignore_ascii_case(word))
    };
    match version {
        0 => says("keep-alive"),
        _ => !says("close"),
    }
}

/// Returns the length that the headers agree on. Two different lengths would let two readers disagree, as in an attack.
fn length(headers: &[Header<'_>]) -> Result<Option<u64>, Problem> {
    let mut lengths = values(headers, "content-length").map(|text| {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse::<u64>().ok().filter(|_| digits)
    });
    let Some(first) = lengths.next() else {
        return Ok(None);
    };
    if first.is_none() || lengths.any(|other| other != first) {
        return Err(Problem::new(
            400,
            "the length of the body is not one number",
        ));
    }
    Ok(first)
}

fn request_framing(version: u8, headers: &[Header<'_>]) -> Result<Framing, Problem> {
    let length = length(headers)?;
    let mut codings = values(headers, "transfer-encoding");
    match (codings.next(), codings.next(), length) {
        (None, _, None) => Ok(Framing::None),
        (None, _, Some(length)) => Ok(Framing::Length(length)),
        (Some(coding), None, None) if version == 1 && coding.eq_ignore_ascii_case("chunked") => {
            Ok(Framing::Chunked)
        }
        _ => Err(Problem::new(400, "the end of the body is not clear")),
    }
}

/// The head of a response for the program.
#[derive(Debug, PartialEq, Eq)]
pub struct Response {
    pub head: Vec<u8>,
    pub body: Framing,
    /// Whether another response follows this one.
    pub is_interim: bool,
}

impl Response {
    /// Ends the head, and sets whether the connection stays open.
    pub fn finish(&mut self, keep_alive: bool) {
        let word = if keep_alive { "keep-alive" } else { "close" };
        if !self.is_interim {
            let line = format!("Connection: {word}\r\n");
            self.head.extend_from_slice(line.as_bytes());
        }
        self.head.extend_from_slice(b"\r\n");
    }
}

/// Parses the head of a response, and returns its length; `None` if the head is incomplete.
pub fn parse_response(
    bytes: &[u8],
    is_head_method: bool,
) -> Result<Option<(Response, usize)>, Problem> {
    let broken = |why: &str| Problem::new(502, format!("the server's answer {why}"));
    let mut headers = [EMPTY_HEADER; MAX_HEADERS];
    let mut parsed = httparse::Response::new(&mut headers);
    let length_bytes = match parsed.parse(bytes) {
        Ok(Status::Complete(length)) => length,
        Ok(Status::Partial) if bytes.len() < MAX_HEAD_BYTES => return Ok(None),
        Ok(Status::Partial) | Err(httparse::Error::TooManyHeaders) => {
            return Err(broken("has a head that is too long"));
        }
        Err(_) => return Err(broken("is not HTTP")),
    };
    let (Some(version), Some(code)) = (parsed.version, parsed.code) else {
        return Err(broken("is not HTTP"));
    };
    if code == 101 {
        return Err(broken("changes the protocol; ask for CONNECT instead"));
    }
    let reason = parsed.reason.unwrap_or_default();
    let mut head = format!("HTTP/1.{version} {code} {reason}\r\n").into_bytes();
    let is_chunked = values(parsed.headers, "transfer-encoding")
        .flat_map(|value| value.split(','))
        .last()
        .map(|coding| coding.trim().eq_ignore_ascii_case("chunked"));
    // If both headers are present, only this one counts, and the program must not read the other.
    let without: &[&str] = match is_chunked {
        Some(_) => &["content-length"],
        None => &[],
    };
    push_headers(&mut head, parsed.headers, without);
    let has_none = is_head_method || matches!(code, 100..=199 | 204 | 304);
    let body = match (is_chunked, length(parsed.headers)) {
        _ if has_none => Framing::None,
        (Some(true), _) => Framing::Chunked,
        (Some(false), _) => Framing::UntilClose,
        (None, Ok(Some(length))) => Framing::Length(length),
        (None, Ok(None)) => Framing::UntilClose,
        (None, Err(_)) => return Err(broken("has two lengths")),
    };
    let response = Response {
        head,
        body,
        is_interim: (100..200).contains(&code),
    };
    Ok(Some((response, length_bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(text: &str) -> Result<Request, Problem> {
        let (request, length) = parse_request(text.as_bytes())?.expect("a whole head");
        assert_eq!(length, text.len());
        Ok(request)
    }

    fn forwarded(text: &str) -> Forward {
        match request(text).unwrap() {
            Request::Forward(forward) => forward,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_tunnel_goes_where_its_target_says_whatever_its_headers_say() {
        let wanted = Request::Tunnel {
            host: "a.example".into(),
            port: 443,
        };
        let got = request("CONNECT a.example:443 HTTP/1.1\r\nHost: evil.example:80\r\n\r\n");
        assert_eq!(got.unwrap(), wanted);
        for target in [
            "a.example",
            "http://a.example:443",
            "/",
            "*",
            "x@a.example:443",
        ] {
            let text = format!("CONNECT {target} HTTP/1.1\r\n\r\n");
            assert!(request(&text).is_err(), "{target}");
        }
    }

    #[test]
    fn a_url_decides_where_a_request_goes_and_what_its_host_header_is() {
        let forward = forwarded(
            "GET HTTP://a.example:81/p?q#f HTTP/1.1\r\nHost: evil.example\r\nAccept: */*\r\nProxy-Authorization: x\r\nX-Own: 1\r\nConnection: x-own, keep-alive\r\n\r\n",
        );
        assert_eq!((forward.host.as_str(), forward.port), ("a.example", 81));
        assert_eq!(
            String::from_utf8(forward.head).unwrap(),
            "GET /p?q HTTP/1.1\r\nHost: a.example:81\r\nAccept: */*\r\nConnection: close\r\n\r\n"
        );
        let forward = forwarded("GET http://a.example?q HTTP/1.0\r\n\r\n");
        assert!(
            forward
                .head
                .starts_with(b"GET /?q HTTP/1.0\r\nHost: a.example\r\n")
        );
        assert!(!forward.keep_alive);
    }

    #[test]
    fn what_is_no_request_to_a_proxy_is_refused() {
        for target in [
            "/",
            "*",
            "https://a.example/",
            "ftp://a.example/",
            "http://",
            "http://u:p@a.example/",
        ] {
            let text = format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n");
            assert!(request(&text).is_err(), "{target}");
        }
        assert!(parse_request(b"\x16\x03\x01 not http").is_err());
        let long = format!(
            "GET http://a/ HTTP/1.1\r\nX: {}",
            "x".repeat(MAX_HEAD_BYTES)
        );
        assert!(parse_request(long.as_bytes()).is_err());
        let many = "A: b\r\n".repeat(MAX_HEADERS + 1);
        assert!(request(&format!("GET http://a/ HTTP/1.1\r\n{many}\r\n")).is_err());
    }

    #[test]
    fn a_body_that_could_end_in_two_places_is_refused() {
        let framing = |headers: &str| {
            request(&format!("POST http://a/ HTTP/1.1\r\n{headers}\r\n")).map(|request| {
                match request {
                    Request::Forward(forward) => forward.body,
                    other => panic!("{other:?}"),
                }
            })
        };
        assert_eq!(framing("").unwrap(), Framing::None);
        assert_eq!(
            framing("Content-Length: 3\r\n").unwrap(),
            Framing::Length(3)
        );
        assert_eq!(
            framing("Transfer-Encoding: Chunked\r\n").unwrap(),
            Framing::Chunked
        );
        for headers in [
            "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n",
            "Content-Length: 3\r\nContent-Length: 4\r\n",
            "Content-Length: +3\r\n",
            "Content-Length: \r\n",
            "Content-Length: 3, 3\r\n",
            "Transfer-Encoding: gzip, chunked\r\n",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        ] {
            assert!(framing(headers).is_err(), "{headers}");
        }
    }

    #[test]
    fn the_end_of_a_response_is_found() {
        let response = |head: &str, is_head| {
            let text = format!("HTTP/1.1 {head}\r\n\r\n");
            parse_response(text.as_bytes(), is_head).map(|parsed| parsed.unwrap().0)
        };
        let body = |head: &str| response(head, false).unwrap().body;
        assert_eq!(body("200 OK\r\nContent-Length: 5"), Framing::Length(5));
        assert_eq!(
            body("200 OK\r\nTransfer-Encoding: gzip, chunked"),
            Framing::Chunked
        );
        assert_eq!(body("200 OK"), Framing::UntilClose);
        assert_eq!(body("204 No"), Framing::None);
        let head = response("200 OK\r\nContent-Length: 5", true).unwrap();
        assert_eq!(head.body, Framing::None);
        let both = response(
            "200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked",
            false,
        )
        .unwrap();
        assert_eq!(both.body, Framing::Chunked);
        assert!(
            !String::from_utf8(both.head)
                .unwrap()
                .contains("Content-Length")
        );
        assert!(response("100 Continue", false).unwrap().is_interim);
        assert!(response("101 Switching", false).is_err());
        assert!(response("200 OK\r\nContent-Length: 1\r\nContent-Length: 2", false).is_err());
    }
}
