//! `floor KERNEL INITRAMFS MEMORY_MIB COMMAND_LINE`: the smallest VMM that boots Linux, as the floor for figures of
//! voidbox-vmm. It has one CPU, 2 MiB pages, a serial port on its standard output, and no check of anything.
//! It writes a line to its standard error before the first KVM_RUN, and one with KVM's count of exits at a SIGTERM.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::slice;

use kvm_bindings::{
    KVM_PIT_SPEAKER_DUMMY, kvm_fpu, kvm_pit_config, kvm_regs, kvm_segment,
    kvm_userspace_memory_region,
};
use kvm_ioctls::{Kvm, VcpuExit};

use voidbox_bench_machine::counters;

const HUGE: usize = 2 << 20;
const PARAMETERS: usize = 0x7000;
const COMMAND_LINE: usize = 0x2_0000;
const COM1: u16 = 0x3f8;

fn number<const N: usize>(bytes: &[u8], at: usize) -> usize {
    let mut wide = [0; 8];
    wide[..N].copy_from_slice(&bytes[at..at + N]);
    u64::from_le_bytes(wide) as usize
}

fn map(size: usize) -> &'static mut [u8] {
    // SAFETY: a new private mapping, aligned within, that lives until the end of the process.
    unsafe {
        let (rights, kind) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
        );
        let address = libc::mmap(std::ptr::null_mut(), size + HUGE, rights, kind, -1, 0);
        let aligned = (address as usize).next_multiple_of(HUGE) as *mut libc::c_void;
        libc::madvise(aligned, size, libc::MADV_HUGEPAGE);
        slice::from_raw_parts_mut(aligned.cast(), size)
    }
}

/// Copies the kernel's segments to their places, and returns its 64-bit entry.
fn load(memory: &mut [u8], path: &str) -> u64 {
    let file = File::open(path).unwrap();
    let size = file.metadata().unwrap().len() as usize;
    // SAFETY: a new private mapping that lives until the end of the process.
    let kernel = unsafe {
        let (rights, kind) = (libc::PROT_READ, libc::MAP_PRIVATE);
        let address = libc::mmap(
            std::ptr::null_mut(),
            size,
            rights,
            kind,
            file.as_raw_fd(),
            0,
        );
        slice::from_raw_parts(address.cast::<u8>(), size)
    };
    for index in 0..number::<2>(kernel, 56) {
        let header = number::<8>(kernel, 32) + index * 56;
        if number::<4>(kernel, header) == 1 {
            let (from, to) = (
                number::<8>(kernel, header + 8),
                number::<8>(kernel, header + 24),
            );
            let size = number::<8>(kernel, header + 32);
            memory[to..to + size].copy_from_slice(&kernel[from..from + size]);
        }
    }
    number::<8>(kernel, 24) as u64
}

fn put(memory: &mut [u8], at: usize, bytes: &[u8]) {
    memory[at..at + bytes.len()].copy_from_slice(bytes);
}

fn describe(memory: &mut [u8], initramfs: &str, line: &str) {
    let mut file = File::open(initramfs).unwrap();
    let size = file.metadata().unwrap().len() as usize;
    let at = (memory.len() - size) & !0xfff;
    file.read_exact(&mut memory[at..at + size]).unwrap();
    put(memory, COMMAND_LINE, line.as_bytes());
    for (offset, value) in [
        (0x1fe, 0xaa55),
        (0x202, 0x5372_6448),
        (0x210, 0xff),
        (0x218, at),
        (0x21c, size),
        (0x228, COMMAND_LINE),
        (0x230, 0x100_0000),
        (0x238, line.len()),
    ] {
        put(memory, PARAMETERS + offset, &(value as u32).to_le_bytes());
    }
    memory[PARAMETERS + 0x1e8] = 2;
    let map = [(0, 0x9_fc00), (0x10_0000, memory.len() - 0x10_0000)];
    for (index, (start, length)) in map.into_iter().enumerate() {
        let at = PARAMETERS + 0x2d0 + index * 20;
        put(memory, at, &(start as u64).to_le_bytes());
        put(memory, at + 8, &(length as u64).to_le_bytes());
        memory[at + 16] = 1;
    }
    let segments = [
        0x00af_9b00_0000_ffff_u64,
        0x00cf_9300_0000_ffff,
        0x008f_8b00_0000_ffff,
    ];
    for (index, segment) in segments.into_iter().enumerate() {
        put(memory, 0x508 + index * 8, &segment.to_le_bytes());
    }
    put(memory, 0x9000, &0xa003_u64.to_le_bytes());
    put(memory, 0xa000, &0xb003_u64.to_le_bytes());
    for page in 0..512 {
        put(
            memory,
            0xb000 + page * 8,
            &((page << 21 | 0x83) as u64).to_le_bytes(),
        );
    }
}

/// The registers of COM1 that Linux needs to print, and the state of its interrupt.
#[derive(Default)]
struct Serial {
    enabled: u8,
    line: u8,
    empty: bool,
}

impl Serial {
    /// Returns true if the port wants an interrupt.
    fn write(&mut self, port: u16, byte: u8) -> bool {
        let is_latch = self.line & 0x80 != 0;
        match port - COM1 {
            0 if !is_latch => std::io::stdout().write_all(&[byte]).unwrap(),
            1 if !is_latch => self.enabled = byte,
            3 => self.line = byte,
            _ => {}
        }
        self.empty |= !is_latch && port - COM1 < 2 && self.enabled & 2 != 0;
        self.empty && !is_latch && port - COM1 < 2
    }

    fn read(&mut self, port: u16) -> u8 {
        match port - COM1 {
            1 => self.enabled,
            2 => 1 + u8::from(std::mem::take(&mut self.empty)),
            3 => self.line,
            5 => 0x60,
            6 => 0xb0,
            _ => 0,
        }
    }
}

extern "C" fn interrupt(_signal: libc::c_int) {}

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let kvm = Kvm::new().unwrap();
    let vm = kvm.create_vm().unwrap();
    vm.set_tss_address(0xfffb_d000).unwrap();
    vm.create_irq_chip().unwrap();
    let pit = kvm_pit_config {
        flags: KVM_PIT_SPEAKER_DUMMY,
        ..Default::default()
    };
    vm.create_pit2(pit).unwrap();
    let memory = map(words[3].parse::<usize>().unwrap() << 20);
    let region = kvm_userspace_memory_region {
        memory_size: memory.len() as u64,
        userspace_addr: memory.as_ptr() as u64,
        ..Default::default()
    };
    // SAFETY: the memory lives until the end of the process.
    unsafe { vm.set_user_memory_region(region) }.unwrap();
    let mut vcpu = vm.create_vcpu(0).unwrap();
    let mut leaves = kvm.get_supported_cpuid(256).unwrap();
    for leaf in leaves
        .as_mut_slice()
        .iter_mut()
        .filter(|leaf| leaf.function == 1)
    {
        leaf.ecx |= 1 << 31;
    }
    vcpu.set_cpuid2(&leaves).unwrap();
    let entry = load(memory, &words[1]);
    describe(memory, &words[2], &words[4]);
    let mut sregs = vcpu.get_sregs().unwrap();
    let segment = kvm_segment {
        limit: u32::MAX,
        selector: 16,
        type_: 3,
        present: 1,
        s: 1,
        db: 1,
        g: 1,
        ..Default::default()
    };
    sregs.cs = kvm_segment {
        selector: 8,
        type_: 11,
        l: 1,
        db: 0,
        ..segment
    };
    [sregs.ds, sregs.es, sregs.fs, sregs.gs, sregs.ss] = [segment; 5];
    sregs.tr = kvm_segment {
        limit: 0xf_ffff,
        selector: 24,
        type_: 11,
        s: 0,
        db: 0,
        ..segment
    };
    (sregs.gdt.base, sregs.gdt.limit) = (0x500, 31);
    (sregs.cr3, sregs.cr4) = (0x9000, 0x20);
    sregs.cr0 |= 0x8000_0001;
    sregs.efer |= 0x500;
    vcpu.set_sregs(&sregs).unwrap();
    let registers = kvm_regs {
        rip: entry,
        rsi: PARAMETERS as u64,
        rsp: 0x8ff0,
        rflags: 2,
        ..Default::default()
    };
    vcpu.set_regs(&registers).unwrap();
    vcpu.set_fpu(&kvm_fpu {
        fcw: 0x37f,
        mxcsr: 0x1f80,
        ..Default::default()
    })
    .unwrap();
    let statistics = counters::open(vcpu.as_raw_fd());
    // SAFETY: the handler does nothing; a system call that it interrupts ends.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = interrupt as extern "C" fn(libc::c_int) as usize;
        libc::sigaction(libc::SIGTERM, &action, std::ptr::null_mut());
    }
    let mut serial = Serial::default();
    eprintln!("{{\"event\":\"started\"}}");
    loop {
        match vcpu.run() {
            Ok(VcpuExit::IoOut(0x64, [0xfe])) => return,
            Ok(VcpuExit::IoOut(port @ 0x3f8..=0x3ff, data)) => {
                if data
                    .iter()
                    .fold(false, |wanted, byte| serial.write(port, *byte) | wanted)
                {
                    vm.set_irq_line(4, true).unwrap();
                    vm.set_irq_line(4, false).unwrap();
                }
            }
            Ok(VcpuExit::IoIn(port @ 0x3f8..=0x3ff, data)) => data.fill(serial.read(port)),
            Ok(VcpuExit::IoIn(0x61 | 0x64, data)) => data.fill(0),
            Ok(VcpuExit::IoIn(_, data) | VcpuExit::MmioRead(_, data)) => data.fill(0xff),
            Ok(VcpuExit::IoOut(..) | VcpuExit::MmioWrite(..) | VcpuExit::Hlt) => {}
            Ok(other) => panic!("{other:?}"),
            Err(error) if error.errno() == libc::EINTR => {
                let exits = counters::read(&statistics.unwrap()).unwrap()["exits"];
                return eprintln!("{{\"event\":\"statistics\",\"exits\":{exits}}}");
            }
            Err(error) => panic!("{error}"),
        }
    }
}
