//! A piece of a request's data, from a frame or from the mailbox.

use std::io;

use voidbox_protocol::mailbox::Mail;

use crate::mailbox::{Block, Mailbox};

/// A piece of a request's data that its reader owns: a frame's bytes, or the mailbox's bytes in a block that is reused
/// for the next piece.
#[derive(Default)]
pub struct Chunk {
    frame: Vec<u8>,
    block: Option<Block>,
    /// The number of the block's bytes in the chunk; 0 if the chunk is a frame.
    block_bytes: usize,
}

impl Chunk {
    pub fn bytes(&self) -> &[u8] {
        match &self.block {
            Some(block) if self.block_bytes > 0 => &block.bytes()[..self.block_bytes],
            _ => &self.frame,
        }
    }

    pub fn put_frame(&mut self, bytes: Vec<u8>) {
        self.frame = bytes;
        self.block_bytes = 0;
    }

    /// Reads mail from its slot. The caller gives the slot back, whatever the outcome.
    pub fn put_mail(&mut self, mailbox: &Mailbox, mail: Mail) -> io::Result<()> {
        mailbox.read(mail, self.block_of(mail.size()))?;
        self.block_bytes = mail.size();
        Ok(())
    }

    /// Replaces the block by one whose first `bytes` are mail that was already read; returns the previous block.
    pub fn put_block(&mut self, block: Block, bytes: usize) -> Option<Block> {
        self.block_bytes = bytes;
        self.block.replace(block)
    }

    /// Returns the block if it has room for `bytes`, otherwise a new one.
    fn block_of(&mut self, bytes: usize) -> &mut Block {
        let block = self
            .block
            .take()
            .filter(|block| block.bytes().len() >= bytes);
        self.block
            .insert(block.unwrap_or_else(|| Block::new(bytes)))
    }
}
