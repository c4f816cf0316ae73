//! Puts a machine together from its configuration.

use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::Instant;

use kvm_ioctls::{IoEventAddress, VcpuFd};

use crate::arch::host::Host;
use crate::arch::vm::Vm;
use crate::arch::{Boot, Processor, layout};
use crate::bus::{Bus, Slot};
use crate::config::{Config, PagesConfig, RestoreConfig, SnapshotConfig};
use crate::console::Console;
use crate::devices::balloon::Balloon;
use crate::devices::block::Block;
use crate::devices::folders::Folders;
use crate::devices::pmem::Pmem;
use crate::devices::rng::Rng;
use crate::devices::vsock::Vsock;
use crate::ended::{Ended, host_failed};
use crate::generation::Generation;
use crate::memory::Ram;
use crate::page_file;
use crate::ports::Ports;
use crate::snapshot::{
    Chain, ChainError, Files, Restoring, SavedLink, Saver, Shape, SnapshotId, read_links,
};
use crate::statistics::Counters;
use crate::unused::Unused;
use crate::vcpu::Machine;
use crate::virtio::{Device, registers as virtio_registers};

/// A machine whose CPUs have not run. Fields are dropped in this order: the memory is the last.
pub struct Assembled {
    pub vcpus: Vec<VcpuFd>,
    pub machine: Arc<Machine>,
    pub console: Arc<Console>,
    pub vm_counters: Option<Counters>,
    pub vcpu_counters: Vec<Counters>,
    /// Present in a VM that may be saved.
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
    let restore = config.restore.as_ref();
    let restore = restore.map(|files| SavedFiles::take(files, config));
    let restore = restore.transpose()?;
    let ram = match &restore {
        None => Ram::new(config.memory_mib).map_err(|e| host_failed("the guest's memory", e))?,
        Some(files) => files.copy_memory(config.memory_mib)?,
    };
    let ram = map_files(config, ram)?;
    let vm = Host::create_vm(take(config.kvm_fd), &ram)?;
    let vcpu_count = u8::try_from(config.vcpus).unwrap_or(u8::MAX);
    let console = Console::new(take(config.console_fd), Instant::now())
        .map_err(|e| refused("consoleFd", &e))?;
    let console = Arc::new(console);
    let slots = make_slots(config, &ram, &console)?;
    let ports = Ports::new(console.clone()).map_err(|e| host_failed("eventfd", e))?;
    let generation = Generation::new().map_err(|e| host_failed("eventfd", e))?;
    connect(&vm, &slots, &ports, &generation)?;
    let vcpus = Host::create_vcpus(&vm, config.cpu, vcpu_count)?;
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
            files.restore(config, &vm, &vcpus, &machine)?;
            fetch_ahead(&files.pages, &ram, &vcpus);
            // The interrupt controllers have their state now, and keep the interrupt until a CPU runs.
            generation.change(ram.memory())
        }
    }
    .map_err(|e| host_failed("the identity of the VM", e))?;
    let tip = restore.as_ref().map(|files| files.chain.tip());
    let saver = prepare_saves(config, &vm, &ram, &vcpus, tip)?;
    Ok(Assembled {
        vm_counters: Counters::open(vm.fd()),
        vcpu_counters: vcpus.iter().filter_map(Counters::open).collect(),
        vcpus,
        machine,
        console,
        saver,
        _generation: generation,
        vm,
        ram,
    })
}

/// Lets a VM be saved as its configuration says. `tip` is the state from which it continues.
fn prepare_saves(
    config: &Config,
    vm: &Vm,
    ram: &Ram,
    vcpus: &[VcpuFd],
    tip: Option<(SnapshotId, usize)>,
) -> Result<Option<Saver>, Ended> {
    if config.save.is_none() && !config.full_saves {
        return Ok(None);
    }
    let once = config.save.as_ref().map(take_files);
    let mut saver = Saver::new(Shape::of(config), vm, vcpus, once)?;
    if config.full_saves {
        saver.allow_full(vm, ram, tip)?;
    }
    Ok(Some(saver))
}

fn take_files(files: &SnapshotConfig) -> Files {
    Files {
        state: take(files.state_fd).into(),
        memory: take(files.memory_fd).into(),
    }
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
    links: Vec<SavedLink>,
    chain: Chain,
    pages: PagesConfig,
}

impl SavedFiles {
    fn take(files: &RestoreConfig, config: &Config) -> Result<Self, Ended> {
        let base = SnapshotConfig {
            state_fd: files.state_fd,
            memory_fd: files.memory_fd,
        };
        let all: Vec<Files> = std::iter::once(&base)
            .chain(&files.diffs)
            .map(take_files)
            .collect();
        let links = read_links(all).map_err(refused_link)?;
        let chain = Chain::open(&links).map_err(refused_link)?;
        for (at, link) in links.iter().enumerate() {
            check_read_only(&link.memory, config.memory_mib)
                .map_err(|text| refused_link(ChainError::memory(at, text)))?;
        }
        chain.check(&Shape::of(config)).map_err(refused_link)?;
        Ok(Self {
            links,
            chain,
            pages: files.pages.clone(),
        })
    }

    /// Maps the memory of the base, and puts the pages of the differences over it.
    fn copy_memory(&self, mib: u32) -> Result<Ram, Ended> {
        let ram = Ram::copy_of(mib, &self.links[0].memory)
            .map_err(|e| host_failed("the guest's memory", e))?;
        self.chain.load(&self.links, &ram).map_err(refused_link)?;
        // These writes made the memory what the state has, and changed nothing since.
        ram.take_written().for_each(drop);
        Ok(ram)
    }

    fn restore(
        &self,
        config: &Config,
        vm: &Vm,
        vcpus: &[VcpuFd],
        machine: &Machine,
    ) -> Result<(), Ended> {
        let newest = self.links.len() - 1;
        Restoring::open(&self.links[newest].state, &Shape::of(config))
            .and_then(|state| state.restore(vm, vcpus, machine))
            .map_err(|e| refused_link(ChainError::state(newest, e)))
    }
}

/// Fails unless the memory has this size and cannot be written through its descriptor.
fn check_read_only(memory: &File, mib: u32) -> Result<(), String> {
    if !is_read_only(memory) {
        return Err("it is open for writing".into());
    }
    page_file::check_size(memory, u64::from(mib) << 20)
}

fn refused_link(error: ChainError) -> Ended {
    let file = if error.is_memory {
        "memoryFd"
    } else {
        "stateFd"
    };
    let key = match error.link.checked_sub(1) {
        None => format!("restore.{file}"),
        Some(at) => format!("restore.diffs[{at}].{file}"),
    };
    refused(key, &error.text)
}

/// Gets the pages that earlier copies used first, and lets KVM map them: each of them would stop the guest once or twice.
fn fetch_ahead(pages: &PagesConfig, ram: &Ram, vcpus: &[VcpuFd]) {
    ram.populate(pages);
    let Some(first) = vcpus.first() else { return };
    let runs = pages.written.iter().chain(&pages.read);
    for part in runs.flat_map(|run| ram.find_pages(*run)) {
        // Linux before 6.11 and KVM without nested page tables have no such request.
        if Host::map_ahead(first, &part).is_err() {
            return;
        }
    }
}

/// Maps the files that the guest has as memory.
fn map_files(config: &Config, ram: Ram) -> Result<Ram, Ended> {
    let mut files = Vec::new();
    for (at, file) in config.pmem.iter().enumerate() {
        let key = format!("pmem[{at}].fd");
        let file = File::from(take(file.fd));
        if !is_read_only(&file) {
            return Err(refused(key, &"it is open for writing"));
        }
        files.push(file);
    }
    ram.with_files(&files).map_err(|e| refused("pmem", &e))
}

fn is_read_only(file: &File) -> bool {
    // SAFETY: reads the flags of an open descriptor.
    let flags = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETFL) };
    flags & libc::O_ACCMODE == libc::O_RDONLY
}

fn refused(key: impl Into<String>, error: &dyn std::fmt::Display) -> Ended {
    Ended::BadConfiguration {
        key: key.into(),
        text: error.to_string(),
    }
}

/// Makes the devices in the order in which the guest finds them: disks, files as memory, vsock, folders, rng, balloon.
fn make_slots(config: &Config, ram: &Ram, console: &Arc<Console>) -> Result<Vec<Slot>, Ended> {
    let mut devices: Vec<Box<dyn Device>> = Vec::new();
    for (at, disk) in config.disks.iter().enumerate() {
        let file = File::from(take(disk.fd));
        let block = Block::new(file, &disk.serial, disk.read_only)
            .map_err(|e| refused(format!("disks[{at}].fd"), &e))?;
        devices.push(Box::new(block));
    }
    let files = ram
        .files()
        .map(|place| Box::new(Pmem::new(place.guest, place.size)) as _);
    devices.extend(files);
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
    if config.balloon {
        let mut unused = Unused::of(ram);
        let take_back = move |range| unused.take_back(range);
        devices.push(Box::new(Balloon::new(Box::new(take_back))));
    }
    let make = |device| {
        let console = console.clone();
        let report = move |line: &str| console.note(line, Instant::now());
        Slot::new(device, ram.memory().clone(), report).map_err(|e| host_failed("eventfd", e))
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
