//! The thread of the devices: kicks of queues, the guest port, the console.

use std::io;
use std::os::fd::AsRawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use vmm_sys_util::eventfd::EventFd;

use crate::console::{Console, DELAY};
use crate::ended::{Ended, host_failed};
use crate::filters::{self, Filters};
use crate::mailbox::Mailbox;
use crate::poll::Poll;
use crate::vcpu::Machine;
use crate::virtio::Progress;

const STACK_BYTES: usize = 512 << 10;

/// A request of the control to the thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Command {
    Pause,
    Resume,
    Stop,
}

/// A message of the thread to the control.
#[derive(Debug, PartialEq, Eq)]
pub enum DeviceEvent {
    /// The disk with this serial number found no room on the host. The thread is paused.
    NoRoom(String),
    Ended(Ended),
}

/// The thread of the devices.
pub struct DeviceThread {
    commands: Arc<Commands>,
    thread: Option<JoinHandle<()>>,
}

/// The commands, and the number of those that were carried out.
struct Commands {
    mailbox: Mailbox<Command>,
    done: Mutex<u64>,
    changed: Condvar,
}

impl Commands {
    fn done(&self) -> MutexGuard<'_, u64> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DeviceThread {
    /// Starts the thread. It is paused until [`Self::resume`].
    pub fn start(
        machine: Arc<Machine>,
        console: Arc<Console>,
        filters: Filters,
        tell: impl Fn(DeviceEvent) + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let commands = Arc::new(Commands {
            mailbox: Mailbox::new()?,
            done: Mutex::new(0),
            changed: Condvar::new(),
        });
        let work = Work {
            pending: vec![Vec::new(); machine.bus.slots().len()],
            machine,
            console,
            commands: commands.clone(),
            tell: Arc::new(tell),
            paused: true,
            console_due: None,
            console_blocked: false,
            poll: Poll::default(),
        };
        let thread = std::thread::Builder::new()
            .name("devices".into())
            .stack_size(STACK_BYTES)
            .spawn(move || {
                let tell = work.tell.clone();
                if let Err(end) = filters::install(filters.devices) {
                    return tell(DeviceEvent::Ended(end));
                }
                if catch_unwind(AssertUnwindSafe(|| work.run())).is_err() {
                    let end = host_failed("the thread of the devices", "it panicked");
                    tell(DeviceEvent::Ended(end));
                }
            })?;
        Ok(Self {
            commands,
            thread: Some(thread),
        })
    }

    /// Returns once no device does anything.
    pub fn pause(&self) {
        self.command(Command::Pause);
    }

    /// Lets the devices continue, first with a write that found no room.
    pub fn resume(&self) {
        self.command(Command::Resume);
    }

    fn command(&self, command: Command) {
        let mut done = self.commands.done();
        let mark = *done;
        self.commands.mailbox.send(command);
        while *done == mark && self.thread.as_ref().is_some_and(|t| !t.is_finished()) {
            let wait = self
                .commands
                .changed
                .wait_timeout(done, std::time::Duration::from_millis(100));
            done = wait.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Ends the thread; the console and the guest port get what they take at once.
    pub fn stop(&mut self) {
        self.commands.mailbox.send(Command::Stop);
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has written this to standard error.
            let _ = thread.join();
        }
    }
}

impl Drop for DeviceThread {
    fn drop(&mut self) {
        self.stop();
    }
}

struct Work {
    machine: Arc<Machine>,
    console: Arc<Console>,
    commands: Arc<Commands>,
    tell: Arc<dyn Fn(DeviceEvent) + Send + Sync>,
    paused: bool,
    /// For each device, the queues that have more to do.
    pending: Vec<Vec<usize>>,
    /// When the bytes of the console are written.
    console_due: Option<Instant>,
    console_blocked: bool,
    poll: Poll,
}

/// A descriptor that the thread waits for.
#[derive(Clone, Copy)]
enum Waiting {
    Kick(usize, usize),
    Source(usize),
}

impl Work {
    fn run(mut self) {
        while self.carry_out_commands() {
            if let Err(error) = self.turn() {
                let end = host_failed("the thread of the devices", error);
                (self.tell)(DeviceEvent::Ended(end));
                break;
            }
        }
        for slot in self.machine.bus.slots() {
            slot.transport().finish();
        }
        self.console.flush();
    }

    /// Returns false after a stop.
    fn carry_out_commands(&mut self) -> bool {
        while let Some(command) = self.commands.mailbox.take() {
            match command {
                Command::Pause => self.paused = true,
                Command::Resume => self.paused = false,
                Command::Stop => return false,
            }
            *self.commands.done() += 1;
            self.commands.changed.notify_all();
        }
        true
    }

    /// Waits for something to do, and does it.
    fn turn(&mut self) -> io::Result<()> {
        self.poll.clear();
        self.poll
            .add(self.commands.mailbox.wake().as_raw_fd(), libc::POLLIN);
        let console = self.poll.add(self.console.wake().as_raw_fd(), libc::POLLIN);
        let waiting = if self.paused {
            Vec::new()
        } else {
            self.add_devices()
        };
        let now = Instant::now();
        let has_work = !self.paused && self.pending.iter().any(|queues| !queues.is_empty());
        let limit = if has_work {
            Some(std::time::Duration::ZERO)
        } else {
            self.console_due
                .map(|due| due.saturating_duration_since(now))
        };
        self.poll.wait(limit)?;
        if self.poll.events(console) != 0 {
            drain(self.console.wake());
            if self.console_due.is_none() {
                self.console_due = Some(Instant::now() + DELAY);
            }
        }
        self.write_console();
        if !self.paused {
            self.serve(&waiting);
        }
        Ok(())
    }

    fn add_devices(&mut self) -> Vec<(usize, Waiting)> {
        let mut waiting = Vec::new();
        for (at, slot) in self.machine.bus.slots().iter().enumerate() {
            for (queue, kick) in slot.kicks().iter().enumerate() {
                let place = self.poll.add(kick.as_raw_fd(), libc::POLLIN);
                waiting.push((place, Waiting::Kick(at, queue)));
            }
            if let Some(source) = slot.transport().source() {
                let place = self.poll.add(source.fd, source.events);
                waiting.push((place, Waiting::Source(at)));
            }
        }
        waiting
    }

    /// Handles what is ready, then one turn of each queue that has more to do.
    fn serve(&mut self, waiting: &[(usize, Waiting)]) {
        let machine = self.machine.clone();
        let slots = machine.bus.slots();
        for (place, what) in waiting {
            let events = self.poll.events(*place);
            if events == 0 {
                continue;
            }
            match *what {
                Waiting::Kick(at, queue) => {
                    slots[at].take_kicks(queue);
                    if !self.pending[at].contains(&queue) {
                        self.pending[at].push(queue);
                    }
                }
                Waiting::Source(at) => {
                    let progress = slots[at].transport().source_ready(events);
                    // A device with a source has its data for the guest in its first queue.
                    if progress == Progress::More && !self.pending[at].contains(&0) {
                        self.pending[at].push(0);
                    }
                }
            }
        }
        for (at, slot) in slots.iter().enumerate() {
            for queue in std::mem::take(&mut self.pending[at]) {
                let progress = if self.paused {
                    Progress::More
                } else {
                    slot.transport().process(queue)
                };
                match progress {
                    Progress::Idle => continue,
                    Progress::More => {}
                    Progress::NoRoom => {
                        self.paused = true;
                        let name = slot.transport().name().to_owned();
                        (self.tell)(DeviceEvent::NoRoom(name));
                    }
                }
                self.pending[at].push(queue);
            }
        }
    }

    /// Writes what the console has, once it is due. A reader that does not read is tried again after a while.
    fn write_console(&mut self) {
        let now = Instant::now();
        if self.console_due.is_some_and(|due| due <= now) {
            self.console_blocked = self.console.flush();
            self.console_due = self.console_blocked.then(|| now + DELAY);
        }
    }
}

fn drain(event: &EventFd) {
    // It is readable, or another wait has read it.
    let _ = event.read();
}
