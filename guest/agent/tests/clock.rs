//! The clock on the keeper's request. An agent that is not PID 1 only simulates its moves.

mod keeper;

use std::time::{SystemTime, UNIX_EPOCH};

use keeper::{Keeper, ping};
use voidbox_protocol::body::{Clock, ErrorCode};
use voidbox_protocol::decode::{Phase, read_frame};
use voidbox_protocol::handshake::{FLAG_CLOCK, FLAG_MULTIPLEX, Ping, Pong};
use voidbox_protocol::message::Message;

/// The difference between a simulated clock and the host's own, each rounded to milliseconds.
const SLACK_MS: u64 = 10;

fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(now.as_millis()).unwrap()
}

fn pong_of(ping: &Ping) -> Pong {
    let mut keeper = Keeper::connect();
    keeper.send_raw(&ping.encode().unwrap());
    let pong = read_frame(&mut keeper.socket, Phase::Handshake).unwrap();
    Pong::decode(&pong.unwrap()).unwrap()
}

#[test]
fn it_is_agreed_on_with_keepers_that_ask_for_it_alone() {
    assert_eq!(pong_of(&ping(7)).flags & FLAG_CLOCK, 0);
    let asking = Ping {
        flags: FLAG_MULTIPLEX | FLAG_CLOCK,
        ..ping(7)
    };
    assert_eq!(pong_of(&asking).flags & FLAG_CLOCK, FLAG_CLOCK);
}

fn look(keeper: &mut Keeper, step_ms: Option<i64>) -> u64 {
    let id = keeper.send_new(&Message::Clock(Clock { step_ms }));
    match keeper.receive_answer(id) {
        Message::ClockResponse(answer) => answer.unix_ms,
        other => panic!("{other:?}"),
    }
}

#[test]
fn it_moves_by_what_the_keeper_says_and_no_further_than_its_years() {
    let mut keeper = Keeper::start();
    let begin = now_ms();
    assert!((begin - SLACK_MS..=now_ms() + SLACK_MS).contains(&look(&mut keeper, None)));
    for (step_ms, late_ms) in [(-5_000, 5_000), (2_000, 3_000), (3_000, 0)] {
        let begin = now_ms();
        let stepped = look(&mut keeper, Some(step_ms));
        let then = look(&mut keeper, None);
        let span = begin - late_ms - SLACK_MS..=now_ms() - late_ms + SLACK_MS;
        assert!(span.contains(&stepped), "{step_ms}: {stepped} in {span:?}");
        assert!(span.contains(&then), "{step_ms}: {then} in {span:?}");
    }
    let id = keeper.send_new(&Message::Clock(Clock {
        step_ms: Some(i64::MAX),
    }));
    assert_eq!(keeper.expect_error(id).code, ErrorCode::BadRequest);
    assert!((begin - SLACK_MS..=now_ms() + SLACK_MS).contains(&look(&mut keeper, None)));
}
