//! The mailbox: memory that both sides reach, for data that is too much for the port.
//!
//! Only the owner of a slot writes it; each side has its own slots. A `Mail` frame names the slot with the next bytes
//! of a request's data; `MailTaken` returns the slot.

use thiserror::Error;

/// The size of one slot. Under an emulated CPU, a disk request of this size costs little more than a request of a tenth
/// of it.
pub const SLOT_BYTES: usize = 256 << 10;
/// The number of slots of each side. A sender without a free slot sends `Data` instead.
pub const SLOTS_PER_SIDE: u8 = 4;
/// The size of the whole mailbox: the keeper's slots, then the agent's.
pub const MAILBOX_BYTES: usize = 2 * SLOTS_PER_SIDE as usize * SLOT_BYTES;
/// Fewer bytes are sent as `Data`: a disk request costs more than a short frame.
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

/// Bytes at the start of a sender's slot; they never exceed the slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mail {
    slot: u8,
    bytes: u32,
}

/// An invalid reference or return, which ends the connection.
#[derive(Debug, Error, Clone, Copy, PartialEq, Eq)]
pub enum MailError {
    #[error("there is no slot {0}")]
    NoSlot(u8),
    #[error("{0} bytes of mail do not fit a slot")]
    Length(u32),
    #[error("slot {0} was returned without mail in it")]
    NotSent(u8),
    #[error("this session has no mailbox")]
    NoMailbox,
    #[error("mail for a stream without mail")]
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

    /// The size as a length in memory.
    pub fn size(self) -> usize {
        self.bytes as usize
    }
}

/// Checks that the slot exists.
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

/// The sender's record of its slots.
#[derive(Debug, Default)]
pub struct Slots {
    sent: [bool; SLOTS_PER_SIDE as usize],
}

impl Slots {
    /// Returns a free slot, which the caller owns until it is given back.
    pub fn take(&mut self) -> Option<u8> {
        let slot = (0..SLOTS_PER_SIDE).find(|slot| !self.sent[usize::from(*slot)])?;
        self.sent[usize::from(slot)] = true;
        Some(slot)
    }

    /// Returns true if no slot is in use.
    pub fn all_free(&self) -> bool {
        self.sent.iter().all(|sent| !sent)
    }

    /// Takes a slot back; returns an error for a slot that is not in use.
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
