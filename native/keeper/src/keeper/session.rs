//! The time in which a VM has a guest that answers: from its boot to the VM's own end, with its full saves.

use std::process::ExitStatus;
use std::rc::Rc;
use std::time::Duration;

use tokio::time::timeout;

use super::end::End;
use super::save_queue::SaveInFull;
use super::{Keeper, Phase};
use crate::error::{Code, Failure};
use crate::guest::handshake::Session;
use crate::guest::link::{Acceptor, Link, REASON_LIMIT};
use crate::guest::patience::Patience;
use crate::guest::pulse;
use crate::vmm::{EndKind, Vm};

/// Why the watch of a guest is over.
enum Watched {
    Lost(Failure),
    Asked(SaveInFull),
}

impl Keeper {
    /// Returns when the VM ends on its own.
    pub(super) async fn boot_and_watch(&self, slot: &mut Option<Vm>) -> End {
        let session = match self.boot(slot).await {
            Ok(session) => session,
            Err(end) => return end,
        };
        let vm = slot.as_ref().expect("a session has a VM");
        let mut link = self.open_link(session);
        loop {
            self.phase.send_replace(Phase::Ready(link.clone()));
            let order = match self.watch(&link, vm).await {
                Watched::Lost(failure) => return self.lose(&link, vm, failure).await,
                Watched::Asked(order) => order,
            };
            self.phase.send_replace(Phase::Booting);
            match self.save_in_full(order, &link, vm).await {
                Ok(None) => {}
                Ok(Some(session)) => link = self.open_link(session),
                Err(end) => return end,
            }
            // The check of the clock that the save has interrupted has to be made again.
            self.clock.doubt();
        }
    }

    fn open_link(&self, session: Session) -> Rc<Link> {
        let silence = Duration::from_millis(self.config.guest_silence_ms);
        let acceptor = self
            .door
            .clone()
            .map(|door| Box::new(door) as Box<dyn Acceptor>);
        Link::start(session, Patience::new(silence), acceptor)
    }

    async fn watch(&self, link: &Rc<Link>, vm: &Vm) -> Watched {
        Watched::Lost(tokio::select! {
            // A VMM whose control is closed for its violation ends quickly. Both are ready then, and the violation is the
            // reason.
            biased;
            failure = self.broken_control(vm) => failure,
            failure = link.ended() => failure,
            order = self.full_saves.next() => return Watched::Asked(order),
            () = self.disk.stand_still(|| link.patience.pause()) => unreachable!("it lasts as long as the VM"),
            never = pulse::watch(link, &self.clock, || self.runs_a_command()) => never,
            never = self.clock.keep_right(link) => never,
            _ = vm.exited() => Failure::new(Code::VmLost, "the VMM ended"),
        })
    }

    /// Returns once the VMM has violated the protocol of its control.
    pub(super) async fn broken_control(&self, vm: &Vm) -> Failure {
        let why = vm.broken_control().await;
        let message = format!("the VMM broke the protocol of its control: {why}");
        Failure::new(Code::VmProtocol, message)
    }

    async fn lose(&self, link: &Link, vm: &Vm, failure: Failure) -> End {
        // A closed port and the VMM's end come together, in either order; the more precise one is reported, also to the
        // requests that wait.
        let failure = match failure.code {
            Code::VmLost => match timeout(REASON_LIMIT / 2, vm.exited()).await {
                Ok(Ok(status)) => self.describe_loss(status),
                _ => failure,
            },
            _ => failure,
        };
        link.end(failure.clone());
        End::of_guest(failure)
    }

    /// Describes the end of a VMM that the keeper did not request.
    pub(super) fn describe_loss(&self, status: ExitStatus) -> Failure {
        let code = match self.running_vm().and_then(|vm| vm.end()) {
            Some(end) if end.kind == EndKind::DeviceFailed => Code::VmProtocol,
            _ => Code::VmLost,
        };
        Failure::new(
            code,
            format!("the VM ended on its own ({status}): {}", self.last_words()),
        )
    }
}
