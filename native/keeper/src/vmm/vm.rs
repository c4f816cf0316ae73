//! A running VM whose control the keeper watches.

use std::io;
use std::process::ExitStatus;
use std::rc::Rc;

use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::disk::Disk;
use crate::guest::clock::GuestClock;
use crate::vmm::full_disk;
use crate::vmm::interface::RunningVm;

pub struct Vm {
    running: Rc<dyn RunningVm>,
    control: JoinHandle<()>,
    /// A message of the VMM that violates the protocol of its control.
    broken: watch::Receiver<Option<String>>,
}

impl Vm {
    /// Watches the control of a VM from here on.
    pub fn watch(running: Rc<dyn RunningVm>, disk: &Rc<Disk>, clock: &Rc<GuestClock>) -> Self {
        let (said_wrong, broken) = watch::channel(None);
        let (vm, disk, clock) = (running.clone(), disk.clone(), clock.clone());
        let control = tokio::task::spawn_local(async move {
            let violation = full_disk::watch(&*vm, &disk, &clock).await;
            said_wrong.send_replace(Some(violation.to_string()));
        });
        Self {
            running,
            control,
            broken,
        }
    }

    /// Returns the reason once the VMM's control cannot be trusted any longer.
    pub fn broken_control(&self) -> impl Future<Output = String> + use<> {
        let mut broken = self.broken.clone();
        async move {
            match broken.wait_for(Option::is_some).await.as_deref() {
                Ok(Some(why)) => why.clone(),
                _ => std::future::pending().await,
            }
        }
    }

    pub async fn exited(&self) -> io::Result<ExitStatus> {
        self.running.exited().await
    }

    pub async fn kill(self) -> io::Result<ExitStatus> {
        // Otherwise the task would count the VM, as long as it lives, as waiting for room.
        self.control.abort();
        self.running.kill().await
    }
}
