//! The mailbox: memory that the guest sees as a small disk, for data that is too much for the port.
//!
//! The keeper reads and writes it only by system calls, and never maps it: the guest may change it at any moment, so
//! the keeper checks and uses a single copy.

use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::rc::Rc;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use voidbox_protocol::mailbox::{MAILBOX_BYTES, Mail, MailError, Side, Slots, slot_offset};

/// Creates anonymous memory of the mailbox's size. It is sealed, so no holder of its descriptor can change the size.
pub fn memory() -> io::Result<File> {
    let memory = memfd_create(
        "voidbox-mailbox",
        MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING,
    )?;
    ftruncate(&memory, MAILBOX_BYTES as u64)?;
    fcntl_add_seals(
        &memory,
        SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL,
    )?;
    Ok(memory.into())
}

/// A mailbox that both sides have agreed to use.
#[derive(Debug)]
pub struct Mailbox {
    memory: File,
    slots: RefCell<Slots>,
    /// Memory for the next piece. The C library returns memory of this size to the kernel each time, and new pages cost
    /// more than the copy of their bytes.
    spare: RefCell<Vec<u8>>,
}

/// A slot of the keeper. If it is dropped before its mail was sent, it is free again.
pub struct Slot {
    mailbox: Rc<Mailbox>,
    number: u8,
    is_sent: bool,
}

impl Mailbox {
    pub fn new(memory: File) -> Rc<Self> {
        Rc::new(Self {
            memory,
            slots: RefCell::default(),
            spare: RefCell::default(),
        })
    }

    /// Returns another descriptor of the memory, for the next session of its guest.
    pub fn memory(&self) -> io::Result<File> {
        self.memory.try_clone()
    }

    /// Reserves a free slot of the keeper.
    pub fn take_slot(self: &Rc<Self>) -> Option<Slot> {
        let number = self.slots.borrow_mut().take()?;
        Some(Slot {
            mailbox: self.clone(),
            number,
            is_sent: false,
        })
    }

    /// Records that the guest has read a slot of the keeper.
    pub fn give_back(&self, slot: u8) -> Result<(), MailError> {
        self.slots.borrow_mut().give_back(slot)
    }

    /// Reads the guest's mail.
    pub fn read(&self, mail: Mail) -> io::Result<Vec<u8>> {
        let mut bytes = self.spare.take();
        bytes.resize(mail.size(), 0);
        self.memory
            .read_exact_at(&mut bytes, slot_offset(Side::Agent, mail.slot()))?;
        Ok(bytes)
    }

    /// Keeps the memory of a piece that was used.
    pub fn keep(&self, piece: Vec<u8>) {
        if piece.capacity() > self.spare.borrow().capacity() {
            self.spare.replace(piece);
        }
    }
}

impl Slot {
    /// Writes bytes into the slot. Returns an error for no bytes, and for more bytes than a slot has.
    pub fn write(&self, bytes: &[u8]) -> io::Result<Mail> {
        let invalid = |_| io::Error::from(io::ErrorKind::InvalidInput);
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let mail = Mail::new(self.number, length).map_err(invalid)?;
        let offset = slot_offset(Side::Keeper, self.number);
        self.mailbox.memory.write_all_at(bytes, offset)?;
        Ok(mail)
    }

    /// Records that the mail was sent: from here on, the guest gives the slot back.
    pub fn sent(mut self) {
        self.is_sent = true;
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if !self.is_sent {
            self.mailbox
                .give_back(self.number)
                .expect("a slot in hand is out");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use voidbox_protocol::mailbox::SLOT_BYTES;

    #[test]
    fn the_memory_keeps_its_size() {
        let memory = memory().unwrap();
        assert_eq!(memory.metadata().unwrap().len(), MAILBOX_BYTES as u64);
        assert!(memory.set_len(0).is_err());
        assert!(memory.set_len(2 * MAILBOX_BYTES as u64).is_err());
    }

    #[test]
    fn a_piece_has_its_own_bytes_in_the_memory_of_an_earlier_one() {
        let mailbox = Mailbox::new(memory().unwrap());
        let offset = slot_offset(Side::Agent, 2);
        let read = |text: &[u8]| {
            mailbox.memory.write_all_at(text, offset).unwrap();
            let bytes = u32::try_from(text.len()).unwrap();
            mailbox.read(Mail::new(2, bytes).unwrap()).unwrap()
        };
        let first = read(&[7; SLOT_BYTES]);
        let (place, copy) = (first.as_ptr(), first.clone());
        mailbox.keep(first);
        // It is too small to take the place of the first one.
        mailbox.keep(vec![1; 3]);
        let second = read(b"abc");
        assert_eq!((second.as_ptr(), &second[..]), (place, &b"abc"[..]));
        let third = read(&copy);
        assert_ne!(third.as_ptr(), place);
    }

    #[test]
    fn a_slot_that_was_not_sent_is_free_again() {
        let mailbox = Mailbox::new(memory().unwrap());
        let all: Vec<Slot> = std::iter::from_fn(|| mailbox.take_slot()).collect();
        let mut all = all.into_iter();
        let sent = all.next().unwrap();
        assert!(sent.write(&vec![1; SLOT_BYTES + 1]).is_err());
        let mail = sent.write(b"abc").unwrap();
        sent.sent();
        drop(all);
        assert_eq!(
            std::iter::from_fn(|| mailbox.take_slot())
                .map(Slot::sent)
                .count(),
            3
        );
        mailbox.give_back(mail.slot()).unwrap();
        assert!(mailbox.give_back(mail.slot()).is_err());
    }
}
