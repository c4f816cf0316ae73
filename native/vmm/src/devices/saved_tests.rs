//! Devices that are saved, and devices that continue from what was saved.

use std::fs::File;
use std::os::fd::FromRawFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use vm_memory::GuestAddress;

use super::balloon::Balloon;
use super::block::Block;
use super::folders::Folders;
use super::pmem::Pmem;
use super::rng::Rng;
use crate::guest_memory::GuestMemory;
use crate::state::{Reader, StateError, Writer};
use crate::virtio::driver::Driver;
use crate::virtio::{Device, Interrupt, Transport, registers};

fn save(transport: &Transport) -> Result<Vec<u8>, StateError> {
    let mut writer = Writer::new();
    transport.save(&mut writer)?;
    writer.finish()
}

/// Makes a device with the memory of a driver, and gives it a state.
fn restore(
    state: &[u8],
    device: Box<dyn Device>,
    memory: &GuestMemory,
) -> Result<(Transport, Arc<Interrupt>), StateError> {
    let interrupt = Arc::new(Interrupt::new().unwrap());
    let mut transport = Transport::new(device, memory.clone(), interrupt.clone(), Box::new(|_| ()));
    let mut reader = Reader::open(state)?;
    transport.restore(&mut reader)?;
    reader.end()?;
    Ok((transport, interrupt))
}

fn block(sectors: u64, read_only: bool) -> Box<dyn Device> {
    // SAFETY: a new descriptor, whose only owner is the file.
    let file = unsafe { File::from_raw_fd(libc::memfd_create(c"disk".as_ptr(), 0)) };
    file.set_len(sectors * 512).unwrap();
    Box::new(Block::new(file, "disk", read_only).unwrap())
}

#[test]
fn a_saved_state_of_a_restored_device_is_the_state_from_which_it_was_restored() {
    let mut driver = Driver::start(Box::new(Rng));
    driver.request(0, &[], 64);
    let state = save(&driver.transport).unwrap();
    let (transport, interrupt) = restore(&state, Box::new(Rng), &driver.memory).unwrap();
    // The reason "used buffers" is raised in any case, and was not acknowledged here.
    assert_eq!(save(&transport).unwrap(), state);
    assert_eq!(interrupt.line().read().unwrap(), 1);
    driver.transport = transport;
    assert_eq!(driver.request(0, &[], 16).written, 16);
}

#[test]
fn a_balloon_takes_reports_after_its_restore() {
    const REPORTS: usize = 2;
    let balloon = || Box::new(Balloon::new(Box::new(|_| ())));
    let mut driver = Driver::start(balloon());
    driver.request(REPORTS, &[], 4096);
    let state = save(&driver.transport).unwrap();
    let (transport, _) = restore(&state, balloon(), &driver.memory).unwrap();
    assert_eq!(save(&transport).unwrap(), state);
    driver.transport = transport;
    assert_eq!(driver.request(REPORTS, &[], 4096).written, 0);
}

#[test]
fn a_file_as_memory_stays_at_its_place_with_its_size() {
    let pmem = |address, size| Box::new(Pmem::new(address, size));
    let mut driver = Driver::start(pmem(4 << 30, 2 << 20));
    driver.request(0, &[&[0; 4]], 4);
    let state = save(&driver.transport).unwrap();
    let (transport, _) = restore(&state, pmem(4 << 30, 2 << 20), &driver.memory).unwrap();
    assert_eq!(save(&transport).unwrap(), state);
    driver.transport = transport;
    assert_eq!(driver.request(0, &[&[0; 4]], 4).bytes, [0; 4]);
    for other in [pmem(5 << 30, 2 << 20), pmem(4 << 30, 4 << 20)] {
        let error = restore(&state, other, &driver.memory).err().unwrap();
        assert!(error.0.contains("another place or size"), "{error}");
    }
}

#[test]
fn a_device_without_a_driver_is_restored_without_an_interrupt() {
    let driver = Driver::find(Box::new(Rng));
    let state = save(&driver.transport).unwrap();
    let (transport, interrupt) = restore(&state, Box::new(Rng), &driver.memory).unwrap();
    assert_eq!(save(&transport).unwrap(), state);
    assert!(interrupt.line().read().is_err());
}

#[test]
fn a_failed_device_stays_failed_until_its_reset() {
    let mut driver = Driver::start(Box::new(Rng));
    driver.offer(0, &[b"x"], &[]);
    driver.kick(0);
    assert!(driver.needs_reset());
    let state = save(&driver.transport).unwrap();
    let (transport, _) = restore(&state, Box::new(Rng), &driver.memory).unwrap();
    assert_eq!(transport.failure(), driver.transport.failure());
    driver.transport = transport;
    assert!(driver.needs_reset());
    driver.restart();
    assert_eq!(driver.request(0, &[], 16).written, 16);
}

#[test]
fn another_configuration_is_told_with_a_new_generation() {
    let driver = Driver::start(block(8, false));
    let state = save(&driver.transport).unwrap();
    for (sectors, generation) in [(8, 0), (9, 1)] {
        let device = block(sectors, false);
        let (mut transport, interrupt) = restore(&state, device, &driver.memory).unwrap();
        let mut found = [0; 4];
        transport.read(registers::CONFIG_GENERATION, &mut found);
        assert_eq!(u32::from_le_bytes(found), generation);
        assert_eq!(interrupt.reasons() & 2, 2 * generation);
    }
}

#[test]
fn a_state_of_another_device_with_other_features_or_rings_is_refused() {
    let driver = Driver::start(block(8, false));
    let state = save(&driver.transport).unwrap();
    let refused = |device: Box<dyn Device>, memory: &GuestMemory, text: &str| {
        let error = restore(&state, device, memory).err().unwrap();
        assert!(error.0.contains(text), "{error}");
    };
    refused(Box::new(Rng), &driver.memory, "it was saved as 2, and is 4");
    // A disk that cannot be written has no discards.
    refused(block(8, true), &driver.memory, "features");
    let little = GuestMemory::from_ranges(&[(GuestAddress(0), 0x1_0000)]).unwrap();
    refused(block(8, false), &little, "outside of the memory");
}

#[test]
fn a_device_with_a_request_on_its_way_cannot_be_saved() {
    let (ours, server) = UnixStream::pair().unwrap();
    let mut driver = Driver::start(Box::new(Folders::new(ours.into(), "mounts").unwrap()));
    save(&driver.transport).unwrap();
    driver.offer(0, &[b"\x07\0\0\0\x64\x01\0"], &[64]);
    driver.kick(0);
    let error = save(&driver.transport).unwrap_err();
    assert_eq!(error.0, "the device folders: a request is on its way");
    drop(server);
}
