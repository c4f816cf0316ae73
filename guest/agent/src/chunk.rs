//! A piece of a request's data, wherever it came in.

use std::io;

use voidbox_protocol::mailbox::Mail;

use crate::mailbox::{Block, Mailbox};

/// A piece of a request's data in its reader's hands: a frame's, or the mailbox's in a block that
/// is used again for the next piece.
#[derive(Default)]
pub struct Chunk {
    frame: Vec<u8>,
    block: Option<Block>,
    /// Bytes of the block that are the chunk; 0 when the frame is.
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

    /// Takes mail out of its slot, which the caller gives back whatever comes of it.
    pub fn put_mail(&mut self, mailbox: &Mailbox, mail: Mail) -> io::Result<()> {
        mailbox.read(mail, self.block_of(mail.size()))?;
        self.block_bytes = mail.size();
        Ok(())
    }

    /// Takes a block whose first `bytes` are mail that came out of its slot before; the answer is the
    /// block that was in use.
    pub fn put_block(&mut self, block: Block, bytes: usize) -> Option<Block> {
        self.block_bytes = bytes;
        self.block.replace(block)
    }

    /// The block, when it has room for `bytes`; else a new one.
    fn block_of(&mut self, bytes: usize) -> &mut Block {
        let block = self
            .block
            .take()
            .filter(|block| block.bytes().len() >= bytes);
        self.block
            .insert(block.unwrap_or_else(|| Block::new(bytes)))
    }
}
