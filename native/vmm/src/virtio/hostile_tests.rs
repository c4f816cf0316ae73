//! A guest that breaks the rules of virtio. The device fails, or the request does; nothing hangs, panics, or allocates by
//! a number of the guest.

use vm_memory::{Bytes, GuestAddress};

use super::chain::{Chain, MAX_DESCRIPTORS};
use super::driver::{Driver, INDIRECT, MEMORY_BYTES, NEXT, Raw, WRITE};
use super::random::Random;
use super::registers::*;
use super::transport::{VERSION_1, status};
use super::{Device, Failure, Progress, Rings};
use crate::guest_memory::GuestMemory;

/// A device that takes everything, and counts what it took.
struct Sink;

impl Device for Sink {
    fn name(&self) -> &str {
        "sink"
    }

    fn id(&self) -> u32 {
        99
    }

    fn queues(&self) -> &'static [u16] {
        &[16, 256]
    }

    fn features(&self) -> u64 {
        1
    }

    fn config(&self) -> &[u8] {
        b"\x11\x22\x33"
    }

    fn reset(&mut self) {}

    fn process(&mut self, queue: usize, rings: &mut Rings<'_>) -> Result<Progress, Failure> {
        for _ in 0..rings.turn(queue) {
            let memory = rings.memory;
            let Some(chain) = rings.next(queue)? else {
                return Ok(Progress::Idle);
            };
            let written = chain.writable(memory).len();
            rings.complete(queue, written)?;
        }
        Ok(Progress::More)
    }
}

fn sink() -> Driver {
    Driver::start(Box::new(Sink))
}

fn raw(address: u64, length: u32, flags: u16, next: u16) -> Raw {
    Raw {
        address,
        length,
        flags,
        next,
    }
}

const BUFFER: u64 = 0x20_0000;
const TABLE: u64 = 0x30_0000;

/// Offers a chain of the given descriptors, from the first on. Returns true if the device took it.
fn takes(descriptors: &[Raw]) -> bool {
    takes_with_table(descriptors, &[])
}

fn takes_with_table(descriptors: &[Raw], table: &[Raw]) -> bool {
    let mut driver = sink();
    for (index, descriptor) in (0u16..).zip(descriptors) {
        driver.write_descriptor(0, index, *descriptor);
    }
    for (index, descriptor) in (0u64..).zip(table) {
        driver.write_raw(TABLE + index * 16, *descriptor);
    }
    driver.make_available(0, 0);
    driver.kick(0);
    let taken = driver.take_used(0).is_some();
    assert_eq!(taken, !driver.needs_reset());
    if !taken {
        // The interrupt says that the device changed, and a reset makes it whole.
        assert_eq!(driver.get(INTERRUPT_STATUS) & 2, 2);
        driver.restart();
        let answer = driver.request(0, &[b"x"], 4);
        assert_eq!(answer.written, 4);
    }
    taken
}

#[test]
fn chains_within_the_rules_are_taken() {
    assert!(takes(&[raw(BUFFER, 1, 0, 0)]));
    assert!(takes(&[raw(BUFFER, 8, NEXT, 1), raw(BUFFER, 8, WRITE, 0)]));
    let full: Vec<Raw> = (1..=16)
        .map(|next| raw(BUFFER, 8, if next < 16 { NEXT } else { 0 }, next))
        .collect();
    assert!(takes(&full));
    let to_table = [raw(BUFFER, 8, NEXT, 1), raw(TABLE, 32, INDIRECT, 0)];
    let table = [raw(BUFFER, 8, NEXT, 1), raw(BUFFER, 8, WRITE, 0)];
    assert!(takes_with_table(&to_table, &table));
}

#[test]
fn loops_and_wild_indices_fail_the_device() {
    assert!(!takes(&[raw(BUFFER, 8, NEXT, 0)]));
    assert!(!takes(&[raw(BUFFER, 8, NEXT, 1), raw(BUFFER, 8, NEXT, 0)]));
    assert!(!takes(&[raw(BUFFER, 8, NEXT, 16)]));
    assert!(!takes(&[raw(BUFFER, 8, NEXT, u16::MAX)]));
    for head in [16, u16::MAX] {
        let mut driver = sink();
        driver.make_available(0, head);
        driver.kick(0);
        assert!(driver.needs_reset());
    }
}

#[test]
fn wild_addresses_and_lengths_fail_the_device() {
    let end = MEMORY_BYTES as u64;
    assert!(takes(&[raw(end - 8, 8, 0, 0)]));
    for (address, length) in [
        (end - 8, 9),
        (end, 1),
        (u64::MAX, 1),
        (u64::MAX - 7, 8),
        (u64::MAX - 7, 9),
        (0, u32::MAX),
        (BUFFER, u32::MAX - 7),
        (1 << 63, 8),
        (BUFFER, 0),
    ] {
        assert!(
            !takes(&[raw(address, length, 0, 0)]),
            "{address:#x} {length:#x}"
        );
    }
    let half = u32::try_from(MEMORY_BYTES).unwrap();
    let long: Vec<Raw> = (1..=16).map(|next| raw(0, half, NEXT, next)).collect();
    assert!(!takes(&long));
}

#[test]
fn a_buffer_to_read_behind_one_to_write_fails_the_device() {
    assert!(!takes(&[
        raw(BUFFER, 8, NEXT | WRITE, 1),
        raw(BUFFER, 8, 0, 0)
    ]));
}

#[test]
fn tables_that_break_the_rules_fail_the_device() {
    let entry = [raw(BUFFER, 8, 0, 0)];
    assert!(takes_with_table(&[raw(TABLE, 16, INDIRECT, 0)], &entry));
    for to_table in [
        raw(TABLE, 16, INDIRECT | NEXT, 1),
        raw(TABLE, 0, INDIRECT, 0),
        raw(TABLE, 15, INDIRECT, 0),
        raw(TABLE, 17, INDIRECT, 0),
        raw(u64::MAX - 15, 16, INDIRECT, 0),
        raw(MEMORY_BYTES as u64 - 8, 16, INDIRECT, 0),
    ] {
        assert!(
            !takes_with_table(&[to_table, entry[0]], &entry),
            "{to_table:?}"
        );
    }
    let nested = [raw(TABLE, 16, INDIRECT, 0)];
    assert!(!takes_with_table(&nested, &nested));
    let looping = [raw(BUFFER, 8, NEXT, 0)];
    assert!(!takes_with_table(&nested, &looping));
    let beyond = [raw(BUFFER, 8, NEXT, 1)];
    assert!(!takes_with_table(&nested, &beyond));
}

#[test]
fn a_table_has_at_most_as_many_descriptors_as_a_queue() {
    let table = |count: u16| -> Vec<Raw> {
        (1..=count)
            .map(|next| raw(BUFFER, 1, if next < count { NEXT } else { 0 }, next))
            .collect()
    };
    let longest = u16::try_from(MAX_DESCRIPTORS).unwrap();
    let to = |count: u16| [raw(TABLE, u32::from(count) * 16, INDIRECT, 0)];
    assert!(takes_with_table(&to(longest), &table(longest)));
    assert!(!takes_with_table(&to(longest + 1), &table(longest + 1)));
    // A table that says that it is huge costs no more than its chain.
    let huge = [raw(TABLE, u32::MAX - 15, INDIRECT, 0)];
    assert!(takes_with_table(&huge, &table(2)));
}

#[test]
fn an_index_of_available_chains_beyond_the_queue_fails_the_device() {
    for ahead in [17, 0x8000, u16::MAX] {
        let mut driver = sink();
        driver.set_available(0, ahead);
        driver.kick(0);
        assert!(driver.needs_reset(), "{ahead}");
    }
    // The same chain sixteen times is within the rules of the ring.
    let mut driver = sink();
    driver.write_descriptor(0, 0, raw(BUFFER, 8, 0, 0));
    driver.set_available(0, 16);
    driver.kick(0);
    assert!(!driver.needs_reset());
}

/// Brings a device to where its queues are set.
fn negotiated() -> Driver {
    let mut driver = Driver::find(Box::new(Sink));
    driver.set(STATUS, 3);
    driver.accept(VERSION_1);
    driver.set(STATUS, 3 | status::FEATURES_OK);
    driver
}

#[test]
fn queue_sizes_that_are_no_power_of_two_within_the_limit_fail_the_device() {
    let base = Driver::base(0);
    for (size, good) in [
        (0, false),
        (1, true),
        (3, false),
        (16, true),
        (17, false),
        (32, false),
        (65535, false),
        (65536, false),
        (u32::MAX, false),
    ] {
        let mut driver = negotiated();
        driver.set_queue(size, base, base + 0x4000, base + 0x8000);
        assert_eq!(driver.needs_reset(), !good, "{size}");
    }
}

#[test]
fn rings_outside_of_the_memory_or_at_odd_addresses_fail_the_device() {
    let base = Driver::base(0);
    let end = MEMORY_BYTES as u64;
    for (descriptors, available, used) in [
        (end, base + 0x4000, base + 0x8000),
        (end - 16, base + 0x4000, base + 0x8000),
        (base, end - 2, base + 0x8000),
        (base, base + 0x4000, end - 4),
        (u64::MAX - 15, base, base),
        (base + 8, base + 0x4000, base + 0x8000),
        (base, base + 0x4001, base + 0x8000),
        (base, base + 0x4000, base + 0x8002),
    ] {
        let mut driver = negotiated();
        driver.set_queue(16, descriptors, available, used);
        assert!(
            driver.needs_reset(),
            "{descriptors:#x} {available:#x} {used:#x}"
        );
    }
}

#[test]
fn a_queue_that_does_not_exist_is_not_set() {
    let mut driver = negotiated();
    for queue in [2, u32::MAX] {
        driver.set(QUEUE_SELECT, queue);
        assert_eq!(driver.get(QUEUE_LONGEST), 0);
        assert_eq!(driver.get(QUEUE_READY), 0);
    }
    driver.set(QUEUE_SIZE, 8);
    assert!(driver.needs_reset());
}

#[test]
fn a_start_before_the_features_fails_the_device() {
    let mut driver = Driver::find(Box::new(Sink));
    driver.set(STATUS, 3 | status::DRIVER_OK);
    assert!(driver.needs_reset());
    let mut driver = Driver::find(Box::new(Sink));
    driver.set_queue(16, 0x1000, 0x2000, 0x3000);
    assert!(driver.needs_reset());
    let mut driver = Driver::find(Box::new(Sink));
    driver.accept(VERSION_1);
    assert!(driver.needs_reset());
}

#[test]
fn features_that_the_device_does_not_have_are_not_accepted() {
    for features in [VERSION_1 | 2, VERSION_1 | 1 << 63, 0, 1] {
        let mut driver = Driver::find(Box::new(Sink));
        driver.set(STATUS, 3);
        driver.accept(features);
        driver.set(STATUS, 3 | status::FEATURES_OK);
        assert_eq!(driver.get(STATUS) & status::FEATURES_OK, 0, "{features:#x}");
    }
    let mut driver = Driver::find(Box::new(Sink));
    driver.set(STATUS, 3);
    driver.set(DRIVER_FEATURES_SELECT, 2);
    driver.set(DRIVER_FEATURES, 0);
    assert!(!driver.needs_reset());
    driver.set(DRIVER_FEATURES, 1);
    assert!(driver.needs_reset());
}

#[test]
fn settings_after_the_start_fail_the_device() {
    for (register, value) in [
        (QUEUE_SIZE, 8),
        (QUEUE_DESCRIPTORS_LOW, 0x1000),
        (QUEUE_READY, 1),
        (DRIVER_FEATURES, 1),
        (STATUS, 1),
    ] {
        let mut driver = sink();
        driver.set(register, value);
        assert!(driver.needs_reset(), "{register:#x}");
    }
}

#[test]
fn a_stopped_queue_is_not_served_and_a_kick_of_none_fails_the_device() {
    let mut driver = sink();
    driver.set(QUEUE_SELECT, 0);
    driver.set(QUEUE_READY, 0);
    driver.write_descriptor(0, 0, raw(BUFFER, 8, 0, 0));
    driver.make_available(0, 0);
    driver.kick(0);
    assert_eq!(driver.take_used(0), None);
    assert!(!driver.needs_reset());
    driver.transport.process(2);
    assert!(driver.needs_reset());
}

#[test]
fn a_kick_before_the_start_does_nothing() {
    let mut driver = negotiated();
    driver.set_up_queue(0);
    driver.write_descriptor(0, 0, raw(BUFFER, 8, 0, 0));
    driver.make_available(0, 0);
    assert_eq!(driver.kick(0), Progress::Idle);
    assert_eq!(driver.take_used(0), None);
}

#[test]
fn odd_widths_and_places_of_registers_fail_the_device() {
    for width in [1usize, 2, 8] {
        let mut driver = sink();
        driver.transport.read(STATUS, &mut vec![0; width]);
        assert!(driver.needs_reset(), "read of {width}");
        let mut driver = sink();
        driver.transport.write(QUEUE_SELECT, &vec![0; width]);
        assert!(driver.needs_reset(), "write of {width}");
    }
    let mut driver = sink();
    driver.transport.write(STATUS + 1, &[0; 4]);
    assert!(driver.needs_reset());
    let mut driver = sink();
    driver.transport.write(CONFIG, &[0; 4]);
    assert!(driver.needs_reset(), "the configuration is not written");
}

#[test]
fn the_configuration_is_read_in_any_width_and_ends_in_zeroes() {
    let mut driver = sink();
    let mut read = |offset: u64, width: usize| {
        let mut bytes = vec![0xaa; width];
        driver.transport.read(CONFIG + offset, &mut bytes);
        bytes
    };
    assert_eq!(read(0, 1), [0x11]);
    assert_eq!(read(1, 2), [0x22, 0x33]);
    assert_eq!(read(0, 4), [0x11, 0x22, 0x33, 0]);
    assert_eq!(read(2, 8), [0x33, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(read(0xe00, 4), [0; 4]);
    assert!(!driver.needs_reset());
}

#[test]
fn a_guest_that_always_adds_buffers_gives_others_their_turn() {
    let mut driver = sink();
    driver.write_descriptor(0, 0, raw(BUFFER, 8, 0, 0));
    let mut index = 0u16;
    for _ in 0..100 {
        index = index.wrapping_add(16);
        driver.set_available(0, index);
        assert_eq!(driver.transport.process(0), Progress::More);
    }
}

#[test]
fn an_interrupt_comes_when_the_guest_asked_for_it() {
    use super::transport::EVENT_INDEX;
    let mut driver = sink();
    assert_ne!(driver.features() & EVENT_INDEX, 0);
    // The driver wants to know of the third used chain.
    let used_event = GuestAddress(Driver::base(0) + 0x4000 + 4 + 16 * 2);
    driver.memory.write_obj(2u16, used_event).unwrap();
    for expected in [0, 0, 1, 0] {
        driver.request(0, &[b"x"], 1);
        assert_eq!(driver.get(INTERRUPT_STATUS), expected);
        assert_eq!(driver.interrupt.line().read().is_ok(), expected == 1);
        driver.set(INTERRUPT_ACKNOWLEDGE, 1);
    }
}

/// A value near an edge.
fn edge(random: &mut Random) -> u64 {
    let near = random.pick(&[
        0,
        16,
        BUFFER,
        TABLE,
        MEMORY_BYTES as u64,
        1 << 32,
        1 << 63,
        u64::MAX,
    ]);
    near.wrapping_add(random.below(48)).wrapping_sub(24)
}

fn random_descriptor(random: &mut Random) -> Raw {
    let length = random.pick(&[0, 1, 15, 16, 17, 64, 4096, 1 << 20, 1 << 31, u32::MAX]);
    raw(
        edge(random),
        length,
        random.pick(&[0, 0, 1, 1, 2, 3, 4, 5, 6, 7, u16::MAX]),
        u16::try_from(random.below(20)).unwrap(),
    )
}

#[test]
fn whatever_a_table_holds_a_walk_ends_within_its_bounds() {
    let memory = GuestMemory::from_ranges(&[(GuestAddress(0), MEMORY_BYTES)]).unwrap();
    let mut chain = Chain::new();
    let mut random = Random(1);
    let mut taken = 0;
    for _ in 0..20_000 {
        for at in [0u64, TABLE, TABLE - 24, BUFFER] {
            for index in 0..4 {
                let descriptor = random_descriptor(&mut random);
                let mut bytes = descriptor.address.to_le_bytes().to_vec();
                bytes.extend(descriptor.length.to_le_bytes());
                bytes.extend(descriptor.flags.to_le_bytes());
                bytes.extend(descriptor.next.to_le_bytes());
                let place = GuestAddress(at + index * 16);
                memory.write_slice(&bytes, place).unwrap();
            }
        }
        let table = GuestAddress(random.pick(&[0, TABLE, BUFFER]));
        let size = random.pick(&[1, 2, 4, 16, 256]);
        let head = u16::try_from(random.below(5)).unwrap();
        if chain.walk(&memory, table, size, head).is_err() {
            continue;
        }
        taken += 1;
        let (readable, writable) = (chain.readable(&memory), chain.writable(&memory));
        let total = u64::from(readable.len()) + u64::from(writable.len());
        assert!((1..1 << 32).contains(&total));
        for buffers in [readable, writable] {
            let bytes: usize = buffers.slices(0, usize::MAX).map(|slice| slice.len()).sum();
            assert_eq!(bytes, buffers.len() as usize);
        }
    }
    assert!(taken > 100, "{taken} chains were within the rules");
}

#[test]
fn whatever_a_driver_writes_the_device_answers_and_can_be_reset() {
    let mut random = Random(2);
    for _ in 0..300 {
        let mut driver = Driver::find(Box::new(Sink));
        if random.below(2) == 0 {
            driver.restart();
        }
        for _ in 0..60 {
            let register = random.below(0x110) & !random.pick(&[0, 3, 3, 3]);
            let value = edge(&mut random).to_le_bytes();
            let width = random.pick(&[4, 4, 4, 4, 1, 2, 8]);
            match random.below(4) {
                0 => driver.transport.read(register, &mut vec![0; width]),
                1 => {
                    let at = random.below(3);
                    driver.write_raw(Driver::base(0) + at * 16, random_descriptor(&mut random));
                    driver.set_available(0, random.pick(&[0, 1, 2, 16, 17, u16::MAX]));
                }
                2 => {
                    let queue = random.pick(&[0, 1, 2, usize::MAX]);
                    driver.transport.process(queue);
                }
                _ => driver.transport.write(register, &value[..width]),
            }
        }
        driver.restart();
        assert_eq!(driver.request(0, &[b"x"], 4).written, 4);
    }
}
