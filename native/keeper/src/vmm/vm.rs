//! A running VM whose control the keeper watches.

use std::io;
use std::process::ExitStatus;
use std::rc::Rc;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

use crate::disk::Disk;
use crate::guest::clock::GuestClock;
use crate::vmm::full_disk::{self, SaveOrder};
use crate::vmm::interface::{FullSave, RunningVm};

pub struct Vm {
    running: Rc<dyn RunningVm>,
    control: Option<JoinHandle<()>>,
    /// A message of the VMM that violates the protocol of its control.
    broken: watch::Receiver<Option<String>>,
    said_wrong: Option<watch::Sender<Option<String>>>,
    /// Orders for the task that watches the control.
    orders: Option<mpsc::Sender<SaveOrder>>,
}

/// A VM that is paused after its save. It runs again once this is dropped.
#[derive(Debug)]
pub struct PausedVm {
    /// The id of the saved state.
    pub id: String,
    _go_on: oneshot::Sender<()>,
}

impl Vm {
    pub fn new(running: Rc<dyn RunningVm>) -> Self {
        let (said_wrong, broken) = watch::channel(None);
        Self {
            running,
            control: None,
            broken,
            said_wrong: Some(said_wrong),
            orders: None,
        }
    }

    /// Watches the control of the VM from here on. Only the first call has an effect.
    pub fn watch(&mut self, disk: &Rc<Disk>, clock: &Rc<GuestClock>) {
        let Some(said_wrong) = self.said_wrong.take() else {
            return;
        };
        let (vm, disk, clock) = (self.running.clone(), disk.clone(), clock.clone());
        let (orders, ordered) = mpsc::channel(1);
        self.orders = Some(orders);
        self.control = Some(tokio::task::spawn_local(async move {
            let violation = full_disk::watch(&*vm, &disk, &clock, ordered).await;
            said_wrong.send_replace(Some(violation.to_string()));
        }));
    }

    /// Pauses a watched VM and saves it with its memory. The error is the reason why there is no save; the VM then runs.
    pub async fn save_full(&self, save: FullSave) -> Result<PausedVm, String> {
        let gone = |_| "the control of the VMM is not watched".to_owned();
        let orders = self.orders.as_ref().ok_or(()).map_err(gone)?;
        let (paused, saved) = oneshot::channel();
        let (go_on, waits) = oneshot::channel();
        let order = SaveOrder {
            save,
            paused,
            go_on: waits,
        };
        orders.send(order).await.map_err(|_| gone(()))?;
        let id = saved.await.map_err(|_| gone(()))??;
        Ok(PausedVm { id, _go_on: go_on })
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
