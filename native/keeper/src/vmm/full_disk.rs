//! Pauses and resumes a VM depending on the room on the host's disk. A VMM pauses a VM whose disk image finds no room
//! on the host, and this module resumes it. It also pauses a VM that has not found the disk full yet.

use std::convert::Infallible;
use std::rc::Rc;

use tokio::sync::{mpsc, oneshot};

use crate::disk::{Disk, Waiting};
use crate::guest::clock::GuestClock;
use crate::vmm::interface::{Control, FullSave, RunningVm, Said, Violation};

/// Resumes a VM that was paused for lack of room, once there is some. Returns a violation of the control's protocol;
/// other tasks notice the VMM's end.
pub async fn watch(
    vm: &dyn RunningVm,
    disk: &Rc<Disk>,
    clock: &GuestClock,
    orders: mpsc::Receiver<SaveOrder>,
) -> Violation {
    match serve(vm, disk, clock, orders).await {
        Err(violation) => violation,
        Ok(never) => match never {},
    }
}

/// A full save that another task asks for.
pub struct SaveOrder {
    pub save: FullSave,
    /// Gets the id of the state while the VM is paused, or why the save failed.
    pub paused: oneshot::Sender<Result<String, String>>,
    /// The VM continues once this has a value or no sender.
    pub go_on: oneshot::Receiver<()>,
}

async fn serve(
    vm: &dyn RunningVm,
    disk: &Rc<Disk>,
    clock: &GuestClock,
    mut orders: mpsc::Receiver<SaveOrder>,
) -> Result<Infallible, Violation> {
    let mut control = vm.control().await?;
    let mut stopped: Option<Waiting> = None;
    loop {
        tokio::select! {
            said = control.said() => match said? {
                Said::NoRoom => {
                    stopped.get_or_insert_with(|| disk.wait_begins());
                    clock.doubt();
                }
                Said::Resumed => {
                    stopped = None;
                    clock.doubt();
                }
                Said::Refused(why) => eprintln!("the VMM does not continue: {why}"),
                Said::Ended => {
                    drop(stopped.take());
                    return std::future::pending().await;
                }
            },
            Some(order) = orders.recv() => carry_out(order, &mut *control, stopped.is_some(), clock).await,
            // If the disk is still full, the VMM reports it again, and is resumed again after the next check.
            () = disk.room(), if stopped.is_some() => control.resume().await,
            () = disk.runs_low(|| clock.check_host()), if stopped.is_none() => {
                stopped = Some(disk.wait_begins());
                // This precedes the resume: a command that starts after it must wait for the clock check.
                clock.doubt();
                control.pause().await;
            }
        }
    }
}

/// Saves the VM, and lets it run again unless it waits for room.
async fn carry_out(
    order: SaveOrder,
    control: &mut dyn Control,
    waits_for_room: bool,
    clock: &GuestClock,
) {
    let SaveOrder {
        save,
        paused,
        go_on,
    } = order;
    if waits_for_room {
        let _ = paused.send(Err("the disk of the host is full".into()));
        return;
    }
    // This precedes the pause: a command that starts after it must wait for the clock check.
    clock.doubt();
    let saved = control.save_full(&save).await;
    if paused.send(saved).is_ok() {
        let _ = go_on.await;
    }
    clock.doubt();
    control.resume().await;
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::io;
    use std::process::ExitStatus;
    use std::time::Duration;

    use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

    use super::*;
    use crate::vmm::interface::{SavedPages, Work};
    use crate::vmm::usage::Usage;

    const MIB: u64 = 1 << 20;

    /// A VM without a process: the test scripts its VMM's messages, and sees the keeper's requests.
    struct ScriptedVm(RefCell<Option<ScriptedControl>>);

    struct ScriptedControl {
        says: UnboundedReceiver<Said>,
        asked: UnboundedSender<&'static str>,
    }

    impl RunningVm for ScriptedVm {
        fn pid(&self) -> u32 {
            std::process::id()
        }

        fn control(&self) -> Work<'_, Result<Box<dyn Control>, Violation>> {
            let control = self.0.take();
            Box::pin(async {
                match control {
                    Some(control) => Ok(Box::new(control) as Box<dyn Control>),
                    None => Err(Violation("it has no control".into())),
                }
            })
        }

        fn usage(&self) -> Usage {
            Usage::default()
        }

        fn resident_bytes(&self) -> u64 {
            0
        }

        fn exited(&self) -> Work<'_, io::Result<ExitStatus>> {
            Box::pin(std::future::pending())
        }

        fn kill(&self) -> Work<'_, io::Result<ExitStatus>> {
            Box::pin(async { Ok(ExitStatus::default()) })
        }
    }

    impl Control for ScriptedControl {
        fn said(&mut self) -> Work<'_, Result<Said, Violation>> {
            Box::pin(async { Ok(self.says.recv().await.unwrap_or(Said::Ended)) })
        }

        fn pause(&mut self) -> Work<'_, ()> {
            let _ = self.asked.send("pause");
            Box::pin(std::future::ready(()))
        }

        fn resume(&mut self) -> Work<'_, ()> {
            let _ = self.asked.send("resume");
            Box::pin(std::future::ready(()))
        }

        fn save_full<'a>(&'a mut self, _: &'a FullSave) -> Work<'a, Result<String, String>> {
            let _ = self.asked.send("save");
            Box::pin(std::future::ready(Ok("7".into())))
        }
    }

    fn order(
        paused: oneshot::Sender<Result<String, String>>,
        go_on: oneshot::Receiver<()>,
    ) -> SaveOrder {
        let file = || tempfile::tempfile().unwrap();
        let save = FullSave {
            state: file(),
            memory: file(),
            pages: SavedPages::All,
        };
        SaveOrder {
            save,
            paused,
            go_on,
        }
    }

    /// The messages of the VMM, the keeper's requests to it, and the disk.
    struct Vmm {
        says: UnboundedSender<Said>,
        asked: UnboundedReceiver<&'static str>,
        disk: Rc<Disk>,
        orders: mpsc::Sender<SaveOrder>,
    }

    fn with_vmm(test: impl AsyncFnOnce(Vmm)) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let local = tokio::task::LocalSet::new();
        runtime.block_on(local.run_until(async {
            let (says, heard) = unbounded_channel();
            let (asks, asked) = unbounded_channel();
            let control = ScriptedControl {
                says: heard,
                asked: asks,
            };
            let vm = ScriptedVm(RefCell::new(Some(control)));
            let disk = Disk::new("/", Duration::from_secs(60));
            let (orders, ordered) = mpsc::channel(1);
            let watched = tokio::task::spawn_local({
                let disk = disk.clone();
                async move { watch(&vm, &disk, &GuestClock::new(), ordered).await }
            });
            let work = test(Vmm {
                says,
                asked,
                disk,
                orders,
            });
            let done = tokio::time::timeout(Duration::from_secs(20), work).await;
            done.expect("the VMM is answered in time");
            watched.abort();
        }));
    }

    impl Vmm {
        fn say(&self, said: Said) {
            self.says.send(said).unwrap();
        }

        async fn asked(&mut self) -> &'static str {
            self.asked.recv().await.unwrap()
        }

        async fn goes_on(&self) {
            while self.disk.report().is_some() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
    }

    #[test]
    fn a_vm_that_stopped_for_want_of_room_is_let_go_on_until_it_does() {
        with_vmm(async |mut vmm| {
            vmm.say(Said::NoRoom);
            assert_eq!(vmm.asked().await, "resume");
            assert!(vmm.disk.report().is_some(), "it has not gone on yet");
            vmm.say(Said::Refused("not yet".into()));
            assert_eq!(vmm.asked().await, "resume");
            // A VM that fills the disk again is paused again.
            vmm.say(Said::NoRoom);
            assert_eq!(vmm.asked().await, "resume");
            assert!(vmm.disk.report().is_some());
            vmm.say(Said::Resumed);
            vmm.goes_on().await;
        });
    }

    #[test]
    fn a_vm_is_stopped_before_it_eats_what_is_left_for_messages() {
        with_vmm(async |mut vmm| {
            vmm.disk.pretended.set(Some((7 * MIB, 100_000 * MIB)));
            assert_eq!(vmm.asked().await, "pause");
            assert!(vmm.disk.report().is_some());
            // The space that the ballast frees is too little to resume a VM.
            vmm.disk.pretended.set(Some((15 * MIB, 100_000 * MIB)));
            tokio::time::sleep(Duration::from_millis(1200)).await;
            assert!(vmm.asked.is_empty());
            vmm.disk.pretended.set(Some((16 * MIB, 100_000 * MIB)));
            assert_eq!(vmm.asked().await, "resume");
            vmm.say(Said::Resumed);
            vmm.goes_on().await;
        });
    }

    #[test]
    fn a_vm_whose_vmm_has_ended_waits_for_no_room() {
        with_vmm(async |mut vmm| {
            vmm.say(Said::NoRoom);
            assert_eq!(vmm.asked().await, "resume");
            vmm.say(Said::Ended);
            vmm.goes_on().await;
        });
    }

    #[test]
    fn a_saved_vm_runs_again_once_its_keeper_lets_it() {
        with_vmm(async |mut vmm| {
            for keeps_waiting in [true, false] {
                let (paused, saved) = oneshot::channel();
                let (go_on, waits) = oneshot::channel();
                vmm.orders.send(order(paused, waits)).await.unwrap();
                assert_eq!(vmm.asked().await, "save");
                match keeps_waiting {
                    true => {
                        assert_eq!(saved.await.unwrap().unwrap(), "7");
                        tokio::time::sleep(Duration::from_millis(30)).await;
                        assert!(vmm.asked.is_empty(), "the VM runs while its disk is copied");
                        go_on.send(()).unwrap();
                    }
                    // The client of the save has disconnected.
                    false => drop((saved, go_on)),
                }
                assert_eq!(vmm.asked().await, "resume");
            }
        });
    }

    #[test]
    fn a_vm_that_waits_for_room_is_not_saved() {
        with_vmm(async |mut vmm| {
            vmm.disk.pretended.set(Some((7 * MIB, 100_000 * MIB)));
            assert_eq!(vmm.asked().await, "pause");
            let (paused, saved) = oneshot::channel();
            let (_go_on, waits) = oneshot::channel();
            vmm.orders.send(order(paused, waits)).await.unwrap();
            let why = saved.await.unwrap().unwrap_err();
            assert!(why.contains("disk of the host is full"), "{why}");
            assert!(vmm.asked.is_empty());
        });
    }

    #[test]
    fn a_control_that_is_broken_is_a_violation() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let disk = Disk::new("/", Duration::from_secs(60));
        let vm = ScriptedVm(RefCell::new(None));
        let clock = GuestClock::new();
        let violation = runtime.block_on(watch(&vm, &disk, &clock, mpsc::channel(1).1));
        assert_eq!(violation.to_string(), "it has no control");
    }
}
