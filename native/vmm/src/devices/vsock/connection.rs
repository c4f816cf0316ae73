//! The one connection of the guest to its keeper, with the credit of both sides.

use super::host::ROOM_BYTES;
use super::packet::{HOST_CID, Header, NO_MORE_RECEIVED, NO_MORE_SENT, STREAM, op};

/// The guest learns of room again when it knows of less than this.
const UPDATE_BELOW_BYTES: u32 = ROOM_BYTES / 2;

/// A connection.
#[derive(Debug)]
pub struct Connection {
    guest_cid: u64,
    guest_port: u32,
    host_port: u32,
    /// Bytes that the guest has sent, and those that reached the keeper.
    received: u32,
    forwarded: u32,
    /// The last `forwarded` that the guest learned.
    told: u32,
    /// Bytes sent to the guest.
    sent: u32,
    guest_room: u32,
    guest_taken: u32,
    /// The flags of the guest's shutdowns.
    guest_shutdown: u32,
    /// The flags of ours.
    host_shutdown: u32,
    /// Packets without data that the guest must get, at most one of each.
    answer: bool,
    update: bool,
    ask: bool,
    asked: bool,
    say_shutdown: bool,
}

/// The guest broke the rules of the connection.
#[derive(Debug, PartialEq, Eq)]
pub struct Broken;

impl Connection {
    /// Begins with the guest's request.
    pub fn accept(request: &Header) -> Self {
        Self {
            guest_cid: request.source_cid,
            guest_port: request.source_port,
            host_port: request.destination_port,
            received: 0,
            forwarded: 0,
            told: 0,
            sent: 0,
            guest_room: request.room,
            guest_taken: request.taken,
            guest_shutdown: 0,
            host_shutdown: 0,
            answer: true,
            update: false,
            ask: false,
            asked: false,
            say_shutdown: false,
        }
    }

    pub fn is_of(&self, header: &Header) -> bool {
        self.guest_port == header.source_port && self.host_port == header.destination_port
    }

    /// Takes over what every packet says of the guest's room.
    pub fn learn(&mut self, header: &Header) {
        self.guest_room = header.room;
        self.guest_taken = header.taken;
        if self.credit() > 0 {
            self.asked = false;
        }
    }

    /// Returns how many bytes the guest has room for.
    pub fn credit(&self) -> u32 {
        let in_flight = self.sent.wrapping_sub(self.guest_taken);
        self.guest_room.saturating_sub(in_flight)
    }

    /// Counts data of the guest. It may not exceed the room that it knows of.
    pub fn receive(&mut self, bytes: u32) -> Result<(), Broken> {
        let in_room = self.received.wrapping_sub(self.forwarded);
        if self.guest_shutdown & NO_MORE_SENT != 0 || bytes > ROOM_BYTES.saturating_sub(in_room) {
            return Err(Broken);
        }
        self.received = self.received.wrapping_add(bytes);
        Ok(())
    }

    /// Counts bytes that reached the keeper. The guest learns of the room once it needs to.
    pub fn forward(&mut self, bytes: u32) {
        self.forwarded = self.forwarded.wrapping_add(bytes);
        let known_room = ROOM_BYTES.saturating_sub(self.received.wrapping_sub(self.told));
        if self.forwarded != self.told && known_room < UPDATE_BELOW_BYTES {
            self.update = true;
        }
    }

    /// Answers the guest's question about our room.
    pub fn tell_room(&mut self) {
        self.update = true;
    }

    /// Asks for the guest's room, once until it answers.
    pub fn ask_for_room(&mut self) {
        if !self.asked {
            self.asked = true;
            self.ask = true;
        }
    }

    /// Counts bytes sent to the guest.
    pub fn send(&mut self, bytes: u32) {
        self.sent = self.sent.wrapping_add(bytes);
    }

    /// Takes over the guest's shutdown. Returns all its flags.
    pub fn guest_shuts_down(&mut self, flags: u32) -> u32 {
        self.guest_shutdown |= flags & (NO_MORE_RECEIVED | NO_MORE_SENT);
        self.guest_shutdown
    }

    pub fn guest_receives(&self) -> bool {
        self.guest_shutdown & NO_MORE_RECEIVED == 0
    }

    /// Shuts down our side.
    pub fn shut_down(&mut self, flags: u32) {
        if self.host_shutdown | flags != self.host_shutdown {
            self.host_shutdown |= flags;
            self.say_shutdown = true;
        }
    }

    /// Returns true if we may send data.
    pub fn is_open_to_guest(&self) -> bool {
        self.host_shutdown & NO_MORE_SENT == 0 && self.guest_receives() && !self.answer
    }

    /// Returns a packet with our room.
    pub fn header(&mut self, op: u16, length: u32) -> Header {
        self.told = self.forwarded;
        self.update = false;
        Header {
            source_cid: HOST_CID,
            destination_cid: self.guest_cid,
            source_port: self.host_port,
            destination_port: self.guest_port,
            length,
            kind: STREAM,
            op,
            flags: 0,
            room: ROOM_BYTES,
            taken: self.forwarded,
        }
    }

    /// Takes the next packet without data that the guest must get.
    pub fn control_packet(&mut self) -> Option<Header> {
        if std::mem::take(&mut self.answer) {
            return Some(self.header(op::RESPONSE, 0));
        }
        if std::mem::take(&mut self.say_shutdown) {
            let flags = self.host_shutdown;
            return Some(Header {
                flags,
                ..self.header(op::SHUTDOWN, 0)
            });
        }
        if std::mem::take(&mut self.ask) {
            return Some(self.header(op::CREDIT_REQUEST, 0));
        }
        if self.update {
            return Some(self.header(op::CREDIT_UPDATE, 0));
        }
        None
    }

    pub fn has_control_packet(&self) -> bool {
        self.answer || self.say_shutdown || self.ask || self.update
    }
}
