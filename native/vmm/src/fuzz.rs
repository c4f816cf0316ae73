//! Functions that fuzzers call: one for each device, for the configuration, the control and kernels.
//!
//! `cargo test` replays the corpus in `fuzz/corpus/` and mutations of it. The targets of cargo-fuzz (`fuzz/targets/`) and
//! `cargo run --example fuzz`, which needs no nightly compiler, mutate it for longer.
//! Each function returns how much of its input was meaningful, so that a corpus that has rotted is noticed.

use std::fs::File;
use std::io::{self, Cursor, Write};
use std::os::fd::FromRawFd;
use std::os::unix::net::UnixStream;

use crate::arch::kernel::load_kernel;
use crate::config::{Config, CpuTemplate};
use crate::control::{Channel, Input, Request};
use crate::devices::balloon::Balloon;
use crate::devices::block::Block;
use crate::devices::folders::Folders;
use crate::devices::pmem::Pmem;
use crate::devices::rng::Rng;
use crate::devices::vsock::Vsock;
use crate::memory::Ram;
use crate::snapshot::{Restoring, Shape};
use crate::state::{HEADER_BYTES, Reader, Writer};
use crate::virtio::Device;
use crate::virtio::driver::Driver;
use crate::virtio::random::Random;

/// A function that must return for each input.
pub type Target = fn(&[u8]) -> usize;

/// The functions by the names of their corpora.
pub const TARGETS: &[(&str, Target)] = &[
    ("config", read_config),
    ("control", read_control),
    ("kernel", load),
    ("block", drive_block),
    ("vsock", drive_vsock),
    ("folders", drive_folders),
    ("rng", drive_rng),
    ("balloon", drive_balloon),
    ("pmem", drive_pmem),
    ("state", read_state),
    ("restored", drive_restored),
];

/// The longest input.
pub const INPUT_LIMIT_BYTES: usize = 16 << 10;
const DISK_BYTES: u64 = 32 << 10;
/// The place of the file of a restored device.
const RESTORED_FILE: (u64, u64) = ((4 << 30) + (128 << 20), 2 << 20);
/// The memory of the VM whose state is in the corpus.
const STATE_MEMORY_BYTES: u64 = 64 << 20;

/// Reads a configuration.
pub fn read_config(data: &[u8]) -> usize {
    Config::read(data).is_ok().into()
}

/// Reads the requests of the keeper that the input has.
pub fn read_control(data: &[u8]) -> usize {
    let Ok((ours, mut keeper)) = UnixStream::pair() else {
        return 0;
    };
    let mut channel = Channel::new(ours.into());
    // An input is shorter than the buffer of a socket.
    if keeper.write_all(data).is_err() {
        return 0;
    }
    drop(keeper);
    let mut requests = 0;
    while let Ok(mut input) = channel.read() {
        loop {
            match input {
                Input::Partial => break,
                Input::Closed | Input::TooLong => return requests,
                Input::Line(line) => requests += usize::from(Request::parse(&line).is_ok()),
            }
            input = channel.buffered();
        }
    }
    requests
}

/// Loads a kernel into 64 MiB of memory.
pub fn load(data: &[u8]) -> usize {
    let Ok(ram) = Ram::new(64) else { return 0 };
    let mut file = Cursor::new(data.to_vec());
    load_kernel(ram.memory(), ram.low_end(), &mut file)
        .is_ok()
        .into()
}

/// Drives a disk of 32 KiB. The first bit of the input makes it read-only.
pub fn drive_block(data: &[u8]) -> usize {
    let is_read_only = data.first().is_some_and(|byte| byte & 1 == 1);
    Block::new(disk(), "disk", is_read_only).map_or(0, |block| drive(Box::new(block), data, None))
}

/// Makes a file of the size of a disk. A file that cannot grow is a disk without sectors.
fn disk() -> File {
    // SAFETY: a new descriptor, whose only owner is the file.
    let file = unsafe { File::from_raw_fd(libc::memfd_create(c"disk".as_ptr(), 0)) };
    let _ = file.set_len(DISK_BYTES);
    file
}

/// Drives vsock, with a keeper whose bytes are in the input too.
pub fn drive_vsock(data: &[u8]) -> usize {
    let Ok((ours, keeper)) = UnixStream::pair() else {
        return 0;
    };
    let vsock = keeper
        .set_nonblocking(true)
        .and_then(|()| Vsock::new(ours.into(), 3, 1024));
    vsock.map_or(0, |vsock| drive(Box::new(vsock), data, Some(keeper)))
}

/// Drives the device of shared folders, with a server whose answers are in the input too.
pub fn drive_folders(data: &[u8]) -> usize {
    let Ok((ours, server)) = UnixStream::pair() else {
        return 0;
    };
    let folders = server
        .set_nonblocking(true)
        .and_then(|()| Folders::new(ours.into(), "mounts"));
    folders.map_or(0, |folders| drive(Box::new(folders), data, Some(server)))
}

/// Drives the source of random numbers.
pub fn drive_rng(data: &[u8]) -> usize {
    drive(Box::new(Rng), data, None)
}

/// Drives the balloon. Nothing is taken from the memory of its driver.
pub fn drive_balloon(data: &[u8]) -> usize {
    drive(Box::new(Balloon::new(Box::new(|_| ()))), data, None)
}

/// Drives a file as memory, which lies in the memory of its driver too.
pub fn drive_pmem(data: &[u8]) -> usize {
    let Ok(ram) = Ram::new(64).and_then(|ram| ram.with_files(&[disk()])) else {
        return 0;
    };
    ram.files().next().map_or(0, |place| {
        let driver = Driver::find_in(
            ram.memory().clone(),
            Box::new(Pmem::new(place.guest, place.size)),
        );
        drive_found(driver, data, None)
    })
}

/// Reads the state of a VM with one CPU. The checksum of a changed input is made right, so that its fields are read.
pub fn read_state(data: &[u8]) -> usize {
    const SHAPE: Shape = Shape {
        memory_bytes: STATE_MEMORY_BYTES,
        cpus: 1,
        template: CpuTemplate::Host,
    };
    if Restoring::open(data, &SHAPE).is_err() {
        let mut fields = Writer::new();
        data.get(HEADER_BYTES..)
            .unwrap_or_default()
            .iter()
            .for_each(|byte| fields.u8(*byte));
        let Ok(state) = fields.finish() else { return 0 };
        return Restoring::open(&state, &SHAPE).is_ok().into();
    }
    1
}

/// Restores a device from an input, and lets its guest drive it.
pub fn drive_restored(data: &[u8]) -> usize {
    let Ok((ours, keeper)) = UnixStream::pair() else {
        return 0;
    };
    let mut bytes = Bytes(data);
    let kind = bytes.take();
    if keeper.set_nonblocking(true).is_err() {
        return 0;
    }
    let device: io::Result<Box<dyn Device>> = match kind % 6 {
        0 => Vsock::new(ours.into(), 3, 1024).map(|vsock| Box::new(vsock) as _),
        1 => Ok(Box::new(Rng)),
        2 => Block::new(disk(), "disk", false).map(|block| Box::new(block) as _),
        3 => Folders::new(ours.into(), "mounts").map(|folders| Box::new(folders) as _),
        4 => Ok(Box::new(Balloon::new(Box::new(|_| ())))),
        _ => Ok(Box::new(Pmem::new(RESTORED_FILE.0, RESTORED_FILE.1))),
    };
    let Ok(device) = device else { return 0 };
    let mut driver = Driver::find(device);
    let mut fields = Reader::of_fields(bytes.0);
    if driver.transport.restore(&mut fields).is_err() {
        return 0;
    }
    for queue in 0..driver.transport.queues() {
        for _ in 0..8 {
            driver.transport.process(queue);
        }
    }
    driver.transport.source_ready(libc::POLLIN);
    driver.restart();
    1
}

/// Takes numbers off the front of an input; behind its end they are zero.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn take(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        *first
    }

    fn number(&mut self, bytes: u32) -> u64 {
        (0..bytes).fold(0, |number, at| number | u64::from(self.take()) << (8 * at))
    }

    fn piece(&mut self, limit: usize) -> Vec<u8> {
        let length = usize::from(self.take()).min(limit);
        (0..length).map(|_| self.take()).collect()
    }
}

/// Lets an input drive a device as its guest. Returns the number of chains that the device used.
fn drive(device: Box<dyn Device>, data: &[u8], peer: Option<UnixStream>) -> usize {
    drive_found(Driver::find(device), data, peer)
}

fn drive_found(mut driver: Driver, data: &[u8], mut peer: Option<UnixStream>) -> usize {
    let mut bytes = Bytes(data);
    if bytes.take() & 2 == 0 {
        driver.restart();
    }
    let queues = driver.transport.queues();
    let mut used = 0;
    while !bytes.0.is_empty() {
        let operation = bytes.take();
        let queue = usize::from(bytes.take()) % (queues + 1);
        match operation % 8 {
            0 => {
                let register = bytes.number(2) % 0x140;
                let value = bytes.number(8).to_le_bytes();
                let width = usize::from(bytes.take() % 8) + 1;
                driver.transport.write(register & !3, &value[..width]);
            }
            1 => {
                let width = usize::from(bytes.take() % 8) + 1;
                let register = bytes.number(2) % 0x140;
                driver.transport.read(register, &mut vec![0; width]);
            }
            2 => {
                let at = bytes.number(2) % 0x40 * 16;
                let piece = bytes.piece(64);
                driver.write_memory(Driver::base(queue) + at, &piece);
            }
            3 if queue < queues => {
                let first = bytes.piece(64);
                let second = bytes.piece(255);
                let room = usize::from(bytes.take()) * 3;
                driver.offer_small(queue, &first, &second, room);
            }
            4 => {
                for _ in 0..8 {
                    driver.transport.process(queue);
                }
            }
            5 => {
                if let Some(peer) = &mut peer {
                    // A socket that is full or closed takes nothing.
                    let _ = peer.write(&bytes.piece(255));
                }
                driver.transport.source();
                driver.transport.source_ready(i16::from(bytes.take()));
            }
            6 => driver.restart(),
            _ if queue < queues => driver.set_available(queue, u16::from(bytes.take())),
            _ => {}
        }
        for queue in 0..queues {
            used += std::iter::from_fn(|| driver.take_used(queue))
                .take(256)
                .count();
        }
    }
    driver.restart();
    used
}

/// Changes an input in a few places.
pub fn mutate(input: &[u8], random: &mut Random) -> Vec<u8> {
    let mut output = input.to_vec();
    for _ in 0..=random.below(6) {
        let length = output.len() as u64;
        let place = |random: &mut Random| usize::try_from(random.below(length.max(1))).unwrap_or(0);
        let at = place(random);
        match random.below(6) {
            _ if output.is_empty() => output = random.bytes(4),
            0 => output[at] ^= 1 << random.below(8),
            1 => output[at] = random.pick(&[0, 1, 0x7f, 0x80, 0xff]),
            2 => output.truncate(at),
            3 => {
                let piece = random.bytes(4);
                output.splice(at..at, piece);
            }
            4 => {
                let end = place(random).max(at).min(at + 64);
                let piece = output[at..end].to_vec();
                output.splice(at..at, piece);
            }
            _ => output[at] = random.bytes(1)[0],
        }
    }
    output.truncate(INPUT_LIMIT_BYTES);
    output
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn read_corpus(name: &str) -> Vec<(String, Vec<u8>)> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("fuzz/corpus")
            .join(name);
        let mut files: Vec<_> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .map(|path| {
                let name = path.file_name().unwrap().to_string_lossy().into_owned();
                (name, std::fs::read(path).unwrap())
            })
            .collect();
        files.sort();
        files
    }

    #[test]
    fn the_corpus_of_each_target_is_replayed_and_still_means_something() {
        for (name, target) in TARGETS {
            let corpus = read_corpus(name);
            assert!(corpus.len() >= 2, "{name} has {} inputs", corpus.len());
            for (file, input) in corpus {
                let work = target(&input);
                let is_bad = file.starts_with("bad-");
                assert_eq!(work == 0, is_bad, "{name}/{file} did {work}");
            }
        }
    }

    #[test]
    fn changed_inputs_end_too() {
        let mut random = Random(3);
        for (name, target) in TARGETS {
            let corpus = read_corpus(name);
            for round in 0..200 {
                let (_, input) = &corpus[round % corpus.len()];
                target(&mutate(input, &mut random));
            }
        }
    }
}
