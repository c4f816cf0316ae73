//! The mailbox: memory that both sides reach, for data that is too much for the port.
//!
//! Each side has slots that it alone writes. A `Mail` frame says which slot holds the next bytes of
//! a request's data; `MailTaken` gives the slot back.

use thiserror::Error;

/// Bytes of one slot. A disk request of this size costs an emulated CPU little more than one of a
/// tenth of it.
pub const SLOT_BYTES: usize = 256 << 10;
/// Slots that each side has. A sender without a free slot sends `Data` instead.
pub const SLOTS_PER_SIDE: u8 = 4;
/// Size of the whole mailbox: the keeper's slots, then the agent's.
pub const MAILBOX_BYTES: usize = 2 * SLOTS_PER_SIDE as usize * SLOT_BYTES;
/// Fewer bytes go as `Data`: a disk request costs more than a short frame.
pub const MIN_MAIL_BYTES: usize = 32 << 10;

const _: () = assert!(
    SLOT_BYTES + crate::credit::GRANT_BYTES as usize <= crate::credit::WINDOW_BYTES as usize,
    "a sender that waits for a slot's worth of credit must get it"
);

/// The side that writes a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Keeper,
    Agent,
}

/// Bytes at the start of a slot of the sender. Always within the slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mail {
    slot: u8,
    bytes: u32,
}

/// A reference or a return that cannot be. It ends the connection.
#[derive(Debug, Error, Clone, Copy, PartialEq, Eq)]
pub enum MailError {
    #[error("there is no slot {0}")]
    NoSlot(u8),
    #[error("{0} bytes of mail do not stand in a slot")]
    Length(u32),
    #[error("slot {0} was given back without mail in it")]
    NotSent(u8),
    #[error("this session has no mailbox")]
    NoMailbox,
    #[error("mail for a stream that has none")]
    Stream,
    #[error(transparent)]
    Credit(#[from] crate::credit::CreditError),
}

impl Mail {
    pub fn new(slot: u8, bytes: u32) -> Result<Self, MailError> {
        checked_slot(slot)?;
        if bytes == 0 || bytes as usize > SLOT_BYTES {
            return Err(MailError::Length(bytes));
        }
        Ok(Self { slot, bytes })
    }

    pub fn slot(self) -> u8 {
        self.slot
    }

    pub fn bytes(self) -> u32 {
        self.bytes
    }

    /// The same as a length in memory.
    pub fn size(self) -> usize {
        self.bytes as usize
    }
}

/// The number of a slot that exists.
pub fn checked_slot(slot: u8) -> Result<u8, MailError> {
    if slot < SLOTS_PER_SIDE {
        return Ok(slot);
    }
    Err(MailError::NoSlot(slot))
}

/// Returns the offset of a side's slot in the mailbox, in bytes.
pub fn slot_offset(side: Side, slot: u8) -> u64 {
    let first = match side {
        Side::Keeper => 0,
        Side::Agent => SLOTS_PER_SIDE,
    };
    u64::from(first + slot) * SLOT_BYTES as u64
}

/// The sender's account of its slots.
#[derive(Debug, Default)]
pub struct Slots {
    sent: [bool; SLOTS_PER_SIDE as usize],
}

impl Slots {
    /// A slot that is the caller's until it is given back.
    pub fn take(&mut self) -> Option<u8> {
        let slot = (0..SLOTS_PER_SIDE).find(|slot| !self.sent[usize::from(*slot)])?;
        self.sent[usize::from(slot)] = true;
        Some(slot)
    }

    /// True when no slot is out.
    pub fn all_free(&self) -> bool {
        self.sent.iter().all(|sent| !sent)
    }

    /// Takes a slot back; one that is not out is a broken peer.
    pub fn give_back(&mut self, slot: u8) -> Result<(), MailError> {
        let sent = &mut self.sent[usize::from(checked_slot(slot)?)];
        if !std::mem::take(sent) {
            return Err(MailError::NotSent(slot));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_taken_once_and_given_back_once() {
        let mut slots = Slots::default();
        let taken: Vec<u8> = std::iter::from_fn(|| slots.take()).collect();
        assert_eq!(taken, (0..SLOTS_PER_SIDE).collect::<Vec<_>>());
        slots.give_back(2).unwrap();
        assert_eq!(slots.give_back(2), Err(MailError::NotSent(2)));
        assert_eq!(
            slots.give_back(SLOTS_PER_SIDE),
            Err(MailError::NoSlot(SLOTS_PER_SIDE))
        );
        assert_eq!((slots.take(), slots.take()), (Some(2), None));
    }

    #[test]
    fn mail_stands_within_its_slot() {
        let slot_bytes = u32::try_from(SLOT_BYTES).unwrap();
        assert!(Mail::new(SLOTS_PER_SIDE - 1, slot_bytes).is_ok());
        assert_eq!(
            Mail::new(SLOTS_PER_SIDE, 1),
            Err(MailError::NoSlot(SLOTS_PER_SIDE))
        );
        assert_eq!(Mail::new(0, 0), Err(MailError::Length(0)));
        assert_eq!(
            Mail::new(0, slot_bytes + 1),
            Err(MailError::Length(slot_bytes + 1))
        );
    }

    #[test]
    fn no_two_slots_overlap_and_all_are_within_the_mailbox() {
        let offsets: Vec<u64> = [Side::Keeper, Side::Agent]
            .into_iter()
            .flat_map(|side| (0..SLOTS_PER_SIDE).map(move |slot| slot_offset(side, slot)))
            .collect();
        for (index, offset) in (0u64..).zip(&offsets) {
            assert_eq!(*offset, index * SLOT_BYTES as u64);
        }
        assert_eq!(
            offsets.last().unwrap() + SLOT_BYTES as u64,
            MAILBOX_BYTES as u64
        );
    }
}
