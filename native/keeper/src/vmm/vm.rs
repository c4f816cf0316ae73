//! A VM as its keeper has it: running, with its control watched.

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
    /// What the VMM said over its control that is not its protocol.
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

    /// Returns why the VMM cannot be trusted with its control any more; never for one that can.
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
        // It counts the VM as one that waits for room, for as long as it lives.
        self.control.abort();
        self.running.kill().await
    }
}
