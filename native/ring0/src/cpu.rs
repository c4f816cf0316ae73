//! Instructions of ring 0. The result of an instruction that may fault tells whether it did.

use core::arch::asm;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

const LOCAL_APIC: u64 = 0xfee0_0000;
const END_OF_INTERRUPT: u64 = LOCAL_APIC + 0xb0;
const NMI: u64 = 2;
const FIRST_INTERRUPT: u64 = 32;
/// The place of the page tables, as the linker script has it: a root, its pointers, the directories.
pub const TABLES: u64 = 0x18_0000;
pub const PAGE: u64 = 0x1000;
/// Tables of the first 4 GiB at their own addresses, and one whose first parts [`map`] sets.
pub const DIRECTORIES: usize = 5;
const WINDOW_ENTRY: u64 = TABLES + (1 + DIRECTORIES as u64) * PAGE;
/// The address of memory that [`map`] chooses.
pub const WINDOW: u64 = 4 << 30;
const PART_BYTES: u64 = 2 << 20;

/// The place at which the kernel continues after an exception; zero if none is expected.
static RESUME: AtomicU64 = AtomicU64::new(0);
static INTERRUPTS: AtomicU64 = AtomicU64::new(0);
static NMIS: AtomicU64 = AtomicU64::new(0);

/// Handles an exception or an interrupt. Returns false for an exception that was not expected.
pub fn caught(vector: u64, place: *mut u64) -> bool {
    if vector == NMI {
        NMIS.fetch_add(1, Relaxed);
        return true;
    }
    if vector >= FIRST_INTERRUPT {
        INTERRUPTS.fetch_add(1, Relaxed);
        write::<u32>(END_OF_INTERRUPT, 0);
        return true;
    }
    let resume = RESUME.swap(0, Relaxed);
    if resume != 0 {
        // SAFETY: the place is in the frame of the exception.
        unsafe { place.write(resume) };
    }
    resume != 0
}

pub fn interrupts() -> u64 {
    INTERRUPTS.load(Relaxed)
}

pub fn nmis() -> u64 {
    NMIS.load(Relaxed)
}

/// Runs an instruction that may fault. Returns false after a fault.
macro_rules! attempt {
    ($instruction:literal, $($operands:tt)*) => {{
        // SAFETY: the handlers return behind the instruction after a fault. A write to memory is the caller's case.
        unsafe {
            asm!(
                "lea {place}, [rip + 2f]",
                "mov [{resume}], {place}",
                $instruction,
                "2:",
                place = out(reg) _,
                resume = in(reg) RESUME.as_ptr(),
                $($operands)*
            );
        }
        // The handler has taken it.
        RESUME.swap(0, Relaxed) != 0
    }};
}
pub fn read_msr(index: u32) -> Option<u64> {
    let (low, high): (u64, u64);
    let is_there = attempt!("rdmsr", in("rcx") u64::from(index), out("rax") low, out("rdx") high);
    is_there.then_some(high << 32 | low & 0xffff_ffff)
}

pub fn write_msr(index: u32, value: u64) -> bool {
    attempt!("wrmsr", in("rcx") u64::from(index), in("rax") value & 0xffff_ffff, in("rdx") value >> 32)
}

/// Reads memory or a register.
pub fn read<T: Copy>(address: u64) -> T {
    // SAFETY: the kernel owns all addresses, of which no reference exists.
    unsafe { (address as *const T).read_volatile() }
}

pub fn write<T: Copy>(address: u64, value: T) {
    // SAFETY: the kernel owns all addresses, of which no reference exists.
    unsafe { (address as *mut T).write_volatile(value) }
}

pub fn out8(port: u16, value: u8) {
    // SAFETY: ports are no memory.
    unsafe { asm!("out dx, al", in("dx") port, in("al") value) }
}

pub fn out16(port: u16, value: u16) {
    // SAFETY: ports are no memory.
    unsafe { asm!("out dx, ax", in("dx") port, in("ax") value) }
}

pub fn out32(port: u16, value: u32) {
    // SAFETY: ports are no memory.
    unsafe { asm!("out dx, eax", in("dx") port, in("eax") value) }
}

pub fn in8(port: u16) -> u8 {
    let value;
    // SAFETY: ports are no memory.
    unsafe { asm!("in al, dx", in("dx") port, out("al") value) };
    value
}

pub fn in16(port: u16) -> u16 {
    let value;
    // SAFETY: ports are no memory.
    unsafe { asm!("in ax, dx", in("dx") port, out("ax") value) };
    value
}

pub fn in32(port: u16) -> u32 {
    let value;
    // SAFETY: ports are no memory.
    unsafe { asm!("in eax, dx", in("dx") port, out("eax") value) };
    value
}

pub fn write_string(port: u16, from: *const u8, count: usize) {
    // SAFETY: the instruction only reads the bytes.
    unsafe { asm!("rep outsb", in("dx") port, inout("rsi") from => _, inout("rcx") count => _) }
}

/// Fills `count` bytes at `to` from a port.
pub fn read_string(port: u16, to: u64, count: usize) {
    // SAFETY: the caller owns the bytes.
    unsafe { asm!("rep insb", in("dx") port, inout("rdi") to => _, inout("rcx") count => _) }
}

/// Copies bytes, also between registers of devices.
pub fn copy(from: u64, to: u64, count: u64) {
    // SAFETY: the kernel owns all addresses, of which no reference exists.
    unsafe {
        asm!("rep movsb", inout("rsi") from => _, inout("rdi") to => _, inout("rcx") count => _)
    }
}

/// Lets interrupts come for a moment. The old controller, which uses the vectors of exceptions, gives none.
pub fn take_interrupts() {
    out8(0x21, 0xff);
    out8(0xa1, 0xff);
    // SAFETY: the handlers keep all registers.
    unsafe { asm!("sti", "nop", "nop", "cli") }
}

/// Chooses the physical memory behind [`WINDOW`]. Returns the address of `physical` there.
pub fn map(physical: u64) -> u64 {
    const HUGE: u64 = 0x83;
    let first = physical & !(PART_BYTES - 1);
    // An access may continue in the next part.
    write(WINDOW_ENTRY, first | HUGE);
    write(WINDOW_ENTRY + 8, (first + PART_BYTES) | HUGE);
    flush();
    WINDOW + physical % PART_BYTES
}

/// Uses what is at a physical address as the table of the window, for a while.
pub fn with_directory(physical: u64, use_it: fn(u64)) {
    let pointer = TABLES + PAGE + (DIRECTORIES as u64 - 1) * 8;
    let before: u64 = read(pointer);
    write(pointer, physical | 3);
    flush();
    use_it(WINDOW);
    write(pointer, before);
    flush();
}

/// Reads memory. Returns false after a fault.
pub fn try_read(address: u64) -> bool {
    attempt!("mov {value}, [{address}]", address = in(reg) address, value = out(reg) _)
}

/// Forgets all translations.
fn flush() {
    // SAFETY: the tables stay as they are.
    unsafe { asm!("mov {0}, cr3", "mov cr3, {0}", out(reg) _) }
}

/// Keeps the CPU busy.
pub fn idle(rounds: u64) {
    // SAFETY: only a register changes.
    unsafe { asm!("2: dec {0}", "jnz 2b", inout(reg) rounds.max(1) => _) }
}

/// Loads a table of interrupts.
pub fn load_interrupts(address: u64, limit: u16) {
    #[repr(C, packed)]
    struct Pointer(u16, u64);
    let pointer = Pointer(limit, address);
    // SAFETY: the pointer is read at once.
    unsafe { asm!("lidt [{}]", in(reg) &raw const pointer) }
}

/// Runs what is at an address.
pub fn jump(address: u64) -> ! {
    // SAFETY: a case does not expect to continue.
    unsafe { asm!("jmp {}", in(reg) address, options(noreturn)) }
}

pub fn fault() -> ! {
    // SAFETY: as above.
    unsafe { asm!("ud2", options(noreturn)) }
}

/// Halts for ever. The keeper ends the VM.
pub fn stop() -> ! {
    loop {
        // SAFETY: an NMI returns here.
        unsafe { asm!("cli", "hlt") }
    }
}
