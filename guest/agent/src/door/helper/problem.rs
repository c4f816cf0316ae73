//! Answers of the proxy itself to requests that it does not forward.

use crate::door::handoff::Refusal;

/// The reason why the proxy answers a request itself.
#[derive(Debug)]
pub struct Problem {
    status: u16,
    text: String,
}

impl Problem {
    pub fn new(status: u16, text: impl Into<String>) -> Self {
        Self {
            status,
            text: text.into(),
        }
    }

    /// Answers a request whose connection PID 1 refused.
    pub fn from_refusal((refusal, reason): (Refusal, String)) -> Self {
        let status = match refusal {
            Refusal::NotAllowed => 403,
            Refusal::Limit => 503,
            Refusal::Failed => 502,
        };
        Self::new(status, reason)
    }

    /// Returns the whole response; the connection ends after it.
    pub fn response(&self) -> Vec<u8> {
        let reason = match self.status {
            400 => "Bad Request",
            403 => "Forbidden",
            431 => "Request Header Fields Too Large",
            503 => "Service Unavailable",
            _ => "Bad Gateway",
        };
        let text = format!("voidbox: {}\n", self.text);
        format!(
            "HTTP/1.1 {} {reason}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{text}",
            self.status,
            text.len()
        )
        .into_bytes()
    }
}
