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
    control: Option<JoinHandle<()>>,
    /// A message of the VMM that violates the protocol of its control.
    broken: watch::Receiver<Option<String>>,
    said_wrong: Option<watch::Sender<Option<String>>>,
}

impl Vm {
    pub fn new(running: Rc<dyn RunningVm>) -> Self {
        let (said_wrong, broken) = watch::channel(None);
        Self {
            running,
            control: None,
            broken,
            said_wrong: Some(said_wrong),
        }
    }

    /// Watches the control of the VM from here on. Only the first call has an effect.
    pub fn watch(&mut self, disk: &Rc<Disk>, clock: &Rc<GuestClock>) {
        let Some(said_wrong) = self.said_wrong.take() else {
            return;
        };
        let (vm, disk, clock) = (self.running.clone(), disk.clone(), clock.clone());
        self.control = Some(tokio::task::spawn_local(async move {
            let violation = full_disk::watch(&*vm, &disk, &clock).await;
            said_wrong.send_replace(Some(violation.to_string()));
        }));
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
        if let Some(control) = self.control {
            control.abort();
        }
        self.running.kill().await
    }
}
