//! The threads of the virtual CPUs, all of which run, pause and end together.

use std::io;
use std::os::unix::thread::JoinHandleExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread::JoinHandle;

use kvm_ioctls::VcpuFd;
use vmm_sys_util::signal::{SIGRTMIN, register_signal_handler};

use super::exits::{Machine, Next, step};
use super::gate::{Gate, Passage, Wanted};
use crate::ended::{Ended, host_failed};
use crate::filters::{self, Filters};

/// A thread of a CPU needs little: its handlers keep nothing on the stack.
const STACK_BYTES: usize = 256 << 10;

/// All virtual CPUs of a VM.
pub struct Team {
    gate: Arc<Gate>,
    members: Vec<Member>,
}

struct Member {
    kick: Kick,
    thread: Option<JoinHandle<VcpuFd>>,
}

/// The byte that lets the next call of `KVM_RUN` return at once.
struct Kick(*mut u8);

// SAFETY: the byte is only used as an atomic one.
unsafe impl Send for Kick {}

impl Kick {
    fn of(vcpu: &mut VcpuFd) -> Self {
        Self(&raw mut vcpu.get_kvm_run().immediate_exit)
    }

    fn set(&self, value: u8) {
        // SAFETY: the page of the CPU stays mapped: its owner is in the thread, which gives it back when it is joined. KVM reads the byte, and everybody here writes it as an atomic one.
        unsafe { AtomicU8::from_ptr(self.0) }.store(value, Ordering::SeqCst);
    }
}

/// Signals interrupt `KVM_RUN`; they need a handler, which has nothing to do.
extern "C" fn interrupt(_: libc::c_int, _: *mut libc::siginfo_t, _: *mut libc::c_void) {}

impl Team {
    /// Starts the threads. The CPUs wait until [`Self::resume`]. `ended` is called with the reason of each CPU that ends.
    pub fn start(
        vcpus: Vec<VcpuFd>,
        machine: &Arc<Machine>,
        filters: Filters,
        ended: impl Fn(Ended) + Clone + Send + 'static,
    ) -> io::Result<Self> {
        register_signal_handler(SIGRTMIN(), interrupt)
            .map_err(|e| io::Error::from_raw_os_error(e.errno()))?;
        let gate = Arc::new(Gate::new(vcpus.len()));
        let mut team = Self {
            gate: gate.clone(),
            members: Vec::new(),
        };
        for (id, mut vcpu) in vcpus.into_iter().enumerate() {
            let kick = Kick::of(&mut vcpu);
            let (gate, machine, ended) = (gate.clone(), machine.clone(), ended.clone());
            let thread = std::thread::Builder::new()
                .name(format!("vcpu{id}"))
                .stack_size(STACK_BYTES)
                .spawn(move || {
                    // A panic must not unmap the page to which `kick` points, and is an end like others.
                    let work = AssertUnwindSafe(|| match filters::install(filters.vcpu) {
                        Ok(()) => run(&mut vcpu, &gate, &machine),
                        Err(end) => Some(end),
                    });
                    let reason = catch_unwind(work).unwrap_or_else(|_| {
                        Some(host_failed("the thread of a CPU", "it panicked"))
                    });
                    if let Some(reason) = reason {
                        ended(reason);
                        gate.leave();
                    }
                    vcpu
                })?;
            team.members.push(Member {
                kick,
                thread: Some(thread),
            });
        }
        Ok(team)
    }

    /// Returns once each CPU waits for [`Self::resume`] in its thread and filter, or has ended.
    pub fn wait_until_ready(&self) {
        self.gate.wait_until_none_runs();
    }

    /// Lets the CPUs run.
    pub fn resume(&self) {
        self.gate.want(Wanted::Run);
    }

    /// Returns once no CPU runs.
    pub fn pause(&self) {
        self.gate.want(Wanted::Pause);
        self.kick();
        self.gate.wait_until_none_runs();
    }

    fn kick(&self) {
        for member in &self.members {
            if let Some(thread) = &member.thread {
                member.kick.set(1);
                // SAFETY: the thread is not joined yet, so its id is valid.
                unsafe { libc::pthread_kill(thread.as_pthread_t() as libc::pthread_t, SIGRTMIN()) };
            }
        }
    }

    /// Ends the CPUs.
    pub fn stop(&mut self) {
        self.gate.want(Wanted::Stop);
        self.kick();
        for member in &mut self.members {
            if let Some(thread) = member.thread.take() {
                // A thread that panicked has written this to standard error.
                let _ = thread.join();
            }
        }
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Runs a CPU. Returns the reason if the guest ends it, and nothing after a stop.
fn run(vcpu: &mut VcpuFd, gate: &Gate, machine: &Machine) -> Option<Ended> {
    let kick = Kick::of(vcpu);
    let mut has_run = false;
    loop {
        // A kick before this is for a wish that the gate already knows.
        kick.set(0);
        if gate.wanted() != Wanted::Run {
            if has_run && let Some(reason) = settle(vcpu, &kick, machine) {
                return Some(reason);
            }
            match gate.pass() {
                Passage::Open => {}
                Passage::Waited => {
                    // Its watchdogs must not take a pause for a hang. A guest without KVM's clock has no place for this.
                    let _ = vcpu.kvmclock_ctrl();
                }
                Passage::Closed => return None,
            }
            continue;
        }
        has_run = true;
        if let Next::End(reason) = step(vcpu, machine) {
            return Some(reason);
        }
    }
}

/// Completes the access of the last exit. KVM finishes such an instruction only at the next run, and until then the
/// registers are those before it: a copy would read or write the device a second time.
fn settle(vcpu: &mut VcpuFd, kick: &Kick, machine: &Machine) -> Option<Ended> {
    kick.set(1);
    loop {
        match step(vcpu, machine) {
            Next::Interrupted => return None,
            // The instruction has more accesses, as `rep outsb` has.
            Next::Continue => {}
            Next::End(reason) => return Some(reason),
        }
    }
}
