//! The mailbox: a small disk that the keeper shares, for data that is too much for the port.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::sync::Mutex;

use voidbox_protocol::mailbox::{Mail, MailError, SLOT_BYTES, Side, Slots, slot_offset};

use crate::disks;
use crate::lock::lock;

/// The serial number that the keeper gives the disk.
const SERIAL: &str = "voidbox-mailbox";
/// The alignment of memory and lengths for reads of a disk that bypass the page cache.
pub const PAGE_BYTES: usize = 4096;

#[repr(C, align(4096))]
#[derive(Clone, Copy)]
struct Page([u8; PAGE_BYTES]);

/// Memory for reads and writes of the disk, at most a slot's worth.
pub struct Block(Vec<Page>);

impl Block {
    /// Creates a block for `bytes`, or for a whole slot if that is smaller.
    pub fn new(bytes: usize) -> Self {
        let pages = bytes.min(SLOT_BYTES).div_ceil(PAGE_BYTES);
        Self(vec![Page([0; PAGE_BYTES]); pages])
    }

    pub fn bytes(&self) -> &[u8] {
        // SAFETY: a page is its bytes and nothing else.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast(), self.0.len() * PAGE_BYTES) }
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: a page is its bytes and nothing else, and any bytes are a page.
        unsafe {
            std::slice::from_raw_parts_mut(self.0.as_mut_ptr().cast(), self.0.len() * PAGE_BYTES)
        }
    }
}

/// The limit of blocks that are kept for the next mail.
const SPARE_BLOCKS: usize = 4;

pub struct Mailbox {
    disk: File,
    slots: Mutex<Slots>,
    /// Kept blocks: a new block would need new pages of the kernel, which costs more than the transfer of its bytes.
    spare: Mutex<Vec<Block>>,
}

impl Mailbox {
    pub fn new(disk: File) -> Self {
        Self {
            disk,
            slots: Mutex::default(),
            spare: Mutex::default(),
        }
    }

    /// Returns a block for `bytes`, with arbitrary earlier contents.
    pub fn take_block(&self, bytes: usize) -> Block {
        let spare = lock(&self.spare).pop();
        spare
            .filter(|block| block.bytes().len() >= bytes.min(SLOT_BYTES))
            .unwrap_or_else(|| Block::new(bytes))
    }

    /// Keeps a block without a reader for the next request that needs one.
    pub fn give_block(&self, block: Block) {
        let mut spare = lock(&self.spare);
        if spare.len() < SPARE_BLOCKS {
            spare.push(block);
        }
    }

    /// Opens the guest's mailbox disk so that it bypasses the page cache, because the keeper writes to it without the
    /// guest's kernel. `None` if the machine has no mailbox.
    pub fn find() -> io::Result<Option<Self>> {
        let Some(path) = disks::by_serial(SERIAL) else {
            return Ok(None);
        };
        let disk = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_DIRECT)
            .open(path)?;
        Ok(Some(Self::new(disk)))
    }

    /// Reserves a free slot of the agent.
    pub fn take_slot(&self) -> Option<u8> {
        lock(&self.slots).take()
    }

    /// Records that the keeper has read a slot of the agent.
    pub fn give_back(&self, slot: u8) -> Result<(), MailError> {
        lock(&self.slots).give_back(slot)
    }

    /// Writes the block's first bytes into a slot of the agent.
    pub fn write(&self, mail: Mail, block: &Block) -> io::Result<()> {
        let bytes = &block.bytes()[..mail.size().next_multiple_of(PAGE_BYTES)];
        self.disk
            .write_all_at(bytes, slot_offset(Side::Agent, mail.slot()))
    }

    /// Reads the keeper's mail into the block.
    pub fn read(&self, mail: Mail, block: &mut Block) -> io::Result<()> {
        let bytes = &mut block.bytes_mut()[..mail.size().next_multiple_of(PAGE_BYTES)];
        self.disk
            .read_exact_at(bytes, slot_offset(Side::Keeper, mail.slot()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use voidbox_protocol::mailbox::MAILBOX_BYTES;

    #[test]
    fn a_block_goes_into_our_slot_and_comes_out_of_the_keepers() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(MAILBOX_BYTES as u64).unwrap();
        let mailbox = Mailbox::new(file.try_clone().unwrap());
        let mut block = Block::new(5);
        block.bytes_mut()[..5].copy_from_slice(b"hello");
        mailbox.write(Mail::new(1, 5).unwrap(), &block).unwrap();
        let mut there = [0; 5];
        file.read_exact_at(&mut there, slot_offset(Side::Agent, 1))
            .unwrap();
        assert_eq!(&there, b"hello");
        file.write_all_at(b"world", slot_offset(Side::Keeper, 3))
            .unwrap();
        mailbox.read(Mail::new(3, 5).unwrap(), &mut block).unwrap();
        assert_eq!(&block.bytes()[..5], b"world");
    }
}
