//! The VMM's control socket. The keeper alone has its other end, and uses it for one thing: QEMU
//! stops a VM whose disk image finds no room on the host, and somebody has to let it go on. One that
//! has not found that out yet is stopped from here.

use std::convert::Infallible;
use std::io;
use std::rc::Rc;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use crate::disk::{Disk, Waiting};
use crate::guest::clock::GuestClock;

/// QEMU's greeting and events have some hundred bytes.
const MAX_LINE_BYTES: usize = 64 << 10;

/// What a VMM said that is not QMP. It is hostile then, or broken: its guest may have taken it over.
#[derive(Debug, thiserror::Error)]
pub enum Violation {
    #[error("a line has more than {MAX_LINE_BYTES} bytes")]
    LongLine,
    #[error("a line is not a JSON object: {0}")]
    NotJson(String),
    #[error("it began without a greeting")]
    NoGreeting,
    #[error("it does not take the command qmp_capabilities: {0}")]
    NotNegotiated(String),
}

/// What one line says.
#[derive(Debug, PartialEq, Eq)]
enum Heard {
    Greeting,
    /// The VM stands still: a write of its disk found no room on the host.
    NoSpace,
    /// The VM runs.
    Resumed,
    Returned,
    Refused(String),
    Other,
}

fn hear(line: &[u8]) -> Result<Heard, Violation> {
    let line: Value =
        serde_json::from_slice(line).map_err(|error| Violation::NotJson(error.to_string()))?;
    let Some(line) = line.as_object() else {
        return Err(Violation::NotJson("it is another value".into()));
    };
    if line.contains_key("QMP") {
        return Ok(Heard::Greeting);
    }
    if line.contains_key("return") {
        return Ok(Heard::Returned);
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

/// Lines of at most [`MAX_LINE_BYTES`]. Reading can be given up at any time and loses nothing.
struct Lines {
    socket: UnixStream,
    buffer: Vec<u8>,
}

impl Lines {
    /// The next line, `None` at the end.
    async fn next(&mut self) -> Result<Option<Vec<u8>>, Violation> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let rest = self.buffer.split_off(end + 1);
                return Ok(Some(std::mem::replace(&mut self.buffer, rest)));
            }
            if self.buffer.len() > MAX_LINE_BYTES {
                return Err(Violation::LongLine);
            }
            match self.socket.read_buf(&mut self.buffer).await {
                Ok(0) | Err(_) => return Ok(None),
                Ok(_) => {}
            }
        }
    }

    async fn send(&mut self, command: &str) -> io::Result<()> {
        let line = format!("{{\"execute\":\"{command}\"}}\n");
        self.socket.write_all(line.as_bytes()).await
    }

    async fn heard(&mut self) -> Result<Option<Heard>, Violation> {
        self.next().await?.map(|line| hear(&line)).transpose()
    }
}

/// Sees to it that a VM which stopped for want of room goes on when there is some. Returns what is not
/// QMP; the end of the socket is the VMM's end, which others see.
pub async fn watch(socket: UnixStream, disk: Rc<Disk>, clock: Rc<GuestClock>) -> Violation {
    let mut lines = Lines {
        socket,
        buffer: Vec::new(),
    };
    match serve(&mut lines, &disk, &clock).await {
        Err(violation) => violation,
        Ok(never) => match never {},
    }
}

async fn serve(
    lines: &mut Lines,
    disk: &Rc<Disk>,
    clock: &GuestClock,
) -> Result<Infallible, Violation> {
    negotiate(lines).await?;
    let mut stopped: Option<Waiting> = None;
    loop {
        tokio::select! {
            heard = lines.heard() => match heard? {
                Some(Heard::NoSpace) => {
                    stopped.get_or_insert_with(|| disk.wait_begins());
                    clock.doubt();
                }
                Some(Heard::Resumed) => {
                    stopped = None;
                    clock.doubt();
                }
                Some(Heard::Refused(why)) => eprintln!("the VMM does not go on: {why}"),
                Some(_) => {}
                None => {
                    drop(stopped.take());
                    return std::future::pending().await;
                }
            },
            // What is still full says so again, and is asked again after the next look.
            () = disk.room(), if stopped.is_some() => {
                let _ = lines.send("cont").await;
            }
            () = disk.runs_low(|| clock.check_host()), if stopped.is_none() => {
                stopped = Some(disk.wait_begins());
                // Before the VM goes on: a command that is started meanwhile waits for the look.
                clock.doubt();
                let _ = lines.send("stop").await;
            }
        }
    }
}

async fn negotiate(lines: &mut Lines) -> Result<(), Violation> {
    match lines.heard().await? {
        Some(Heard::Greeting) => {}
        Some(_) => return Err(Violation::NoGreeting),
        None => return std::future::pending().await,
    }
    let _ = lines.send("qmp_capabilities").await;
    loop {
        match lines.heard().await? {
            Some(Heard::Returned) => return Ok(()),
            Some(Heard::Refused(why)) => return Err(Violation::NotNegotiated(why)),
            Some(_) => {}
            None => return std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncBufReadExt, BufReader};

    use super::*;

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
        assert_eq!(heard(r#"{"return": {}}"#), Heard::Returned);
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

    fn with_peer<T>(peer: impl AsyncFnOnce(BufReader<UnixStream>, Rc<Disk>) -> T) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let local = tokio::task::LocalSet::new();
        runtime.block_on(local.run_until(async {
            let (keeper, vmm) = UnixStream::pair().unwrap();
            let disk = Disk::new("/", Duration::from_secs(60));
            let clock = GuestClock::new();
            let watched = tokio::task::spawn_local(watch(keeper, disk.clone(), clock));
            let work =
                tokio::time::timeout(Duration::from_secs(20), peer(BufReader::new(vmm), disk));
            let done = work.await.expect("the peer is answered in time");
            watched.abort();
            done
        }))
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
    fn a_vm_that_stopped_for_want_of_room_is_let_go_on_until_it_does() {
        with_peer(async |mut peer, disk| {
            say(&mut peer, GREETING).await;
            assert_eq!(command(&mut peer).await["execute"], "qmp_capabilities");
            say(&mut peer, r#"{"return": {}}"#).await;
            say(&mut peer, NO_SPACE).await;
            say(&mut peer, r#"{"event": "STOP"}"#).await;
            assert_eq!(command(&mut peer).await["execute"], "cont");
            assert!(disk.report().is_some(), "it has not gone on yet");
            // A VM that runs into the wall again stops again.
            say(&mut peer, NO_SPACE).await;
            say(&mut peer, r#"{"return": {}}"#).await;
            assert_eq!(command(&mut peer).await["execute"], "cont");
            say(&mut peer, r#"{"event": "RESUME"}"#).await;
            say(&mut peer, r#"{"return": {}}"#).await;
            while disk.report().is_some() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        });
    }

    #[test]
    fn a_vm_is_stopped_before_it_eats_what_is_left_for_messages() {
        with_peer(async |mut peer, disk| {
            say(&mut peer, GREETING).await;
            assert_eq!(command(&mut peer).await["execute"], "qmp_capabilities");
            say(&mut peer, r#"{"return": {}}"#).await;
            let mib = |count: u64| count << 20;
            disk.pretended.set(Some((mib(7), mib(100_000))));
            assert_eq!(command(&mut peer).await["execute"], "stop");
            assert!(disk.report().is_some());
            // What the ballast gives free lets no VM go on.
            disk.pretended.set(Some((mib(15), mib(100_000))));
            tokio::time::sleep(Duration::from_millis(1200)).await;
            disk.pretended.set(Some((mib(16), mib(100_000))));
            assert_eq!(command(&mut peer).await["execute"], "cont");
            say(&mut peer, r#"{"event": "RESUME"}"#).await;
            while disk.report().is_some() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        });
    }

    #[test]
    fn a_hostile_vmm_is_cut_off_before_it_takes_memory() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        for (words, why) in [
            (vec![b'x'; 2 * MAX_LINE_BYTES], "more than 65536 bytes"),
            (b"{\"event\":\"RESUME\"}\n".to_vec(), "without a greeting"),
            (b"nonsense\n".to_vec(), "not a JSON object"),
            (
                format!("{GREETING}\n{{\"error\":{{\"desc\":\"never\"}}}}\n").into_bytes(),
                "never",
            ),
        ] {
            let said = runtime.block_on(async {
                let (keeper, mut vmm) = UnixStream::pair().unwrap();
                let disk = Disk::new("/", Duration::from_secs(60));
                let watched = watch(keeper, disk, GuestClock::new());
                let (violation, _) = tokio::join!(watched, vmm.write_all(&words));
                violation.to_string()
            });
            assert!(said.contains(why), "{said}");
        }
    }
}
