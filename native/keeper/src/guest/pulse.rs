//! A guest that stands still owes nobody anything while a command of its own runs, and the command has
//! hours. So it is asked for its figures now and then: one that does not answer is gone.

use std::rc::Rc;
use std::time::Duration;

use voidbox_protocol::body::Empty;
use voidbox_protocol::message::Message;

use super::clock::GuestClock;
use super::link::Link;
use super::transfer::Transfer;

/// Between two questions lies this part of the silence that a guest may keep.
const PAUSES_IN_SILENCE: u32 = 5;

/// Asks while `is_wanted`, for as long as the link lives. An answer of any kind is a sign of life; the
/// want of one ends the link, as in every exchange. Behind it the clock is looked at: no two run alike.
pub async fn watch(link: &Rc<Link>, clock: &GuestClock, is_wanted: impl Fn() -> bool) -> ! {
    let pause = link.patience.limit() / PAUSES_IN_SILENCE;
    loop {
        tokio::time::sleep(pause.max(Duration::from_millis(1))).await;
        if !is_wanted() {
            continue;
        }
        // Refused while as many requests are open as there may be: those have deadlines themselves.
        if let Ok(request) = Transfer::open(link, &Message::Stats(Empty {})) {
            let _ = request.response().await;
            clock.doubt();
        }
    }
}
