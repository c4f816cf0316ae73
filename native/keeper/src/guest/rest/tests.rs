use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::spawn_local;
use voidbox_protocol::body::{Clock, ClockResponse, Connect, ErrorBody, ErrorCode};
use voidbox_protocol::decode::{Decoder, Phase};
use voidbox_protocol::frame::Frame;
use voidbox_protocol::handshake::{Hello, Start};
use voidbox_protocol::{FIRST_TUNNEL_ID, PROTOCOL_VERSION};

use super::*;
use crate::guest::handshake::{Frames, Session};
use crate::guest::link::Acceptor;
use crate::guest::mailbox;
use crate::guest::patience::Patience;
use crate::guest::transfer::Transfer;

const LIMIT: Duration = Duration::from_secs(20);

/// The guest's end of the port.
struct Guest {
    port: UnixStream,
    decoder: Decoder,
    frames: Vec<Frame>,
}

impl Guest {
    async fn hear(&mut self) -> (u32, Message) {
        let mut buffer = [0; 4096];
        while self.frames.is_empty() {
            let count = self.port.read(&mut buffer).await.unwrap();
            assert!(count > 0, "the keeper closed the port");
            self.decoder
                .push(&buffer[..count], &mut self.frames)
                .unwrap();
        }
        Message::decode(self.frames.remove(0)).unwrap()
    }

    async fn say(&mut self, id: u32, message: &Message) {
        let frame = message.encode(id).unwrap();
        self.port.write_all(&frame).await.unwrap();
    }
}

/// Lets a tunnel stay open without a word.
struct Quiet;

impl Acceptor for Quiet {
    fn on_connect(
        &self,
        link: &Rc<Link>,
        id: u32,
        _wanted: Connect,
    ) -> Result<Rc<dyn Inbound>, Violation> {
        link.send(id, &Message::Connected(Empty {}));
        Ok(Rc::new(Answer))
    }
}

fn with_link(test: impl AsyncFnOnce(Rc<Link>, Guest)) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let local = tokio::task::LocalSet::new();
    runtime.block_on(local.run_until(async {
        let (port, theirs) = UnixStream::pair().unwrap();
        let hello = Hello {
            protocol: PROTOCOL_VERSION,
            agent: "agent".into(),
            boot_ms: 1,
        };
        let session = Session {
            port,
            decoder: Decoder::new(Phase::Session),
            early: Vec::new(),
            hello,
            mailbox: Some(mailbox::memory().unwrap()),
            has_door_mail: false,
            can_set_clock: false,
            can_freeze_disk: false,
            can_rest: true,
        };
        let patience = Patience::new(Duration::from_millis(500));
        let link = Link::start(session, patience, Some(Box::new(Quiet)));
        let guest = Guest {
            port: theirs,
            decoder: Decoder::new(Phase::Session),
            frames: Vec::new(),
        };
        let done = tokio::time::timeout(LIMIT, test(link, guest)).await;
        done.expect("the test ends in time");
    }));
}

fn clock() -> Message {
    Message::Clock(Clock { step_ms: None })
}

#[test]
fn a_guest_that_rests_gets_start_as_its_next_bytes() {
    with_link(async |link, mut guest| {
        let resting = spawn_local(async move { (link.rest().await, link) });
        let (id, asked) = guest.hear().await;
        assert!(matches!(asked, Message::Rest(_)), "{asked:?}");
        guest.say(id, &Message::Resting(Empty {})).await;
        let (rested, link) = resting.await.unwrap();
        let Rested { port, mailbox } = rested.unwrap();
        assert!(mailbox.is_some());
        let failure = Transfer::open(&link, &clock()).err().unwrap();
        assert_eq!(failure.code, Code::VmBusy);

        Frames::new(port).send_start(1 << 20, None).await.unwrap();
        let mut heard = Decoder::new(Phase::Handshake);
        let (mut frames, mut buffer) = (Vec::new(), [0; 4096]);
        let count = guest.port.read(&mut buffer).await.unwrap();
        heard.push(&buffer[..count], &mut frames).unwrap();
        assert_eq!(Start::decode(&frames[0]).unwrap().scratch_bytes, 1 << 20);
    });
}

#[test]
fn a_vm_with_an_open_request_or_tunnel_is_busy_and_works_on() {
    with_link(async |link, mut guest| {
        let request = Transfer::open(&link, &clock()).unwrap();
        let failure = link.rest().await.unwrap_err();
        assert_eq!(failure.code, Code::VmBusy);
        let (id, _) = guest.hear().await;
        guest
            .say(id, &Message::ClockResponse(ClockResponse { unix_ms: 1 }))
            .await;
        request.response().await.unwrap();

        let connect = Message::Connect(Connect::Service { name: "db".into() });
        guest.say(FIRST_TUNNEL_ID, &connect).await;
        assert!(matches!(
            guest.hear().await,
            (FIRST_TUNNEL_ID, Message::Connected(_))
        ));
        let failure = link.rest().await.unwrap_err();
        assert_eq!(failure.code, Code::VmBusy);
        link.forget_tunnel(FIRST_TUNNEL_ID);
        Transfer::open(&link, &clock()).unwrap();
        assert!(matches!(guest.hear().await, (_, Message::Clock(_))));
    });
}

#[test]
fn a_connection_that_crosses_the_request_gets_no_answer() {
    with_link(async |link, mut guest| {
        let resting = spawn_local(async move { link.rest().await });
        let (id, _) = guest.hear().await;
        let connect = Message::Connect(Connect::Service { name: "db".into() });
        guest.say(FIRST_TUNNEL_ID, &connect).await;
        guest.say(FIRST_TUNNEL_ID, &Message::Cancel(Empty {})).await;
        guest.say(id, &Message::Resting(Empty {})).await;
        let rested = resting.await.unwrap().unwrap();
        drop(rested);
        let mut left = Vec::new();
        guest.port.read_to_end(&mut left).await.unwrap();
        assert_eq!(left, b"");
    });
}

#[test]
fn a_guest_that_refuses_to_rest_keeps_its_session() {
    with_link(async |link, mut guest| {
        let resting = spawn_local(async move { (link.rest().await, link) });
        let (id, _) = guest.hear().await;
        let why = ErrorBody {
            code: ErrorCode::BadRequest,
            message: "another request is open".into(),
        };
        guest.say(id, &Message::Error(why)).await;
        let (refused, link) = resting.await.unwrap();
        let failure = refused.unwrap_err();
        assert_eq!(failure.code, Code::GuestError);
        assert!(
            failure.message.contains("another request is open"),
            "{failure}"
        );

        let request = Transfer::open(&link, &clock()).unwrap();
        let (id, _) = guest.hear().await;
        guest
            .say(id, &Message::ClockResponse(ClockResponse { unix_ms: 1 }))
            .await;
        request.response().await.unwrap();
        let resting = spawn_local(async move { link.rest().await });
        let (id, _) = guest.hear().await;
        guest.say(id, &Message::Resting(Empty {})).await;
        resting.await.unwrap().unwrap();
    });
}

#[test]
fn a_guest_that_sends_more_while_it_rests_breaks_the_protocol() {
    for more in [&clock().encode(7).unwrap()[..], &[1, 0]] {
        with_link(async |link, mut guest| {
            let resting = spawn_local(async move { link.rest().await });
            let (id, _) = guest.hear().await;
            let both = [&Message::Resting(Empty {}).encode(id).unwrap(), more].concat();
            guest.port.write_all(&both).await.unwrap();
            let failure = resting.await.unwrap().unwrap_err();
            assert_eq!(failure.code, Code::VmProtocol);
            assert!(failure.message.contains("while it rests"), "{failure}");
        });
    }
}

#[test]
fn a_guest_that_neither_rests_nor_refuses_loses_its_vm() {
    with_link(async |link, mut guest| {
        let resting = spawn_local(async move { (link.rest().await, link) });
        guest.hear().await;
        let (silent, link) = resting.await.unwrap();
        assert_eq!(silent.unwrap_err().code, Code::VmProtocol);
        assert_eq!(link.ended().await.code, Code::VmProtocol);
    });
}
