//! Tiny guests: a kernel of one page that carries out a script, and the VMM around it.
#![allow(dead_code)] // Each test program uses a part.

pub mod virtio;

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, Write};
use std::os::fd::{AsRawFd, IntoRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Value, json};

/// The kernel's code lies here, its script behind it.
pub const CODE: u64 = 0x10_0000;
pub const SCRIPT: u64 = 0x10_1000;
/// Memory for rings and buffers.
pub const DATA: u64 = 0x11_0000;

std::arch::global_asm!(
    ".pushsection .rodata.guest, \"a\"",
    ".global guest_start",
    ".global guest_end",
    "guest_start:",
    "    mov rsi, 0x101000",
    // Each entry of the script: operation, width, address, value.
    "2:  mov eax, [rsi]",
    "    mov ecx, [rsi+4]",
    "    mov rdi, [rsi+8]",
    "    mov rdx, [rsi+16]",
    "    add rsi, 24",
    "    cmp eax, 1",
    "    je 10f",
    "    cmp eax, 2",
    "    je 20f",
    "    cmp eax, 3",
    "    je 30f",
    "    cmp eax, 4",
    "    je 40f",
    "    cmp eax, 5",
    "    je 50f",
    "    cmp eax, 6",
    "    je 60f",
    "    cmp eax, 7",
    "    je 70f",
    "    cmp eax, 8",
    "    je 80f",
    "    cmp eax, 9",
    "    je 90f",
    "    cmp eax, 10",
    "    je 100f",
    "    cmp eax, 11",
    "    je 110f",
    "    cmp eax, 12",
    "    je 120f",
    "    cmp eax, 13",
    "    je 130f",
    // Any other operation: an instruction that does not exist, without a handler.
    "    ud2",
    // 1: write memory, 1, 2 or 4 bytes.
    "10: cmp ecx, 1",
    "    je 11f",
    "    cmp ecx, 2",
    "    je 12f",
    "    mov [rdi], edx",
    "    jmp 2b",
    "11: mov [rdi], dl",
    "    jmp 2b",
    "12: mov [rdi], dx",
    "    jmp 2b",
    // 2: wait until 2 bytes of memory have at least the value.
    "20: mov ax, [rdi]",
    "    cmp ax, dx",
    "    jae 2b",
    "    pause",
    "    jmp 20b",
    // 3: print `value` bytes from an address on COM1.
    "30: mov rcx, rdx",
    "    mov rbx, rdi",
    "31: test rcx, rcx",
    "    je 2b",
    "    mov al, [rbx]",
    "    mov dx, 0x3f8",
    "    out dx, al",
    "    inc rbx",
    "    dec rcx",
    "    jmp 31b",
    // 4: write a port, 1, 2 or 4 bytes.
    "40: mov eax, edx",
    "    mov edx, edi",
    "    cmp ecx, 1",
    "    je 41f",
    "    cmp ecx, 2",
    "    je 42f",
    "    out dx, eax",
    "    jmp 2b",
    "41: out dx, al",
    "    jmp 2b",
    "42: out dx, ax",
    "    jmp 2b",
    // 5: copy 4 bytes of memory or of a register to an address.
    "50: mov eax, [rdi]",
    "    mov [rdx], eax",
    "    jmp 2b",
    // 6: triple fault.
    "60: lea rax, [rip + 61f]",
    "    lidt [rax]",
    "    ud2",
    "61: .zero 10",
    // 7: an instruction that no emulator of KVM has, in ring 0: cmpxchg16b.
    "70: mov rdi, 0x110000",
    "    lock cmpxchg16b [rdi]",
    "    jmp 2b",
    // 8: go back to an entry of the script.
    "80: mov rsi, rdi",
    "    jmp 2b",
    // 9: wait until a register of 4 bytes has the value.
    "90: mov eax, [rdi]",
    "    cmp eax, edx",
    "    jne 90b",
    "    jmp 2b",
    // 10: count up a byte of memory.
    "100: inc byte ptr [rdi]",
    "    jmp 2b",
    // 11: write an MSR.
    "110: mov ecx, edi",
    "    mov eax, edx",
    "    shr rdx, 32",
    "    wrmsr",
    "    jmp 2b",
    // 12: copy an MSR to an address.
    "120: mov ecx, edi",
    "    mov rbx, rdx",
    "    rdmsr",
    "    mov [rbx], eax",
    "    mov [rbx+4], edx",
    "    jmp 2b",
    // 13: copy the TSC to an address.
    "130: rdtsc",
    "    mov [rdi], eax",
    "    mov [rdi+4], edx",
    "    jmp 2b",
    "guest_end:",
    ".popsection",
);

unsafe extern "C" {
    static guest_start: u8;
    static guest_end: u8;
}

fn code() -> &'static [u8] {
    let (start, end) = (&raw const guest_start, &raw const guest_end);
    // SAFETY: the assembler placed both labels in one section of this program, which nothing changes.
    unsafe { std::slice::from_raw_parts(start, end.addr() - start.addr()) }
}

/// The actions of a guest, in order.
#[derive(Default, Clone)]
pub struct Script {
    entries: Vec<u8>,
    data: Vec<(u64, Vec<u8>)>,
}

impl Script {
    fn push(mut self, operation: u32, width: u32, address: u64, value: u64) -> Self {
        self.entries.extend(operation.to_le_bytes());
        self.entries.extend(width.to_le_bytes());
        self.entries.extend(address.to_le_bytes());
        self.entries.extend(value.to_le_bytes());
        self
    }

    pub fn write(self, address: u64, value: u32) -> Self {
        self.push(1, 4, address, value.into())
    }

    pub fn write_wide(self, width: u32, address: u64, value: u32) -> Self {
        self.push(1, width, address, value.into())
    }

    pub fn wait(self, address: u64, value: u16) -> Self {
        self.push(2, 2, address, value.into())
    }

    pub fn wait_register(self, address: u64, value: u32) -> Self {
        self.push(9, 4, address, value.into())
    }

    pub fn print(self, address: u64, bytes: u64) -> Self {
        self.push(3, 1, address, bytes)
    }

    pub fn say(self, text: &str) -> Self {
        let at = SCRIPT + 0x8000 + self.data.iter().map(|(_, b)| b.len() as u64).sum::<u64>();
        self.place(at, text.as_bytes()).print(at, text.len() as u64)
    }

    pub fn port(self, width: u32, port: u16, value: u32) -> Self {
        self.push(4, width, port.into(), value.into())
    }

    pub fn copy(self, from: u64, to: u64) -> Self {
        self.push(5, 4, from, to)
    }

    pub fn triple_fault(self) -> Self {
        self.push(6, 0, 0, 0)
    }

    pub fn unknown_instruction(self) -> Self {
        self.push(7, 0, 0, 0)
    }

    pub fn count_up(self, address: u64) -> Self {
        self.push(10, 1, address, 0)
    }

    pub fn write_msr(self, index: u32, value: u64) -> Self {
        self.push(11, 8, index.into(), value)
    }

    pub fn read_msr(self, index: u32, to: u64) -> Self {
        self.push(12, 8, index.into(), to)
    }

    pub fn read_tsc(self, to: u64) -> Self {
        self.push(13, 8, to, 0)
    }

    /// Repeats the script from its entry `index` for ever.
    pub fn repeat_from(self, index: u64) -> Self {
        self.push(8, 0, SCRIPT + index * 24, 0)
    }

    pub fn reset(self) -> Self {
        self.port(1, 0x64, 0xfe)
    }

    /// Puts bytes into the memory before the start.
    pub fn place(mut self, address: u64, bytes: &[u8]) -> Self {
        self.data.push((address, bytes.to_vec()));
        self
    }

    /// Makes the script the kernel of a configuration.
    pub fn load(&self, config: &mut Value) {
        config["kernelFd"] = self.kernel().into_raw_fd().into();
        config["commandLine"] = "".into();
    }

    /// As [`Self::load`], as a bzImage.
    pub fn load_bzimage(&self, config: &mut Value) {
        const SETUP_BYTES: usize = 0x400;
        let mut file = vec![0; SETUP_BYTES];
        // One sector of set-up behind the first one, the boot protocol 2.15, a kernel that is loaded high.
        file[0x1f1] = 1;
        file[0x202..0x206].copy_from_slice(b"HdrS");
        file[0x206..0x208].copy_from_slice(&0x20f_u16.to_le_bytes());
        file[0x211] = 1;
        file[0x214..0x218].copy_from_slice(&u32::try_from(CODE).unwrap().to_le_bytes());
        // A 64-bit entry.
        file[0x236] = 1;
        file.extend(self.image(0x200));
        config["kernelFd"] = write_file(&file).into_raw_fd().into();
    }

    /// Returns the memory from [`CODE`] on. The code begins at `entry` in it.
    fn image(&self, entry: usize) -> Vec<u8> {
        let mut image = vec![0; entry];
        image.extend(code());
        image.resize(usize::try_from(SCRIPT - CODE).unwrap(), 0);
        image.extend(&self.entries);
        for (address, bytes) in &self.data {
            let at = usize::try_from(address - CODE).unwrap();
            image.resize(image.len().max(at + bytes.len()), 0);
            image[at..at + bytes.len()].copy_from_slice(bytes);
        }
        image
    }

    /// Returns an ELF file whose one segment is all of the guest.
    fn kernel(&self) -> File {
        let image = self.image(0);
        let mut header = b"\x7fELF\x02\x01\x01".to_vec();
        header.resize(16, 0);
        header.extend(2u16.to_le_bytes());
        header.extend(62u16.to_le_bytes());
        header.extend(1u32.to_le_bytes());
        header.extend(CODE.to_le_bytes());
        header.extend(64u64.to_le_bytes());
        header.extend([0; 12]);
        for half in [64u16, 56, 1, 0, 0, 0] {
            header.extend(half.to_le_bytes());
        }
        header.extend(1u32.to_le_bytes());
        header.extend(7u32.to_le_bytes());
        let size = image.len() as u64;
        for value in [120, CODE, CODE, size, size, 0x1000] {
            header.extend(value.to_le_bytes());
        }
        write_file(&[header, image].concat())
    }
}

fn write_file(bytes: &[u8]) -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    file.rewind().unwrap();
    file
}

/// A VM in a thread of this test, and the keeper's ends of its sockets.
pub struct Vm {
    control: BufReader<UnixStream>,
    console: UnixStream,
    thread: JoinHandle<u8>,
}

/// The limit of every wait.
pub const LIMIT: Duration = Duration::from_secs(20);

/// Opens KVM. `None` on a machine without it, which the tests say.
pub fn kvm() -> Option<File> {
    let opened = File::options().read(true).write(true).open("/dev/kvm");
    match opened {
        Ok(file) => Some(file),
        Err(error) if std::env::var_os("VOIDBOX_REQUIRE_VM_TESTS").is_some() => {
            panic!("/dev/kvm: {error}, and VOIDBOX_REQUIRE_VM_TESTS is set")
        }
        Err(error) => {
            eprintln!("skipped: no virtual CPU on this machine (/dev/kvm: {error})");
            None
        }
    }
}

impl Vm {
    /// Starts a guest with its devices. `change` completes the configuration.
    pub fn start(kvm: File, script: &Script, change: impl FnOnce(&mut Value)) -> Self {
        Self::start_with(kvm, |config| {
            script.load(config);
            change(config);
        })
    }

    /// Starts a VM. `change` gives it a kernel or a state.
    pub fn start_with(kvm: File, change: impl FnOnce(&mut Value)) -> Self {
        let run = |fd, _: &Value| std::thread::spawn(move || voidbox_vmm::run(fd));
        Self::start_by(kvm, change, run)
    }

    /// Starts a VM that `run` runs, which gets the control and the descriptors of the configuration.
    pub fn start_by(
        kvm: File,
        change: impl FnOnce(&mut Value),
        run: impl FnOnce(RawFd, &Value) -> JoinHandle<u8>,
    ) -> Self {
        let (control, theirs) = UnixStream::pair().unwrap();
        let (console, console_theirs) = UnixStream::pair().unwrap();
        for ours in [&control, &console] {
            ours.set_read_timeout(Some(LIMIT)).unwrap();
        }
        let mut config = json!({
            "version": 1,
            "kvmFd": kvm.into_raw_fd(),
            "memoryMib": 64,
            "vcpus": 1,
            "consoleFd": console_theirs.into_raw_fd(),
        });
        change(&mut config);
        let fd = theirs.into_raw_fd();
        let thread = run(fd, &config);
        let mut vm = Self {
            control: BufReader::new(control),
            console,
            thread,
        };
        vm.send(&config);
        vm
    }

    pub fn send(&mut self, message: &Value) {
        let mut line = message.to_string();
        line.push('\n');
        self.control.get_mut().write_all(line.as_bytes()).unwrap();
    }

    /// Returns the next message of a VMM that may have ended without one.
    pub fn try_receive(&mut self) -> Option<Value> {
        let mut line = String::new();
        self.control.read_line(&mut line).ok()?;
        serde_json::from_str(&line).ok()
    }

    /// Asks a VMM that may have ended.
    pub fn try_ask(&mut self, what: &str) {
        let line = format!("{}\n", json!({ "do": what }));
        // Its last message is read afterwards.
        let _ = self.control.get_mut().write_all(line.as_bytes());
    }

    /// Returns the next message of the VMM.
    pub fn receive(&mut self) -> Value {
        let mut line = String::new();
        self.control
            .read_line(&mut line)
            .expect("a message in time");
        serde_json::from_str(&line).unwrap_or_else(|e| panic!("{line:?}: {e}"))
    }

    pub fn ask(&mut self, what: &str) -> Value {
        self.send(&json!({ "do": what }));
        self.receive()
    }

    /// Asks a VMM that may have ended, and gives it files.
    pub fn try_ask_with(&mut self, what: &str, files: &[&File]) {
        let line = format!("{}\n", json!({ "do": what }));
        send_files(self.control.get_ref(), line.as_bytes(), files);
    }

    pub fn ask_with(&mut self, what: &str, files: &[&File]) -> Value {
        self.try_ask_with(what, files);
        self.receive()
    }

    /// Closes the keeper's end of the control, and returns the exit code.
    pub fn abandon(self) -> u8 {
        drop(self.control);
        self.thread.join().unwrap()
    }

    /// Reads the console until it has `bytes` more bytes.
    pub fn read_console(&mut self, bytes: usize) -> Vec<u8> {
        let mut all = vec![0; bytes];
        self.console.read_exact(&mut all).expect("output in time");
        all
    }

    /// Reads what the console has, until nothing comes for a while.
    pub fn drain_console(&mut self) -> Vec<u8> {
        let mut all = Vec::new();
        let mut bytes = [0; 4096];
        let quiet = Duration::from_millis(60);
        self.console.set_read_timeout(Some(quiet)).unwrap();
        while let Ok(count @ 1..) = self.console.read(&mut bytes) {
            all.extend(&bytes[..count]);
        }
        self.console.set_read_timeout(Some(LIMIT)).unwrap();
        all
    }

    /// Waits for the end. Returns its reason, the exit code and the rest of the console.
    pub fn end(mut self) -> (Value, u8, Vec<u8>) {
        let message = self.receive();
        assert_eq!(message["event"], "ended", "{message}");
        let code = self.thread.join().unwrap();
        let mut rest = Vec::new();
        // The descriptors of a configuration that was refused stay open until the process ends.
        if code != voidbox_vmm::BAD_CONFIGURATION {
            self.console.read_to_end(&mut rest).unwrap();
        }
        let mut after = Vec::new();
        self.control.read_to_end(&mut after).unwrap();
        assert!(after.is_empty(), "the end is the last message");
        (message["reason"].clone(), code, rest)
    }

    /// Starts a guest and waits for its end.
    pub fn run(
        kvm: File,
        script: &Script,
        change: impl FnOnce(&mut Value),
    ) -> (Value, u8, Vec<u8>) {
        let mut vm = Self::start(kvm, script, change);
        assert_eq!(vm.receive(), json!({ "event": "started" }));
        vm.end()
    }
}

/// Sends bytes with descriptors of files. Its receiver may be gone.
pub fn send_files(socket: &UnixStream, bytes: &[u8], files: &[&File]) {
    let fds: Vec<RawFd> = files.iter().map(|file| file.as_raw_fd()).collect();
    let mut space = [0u64; 16];
    let size = u32::try_from(size_of_val(&*fds)).unwrap();
    let mut vector = libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    };
    // SAFETY: zeros are a message without any part, to which live buffers are added.
    unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &raw mut vector;
        message.msg_iovlen = 1;
        if !fds.is_empty() {
            message.msg_control = space.as_mut_ptr().cast();
            message.msg_controllen = libc::CMSG_SPACE(size) as _;
            let header = libc::CMSG_FIRSTHDR(&raw const message);
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = libc::SCM_RIGHTS;
            (*header).cmsg_len = libc::CMSG_LEN(size) as _;
            let data = libc::CMSG_DATA(header).cast::<RawFd>();
            data.copy_from_nonoverlapping(fds.as_ptr(), fds.len());
        }
        libc::sendmsg(socket.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL);
    }
}

/// Gives a copy of a descriptor away.
pub fn copy_of(file: &impl AsRawFd) -> RawFd {
    // SAFETY: copies an open descriptor.
    let fd = unsafe { libc::dup(file.as_raw_fd()) };
    assert!(fd >= 0);
    fd
}
