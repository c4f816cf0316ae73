//! The threads of the binding. They are not those of Node, because a call that hangs there delays files and names of
//! the whole process, and its end.

use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

#[cfg(not(panic = "unwind"))]
compile_error!("a panic in a thread of the binding would end the process that loaded it");

/// So many calls may hang; others wait for their turn.
const MOST_THREADS: usize = 64;
const IDLE_TIME: Duration = Duration::from_secs(10);
const STACK_BYTES: usize = 256 * 1024;

/// Does the work, or only says that there is no thread for it.
type Job = Box<dyn FnOnce(HasThread) + Send>;

#[derive(Clone, Copy, PartialEq)]
enum HasThread {
    Yes,
    No,
}

struct State {
    jobs: VecDeque<Job>,
    threads: usize,
    idle: usize,
}

pub struct Threads {
    state: Mutex<State>,
    wake: Condvar,
}

pub static THREADS: Threads = Threads::new();

impl Threads {
    const fn new() -> Self {
        Self {
            state: Mutex::new(State {
                jobs: VecDeque::new(),
                threads: 0,
                idle: 0,
            }),
            wake: Condvar::new(),
        }
    }

    /// Runs `work` on a thread and gives its value to `done` there; a panic is an error with its message.
    pub fn run<T: 'static>(
        &'static self,
        work: impl FnOnce() -> T + Send + 'static,
        done: impl FnOnce(Result<T, String>) + Send + 'static,
    ) {
        let job = move |thread: HasThread| {
            if thread == HasThread::No {
                return done(Err("no thread can be started".into()));
            }
            let result = catch_unwind(AssertUnwindSafe(work));
            done(result.map_err(|panic| describe(panic.as_ref())));
        };
        let mut state = self.lock();
        state.jobs.push_back(Box::new(job));
        if state.jobs.len() <= state.idle || state.threads == MOST_THREADS {
            self.wake.notify_one();
            return;
        }
        let builder = thread::Builder::new()
            .name("voidbox-binding".into())
            .stack_size(STACK_BYTES);
        match builder.spawn(|| self.work_until_idle()) {
            Ok(_) => state.threads += 1,
            // A thread that exists does the job later.
            Err(_) if state.threads > 0 => {}
            Err(_) => {
                let job = state.jobs.pop_back();
                drop(state);
                if let Some(job) = job {
                    job(HasThread::No);
                }
            }
        }
    }

    fn work_until_idle(&self) {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                drop(state);
                // The job catches panics of the work; one of Node's answer must not take the thread along either.
                let _ = catch_unwind(AssertUnwindSafe(|| job(HasThread::Yes)));
                state = self.lock();
                continue;
            }
            state.idle += 1;
            let (woken, waited) = self
                .wake
                .wait_timeout(state, IDLE_TIME)
                .unwrap_or_else(PoisonError::into_inner);
            state = woken;
            state.idle -= 1;
            if waited.timed_out() && state.jobs.is_empty() {
                state.threads -= 1;
                return;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn describe(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("a panic without a message")
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    static OWN: Threads = Threads::new();
    const LIMIT: Duration = Duration::from_secs(60);

    #[test]
    fn a_panic_is_an_error_and_the_threads_go_on() {
        let (sender, receiver) = mpsc::channel();
        for round in 0..200 {
            let sender = sender.clone();
            let work = move || {
                if round % 2 == 0 {
                    panic!("broken {round}")
                } else {
                    round
                }
            };
            OWN.run(work, move |result| sender.send((round, result)).unwrap());
        }
        for _ in 0..200 {
            match receiver.recv_timeout(LIMIT).unwrap() {
                (round, Ok(value)) => assert!(round % 2 == 1 && value == round),
                (round, Err(message)) => assert_eq!(message, format!("broken {round}")),
            }
        }
    }

    #[test]
    fn calls_that_hang_leave_threads_for_others() {
        static HUNG: Threads = Threads::new();
        let (release, gate) = mpsc::channel::<()>();
        let gate = std::sync::Arc::new(Mutex::new(gate));
        let (sender, receiver) = mpsc::channel();
        for _ in 0..MOST_THREADS - 1 {
            let (gate, sender) = (gate.clone(), sender.clone());
            let work = move || assert!(gate.lock().unwrap().recv().is_err());
            HUNG.run(work, move |_| sender.send("hung").unwrap());
        }
        for _ in 0..100 {
            let sender = sender.clone();
            HUNG.run(|| (), move |_| sender.send("quick").unwrap());
            assert_eq!(receiver.recv_timeout(LIMIT), Ok("quick"));
        }
        drop(release);
        for _ in 0..MOST_THREADS - 1 {
            assert_eq!(receiver.recv_timeout(LIMIT), Ok("hung"));
        }
        assert!(HUNG.lock().threads <= MOST_THREADS);
    }
}
