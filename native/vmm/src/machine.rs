//! Puts a machine together from its configuration.

use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::Instant;

use kvm_ioctls::{IoEventAddress, VcpuFd};
use vm_memory::GuestMemoryMmap;

use crate::arch::host::Host;
use crate::arch::vm::Vm;
use crate::arch::{Boot, Processor, layout};
use crate::bus::{Bus, Slot};
use crate::config::{Config, SnapshotConfig};
use crate::console::Console;
use crate::devices::block::Block;
use crate::devices::folders::Folders;
use crate::devices::rng::Rng;
use crate::devices::vsock::Vsock;
use crate::ended::{Ended, host_failed};
use crate::generation::Generation;
use crate::memory::Ram;
use crate::ports::Ports;
use crate::snapshot::{Restoring, Saver};
use crate::state;
use crate::statistics::Counters;
use crate::vcpu::Machine;
use crate::virtio::{Device, registers as virtio_registers};

const STATE_KEY: &str = "restore.stateFd";

/// A machine whose CPUs have not run. Fields are dropped in this order: the memory is the last.
pub struct Assembled {
    pub vcpus: Vec<VcpuFd>,
    pub machine: Arc<Machine>,
    pub console: Arc<Console>,
    pub vm_counters: Option<Counters>,
    pub vcpu_counters: Vec<Counters>,
    /// Present until the VM is saved.
    pub saver: Option<Saver>,
    _generation: Generation,
    /// CPUs and descriptors of interrupts belong to it.
    pub vm: Vm,
    pub ram: Ram,
}

/// Becomes the owner of a descriptor.
fn take(fd: RawFd) -> OwnedFd {
    // SAFETY: the configuration names each descriptor once, and all are open.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// Builds the machine. The descriptors of the configuration have no other owner.
pub fn assemble(config: &Config) -> Result<Assembled, Ended> {
    let restore = config.restore.as_ref().map(SavedFiles::take).transpose()?;
    let ram = match &restore {
        None => Ram::new(config.memory_mib),
        Some(files) => Ram::copy_of(config.memory_mib, files.memory(config.memory_mib)?),
    };
    let ram = ram.map_err(|e| host_failed("the guest's memory", e))?;
    let vm = Host::create_vm(take(config.kvm_fd), &ram)?;
    let vcpu_count = u8::try_from(config.vcpus).unwrap_or(u8::MAX);
    let console = Console::new(take(config.console_fd), Instant::now())
        .map_err(|e| refused("consoleFd", &e))?;
    let console = Arc::new(console);
    let slots = make_slots(config, ram.memory(), &console)?;
    let ports = Ports::new(console.clone()).map_err(|e| host_failed("eventfd", e))?;
    let generation = Generation::new().map_err(|e| host_failed("eventfd", e))?;
    connect(&vm, &slots, &ports, &generation)?;
    let vcpus = Host::create_vcpus(&vm, vcpu_count)?;
    let devices = slots.len();
    let machine = Arc::new(Machine {
        bus: Bus::new(slots),
        ports,
    });
    match &restore {
        None => {
            boot(config, &ram, &vcpus, devices)?;
            generation.begin(ram.memory())
        }
        Some(files) => {
            files.restore(&ram, &vm, &vcpus, &machine)?;
            // The interrupt controllers have their state now, and keep the interrupt until a CPU runs.
            generation.change(ram.memory())
        }
    }
    .map_err(|e| host_failed("the identity of the VM", e))?;
    let save = config.save.as_ref();
    let saver = save.map(|files| {
        let (state, memory) = (take(files.state_fd), take(files.memory_fd));
        Saver::new(state, memory, &vm, &vcpus)
    });
    Ok(Assembled {
        vm_counters: Counters::open(vm.fd()),
        vcpu_counters: vcpus.iter().filter_map(Counters::open).collect(),
        vcpus,
        machine,
        console,
        saver: saver.transpose()?,
        _generation: generation,
        vm,
        ram,
    })
}

/// Loads the configured kernel, and sets the first CPU to its entry.
fn boot(config: &Config, ram: &Ram, vcpus: &[VcpuFd], devices: usize) -> Result<(), Ended> {
    let kernel = config
        .kernel_fd
        .ok_or_else(|| refused("kernelFd", &"it is missing"))?;
    let boot = Boot {
        kernel: File::from(take(kernel)),
        initramfs: config.initramfs_fd.map(|fd| File::from(take(fd))),
        command_line: config.command_line.clone().unwrap_or_default(),
        devices,
    };
    Host::boot(boot, ram, vcpus)
}

/// The files of a saved VM.
struct SavedFiles {
    state: Vec<u8>,
    memory: File,
}

impl SavedFiles {
    fn take(files: &SnapshotConfig) -> Result<Self, Ended> {
        let memory = File::from(take(files.memory_fd));
        let state = File::from(take(files.state_fd));
        Ok(Self {
            state: state::read_all(state).map_err(|e| refused(STATE_KEY, &e))?,
            memory,
        })
    }

    /// Returns the memory, if it is of this size and cannot be written through its descriptor.
    fn memory(&self, mib: u32) -> Result<&File, Ended> {
        const KEY: &str = "restore.memoryFd";
        // SAFETY: reads the flags of an open descriptor.
        let flags = unsafe { libc::fcntl(self.memory.as_raw_fd(), libc::F_GETFL) };
        if flags & libc::O_ACCMODE != libc::O_RDONLY {
            return Err(refused(KEY, &"it is open for writing"));
        }
        let found = self.memory.metadata().map_err(|e| refused(KEY, &e))?.len();
        let expected = u64::from(mib) << 20;
        if found != expected {
            let text = format!("it has {found} bytes, expected {expected}");
            return Err(refused(KEY, &text));
        }
        Ok(&self.memory)
    }

    fn restore(
        &self,
        ram: &Ram,
        vm: &Vm,
        vcpus: &[VcpuFd],
        machine: &Machine,
    ) -> Result<(), Ended> {
        let memory = ram.slots().iter().map(|slot| slot.size).sum();
        Restoring::open(&self.state, memory, vcpus.len())
            .and_then(|state| state.restore(vm, vcpus, machine))
            .map_err(|e| refused(STATE_KEY, &e))
    }
}

fn refused(key: impl Into<String>, error: &dyn std::fmt::Display) -> Ended {
    Ended::BadConfiguration {
        key: key.into(),
        text: error.to_string(),
    }
}

/// Makes the devices in the order in which the guest finds them: disks, vsock, rng.
fn make_slots(
    config: &Config,
    memory: &GuestMemoryMmap,
    console: &Arc<Console>,
) -> Result<Vec<Slot>, Ended> {
    let mut devices: Vec<Box<dyn Device>> = Vec::new();
    for (at, disk) in config.disks.iter().enumerate() {
        let file = File::from(take(disk.fd));
        let block = Block::new(file, &disk.serial, disk.read_only)
            .map_err(|e| refused(format!("disks[{at}].fd"), &e))?;
        devices.push(Box::new(block));
    }
    if let Some(vsock) = &config.vsock {
        let device = Vsock::new(take(vsock.fd), vsock.guest_cid, vsock.port)
            .map_err(|e| refused("vsock.fd", &e))?;
        devices.push(Box::new(device));
    }
    if let Some(folders) = &config.folders {
        let device =
            Folders::new(take(folders.fd), &folders.tag).map_err(|e| refused("folders.fd", &e))?;
        devices.push(Box::new(device));
    }
    if config.rng {
        devices.push(Box::new(Rng));
    }
    let make = |device| {
        let console = console.clone();
        let report = move |line: &str| console.note(line, Instant::now());
        Slot::new(device, memory.clone(), report).map_err(|e| host_failed("eventfd", e))
    };
    devices.into_iter().map(make).collect()
}

/// Lets KVM turn kicks into readable descriptors, and descriptors into interrupts.
fn connect(vm: &Vm, slots: &[Slot], ports: &Ports, generation: &Generation) -> Result<(), Ended> {
    let irqfd = |e| host_failed("KVM_IRQFD", e);
    for (index, slot) in slots.iter().enumerate() {
        let address = Host::device_address(index) + virtio_registers::QUEUE_NOTIFY;
        for (queue, kick) in (0u32..).zip(slot.kicks()) {
            vm.fd()
                .register_ioevent(kick, &IoEventAddress::Mmio(address), queue)
                .map_err(|e| host_failed("KVM_IOEVENTFD", e))?;
        }
        vm.fd()
            .register_irqfd(slot.interrupt().line(), Host::device_interrupt(index))
            .map_err(irqfd)?;
    }
    vm.fd()
        .register_irqfd(generation.interrupt(), layout::GENERATION_INTERRUPT)
        .map_err(irqfd)?;
    vm.fd()
        .register_irqfd(ports.com1_interrupt(), layout::COM1_INTERRUPT)
        .map_err(irqfd)
}
