//! The guest's time of day. Its kernel starts from the time at the boot. The clock becomes wrong when the VM is paused,
//! when the host sleeps, and when the host's own clock is set. So the keeper checks it after each of these, and
//! periodically while a command runs, and corrects it.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::watch;
use voidbox_protocol::body::Clock;
use voidbox_protocol::message::Message;

use super::link::Link;
use super::transfer::Transfer;
use crate::error::{Code, Failure};

/// A smaller error of a guest's clock is not corrected.
const TOLERANCE_MS: i64 = 200;
/// A larger difference between the host's clocks means that one of them was moved.
const HOST_JUMP_MS: i64 = 250;
/// The keeper checks the host at least once a second. A longer interval means that the keeper was stopped, most likely
/// together with its VM.
const STALL: Duration = Duration::from_secs(3);
/// An older check is repeated before a command starts, because two clocks never run equally.
const STALE: Duration = Duration::from_secs(60);
/// After a slower answer, the guest's time is too uncertain.
const SLOW_ANSWER: Duration = Duration::from_millis(400);
/// The number of checks in a row: one finds the error, one corrects it, others may be slow.
const MAX_LOOKS: u32 = 6;
/// The limit of lines about it in the keeper's log, because a lying guest could cause any number.
const MAX_LINES: u32 = 100;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The clock is right as far as the keeper knows.
    Right,
    /// An event has happened since the last check.
    Doubtful,
    BeingLookedAt,
}

/// The keeper's knowledge of its guest's clock.
pub struct GuestClock {
    state: watch::Sender<State>,
    begin: Instant,
    /// The difference between the host's time of day and its steady clock when the guest was last doubted.
    host_lead_ms: Cell<i64>,
    checked: Cell<Instant>,
    looked: Cell<Instant>,
    lines: Cell<u32>,
}

impl GuestClock {
    pub fn new() -> Rc<Self> {
        let clock = Self {
            // The guest got its time from a message that may have been delayed.
            state: watch::Sender::new(State::Doubtful),
            begin: Instant::now(),
            host_lead_ms: Cell::new(0),
            checked: Cell::new(Instant::now()),
            looked: Cell::new(Instant::now()),
            lines: Cell::new(0),
        };
        clock.host_lead_ms.set(clock.read_host_lead());
        Rc::new(clock)
    }

    /// Marks the clock as doubtful, after an event that may have moved it, or when a check is due.
    pub fn doubt(&self) {
        self.state.send_replace(State::Doubtful);
    }

    /// Marks the guest's clock as doubtful if the host has slept, if its clock was set, or if the keeper was stopped.
    /// Called once a second, and before a command starts.
    pub fn check_host(&self) {
        if self.checked.replace(Instant::now()).elapsed() > STALL {
            self.doubt();
        }
        self.compare_host(self.read_host_lead());
    }

    /// Returns the lead of the time of day over the steady clock, which stops while the host sleeps and is never set.
    fn read_host_lead(&self) -> i64 {
        unix_ms().saturating_sub(millis(self.begin.elapsed()))
    }

    fn compare_host(&self, lead_ms: i64) {
        if lead_ms.abs_diff(self.host_lead_ms.get()) >= HOST_JUMP_MS.unsigned_abs() {
            self.host_lead_ms.set(lead_ms);
            self.doubt();
        }
    }

    /// Returns once the guest's clock was right within the last minute, or the link has ended.
    pub async fn be_right(&self, link: &Link) {
        if !link.can_set_clock {
            return;
        }
        self.check_host();
        if self.looked.get().elapsed() > STALE {
            self.doubt();
        }
        let mut state = self.state.subscribe();
        tokio::select! {
            // The sender lives as long as `self`.
            _ = state.wait_for(|state| *state == State::Right) => {}
            _ = link.ended() => {}
        }
    }

    /// Checks whenever the clock is doubtful, as long as the link lives. A guest that does not answer ends the link, as
    /// in every exchange.
    pub async fn keep_right(&self, link: &Rc<Link>) -> ! {
        if !link.can_set_clock {
            std::future::pending::<()>().await;
        }
        let mut state = self.state.subscribe();
        loop {
            let _ = state.wait_for(|state| *state == State::Doubtful).await;
            self.state.send_replace(State::BeingLookedAt);
            match self.set_right(link).await {
                Ok(0) => {}
                Ok(moved_ms) => self.log(&moved(moved_ms)),
                // A possible failure is that the limit of open requests is reached. The next check follows soon.
                Err(failure) => self.log(&format!(
                    "the guest's clock is not set: {}",
                    failure.message
                )),
            }
            self.looked.set(Instant::now());
            self.state.send_if_modified(|state| {
                let is_done = *state == State::BeingLookedAt;
                if is_done {
                    *state = State::Right;
                }
                is_done
            });
        }
    }

    /// Corrects the guest's clock, and returns by how many milliseconds it was moved.
    async fn set_right(&self, link: &Rc<Link>) -> Result<i64, Failure> {
        let mut moved_ms = 0i64;
        let mut step_ms = None;
        for _ in 0..MAX_LOOKS {
            let (from, begin) = (unix_ms(), Instant::now());
            let request = Transfer::open(link, &Message::Clock(Clock { step_ms }))?;
            let Message::ClockResponse(answer) = request.response().await? else {
                return Err(Failure::new(
                    Code::GuestError,
                    "the guest answered with something else",
                ));
            };
            moved_ms = moved_ms.saturating_add(step_ms.take().unwrap_or(0));
            let is_slow = begin.elapsed() > SLOW_ANSWER;
            let shown = i64::try_from(answer.unix_ms).unwrap_or(i64::MAX);
            step_ms = correction(shown, from, unix_ms());
            if step_ms.is_none() && !is_slow {
                return Ok(moved_ms);
            }
        }
        match step_ms {
            // All answers were slow, and none of them shows an error.
            None => Ok(moved_ms),
            Some(off_ms) => Err(Failure::new(
                Code::GuestError,
                format!("after {MAX_LOOKS} readings it is still wrong by {off_ms} ms"),
            )),
        }
    }

    fn log(&self, line: &str) {
        let lines = self.lines.get();
        if lines < MAX_LINES {
            self.lines.set(lines + 1);
            eprintln!("{line}");
        }
    }
}

/// Returns the correction for a guest whose clock showed `shown` at some moment between two times of the host.
fn correction(shown: i64, from: i64, to: i64) -> Option<i64> {
    let middle = from.saturating_add(to.saturating_sub(from) / 2);
    let slack = (to.saturating_sub(from).saturating_abs() / 2).saturating_add(TOLERANCE_MS);
    let step = middle.saturating_sub(shown);
    (step.saturating_abs() > slack).then_some(step)
}

fn moved(by_ms: i64) -> String {
    let way = if by_ms > 0 { "late" } else { "early" };
    let size = by_ms.unsigned_abs();
    format!("the guest's clock was {size} ms {way} and is set")
}

fn unix_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    millis(now.unwrap_or_default())
}

fn millis(length: Duration) -> i64 {
    i64::try_from(length.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::UnixStream;
    use tokio::time::timeout;
    use voidbox_protocol::body::ClockResponse;
    use voidbox_protocol::decode::{Decoder, Phase};
    use voidbox_protocol::handshake::Hello;

    use super::*;
    use crate::guest::handshake::Session;
    use crate::guest::patience::Patience;

    const LIMIT: Duration = Duration::from_secs(10);

    #[test]
    fn a_clock_moves_by_what_it_is_off_at_the_middle_of_a_look() {
        assert_eq!(correction(1_000, 1_000, 1_010), None);
        assert_eq!(correction(1_200, 1_000, 1_010), None);
        assert_eq!(correction(5_005, 1_000, 1_010), Some(-4_000));
        assert_eq!(correction(1_005, 5_000, 5_010), Some(4_000));
        // The guest may have read its clock at either end.
        assert_eq!(correction(1_000, 1_000, 5_000), None);
        assert_eq!(correction(5_000, 1_000, 5_000), None);
        assert_eq!(correction(9_000, 1_000, 5_000), Some(-6_000));
        assert_eq!(correction(i64::MAX, 0, 0), Some(-i64::MAX));
        // The host's own clock was set between the two times.
        assert_eq!(correction(1_500, 2_000, 1_000), None);
    }

    #[test]
    fn a_host_that_slept_or_was_set_makes_the_guest_doubtful() {
        let clock = GuestClock::new();
        clock.state.send_replace(State::Right);
        let is_doubtful = || clock.state.send_replace(State::Right) == State::Doubtful;
        let lead = clock.host_lead_ms.get();
        clock.check_host();
        assert!(!is_doubtful());
        clock.checked.set(Instant::now() - 2 * STALL);
        clock.check_host();
        assert!(is_doubtful(), "it was stopped");
        clock.compare_host(lead + 200);
        assert!(!is_doubtful());
        // Small steps add up.
        clock.compare_host(lead + 300);
        assert!(is_doubtful());
        clock.compare_host(lead + 300);
        assert!(!is_doubtful(), "once for each jump");
        clock.compare_host(lead - 3_600_000);
        assert!(is_doubtful());
    }

    /// A guest whose clock is off. It answers checks, and records the steps that it receives.
    struct FakeGuest {
        off_ms: i64,
        obeys: bool,
        /// The time for which the first check waits in the port of a paused VM.
        stands_still: Duration,
    }

    impl FakeGuest {
        async fn serve(self, mut port: UnixStream, steps: Rc<std::cell::RefCell<Vec<i64>>>) {
            let mut decoder = Decoder::new(Phase::Session);
            let mut off_ms = self.off_ms;
            let mut stands_still = self.stands_still;
            let mut buffer = [0u8; 4096];
            loop {
                let count = port.read(&mut buffer).await.unwrap();
                if count == 0 {
                    return;
                }
                let mut frames = Vec::new();
                decoder.push(&buffer[..count], &mut frames).unwrap();
                for frame in frames {
                    let (id, Message::Clock(wanted)) = Message::decode(frame).unwrap() else {
                        panic!("not a look");
                    };
                    tokio::time::sleep(std::mem::take(&mut stands_still)).await;
                    if let Some(step_ms) = wanted.step_ms {
                        steps.borrow_mut().push(step_ms);
                        off_ms += if self.obeys { step_ms } else { 0 };
                    }
                    let shown = u64::try_from(unix_ms() + off_ms).unwrap();
                    let answer = Message::ClockResponse(ClockResponse { unix_ms: shown });
                    let bytes = answer.encode(id).unwrap();
                    port.write_all(&bytes).await.unwrap();
                }
            }
        }
    }

    /// Returns the steps that the keeper sends until it considers the clock right.
    fn steps_of(guest: FakeGuest, can_set_clock: bool) -> Vec<i64> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let local = tokio::task::LocalSet::new();
        runtime.block_on(local.run_until(async {
            let (port, peer) = UnixStream::pair().unwrap();
            let steps = Rc::default();
            tokio::task::spawn_local(guest.serve(peer, Rc::clone(&steps)));
            let link = Link::start(session(port, can_set_clock), Patience::new(LIMIT), None);
            let clock = GuestClock::new();
            let settled = async {
                clock.be_right(&link).await;
                assert!(*clock.state.borrow() == State::Right || !can_set_clock);
                // A second check finds nothing to correct, or a guest that still lies.
                let told = steps.borrow().len();
                clock.looked.set(Instant::now() - 2 * STALE);
                clock.be_right(&link).await;
                assert!(steps.borrow().len() == told || told > 1, "{steps:?}");
            };
            tokio::select! {
                settled = timeout(LIMIT, settled) => settled.expect("it comes to an end"),
                never = clock.keep_right(&link) => never,
            }
            assert!(clock.lines.get() <= 2);
            steps.take()
        }))
    }

    fn session(port: UnixStream, can_set_clock: bool) -> Session {
        Session {
            port,
            decoder: Decoder::new(Phase::Session),
            early: Vec::new(),
            hello: Hello {
                protocol: 1,
                agent: "test".into(),
                boot_ms: 1,
            },
            mailbox: None,
            has_door_mail: false,
            can_set_clock,
            can_freeze_disk: false,
            can_rest: false,
        }
    }

    fn honest(off_ms: i64) -> FakeGuest {
        FakeGuest {
            off_ms,
            obeys: true,
            stands_still: Duration::ZERO,
        }
    }

    fn assert_steps(steps: &[i64], expected: i64) {
        let [step] = steps else {
            panic!("one step of {expected}: {steps:?}");
        };
        assert!((step - expected).abs() <= TOLERANCE_MS, "{step}");
    }

    #[test]
    fn a_guest_that_is_late_or_early_is_moved_once() {
        assert_steps(&steps_of(honest(-4_000), true), 4_000);
        assert_steps(&steps_of(honest(86_400_000), true), -86_400_000);
        assert!(steps_of(honest(50), true).is_empty());
    }

    #[test]
    fn a_look_that_waited_for_the_vm_is_followed_by_another() {
        let guest = FakeGuest {
            stands_still: Duration::from_secs(2),
            ..honest(-2_000)
        };
        assert_steps(&steps_of(guest, true), 2_000);
    }

    #[test]
    fn a_guest_that_lies_is_given_up_until_the_next_look() {
        let guest = FakeGuest {
            obeys: false,
            ..honest(-4_000)
        };
        let steps = steps_of(guest, true).len();
        assert_eq!(steps, 2 * (MAX_LOOKS as usize - 1));
    }

    #[test]
    fn a_guest_of_an_earlier_build_is_not_asked() {
        assert!(steps_of(honest(-4_000), false).is_empty());
    }
}
