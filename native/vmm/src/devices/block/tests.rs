use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd};

use super::*;
use crate::virtio::driver::Driver;

const SECTORS: u64 = 64;

/// A disk in a file, and another descriptor of the file.
fn disk(read_only: bool) -> (Driver, File) {
    let mut file = tempfile::tempfile().unwrap();
    for sector in 0..SECTORS {
        let byte = u8::try_from(sector).unwrap();
        file.write_all(&[byte; 512]).unwrap();
    }
    let block = Block::new(file.try_clone().unwrap(), "voidbox-scratch", read_only).unwrap();
    (Driver::start(Box::new(block)), file)
}

fn header(kind: u32, sector: u64) -> Vec<u8> {
    let mut bytes = kind.to_le_bytes().to_vec();
    bytes.extend([0; 4]);
    bytes.extend(sector.to_le_bytes());
    bytes
}

/// Sends a request, and returns its status.
fn send(driver: &mut Driver, kind: u32, sector: u64, data: &[u8]) -> u8 {
    let header = header(kind, sector);
    let output: &[&[u8]] = if data.is_empty() {
        &[&header]
    } else {
        &[&header, data]
    };
    driver.request(0, output, 1).bytes[0]
}

fn read(driver: &mut Driver, sector: u64, length: usize) -> Vec<u8> {
    let answer = driver.request(0, &[&header(request::READ, sector)], length + 1);
    assert_eq!(answer.bytes[length], 0);
    assert_eq!(answer.written as usize, length + 1);
    answer.bytes[..length].to_vec()
}

fn config(driver: &mut Driver, offset: u64, length: usize) -> u64 {
    let mut bytes = [0; 8];
    driver.transport.read(
        crate::virtio::registers::CONFIG + offset,
        &mut bytes[..length],
    );
    u64::from_le_bytes(bytes)
}

fn range(sector: u64, sectors: u32) -> Vec<u8> {
    let mut bytes = sector.to_le_bytes().to_vec();
    bytes.extend(sectors.to_le_bytes());
    bytes.extend([0; 4]);
    bytes
}

#[test]
fn a_disk_reads_what_was_written_and_says_its_size() {
    let (mut driver, _file) = disk(false);
    assert_eq!(config(&mut driver, 0, 8), SECTORS);
    assert_eq!(read(&mut driver, 7, 512), [7; 512]);
    assert_eq!(send(&mut driver, request::WRITE, 7, &[0xaa; 1024]), 0);
    assert_eq!(read(&mut driver, 7, 1024), [0xaa; 1024]);
    assert_eq!(read(&mut driver, 9, 512), [9; 512]);
    assert_eq!(send(&mut driver, request::FLUSH, 0, &[]), 0);
}

#[test]
fn a_request_may_have_its_data_in_pieces() {
    let (mut driver, _file) = disk(false);
    let header = header(request::WRITE, 1);
    let offered = driver.offer(0, &[&header[..5], &header[5..], &[1; 100], &[2; 412]], &[1]);
    driver.kick(0);
    assert_eq!(driver.input_of(offered), [0]);
    driver.take_used(0).unwrap();
    let offered = driver.offer(0, &[&self::header(request::READ, 1)], &[99, 413, 1]);
    driver.kick(0);
    let bytes = driver.input_of(offered);
    assert_eq!(bytes[..100], [1; 100]);
    assert_eq!(bytes[100..512], [2; 412]);
}

#[test]
fn a_disk_has_its_serial_number() {
    let (mut driver, _file) = disk(true);
    let answer = driver.request(0, &[&header(request::SERIAL, 0)], 21);
    assert_eq!(&answer.bytes, b"voidbox-scratch\0\0\0\0\0\0");
}

#[test]
fn a_read_only_disk_says_so_and_refuses_every_change() {
    let (mut driver, _file) = disk(true);
    assert_ne!(driver.features() & READ_ONLY, 0);
    assert_eq!(driver.features() & DISCARD, 0);
    for (kind, data) in [
        (request::WRITE, vec![0xaa; 512]),
        (request::DISCARD, range(0, 8)),
        (request::WRITE_ZEROES, range(0, 8)),
    ] {
        assert_eq!(send(&mut driver, kind, 0, &data), 1);
    }
    assert_eq!(read(&mut driver, 3, 512), [3; 512]);
}

#[test]
fn a_discarded_range_is_a_hole_and_reads_as_zeroes() {
    use std::os::unix::fs::MetadataExt;
    let (mut driver, file) = disk(false);
    let before = file.metadata().unwrap().blocks();
    let ranges = [range(8, 8), range(24, 16)].concat();
    assert_eq!(send(&mut driver, request::DISCARD, 0, &ranges), 0);
    assert_eq!(read(&mut driver, 8, 4096), [0; 4096]);
    assert_eq!(read(&mut driver, 16, 512), [16; 512]);
    assert!(file.metadata().unwrap().blocks() < before);
    assert_eq!(send(&mut driver, request::WRITE_ZEROES, 0, &range(1, 1)), 0);
    assert_eq!(read(&mut driver, 1, 512), [0; 512]);
}

#[test]
fn ranges_outside_of_the_disk_and_pieces_of_sectors_are_errors_for_the_guest_only() {
    let (mut driver, _file) = disk(false);
    let last = SECTORS - 1;
    assert_eq!(send(&mut driver, request::WRITE, last, &[1; 512]), 0);
    for sector in [SECTORS, last + 1, u64::MAX, u64::MAX / 512, 1 << 55] {
        assert_eq!(send(&mut driver, request::WRITE, sector, &[1; 512]), 1);
        let answer = driver.request(0, &[&header(request::READ, sector)], 513);
        assert_eq!(answer.bytes[512], 1);
    }
    assert_eq!(send(&mut driver, request::WRITE, last, &[1; 1024]), 1);
    assert_eq!(send(&mut driver, request::WRITE, 0, &[1; 511]), 1);
    for bad in [
        range(0, MAX_RANGE_SECTORS + 1),
        range(u64::MAX, 1),
        range(SECTORS, 1),
        vec![0; 15],
        range(0, 1).repeat(MAX_RANGES as usize + 1),
    ] {
        assert_eq!(send(&mut driver, request::DISCARD, 0, &bad), 1);
    }
    assert_eq!(
        send(
            &mut driver,
            request::DISCARD,
            0,
            &range(0, 1).repeat(MAX_RANGES as usize)
        ),
        0
    );
    assert_eq!(send(&mut driver, 99, 0, &[]), 2);
    assert!(!driver.needs_reset());
}

#[test]
fn a_request_without_a_header_or_a_place_for_its_status_fails_the_device() {
    let (mut driver, _file) = disk(false);
    driver.offer(0, &[&[0; 15]], &[1]);
    driver.kick(0);
    assert!(driver.needs_reset());
    driver.restart();
    driver.offer(0, &[&header(request::FLUSH, 0)], &[]);
    driver.kick(0);
    assert!(driver.needs_reset());
    driver.restart();
    assert_eq!(read(&mut driver, 5, 512), [5; 512]);
}

/// Makes a descriptor another file, as if the file behind it had changed.
fn replace(target: libc::c_int, source: &File) {
    // SAFETY: both are open descriptors of this test.
    assert!(unsafe { libc::dup2(source.as_raw_fd(), target) } >= 0);
}

#[test]
fn a_write_without_room_waits_and_is_repeated_as_a_whole() {
    let (_, file) = disk(false);
    let inner = file.try_clone().unwrap();
    let fd = inner.as_raw_fd();
    let mut driver = Driver::start(Box::new(Block::new(inner, "d", false).unwrap()));
    let full = File::options().write(true).open("/dev/full").unwrap();
    replace(fd, &full);
    let offered = driver.offer(0, &[&header(request::WRITE, 2), &[0xbb; 512]], &[1]);
    for _ in 0..2 {
        assert_eq!(driver.kick(0), Progress::NoRoom);
        assert_eq!(driver.take_used(0), None, "the guest does not notice");
    }
    replace(fd, &file);
    assert_eq!(driver.kick(0), Progress::Idle);
    assert_eq!(driver.take_used(0), Some((offered.head, 1)));
    assert_eq!(driver.input_of(offered), [0]);
    assert_eq!(read(&mut driver, 2, 512), [0xbb; 512]);
}

#[test]
fn a_reset_forgets_a_write_that_waits_for_room() {
    let (_, file) = disk(false);
    let inner = file.try_clone().unwrap();
    let fd = inner.as_raw_fd();
    let mut driver = Driver::start(Box::new(Block::new(inner, "d", false).unwrap()));
    replace(fd, &File::options().write(true).open("/dev/full").unwrap());
    driver.offer(0, &[&header(request::WRITE, 2), &[0xbb; 512]], &[1]);
    assert_eq!(driver.kick(0), Progress::NoRoom);
    replace(fd, &file);
    driver.restart();
    assert_eq!(driver.kick(0), Progress::Idle);
    assert_eq!(read(&mut driver, 2, 512), [2; 512]);
}

#[test]
fn a_host_that_fails_to_read_is_an_error_for_the_guest() {
    let (_, file) = disk(false);
    // SAFETY: the descriptor is new, and the file is its only owner.
    let inner = unsafe { File::from_raw_fd(libc::dup(file.as_raw_fd())) };
    let fd = inner.as_raw_fd();
    let mut driver = Driver::start(Box::new(Block::new(inner, "d", true).unwrap()));
    replace(fd, &File::options().write(true).open("/dev/null").unwrap());
    let answer = driver.request(0, &[&header(request::READ, 0)], 513);
    assert_eq!(answer.bytes[512], 1);
    // A file that has become shorter.
    replace(fd, &tempfile::tempfile().unwrap());
    let answer = driver.request(0, &[&header(request::READ, 0)], 513);
    assert_eq!(answer.bytes[512], 1);
}
