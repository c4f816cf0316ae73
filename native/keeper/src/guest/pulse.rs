//! Checks that a guest lives while it owes no answer, for example while a command runs for hours. The keeper asks for
//! its figures at intervals; a guest that does not answer is dead.

use std::rc::Rc;
use std::time::Duration;

use voidbox_protocol::body::Empty;
use voidbox_protocol::message::Message;

use super::clock::GuestClock;
use super::link::Link;
use super::transfer::Transfer;

/// The interval between two questions, as this part of the silence that a guest may keep.
const PAUSES_IN_SILENCE: u32 = 5;

/// Asks while `is_wanted` returns true, as long as the link lives. Any answer is a sign of life; without one the link
/// ends, as in every exchange. After each answer, the keeper checks the guest's clock, because two clocks never run
/// equally.
pub async fn watch(link: &Rc<Link>, clock: &GuestClock, is_wanted: impl Fn() -> bool) -> ! {
    let pause = link.patience.limit() / PAUSES_IN_SILENCE;
    loop {
        tokio::time::sleep(pause.max(Duration::from_millis(1))).await;
        if !is_wanted() {
            continue;
        }
        // The request is refused at the limit of open requests, whose own deadlines then apply.
        if let Ok(request) = Transfer::open(link, &Message::Stats(Empty {})) {
            let _ = request.response().await;
            clock.doubt();
        }
    }
}
