//! QEMU's control socket, whose other end only the keeper has. It speaks QMP, of which the keeper uses a few commands.

use std::os::fd::BorrowedFd;

use serde_json::Value;
use tokio::net::UnixStream;

use crate::vmm::interface::{Control, Said, Violation, Work};
use crate::vmm::lines::{Lines, LongLine};

/// A message of QEMU that is not QMP.
#[derive(Debug, thiserror::Error)]
enum NoQmp {
    #[error(transparent)]
    LongLine(#[from] LongLine),
    #[error("a line is not a JSON object: {0}")]
    NotJson(String),
    #[error("it began without a greeting")]
    NoGreeting,
    #[error("it rejects the command qmp_capabilities: {0}")]
    NotNegotiated(String),
}

/// The meaning of one line.
#[derive(Debug, PartialEq, Eq)]
enum Heard {
    Greeting,
    /// The VM is paused: a write of its disk found no room on the host.
    NoSpace,
    /// The VM runs.
    Resumed,
    Returned(Value),
    Refused(String),
    Other,
}

fn hear(line: &[u8]) -> Result<Heard, NoQmp> {
    let line: Value =
        serde_json::from_slice(line).map_err(|error| NoQmp::NotJson(error.to_string()))?;
    let Some(line) = line.as_object() else {
        return Err(NoQmp::NotJson("it is another value".into()));
    };
    if line.contains_key("QMP") {
        return Ok(Heard::Greeting);
    }
    if let Some(value) = line.get("return") {
        return Ok(Heard::Returned(value.clone()));
    }
    if let Some(error) = line.get("error") {
        let why = error.get("desc").and_then(Value::as_str).unwrap_or("");
        return Ok(Heard::Refused(why.chars().take(200).collect()));
    }
    let data = |field: &str| line.get("data").and_then(|data| data.get(field));
    Ok(match line.get("event").and_then(Value::as_str) {
        Some("BLOCK_IO_ERROR")
            if data("nospace") == Some(&Value::Bool(true))
                && data("action") == Some(&Value::from("stop")) =>
        {
            Heard::NoSpace
        }
        Some("RESUME") => Heard::Resumed,
        _ => Heard::Other,
    })
}

impl From<NoQmp> for Violation {
    fn from(broken: NoQmp) -> Self {
        Self(broken.to_string())
    }
}

/// The control of one QEMU that accepts commands.
pub struct Qmp(Lines);

/// Agrees with QEMU on the protocol. Never returns if QEMU ends before.
pub async fn open(socket: UnixStream) -> Result<Qmp, Violation> {
    let mut qmp = Qmp(Lines::new(socket));
    qmp.negotiate().await?;
    Ok(qmp)
}

impl Qmp {
    async fn heard(&mut self) -> Result<Option<Heard>, NoQmp> {
        self.0.next().await?.map(|line| hear(&line)).transpose()
    }

    async fn send(&mut self, command: &str) {
        // A QEMU that does not read has ended, which other tasks notice.
        let _ = self.0.send(&format!("{{\"execute\":\"{command}\"}}")).await;
    }

    async fn negotiate(&mut self) -> Result<(), NoQmp> {
        match self.heard().await? {
            Some(Heard::Greeting) => {}
            Some(_) => return Err(NoQmp::NoGreeting),
            None => return std::future::pending().await,
        }
        self.send("qmp_capabilities").await;
        loop {
            match self.heard().await? {
                Some(Heard::Returned(_)) => return Ok(()),
                Some(Heard::Refused(why)) => return Err(NoQmp::NotNegotiated(why)),
                Some(_) => {}
                None => return std::future::pending().await,
            }
        }
    }

    /// Runs a command before the control is watched, and returns its value. The error is QEMU's text.
    pub async fn run(&mut self, command: &str, arguments: Value) -> Result<Value, String> {
        let line = serde_json::json!({ "execute": command, "arguments": arguments });
        // A QEMU that does not read has ended, which the next read notices.
        let _ = self.0.send(&line.to_string()).await;
        self.answer(command).await
    }

    /// Gives QEMU a copy of a descriptor under a name for a later command.
    pub async fn give(&mut self, name: &str, fd: BorrowedFd<'_>) -> Result<(), String> {
        let line = serde_json::json!({ "execute": "getfd", "arguments": { "fdname": name } });
        let sent = self.0.send_with_fd(&line.to_string(), fd).await;
        sent.map_err(|error| format!("getfd: {error}"))?;
        self.answer("getfd").await.map(drop)
    }

    async fn answer(&mut self, command: &str) -> Result<Value, String> {
        loop {
            match self.heard().await.map_err(|broken| broken.to_string())? {
                Some(Heard::Returned(value)) => return Ok(value),
                Some(Heard::Refused(why)) => return Err(format!("{command}: {why}")),
                Some(_) => {}
                None => return Err(format!("{command}: QEMU has ended")),
            }
        }
    }

    async fn said(&mut self) -> Result<Said, NoQmp> {
        loop {
            match self.heard().await? {
                Some(Heard::NoSpace) => return Ok(Said::NoRoom),
                Some(Heard::Resumed) => return Ok(Said::Resumed),
                Some(Heard::Refused(why)) => return Ok(Said::Refused(why)),
                Some(_) => {}
                None => return Ok(Said::Ended),
            }
        }
    }
}

impl Control for Qmp {
    fn said(&mut self) -> Work<'_, Result<Said, Violation>> {
        Box::pin(async { Ok(Qmp::said(self).await?) })
    }

    fn pause(&mut self) -> Work<'_, ()> {
        Box::pin(self.send("stop"))
    }

    fn resume(&mut self) -> Work<'_, ()> {
        Box::pin(self.send("cont"))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

    use super::*;
    use crate::vmm::lines::MAX_LINE_BYTES;

    const GREETING: &str = r#"{"QMP": {"version": {"qemu": {"major": 7}}, "capabilities": []}}"#;
    const NO_SPACE: &str = r#"{"timestamp": {"seconds": 1, "microseconds": 2}, "event": "BLOCK_IO_ERROR", "data": {"device": "scratch", "nospace": true, "node-name": "", "reason": "No space left on device", "operation": "write", "action": "stop"}}"#;

    #[test]
    fn what_qemu_says_is_told_apart() {
        let heard = |line: &str| hear(line.as_bytes()).unwrap();
        assert_eq!(heard(GREETING), Heard::Greeting);
        assert_eq!(heard(NO_SPACE), Heard::NoSpace);
        assert_eq!(
            heard(&NO_SPACE.replace("true", "false")),
            Heard::Other,
            "another error is the guest's to see"
        );
        assert_eq!(
            heard(&NO_SPACE.replace(r#""stop""#, r#""report""#)),
            Heard::Other
        );
        assert_eq!(heard(r#"{"event": "RESUME"}"#), Heard::Resumed);
        assert_eq!(
            heard(r#"{"return": {}}"#),
            Heard::Returned(serde_json::json!({}))
        );
        assert_eq!(
            heard(r#"{"error": {"class": "GenericError", "desc": "no"}}"#),
            Heard::Refused("no".into())
        );
    }

    #[test]
    fn what_is_no_qmp_is_a_violation() {
        for line in ["", "x", "[]", "{", "\"QMP\"", &"[".repeat(1000)] {
            assert!(hear(line.as_bytes()).is_err(), "{line:?}");
        }
    }

    fn within_20_s<T>(work: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let done = tokio::time::timeout(Duration::from_secs(20), work).await;
            done.expect("it is answered in time")
        })
    }

    async fn say(peer: &mut BufReader<UnixStream>, line: &str) {
        peer.get_mut().write_all(line.as_bytes()).await.unwrap();
        peer.get_mut().write_all(b"\r\n").await.unwrap();
    }

    async fn command(peer: &mut BufReader<UnixStream>) -> Value {
        let mut line = String::new();
        peer.read_line(&mut line).await.unwrap();
        serde_json::from_str(&line).unwrap()
    }

    #[test]
    fn a_vm_is_paused_and_resumed_over_qmp() {
        within_20_s(async {
            let (keeper, vmm) = UnixStream::pair().unwrap();
            let mut peer = BufReader::new(vmm);
            let negotiated = async {
                say(&mut peer, GREETING).await;
                assert_eq!(command(&mut peer).await["execute"], "qmp_capabilities");
                say(&mut peer, r#"{"return": {}}"#).await;
            };
            let (control, ()) = tokio::join!(open(keeper), negotiated);
            let mut control: Box<dyn Control> = Box::new(control.unwrap());
            say(&mut peer, NO_SPACE).await;
            say(&mut peer, r#"{"event": "STOP"}"#).await;
            assert_eq!(control.said().await.unwrap(), Said::NoRoom);
            control.resume().await;
            assert_eq!(command(&mut peer).await["execute"], "cont");
            say(&mut peer, r#"{"error": {"desc": "not yet"}}"#).await;
            assert_eq!(
                control.said().await.unwrap(),
                Said::Refused("not yet".into())
            );
            say(&mut peer, r#"{"return": {}}"#).await;
            say(&mut peer, r#"{"event": "RESUME"}"#).await;
            assert_eq!(control.said().await.unwrap(), Said::Resumed);
            control.pause().await;
            assert_eq!(command(&mut peer).await["execute"], "stop");
            drop(peer);
            assert_eq!(control.said().await.unwrap(), Said::Ended);
        });
    }

    #[test]
    fn a_hostile_vmm_is_cut_off_before_it_takes_memory() {
        let negotiated = format!("{GREETING}\n{{\"return\":{{}}}}\n");
        for (words, why) in [
            (vec![b'x'; 2 * MAX_LINE_BYTES], "more than 65536 bytes"),
            (b"{\"event\":\"RESUME\"}\n".to_vec(), "without a greeting"),
            (b"nonsense\n".to_vec(), "not a JSON object"),
            (
                format!("{negotiated}nonsense\n").into_bytes(),
                "not a JSON object",
            ),
            (
                format!("{GREETING}\n{{\"error\":{{\"desc\":\"never\"}}}}\n").into_bytes(),
                "never",
            ),
        ] {
            let violation = within_20_s(async {
                let (keeper, mut vmm) = UnixStream::pair().unwrap();
                let watched = async {
                    let mut qmp = open(keeper).await?;
                    Control::said(&mut qmp).await
                };
                let (said, _) = tokio::join!(watched, vmm.write_all(&words));
                said.unwrap_err().to_string()
            });
            assert!(violation.contains(why), "{violation}");
        }
    }
}
