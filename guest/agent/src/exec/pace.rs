//! Decides how soon the outputs of an exec are read. The kernel keeps no order between two pipes. Therefore the reading
//! thread takes precedence over programs: it reads each write before the program makes the next one. For a flood this
//! is useless and expensive, so its thread gives up its precedence for a pause. The pauses of a lasting flood become
//! longer.

use std::time::{Duration, Instant};

use crate::precedence::Precedences;

/// The period in which turns are counted. The first pause of a flood ends with it.
const WINDOW: Duration = Duration::from_millis(50);
/// The number of turns in a window that counts as a flood. On an emulated CPU a turn costs 0.3 ms, so this many take a
/// seventh of the window.
const MOST_TURNS: u32 = 24;
/// The longest pause. On a busy host, a guest gets only a part of each window, which the turns could use up completely.
/// So a lasting flood costs them only once in this time.
const LONGEST_PAUSE: Duration = Duration::from_millis(800);

/// The pace of one thread.
pub struct Pace<'a> {
    precedences: &'a Precedences,
    has_precedence: bool,
    since: Instant,
    turns: u32,
    /// The time after `since` at which a flood gets its precedence back.
    pause: Duration,
}

impl<'a> Pace<'a> {
    /// Gives the calling thread precedence.
    pub fn new(precedences: &'a Precedences, now: Instant) -> Self {
        precedences.enter_reader();
        Self {
            precedences,
            has_precedence: true,
            since: now,
            turns: 0,
            pause: WINDOW,
        }
    }

    /// Called before a wait. Returns how long it may last until the thread gets its precedence back; `None` if the
    /// thread has it.
    pub fn before_wait(&mut self, now: Instant) -> Option<Duration> {
        let length = match self.has_precedence {
            true => WINDOW,
            false => self.pause,
        };
        let left = length.saturating_sub(now.saturating_duration_since(self.since));
        if left.is_zero() {
            self.since = now;
            self.turns = 0;
            if self.has_precedence {
                self.pause = WINDOW;
            } else {
                self.pause = (self.pause * 2).min(LONGEST_PAUSE);
                self.set(true);
            }
        }
        (!self.has_precedence).then_some(left)
    }

    /// Called after a wait that an event ended.
    pub fn count(&mut self) {
        self.turns += 1;
        if self.turns > MOST_TURNS && self.has_precedence {
            self.set(false);
        }
    }

    fn set(&mut self, has_precedence: bool) {
        self.has_precedence = has_precedence;
        match has_precedence {
            true => self.precedences.enter_reader(),
            false => self.precedences.leave_reader(),
        }
    }
}

impl Drop for Pace<'_> {
    fn drop(&mut self) {
        if self.has_precedence {
            self.precedences.leave_reader();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_loses_its_precedence_until_its_window_ends() {
        let precedences = Precedences::unchanged();
        let start = Instant::now();
        let mut pace = Pace::new(&precedences, start);
        assert_eq!(pace.before_wait(start), None);
        for _ in 0..MOST_TURNS {
            pace.count();
        }
        assert!(pace.has_precedence);
        pace.count();
        assert!(!pace.has_precedence);
        let later = start + Duration::from_millis(20);
        assert_eq!(pace.before_wait(later), Some(Duration::from_millis(30)));
        assert_eq!(pace.before_wait(start + WINDOW), None);
        assert!(pace.has_precedence);
    }

    #[test]
    fn the_pauses_of_a_flood_that_lasts_become_longer_up_to_a_limit() {
        let precedences = Precedences::unchanged();
        let mut now = Instant::now();
        let mut pace = Pace::new(&precedences, now);
        let mut pauses = Vec::new();
        for _ in 0..7 {
            flood(&mut pace);
            let pause = pace.before_wait(now).unwrap();
            pauses.push(pause.as_millis());
            now += pause;
            assert_eq!(pace.before_wait(now), None);
        }
        assert_eq!(pauses, [50, 100, 200, 400, 800, 800, 800]);
    }

    #[test]
    fn a_calm_window_makes_the_next_pause_short_again() {
        let precedences = Precedences::unchanged();
        let mut now = Instant::now();
        let mut pace = Pace::new(&precedences, now);
        for _ in 0..4 {
            flood(&mut pace);
            now += pace.before_wait(now).unwrap();
            assert_eq!(pace.before_wait(now), None);
        }
        now += WINDOW;
        assert_eq!(pace.before_wait(now), None);
        flood(&mut pace);
        assert_eq!(pace.before_wait(now), Some(WINDOW));
    }

    fn flood(pace: &mut Pace<'_>) {
        for _ in 0..=MOST_TURNS {
            pace.count();
        }
    }

    #[test]
    fn a_program_that_writes_now_and_then_keeps_it() {
        let precedences = Precedences::unchanged();
        let start = Instant::now();
        let mut pace = Pace::new(&precedences, start);
        for at in 0..1_000 {
            let now = start + Duration::from_millis(at * 5);
            assert_eq!(pace.before_wait(now), None);
            pace.count();
            pace.count();
        }
    }
}
