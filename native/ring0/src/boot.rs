//! The entry of the kernel in 32-bit mode, its tables, and the functions that the compiler calls.
//!
//! An emulated KVM carries out each instruction of ring 0 slowly, so the tables are made by the compiler.

use core::arch::global_asm;
use core::panic::PanicInfo;

use crate::cpu::{DIRECTORIES, PAGE, TABLES};
use crate::{console, cpu};

const ENTRIES: usize = 512;
/// The entry of another table, and that of 2 MiB of memory: present, writable.
const TABLE: u64 = 3;
const HUGE: u64 = 0x83;

#[repr(C, align(4096))]
pub struct Tables {
    root: [u64; ENTRIES],
    pointers: [u64; ENTRIES],
    directories: [[u64; ENTRIES]; DIRECTORIES],
}

const fn make_tables() -> Tables {
    let mut tables = Tables {
        root: [0; ENTRIES],
        pointers: [0; ENTRIES],
        directories: [[0; ENTRIES]; DIRECTORIES],
    };
    tables.root[0] = TABLES + PAGE + TABLE;
    let mut directory = 0;
    while directory < DIRECTORIES {
        tables.pointers[directory] = TABLES + (2 + directory as u64) * PAGE + TABLE;
        let mut entry = 0;
        while entry < ENTRIES && directory < DIRECTORIES - 1 {
            let number = (directory * ENTRIES + entry) as u64;
            tables.directories[directory][entry] = number << 21 | HUGE;
            entry += 1;
        }
        directory += 1;
    }
    tables
}

#[used]
#[unsafe(link_section = ".tables")]
static mut PAGES: Tables = make_tables();

global_asm!(
    // The note of PVH: the entry, of type 18.
    ".pushsection .note.pvh, \"a\", @note",
    ".balign 4",
    ".long 4, 4, 18",
    ".asciz \"Xen\"",
    ".long ring0_entry",
    ".popsection",
    ".pushsection .text.entry, \"ax\"",
    ".code32",
    ".global ring0_entry",
    "ring0_entry:",
    "cli",
    "movl $ring0_stack, %esp",
    "movl ${tables}, %eax",
    "movl %eax, %cr3",
    "movl %cr4, %eax",
    "orl $0x20, %eax",
    "movl %eax, %cr4",
    "movl $0xc0000080, %ecx",
    "rdmsr",
    "orl $0x100, %eax",
    "wrmsr",
    "movl %cr0, %eax",
    "orl $0x80000001, %eax",
    "movl %eax, %cr0",
    "lgdt ring0_gdt_limit",
    "ljmp $8, $ring0_long",
    ".code64",
    "ring0_long:",
    "movl $16, %eax",
    "movl %eax, %ds",
    "movl %eax, %es",
    "movl %eax, %ss",
    "movl $ring0_stack, %esp",
    "movl %ebx, %edi",
    "call ring0_main",
    "1: cli",
    "hlt",
    "jmp 1b",
    // The handlers of exceptions and interrupts: 16 bytes each.
    ".balign 16",
    ".global ring0_handlers",
    "ring0_handlers:",
    ".set vector, 0",
    ".rept 256",
    ".balign 16",
    // These exceptions push an error code.
    ".if vector == 8 || (vector >= 10 && vector <= 14) || vector == 17 || vector == 21 || vector == 29 || vector == 30",
    ".else",
    "pushq $0",
    ".endif",
    "pushq $vector",
    "jmp ring0_handler",
    ".set vector, vector + 1",
    ".endr",
    "ring0_handler:",
    "pushq %rax",
    "pushq %rcx",
    "pushq %rdx",
    "pushq %rsi",
    "pushq %rdi",
    "pushq %r8",
    "pushq %r9",
    "pushq %r10",
    "pushq %r11",
    // The vector, and the place to which the handler returns.
    "movq 72(%rsp), %rdi",
    "leaq 88(%rsp), %rsi",
    "call ring0_caught",
    "popq %r11",
    "popq %r10",
    "popq %r9",
    "popq %r8",
    "popq %rdi",
    "popq %rsi",
    "popq %rdx",
    "popq %rcx",
    "popq %rax",
    "addq $16, %rsp",
    "iretq",
    ".balign 8",
    "ring0_gdt: .quad 0, 0x00af9b000000ffff, 0x00cf93000000ffff",
    "ring0_gdt_limit: .word 23",
    ".long ring0_gdt",
    ".popsection",
    // Functions that the compiler calls.
    ".pushsection .text.memory, \"ax\"",
    ".global memcpy",
    "memcpy: movq %rdi, %rax",
    "movq %rdx, %rcx",
    "rep movsb",
    "ret",
    ".global memset",
    "memset: movq %rdi, %r8",
    "movl %esi, %eax",
    "movq %rdx, %rcx",
    "rep stosb",
    "movq %r8, %rax",
    "ret",
    ".global strlen",
    "strlen: xorl %eax, %eax",
    "1: cmpb $0, (%rdi,%rax)",
    "je 2f",
    "incq %rax",
    "jmp 1b",
    "2: ret",
    ".global memcmp",
    ".global bcmp",
    "memcmp:",
    "bcmp: xorl %eax, %eax",
    "1: testq %rdx, %rdx",
    "je 2f",
    "movzbl (%rdi), %eax",
    "movzbl (%rsi), %ecx",
    "subl %ecx, %eax",
    "jne 2f",
    "incq %rdi",
    "incq %rsi",
    "decq %rdx",
    "jmp 1b",
    "2: ret",
    ".popsection",
    tables = const TABLES,
    options(att_syntax),
);

/// An exception that no case expects ends the VM with its vector on the console.
#[unsafe(no_mangle)]
extern "C" fn ring0_caught(vector: u64, place: *mut u64) {
    if cpu::caught(vector, place) {
        return;
    }
    // SAFETY: the place is in the frame of the exception.
    let at = unsafe { place.read() };
    console::say(&[
        "\nfault ",
        console::Hex::of(vector).text(),
        " at ",
        console::Hex::of(at).text(),
        "\n",
    ]);
    cpu::stop()
}

#[panic_handler]
fn panicked(info: &PanicInfo<'_>) -> ! {
    let line = info.location().map_or(0, |place| place.line());
    let file = info.location().map_or("", |place| place.file());
    console::say(&[
        "\npanic in ",
        file,
        " line ",
        console::Hex::of(line.into()).text(),
        "\n",
    ]);
    cpu::stop()
}
