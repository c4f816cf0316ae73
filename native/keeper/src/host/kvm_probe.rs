//! Distinguishes hardware KVM from an emulation of it, on which no real guest boots: a few thousand ring-0 instructions
//! take microseconds on hardware and tens of milliseconds on an emulation.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;
use std::time::{Duration, Instant};

use serde::Serialize;

/// The kind of `/dev/kvm` that this process can use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum KvmKind {
    Hardware,
    Emulated,
    None,
    NoPermission,
}

const KVM_CREATE_VM: u64 = 0xAE01;
const KVM_GET_VCPU_MMAP_SIZE: u64 = 0xAE04;
const KVM_CREATE_VCPU: u64 = 0xAE41;
const KVM_RUN: u64 = 0xAE80;
const KVM_SET_REGS: u64 = 0x4090_AE82;
const KVM_GET_SREGS: u64 = 0x8138_AE83;
const KVM_SET_SREGS: u64 = 0x4138_AE84;
const KVM_SET_USER_MEMORY_REGION: u64 = 0x4020_AE46;
const KVM_EXIT_HLT: u32 = 5;

const GUEST_CODE_ADDRESS: u64 = 0x1000;
const PAGE_BYTES: usize = 4096;
/// `mov cx, 20000; again: dec cx; jnz again; hlt` in real mode, which is ring 0.
const GUEST_CODE: [u8; 7] = [0xB9, 0x20, 0x4E, 0x49, 0x75, 0xFD, 0xF4];
/// 40,000 instructions: hardware needs well under 1 ms, and KVM in an emulated machine 1 to 2 ms. Measured emulators
/// needed 12 to 80 ms. A busy machine can delay all rounds, so the limit has some room.
const HARDWARE_LIMIT: Duration = Duration::from_millis(6);
/// The quickest of these rounds counts, because a busy host may delay any of them.
const ROUNDS: u32 = 6;

#[repr(C)]
struct MemoryRegion {
    slot: u32,
    flags: u32,
    guest_address: u64,
    bytes: u64,
    host_address: u64,
}

/// `struct kvm_regs`: sixteen registers, rip, rflags.
#[repr(C)]
struct Registers([u64; 18]);

/// `struct kvm_sregs`, in which only the code segment's base and selector are set.
#[repr(C, align(8))]
struct SpecialRegisters([u8; 312]);

/// Probes `/dev/kvm`. An error concerns this process (no free descriptors); it never means "no KVM".
pub fn probe_kvm() -> io::Result<KvmKind> {
    let device = match OpenOptions::new().read(true).write(true).open("/dev/kvm") {
        Ok(device) => device,
        Err(error) => {
            return match error.raw_os_error() {
                Some(libc::ENOENT | libc::ENODEV | libc::ENXIO) => Ok(KvmKind::None),
                Some(libc::EACCES | libc::EPERM) => Ok(KvmKind::NoPermission),
                _ => Err(error),
            };
        }
    };
    // A device that cannot run seven bytes of code is not hardware KVM, whatever it answers.
    match time_guest(&device) {
        Ok(Some(elapsed)) if elapsed < HARDWARE_LIMIT => Ok(KvmKind::Hardware),
        Ok(_) => Ok(KvmKind::Emulated),
        Err(error)
            if matches!(
                error.raw_os_error(),
                Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM)
            ) =>
        {
            Err(error)
        }
        Err(_) => Ok(KvmKind::Emulated),
    }
}

/// A page-aligned anonymous or shared mapping that ends with its owner.
struct Mapping {
    address: *mut u8,
    bytes: usize,
}

impl Mapping {
    fn new(bytes: usize, fd: Option<&OwnedFd>) -> io::Result<Self> {
        let (flags, raw) = match fd {
            Some(fd) => (libc::MAP_SHARED, fd.as_raw_fd()),
            None => (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1),
        };
        // SAFETY: a new mapping at an address that the kernel chooses overlaps no existing memory.
        let address = unsafe {
            libc::mmap(
                ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                flags,
                raw,
                0,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self {
            address: address.cast(),
            bytes,
        })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this value owns the mapping, and no pointer into it is left.
        unsafe { libc::munmap(self.address.cast(), self.bytes) };
    }
}

/// Calls an ioctl whose argument is an integer or a pointer, as `request` defines it.
///
/// # Safety
/// `argument` has the type that `request` expects and, if it is a pointer, is valid across the call.
unsafe fn ioctl(fd: &impl AsRawFd, request: u64, argument: u64) -> io::Result<libc::c_int> {
    // SAFETY: the caller vouches for the argument.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), request as _, argument) };
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

/// Returns the time of the quickest of several runs of the guest code; `None` if a run did not end.
fn time_guest(device: &File) -> io::Result<Option<Duration>> {
    // SAFETY: these requests take an integer; each answer of the first two is a new descriptor.
    let (vm, vcpu, run_bytes) = unsafe {
        let vm = OwnedFd::from_raw_fd(ioctl(device, KVM_CREATE_VM, 0)?);
        let vcpu = OwnedFd::from_raw_fd(ioctl(&vm, KVM_CREATE_VCPU, 0)?);
        (vm, vcpu, ioctl(device, KVM_GET_VCPU_MMAP_SIZE, 0)?)
    };
    let memory = Mapping::new(PAGE_BYTES, None)?;
    // SAFETY: this process owns the page, which is larger than the code.
    unsafe { ptr::copy_nonoverlapping(GUEST_CODE.as_ptr(), memory.address, GUEST_CODE.len()) };
    let region = MemoryRegion {
        slot: 0,
        flags: 0,
        guest_address: GUEST_CODE_ADDRESS,
        bytes: PAGE_BYTES as u64,
        host_address: memory.address as u64,
    };
    let mut special = SpecialRegisters([0; 312]);
    // SAFETY: both structures have the layout of the kernel's and live across the calls.
    unsafe {
        ioctl(&vm, KVM_SET_USER_MEMORY_REGION, &raw const region as u64)?;
        ioctl(&vcpu, KVM_GET_SREGS, &raw mut special as u64)?;
    }
    special.0[..8].fill(0);
    special.0[12..14].fill(0);
    // SAFETY: as above.
    unsafe { ioctl(&vcpu, KVM_SET_SREGS, &raw const special as u64)? };
    let run = Mapping::new(
        usize::try_from(run_bytes).unwrap_or(PAGE_BYTES),
        Some(&vcpu),
    )?;

    let _alarm = Alarm::after(Duration::from_millis(900));
    let mut quickest = Duration::MAX;
    for _ in 0..ROUNDS {
        let mut registers = Registers([0; 18]);
        registers.0[16] = GUEST_CODE_ADDRESS;
        registers.0[17] = 2;
        let start = Instant::now();
        // SAFETY: the structure has the kernel's layout; KVM_RUN takes no argument.
        let ran = unsafe {
            ioctl(&vcpu, KVM_SET_REGS, &raw const registers as u64)?;
            ioctl(&vcpu, KVM_RUN, 0)
        };
        quickest = quickest.min(start.elapsed());
        // SAFETY: `exit_reason` is the u32 at offset 8 of the shared page.
        let reason = unsafe { run.address.add(8).cast::<u32>().read_volatile() };
        if ran.is_err() || reason != KVM_EXIT_HLT {
            return Ok(None);
        }
        // No further round changes the answer.
        if quickest < HARDWARE_LIMIT {
            break;
        }
    }
    Ok(Some(quickest))
}

/// Interrupts a KVM_RUN that does not return.
struct Alarm;

impl Alarm {
    fn after(delay: Duration) -> Self {
        extern "C" fn nothing(_: libc::c_int) {}
        // SAFETY: the handler does nothing; the structures are zeroed plain data.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as libc::sighandler_t;
            libc::sigaction(libc::SIGALRM, &raw const action, ptr::null_mut());
        }
        Self::set(delay);
        Self
    }

    fn set(delay: Duration) {
        // SAFETY: zeroed timers are valid; both pointers live across the call.
        unsafe {
            let mut timer: libc::itimerval = std::mem::zeroed();
            timer.it_value.tv_usec = delay.subsec_micros().into();
            libc::setitimer(libc::ITIMER_REAL, &raw const timer, ptr::null_mut());
        }
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        Self::set(Duration::ZERO);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_probe_answers_quickly_and_alike() {
        // A busy machine may give the probe no CPU for seconds. A guest that does not stop uses the CPU.
        let before = thread_cpu_time();
        let first = probe_kvm().unwrap();
        assert_eq!(first, probe_kvm().unwrap());
        assert!(thread_cpu_time() - before < Duration::from_secs(2));
    }

    fn thread_cpu_time() -> Duration {
        // SAFETY: the structure is zeroed plain data, and the pointer lives across the call.
        let time = unsafe {
            let mut time: libc::timespec = std::mem::zeroed();
            assert_eq!(
                libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time),
                0
            );
            time
        };
        Duration::new(
            time.tv_sec.try_into().unwrap(),
            time.tv_nsec.try_into().unwrap(),
        )
    }
}
