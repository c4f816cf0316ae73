//! Decides which threads of the agent the kernel's scheduler runs before programs, and when.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::thread::{Pid, gettid};

use crate::lock::lock;

/// A thread with a higher precedence runs before a thread with a lower one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Precedence {
    /// The precedence of programs.
    None = 0,
    /// The precedence of a thread that reads the outputs of a program.
    Reader = 1,
    /// The precedence of a thread with a lock that a reader waits for. If the reader could interrupt the holder, a
    /// program would run before both.
    Holder = 2,
}

/// Sets the precedence of a thread.
type Set = Box<dyn Fn(Pid, Precedence) + Send + Sync>;

/// The precedences of a guest's threads. A reader shares locks with two threads, the writer and the reader of the
/// connection. These two run before a reader as long as a reader has precedence. A flood of outputs has no precedence,
/// so the writer then runs like a program: otherwise it would interrupt the flood once for each line.
pub struct Precedences {
    set: Set,
    readers: AtomicUsize,
    /// Only threads with precedence may take this lock.
    writer: Mutex<Option<Pid>>,
}

impl Precedences {
    /// For a guest, whose threads the agent may order.
    pub fn of_guest() -> Self {
        Self::new(Box::new(set_scheduler))
    }

    /// For a shared machine, whose threads the agent must not order.
    pub fn unchanged() -> Self {
        Self::new(Box::new(|_, _| ()))
    }

    fn new(set: Set) -> Self {
        Self {
            set,
            readers: AtomicUsize::new(0),
            writer: Mutex::new(None),
        }
    }

    /// Gives the calling thread the precedence of a reader. [`Precedences::leave_reader`] removes it.
    pub fn enter_reader(&self) {
        (self.set)(gettid(), Precedence::Reader);
        let writer = lock(&self.writer);
        if self.readers.fetch_add(1, Ordering::SeqCst) == 0
            && let Some(writer) = *writer
        {
            (self.set)(writer, Precedence::Holder);
        }
    }

    pub fn leave_reader(&self) {
        let writer = lock(&self.writer);
        if self.readers.fetch_sub(1, Ordering::SeqCst) == 1
            && let Some(writer) = *writer
        {
            (self.set)(writer, Precedence::None);
        }
        drop(writer);
        (self.set)(gettid(), Precedence::None);
    }

    /// Runs work of the thread that writes to the connection.
    pub fn as_writer<T>(&self, work: impl FnOnce() -> T) -> T {
        let change = |to| {
            // Only threads with precedence may take the lock.
            (self.set)(gettid(), Precedence::Holder);
            let mut writer = lock(&self.writer);
            *writer = to;
            if self.readers.load(Ordering::SeqCst) == 0 || to.is_none() {
                (self.set)(gettid(), Precedence::None);
            }
        };
        change(Some(gettid()));
        let result = work();
        change(None);
        result
    }

    /// Runs work that holds a lock of a reader for a moment.
    pub fn as_holder<T>(&self, work: impl FnOnce() -> T) -> T {
        if self.readers.load(Ordering::SeqCst) == 0 {
            return work();
        }
        (self.set)(gettid(), Precedence::Holder);
        let result = work();
        (self.set)(gettid(), Precedence::None);
        result
    }
}

/// Sets the scheduler of a thread. Children of the thread start without precedence. A kernel that refuses changes
/// nothing. It is a raw call, because some C libraries do not make it.
fn set_scheduler(thread: Pid, precedence: Precedence) {
    const RESET_ON_FORK: i32 = 0x4000_0000;
    let policy = match precedence {
        Precedence::None => libc::SCHED_OTHER,
        Precedence::Reader | Precedence::Holder => libc::SCHED_FIFO,
    };
    let priority = precedence as i32;
    // SAFETY: the call reads only the number at this address.
    unsafe {
        libc::syscall(
            libc::SYS_sched_setscheduler,
            thread.as_raw_nonzero().get(),
            policy | RESET_ON_FORK,
            &raw const priority,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;
    use std::sync::{Arc, mpsc};
    use std::thread;

    type Seen = Arc<Mutex<HashMap<Pid, Precedence>>>;

    fn recorded() -> (Arc<Precedences>, Seen) {
        let seen = Seen::default();
        let record = seen.clone();
        let set = move |thread, precedence| {
            lock(&record).insert(thread, precedence);
        };
        (Arc::new(Precedences::new(Box::new(set))), seen)
    }

    /// Starts a writer's thread that runs until the sender is dropped.
    fn start_writer(
        precedences: &Arc<Precedences>,
    ) -> (Pid, mpsc::Sender<()>, thread::JoinHandle<()>) {
        let (started, has_started) = mpsc::channel();
        let (stop, stopped) = mpsc::channel::<()>();
        let precedences = precedences.clone();
        let writer = thread::spawn(move || {
            precedences.as_writer(|| {
                started.send(gettid()).unwrap();
                let _ = stopped.recv();
            });
        });
        (has_started.recv().unwrap(), stop, writer)
    }

    #[test]
    fn the_writer_has_precedence_as_long_as_one_reader_has() {
        let (precedences, seen) = recorded();
        let (writer, stop, thread) = start_writer(&precedences);
        let of_writer = || lock(&seen)[&writer];
        assert_eq!(of_writer(), Precedence::None);
        precedences.enter_reader();
        assert_eq!(of_writer(), Precedence::Holder);
        assert_eq!(lock(&seen)[&gettid()], Precedence::Reader);
        precedences.enter_reader();
        precedences.leave_reader();
        assert_eq!(of_writer(), Precedence::Holder);
        precedences.leave_reader();
        assert_eq!(of_writer(), Precedence::None);
        assert_eq!(lock(&seen)[&gettid()], Precedence::None);
        drop(stop);
        thread.join().unwrap();
    }

    #[test]
    fn the_thread_of_a_writer_that_ended_is_left_unchanged() {
        let (precedences, seen) = recorded();
        precedences.enter_reader();
        let (writer, stop, thread) = start_writer(&precedences);
        assert_eq!(lock(&seen)[&writer], Precedence::Holder);
        drop(stop);
        thread.join().unwrap();
        assert_eq!(lock(&seen)[&writer], Precedence::None);
        precedences.leave_reader();
        lock(&seen).remove(&writer);
        precedences.enter_reader();
        assert_eq!(lock(&seen).get(&writer), None);
    }

    #[test]
    fn a_holder_has_precedence_for_its_work_if_a_reader_has() {
        let (precedences, seen) = recorded();
        let of_holder = || lock(&seen).get(&gettid()).copied();
        assert_eq!(precedences.as_holder(of_holder), None);
        let (entered, has_entered) = mpsc::channel();
        let (stop, stopped) = mpsc::channel::<()>();
        let reader = {
            let precedences = precedences.clone();
            thread::spawn(move || {
                precedences.enter_reader();
                entered.send(()).unwrap();
                let _ = stopped.recv();
                precedences.leave_reader();
            })
        };
        has_entered.recv().unwrap();
        assert_eq!(precedences.as_holder(of_holder), Some(Precedence::Holder));
        assert_eq!(of_holder(), Some(Precedence::None));
        drop(stop);
        reader.join().unwrap();
    }
}
