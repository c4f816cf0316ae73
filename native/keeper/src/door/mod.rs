//! The door of a VM: it connects streams that its guest opens to connections of the host, if the rules allow them.

mod dial;
mod limits;
mod no_connection;
mod pump;
mod tunnel;

use std::cell::Cell;
use std::rc::Rc;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::Instant;
use voidbox_protocol::body::{Connect, ErrorBody, ErrorCode};

use crate::egress::Egress;
use crate::guest::link::{Acceptor, Inbound, Link, Violation};
use crate::notices::{Kind, Notices};
use dial::Dialer;
use limits::Usage;
use no_connection::NoConnection;
use pump::{Ended, How};
use tunnel::Tunnel;

fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    u64::try_from(now.unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
}

/// The limit of a host's bytes in a notice.
const MAX_LABEL_BYTES: usize = 255;

pub struct Door {
    dialer: Rc<Dialer>,
    notices: Rc<Notices>,
    usage: Rc<Usage>,
    refused: Cell<u64>,
}

impl Door {
    pub fn new(egress: Egress, notices: Rc<Notices>) -> Rc<Self> {
        let usage = Rc::new(Usage::new(egress.limits.clone()));
        let dialer = Rc::new(Dialer::new(egress));
        tokio::task::spawn_local(dialer.clone().follow_denied());
        Rc::new(Self {
            usage,
            dialer,
            notices,
            refused: Cell::new(0),
        })
    }

    async fn serve(self: Rc<Self>, tunnel: Tunnel, wanted: Connect) {
        let start = Instant::now();
        let label = label(&wanted);
        let connected = tokio::select! {
            connected = self.connect(&wanted) => connected,
            () = tunnel.given_up() => return tunnel.cancel(),
        };
        let (stream, held) = match connected {
            Ok(connected) => connected,
            Err(NoConnection {
                code,
                cause,
                reason,
            }) => {
                self.refused.set(self.refused.get() + 1);
                self.note(
                    Kind::Refused,
                    label,
                    json!({ "cause": cause, "reason": reason }),
                );
                return tunnel.refuse(ErrorBody {
                    code,
                    message: reason,
                });
            }
        };
        tunnel.connected();
        let Ended {
            how,
            sent_bytes,
            received_bytes,
        } = pump::run(&tunnel, stream, &self.usage).await;
        drop(held);
        let end = json!({
            "end": how.as_str(),
            "sentBytes": sent_bytes,
            "receivedBytes": received_bytes,
            "ms": u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX),
        });
        self.note(Kind::Closed, label, end);
        if how != How::Clean {
            tunnel.cancel();
        }
    }

    /// Opens a connection that the limits and the rules allow, and reserves its place in the count.
    async fn connect(&self, wanted: &Connect) -> Result<(TcpStream, limits::Held), NoConnection> {
        let held = self.usage.take().map_err(|reason| NoConnection {
            code: ErrorCode::Limit,
            cause: "limit",
            reason,
        })?;
        let stream = self.dialer.dial(wanted).await?;
        Ok((stream, held))
    }

    fn note(&self, kind: Kind, label: Value, more: Value) {
        let mut notice = json!({ "kind": kind.as_str(), "atMs": now_ms() });
        for part in [label, more] {
            if let (Some(notice), Value::Object(part)) = (notice.as_object_mut(), part) {
                notice.extend(part);
            }
        }
        self.notices.add(kind, &notice);
    }

    /// The number of refused connections so far.
    pub fn refused(&self) -> u64 {
        self.refused.get()
    }
}

/// Formats the guest's request for a notice: printable and short, whatever the guest wrote.
fn label(wanted: &Connect) -> Value {
    let clean = |text: &str| -> String {
        let printable = text.chars().map(|letter| match letter.is_ascii_graphic() {
            true => letter,
            false => '?',
        });
        printable.take(MAX_LABEL_BYTES).collect()
    };
    match wanted {
        Connect::Host { host, port } => json!({ "host": clean(host), "port": port }),
        Connect::Service { name } => json!({ "service": clean(name) }),
    }
}

impl Acceptor for Rc<Door> {
    fn on_connect(
        &self,
        link: &Rc<Link>,
        id: u32,
        wanted: Connect,
    ) -> Result<Rc<dyn Inbound>, Violation> {
        let (tunnel, inbound) = Tunnel::new(link.clone(), id);
        tokio::task::spawn_local(self.clone().serve(tunnel, wanted));
        Ok(inbound)
    }
}
