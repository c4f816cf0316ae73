//! Sets up a session, from the first byte of the guest port to the configuration.

use std::fs::File;
use std::io::Read;
use std::time::{SystemTime, UNIX_EPOCH};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use voidbox_protocol::PROTOCOL_VERSION;
use voidbox_protocol::body::{Configure, Door, DoorService, ErrorCode, GuestMount};
use voidbox_protocol::decode::{Decoder, Phase};
use voidbox_protocol::frame::{Frame, FrameError, FrameType};
use voidbox_protocol::handshake::{
    FLAG_CLOCK, FLAG_DISK, FLAG_DOOR, FLAG_DOOR_MAIL, FLAG_MAILBOX, FLAG_MULTIPLEX, FLAG_REST,
    HandshakeError, Hello, KEY_BYTES, Ping, Pong, SessionKey, Start, Waiting,
};
use voidbox_protocol::message::{Message, MessageError};

use crate::config::Mount;
use crate::egress::Egress;

const ENTROPY_BYTES: usize = 256;
/// The request id of `Configure`; every later request has a higher one.
const CONFIGURE_ID: u32 = 0;

/// The reason why no session was opened.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    #[error(transparent)]
    Handshake(#[from] HandshakeError),
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error(transparent)]
    Message(#[from] MessageError),
    #[error("the guest could not be configured: {0}")]
    Configure(String),
    /// Every VM would refuse the same configuration.
    #[error("the guest refuses its configuration: {0}")]
    Refused(String),
    #[error("the VM does not continue from its snapshot: {0}")]
    Restore(String),
    #[error("the guest closed its port")]
    Closed,
    #[error("the guest port: {0}")]
    Io(#[from] std::io::Error),
}

impl SessionError {
    /// Returns true if the guest broke the protocol, false if it disconnected.
    pub fn is_violation(&self) -> bool {
        !matches!(
            self,
            SessionError::Closed
                | SessionError::Io(_)
                | SessionError::Refused(_)
                | SessionError::Restore(_)
        )
    }
}

/// A guest that has sent its hello and accepted its configuration.
#[derive(Debug)]
pub struct Session {
    pub port: UnixStream,
    pub decoder: Decoder,
    /// Frames that arrived after the last frame of the handshake.
    pub early: Vec<Frame>,
    pub hello: Hello,
    /// The memory of the mailbox, if the guest has found it.
    pub mailbox: Option<File>,
    /// Whether bytes of tunnels may pass through the mailbox.
    pub has_door_mail: bool,
    /// Whether the guest moves its clock on request.
    pub can_set_clock: bool,
    pub can_freeze_disk: bool,
    /// Whether the guest ends a session without its own end.
    pub can_rest: bool,
}

/// Reads one frame at a time from a port.
pub struct Frames {
    port: UnixStream,
    decoder: Decoder,
    waiting: std::collections::VecDeque<Frame>,
}

impl Frames {
    pub fn new(port: UnixStream) -> Self {
        Self {
            port,
            decoder: Decoder::new(Phase::Handshake),
            waiting: Default::default(),
        }
    }

    /// Returns true once the guest waits for `Start`, false for a guest that does not wait.
    pub async fn guest_waits(&mut self) -> Result<bool, SessionError> {
        let first = self.next().await?;
        if first.frame_type == FrameType::Hello {
            self.waiting.push_front(first);
            return Ok(false);
        }
        check_version(Waiting::decode(&first)?.protocol)?;
        Ok(true)
    }

    /// Makes a guest that waits a machine of its own.
    pub async fn send_start(
        &mut self,
        scratch_bytes: u64,
        root: Option<&str>,
    ) -> Result<(), SessionError> {
        let start = Start {
            clock_unix_ms: now_unix_ms(),
            entropy: entropy()?,
            scratch_bytes,
            scratch: "/dev/vda".into(),
            root: root.map(str::to_owned),
        };
        Ok(self.port.write_all(&start.encode()?).await?)
    }

    async fn next(&mut self) -> Result<Frame, SessionError> {
        let mut buffer = [0u8; 4096];
        loop {
            if let Some(frame) = self.waiting.pop_front() {
                return Ok(frame);
            }
            let count = self.port.read(&mut buffer).await?;
            if count == 0 {
                return Err(SessionError::Closed);
            }
            let mut frames = Vec::new();
            let pushed = self.decoder.push(&buffer[..count], &mut frames);
            self.waiting.extend(frames);
            pushed?;
        }
    }
}

/// Waits for the hello, sets the session key, and sends the guest's configuration.
pub async fn open_session(
    mut frames: Frames,
    mounts: &[Mount],
    egress: Option<&Egress>,
    hostname: &str,
    mailbox: Option<File>,
) -> Result<Session, SessionError> {
    let hello = Hello::decode(&frames.next().await?)?;
    check_version(hello.protocol)?;
    let ping = Ping {
        key: SessionKey::new(random()?),
        version: PROTOCOL_VERSION,
        flags: FLAG_MULTIPLEX
            | FLAG_CLOCK
            | FLAG_DISK
            | FLAG_REST
            | flags_of(egress, mailbox.as_ref()),
    };
    frames.port.write_all(&ping.encode()?).await?;
    let pong = Pong::decode(&frames.next().await?)?;
    check_version(pong.version)?;
    if pong.flags & FLAG_MULTIPLEX == 0 {
        return Err(HandshakeError::NoMultiplex.into());
    }
    if egress.is_some() && pong.flags & FLAG_DOOR == 0 {
        return Err(HandshakeError::NoDoor.into());
    }
    frames.decoder.open_session();
    let configure =
        Message::Configure(configuration(mounts, egress, hostname)?).encode(CONFIGURE_ID)?;
    frames.port.write_all(&configure).await?;
    match Message::decode(frames.next().await?)? {
        (CONFIGURE_ID, Message::Configured(_)) => Ok(Session {
            port: frames.port,
            decoder: frames.decoder,
            early: frames.waiting.into(),
            hello,
            mailbox: mailbox.filter(|_| pong.flags & FLAG_MAILBOX != 0),
            has_door_mail: pong.flags & FLAG_DOOR_MAIL != 0,
            can_set_clock: pong.flags & FLAG_CLOCK != 0,
            can_freeze_disk: pong.flags & FLAG_DISK != 0,
            can_rest: pong.flags & FLAG_REST != 0,
        }),
        (CONFIGURE_ID, Message::Error(error)) => Err(match error.code {
            ErrorCode::NotAllowed | ErrorCode::BadRequest => SessionError::Refused(error.message),
            _ => SessionError::Configure(error.message),
        }),
        (_, other) => Err(SessionError::Configure(format!(
            "it answered with {:?}",
            other.frame_type()
        ))),
    }
}

/// Returns the flags of `Ping` that depend on the VM.
fn flags_of(egress: Option<&Egress>, mailbox: Option<&File>) -> u8 {
    match (egress, mailbox) {
        (Some(_), Some(_)) => FLAG_DOOR | FLAG_MAILBOX | FLAG_DOOR_MAIL,
        (Some(_), None) => FLAG_DOOR,
        (None, Some(_)) => FLAG_MAILBOX,
        (None, None) => 0,
    }
}

fn check_version(guest: u32) -> Result<(), HandshakeError> {
    if guest == PROTOCOL_VERSION {
        return Ok(());
    }
    Err(HandshakeError::Version {
        keeper: PROTOCOL_VERSION,
        guest,
    })
}

fn now_unix_ms() -> u64 {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

/// Returns new random bytes as hex digits.
fn entropy() -> std::io::Result<String> {
    let bytes: [u8; ENTROPY_BYTES] = random()?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn configuration(
    mounts: &[Mount],
    egress: Option<&Egress>,
    hostname: &str,
) -> std::io::Result<Configure> {
    Ok(Configure {
        clock_unix_ms: now_unix_ms(),
        hostname: hostname.to_owned(),
        entropy: entropy()?,
        mounts: (0u32..)
            .zip(mounts)
            .map(|(index, mount)| GuestMount {
                index,
                guest_path: mount.guest_path.clone(),
            })
            .collect(),
        door: egress.map(door),
    })
}

/// Returns the guest's part of the door: the names of services, but not their addresses.
fn door(egress: &Egress) -> Door {
    let services = egress.services.iter().map(|service| DoorService {
        name: service.name.clone(),
        port: service.port,
    });
    Door {
        proxy: true,
        services: services.collect(),
    }
}

fn random<const N: usize>() -> std::io::Result<[u8; N]> {
    const { assert!(N >= KEY_BYTES) };
    let mut bytes = [0u8; N];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;
    use crate::guest::mailbox;

    /// The frames of a guest that behaves, in their order.
    fn frames_of_a_guest() -> Vec<Vec<u8>> {
        let waiting = Waiting {
            protocol: PROTOCOL_VERSION,
        };
        let hello = Hello {
            protocol: PROTOCOL_VERSION,
            agent: "agent".into(),
            boot_ms: 1,
        };
        let pong = Pong {
            version: PROTOCOL_VERSION,
            flags: FLAG_MULTIPLEX,
        };
        let configured = Message::Configured(Default::default());
        vec![
            waiting.encode().unwrap(),
            hello.encode().unwrap(),
            pong.encode().unwrap(),
            configured.encode(CONFIGURE_ID).unwrap(),
        ]
    }

    /// Brings a guest that sends these bytes to its session, as the keeper does. After `Configure` the guest sends
    /// `answer`, and closes its port.
    async fn outcome(may_wait: bool, bytes: Vec<u8>, answer: &[u8]) -> Result<(), SessionError> {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let keeper = async move {
            let mut frames = Frames::new(ours);
            if may_wait && frames.guest_waits().await? {
                frames.send_start(1 << 20, None).await?;
            }
            let mailbox = mailbox::memory().unwrap();
            open_session(frames, &[], None, "voidbox", Some(mailbox))
                .await
                .map(drop)
        };
        let both = async { tokio::join!(keeper, guest(theirs, bytes, answer)).0 };
        let limit = Duration::from_secs(10);
        timeout(limit, both).await.expect("the keeper hangs")
    }

    async fn guest(mut port: UnixStream, bytes: Vec<u8>, answer: &[u8]) {
        // A keeper that has refused the guest reads no more.
        let _ = port.write_all(&bytes).await;
        // A keeper that waits for the rest of a frame never sends it.
        let limit = Duration::from_secs(1);
        if let Ok(true) = timeout(limit, hears_configure(&mut port)).await {
            let _ = port.write_all(answer).await;
        }
        let _ = port.shutdown().await;
    }

    async fn hears_configure(port: &mut UnixStream) -> bool {
        let mut decoder = Decoder::new(Phase::Session);
        let mut heard = Vec::new();
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = port.read(&mut buffer).await {
            decoder.push(&buffer[..count], &mut heard).unwrap();
            if heard
                .iter()
                .any(|frame| frame.frame_type == FrameType::Configure)
            {
                return true;
            }
        }
        false
    }

    fn joined(frames: &[&[u8]]) -> Vec<u8> {
        frames.concat()
    }

    #[tokio::test(start_paused = true)]
    async fn a_guest_that_abuses_the_frames_before_the_session_is_refused_by_name() {
        let frames = frames_of_a_guest();
        let [waiting, hello, pong, configured] = &frames[..] else {
            unreachable!("four frames");
        };
        let raw =
            |kind: FrameType, body: &[u8]| voidbox_protocol::frame::encode(kind, &[body]).unwrap();
        let start = raw(FrameType::Start, b"{}");
        let bare = raw(FrameType::Waiting, b"");
        let other = raw(FrameType::Waiting, b"{\"protocol\":2}");
        let more = raw(FrameType::Waiting, b"{\"protocol\":1,\"keep\":true}");
        let list = raw(FrameType::Waiting, b"[1,2]");
        let huge = [&[0xFF, 0xFF, 0xFF, 0xFF, 56][..], &[b' '; 100_000]].concat();
        let flood = waiting.repeat(20_000);
        let good = joined(&[waiting, hello, pong]);
        let without = joined(&[hello, pong]);
        for (may_wait, bytes) in [(true, &good), (true, &without), (false, &without)] {
            outcome(may_wait, bytes.clone(), configured).await.unwrap();
        }
        let more = joined(&[&more, hello, pong]);
        outcome(true, more, configured).await.unwrap();
        let cases: [(&str, bool, Vec<u8>, &str); 14] = [
            ("not asked", false, good, "expected Hello, got Waiting"),
            (
                "twice",
                true,
                joined(&[waiting, waiting, hello]),
                "expected Hello, got Waiting",
            ),
            ("a flood", true, flood, "expected Hello, got Waiting"),
            (
                "after hello",
                true,
                joined(&[hello, waiting]),
                "expected Pong, got Waiting",
            ),
            (
                "after start",
                true,
                joined(&[waiting, hello, waiting]),
                "expected Pong, got Waiting",
            ),
            (
                "late",
                true,
                joined(&[waiting, hello, pong, waiting]),
                "Waiting",
            ),
            ("no body", true, bare, "does not parse"),
            ("a list", true, list, "does not parse"),
            (
                "another version",
                true,
                other,
                "protocol 1, the guest agent 2",
            ),
            ("huge", true, huge, "4294967295"),
            (
                "start of a guest",
                true,
                start.clone(),
                "expected Waiting, got Start",
            ),
            (
                "start instead of hello",
                true,
                joined(&[waiting, &start]),
                "expected Hello, got Start",
            ),
            (
                "pong first",
                true,
                pong.clone(),
                "expected Waiting, got Pong",
            ),
            (
                "a session before its hello",
                true,
                configured.clone(),
                "Configured",
            ),
        ];
        for (name, may_wait, bytes, named) in cases {
            let error = outcome(may_wait, bytes, configured).await.expect_err(name);
            assert!(error.is_violation(), "{name}: {error}");
            assert!(error.to_string().contains(named), "{name}: {error}");
        }
        // A port that closes is no breach of the protocol: the VM has ended.
        for bytes in [Vec::new(), waiting[..7].to_vec(), joined(&[waiting, hello])] {
            let error = outcome(true, bytes, configured).await.unwrap_err();
            assert!(!error.is_violation(), "{error}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_guest_whose_vm_has_no_mailbox_gets_none_whatever_it_answers() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let keeper = async { open_session(Frames::new(ours), &[], None, "voidbox", None).await };
        let guest = async {
            let sent = frames_of_a_guest();
            theirs.write_all(&sent[1]).await.unwrap();
            let mut heard = Frames::new(theirs);
            let ping = Ping::decode(&heard.next().await.unwrap()).unwrap();
            let pong = Pong {
                version: PROTOCOL_VERSION,
                flags: FLAG_MULTIPLEX | FLAG_MAILBOX | FLAG_DOOR_MAIL,
            };
            heard.port.write_all(&pong.encode().unwrap()).await.unwrap();
            assert!(hears_configure(&mut heard.port).await);
            heard.port.write_all(&sent[3]).await.unwrap();
            (ping.flags, heard)
        };
        let (session, (flags, _guest)) = tokio::join!(keeper, guest);
        assert_eq!(flags & (FLAG_MAILBOX | FLAG_DOOR_MAIL), 0);
        assert!(session.unwrap().mailbox.is_none());
    }

    /// Returns the random bytes of `Start` and the key of the session that a keeper gives to one guest.
    async fn secrets_of_a_session() -> (String, SessionKey) {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let keeper = tokio::spawn(async move {
            let mut frames = Frames::new(ours);
            assert!(frames.guest_waits().await.unwrap());
            frames.send_start(1 << 20, None).await.unwrap();
            let mailbox = mailbox::memory().unwrap();
            open_session(frames, &[], None, "voidbox", Some(mailbox)).await
        });
        let sent = frames_of_a_guest();
        theirs.write_all(&sent[..2].concat()).await.unwrap();
        let mut heard = Frames::new(theirs);
        let start = Start::decode(&heard.next().await.unwrap()).unwrap();
        let ping = Ping::decode(&heard.next().await.unwrap()).unwrap();
        drop(heard);
        assert!(keeper.await.unwrap().is_err());
        (start.entropy, ping.key)
    }

    #[tokio::test]
    async fn each_copy_gets_its_own_session_key_and_random_bytes() {
        let (one, other) = (secrets_of_a_session().await, secrets_of_a_session().await);
        assert_eq!(one.0.len(), 2 * ENTROPY_BYTES);
        assert_ne!(one.0, other.0);
        assert!(one.1 != other.1);
    }

    #[tokio::test(start_paused = true)]
    async fn frames_with_random_changes_end_in_a_session_or_in_an_error() {
        let frames = frames_of_a_guest();
        let (good, answer) = (frames[..3].concat(), &frames[3]);
        const SEED: u64 = 0x9E37_79B9_7F4A_7C15;
        let mut state = SEED;
        let mut below = |limit: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            usize::try_from(state % limit as u64).unwrap()
        };
        let (mut sessions, mut errors) = (0, 0);
        for round in 0..1_500 {
            let mut bytes = good.clone();
            for _ in 0..=below(3) {
                let at = below(bytes.len());
                match below(5) {
                    0 => bytes[at] ^= 1 << below(8),
                    1 => bytes[at] = u8::try_from(below(256)).unwrap(),
                    2 => bytes.insert(at, u8::try_from(below(256)).unwrap()),
                    3 => bytes.truncate(at.max(1)),
                    _ => {
                        let end = bytes.len().min(at + 1 + below(30));
                        let piece = bytes[at..end].to_vec();
                        bytes.splice(at..at, piece);
                    }
                }
            }
            match outcome(true, bytes, answer).await {
                Ok(()) => sessions += 1,
                Err(error) => {
                    errors += 1;
                    let text = error.to_string();
                    assert!(!text.is_empty(), "seed {SEED:#x}, round {round}");
                }
            }
        }
        assert!(sessions > 0 && errors > 1_000, "{sessions} and {errors}");
    }
}
