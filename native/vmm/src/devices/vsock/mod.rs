//! The guest port: one connection of the guest to its keeper. An inherited socket carries its bytes.
//!
//! The guest connects; nothing connects to the guest. After the connection has ended, there is no other.

mod connection;
mod host;
mod packet;

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;

use crate::virtio::{Buffers, Device, Failure, MAX_DESCRIPTORS, Progress, Rings, Source};

use connection::Connection;
use host::{Host, Read};
use packet::{HEADER_BYTES, HOST_CID, Header, NO_MORE_RECEIVED, NO_MORE_SENT, STREAM, op};

pub use host::ROOM_BYTES;

const ID: u32 = 19;
const QUEUE_SIZE: u16 = 128;
const RECEIVE: usize = 0;
const TRANSMIT: usize = 1;
const EVENT: usize = 2;
/// The event after which the guest ends its connections and reads its CID again: `VIRTIO_VSOCK_EVENT_TRANSPORT_RESET`.
const TRANSPORT_RESET: [u8; 4] = 0u32.to_le_bytes();
/// The limit of resets that wait for a buffer of the guest. Then the guest's packets wait.
const MAX_RESETS: usize = 64;

/// The device.
pub struct Vsock {
    guest_cid: u64,
    port: u32,
    config: [u8; 8],
    host: Host,
    connection: Option<Connection>,
    /// The connection has ended, so the socket is of no further use.
    is_over: bool,
    resets: VecDeque<Header>,
    /// The guest has offered no buffer since we needed one.
    is_starved: bool,
    /// The guest has not yet learned that its connections are gone.
    owes_reset: bool,
    vectors: Vec<libc::iovec>,
}

// SAFETY: the vectors are only used within a call of `deliver`; they are empty in between.
unsafe impl Send for Vsock {}

impl Vsock {
    /// Makes a guest port for connections to `port` of the host, over `socket`, a stream.
    pub fn new(socket: OwnedFd, guest_cid: u32, port: u32) -> io::Result<Self> {
        let guest_cid = u64::from(guest_cid);
        Ok(Self {
            guest_cid,
            port,
            config: guest_cid.to_le_bytes(),
            host: Host::new(socket)?,
            connection: None,
            is_over: false,
            resets: VecDeque::with_capacity(MAX_RESETS),
            is_starved: false,
            owes_reset: false,
            vectors: Vec::with_capacity(MAX_DESCRIPTORS),
        })
    }

    /// Ends the connection for the keeper. It still gets the bytes that wait.
    fn close(&mut self) {
        self.connection = None;
        self.is_over = true;
        self.host.end_receiving();
        self.host.end_sending();
    }

    /// Refuses a packet, or ends the connection of the packet for the guest.
    fn reset_sender(&mut self, of: &Header) {
        self.resets.push_back(Header {
            source_cid: of.destination_cid,
            destination_cid: of.source_cid,
            source_port: of.destination_port,
            destination_port: of.source_port,
            kind: STREAM,
            op: op::RESET,
            ..Header::default()
        });
    }

    /// Handles a packet of the guest.
    fn receive(&mut self, header: &Header, data: &Buffers<'_>) {
        if header.source_cid != self.guest_cid {
            // There is no sender to whom a reset could go.
            return;
        }
        let is_ours = header.destination_cid == HOST_CID
            && header.destination_port == self.port
            && header.kind == STREAM;
        let is_known = self
            .connection
            .as_ref()
            .is_some_and(|connection| is_ours && connection.is_of(header));
        if is_known {
            self.receive_known(header, data);
        } else if header.op == op::REQUEST && is_ours && self.connection.is_none() && !self.is_over
        {
            self.connection = Some(Connection::accept(header));
        } else if header.op != op::RESET {
            self.reset_sender(header);
        }
    }

    /// Handles a packet of the connection.
    fn receive_known(&mut self, header: &Header, data: &Buffers<'_>) {
        let Some(connection) = &mut self.connection else {
            return;
        };
        connection.learn(header);
        match header.op {
            op::CREDIT_UPDATE => {}
            op::CREDIT_REQUEST => connection.tell_room(),
            op::RESET => self.close(),
            op::SHUTDOWN => {
                let flags = connection.guest_shuts_down(header.flags);
                if flags == NO_MORE_RECEIVED | NO_MORE_SENT {
                    self.reset_sender(header);
                    self.close();
                } else if flags & NO_MORE_SENT != 0 {
                    self.host.end_sending();
                } else if flags & NO_MORE_RECEIVED != 0 {
                    self.host.end_receiving();
                }
            }
            op::DATA if connection.receive(header.length).is_ok() => {
                let slices = data.slices(HEADER_BYTES, header.length as usize);
                let sent = self.host.take(slices);
                self.forwarded(sent);
            }
            _ => {
                self.reset_sender(header);
                self.close();
            }
        }
    }

    /// Counts bytes that left for the keeper, and says if it is gone.
    fn forwarded(&mut self, bytes: usize) {
        if let Some(connection) = &mut self.connection {
            connection.forward(u32::try_from(bytes).unwrap_or(u32::MAX));
            if self.host.is_deaf() {
                connection.shut_down(NO_MORE_RECEIVED | NO_MORE_SENT);
            }
        }
    }

    /// Handles the packets that the guest has sent.
    fn transmit(&mut self, rings: &mut Rings<'_>) -> Result<bool, Failure> {
        let memory = rings.memory;
        for _ in 0..rings.turn(TRANSMIT) {
            if self.resets.len() >= MAX_RESETS {
                return Ok(false);
            }
            let Some(chain) = rings.next(TRANSMIT)? else {
                return Ok(false);
            };
            let packet = chain.readable(memory);
            let Some(header) = Header::read(&packet) else {
                return Err(Failure::new("a packet without a whole header"));
            };
            if header.length > packet.len() - HEADER_BYTES {
                return Err(Failure::new("a packet that is longer than its buffers"));
            }
            self.receive(&header, &packet);
            // The guest only frees it. A round trip then costs one interrupt, for the answer.
            rings.complete_lazily(TRANSMIT, 0)?;
        }
        Ok(true)
    }

    fn wants_data(&self) -> bool {
        self.connection
            .as_ref()
            .is_some_and(|c| c.is_open_to_guest() && c.credit() > 0)
    }

    /// Fills the guest's buffers. Returns true if there may be more to do at once.
    fn deliver(&mut self, rings: &mut Rings<'_>) -> Result<bool, Failure> {
        let was_full = self.resets.len() >= MAX_RESETS;
        for _ in 0..rings.turn(RECEIVE) {
            self.ask_for_room();
            let has_control = !self.resets.is_empty()
                || self
                    .connection
                    .as_ref()
                    .is_some_and(Connection::has_control_packet);
            if !has_control && !self.wants_data() {
                return Ok(was_full);
            }
            if !self.deliver_one(rings, has_control)? {
                return Ok(was_full && self.resets.len() < MAX_RESETS);
            }
        }
        Ok(true)
    }

    fn ask_for_room(&mut self) {
        if let Some(connection) = &mut self.connection
            && connection.is_open_to_guest()
            && connection.credit() == 0
        {
            connection.ask_for_room();
        }
    }

    /// Fills one buffer. Returns false if there is no buffer, or nothing for it.
    fn deliver_one(&mut self, rings: &mut Rings<'_>, has_control: bool) -> Result<bool, Failure> {
        let memory = rings.memory;
        let Some(chain) = rings.next(RECEIVE)? else {
            self.is_starved = true;
            return Ok(false);
        };
        let buffers = chain.writable(memory);
        let Some(room) = buffers.len().checked_sub(HEADER_BYTES) else {
            return Err(Failure::new("a buffer without room for a header"));
        };
        let header = if has_control {
            self.take_control_packet()
        } else {
            self.take_data(&buffers, room)?
        };
        let Some(header) = header else {
            rings.put_back(RECEIVE);
            return Ok(false);
        };
        buffers.write(0, &header.bytes());
        rings.complete(RECEIVE, HEADER_BYTES + header.length)?;
        Ok(true)
    }

    fn take_control_packet(&mut self) -> Option<Header> {
        self.resets
            .pop_front()
            .or_else(|| self.connection.as_mut()?.control_packet())
    }

    /// Reads data of the keeper behind the place of a header.
    fn take_data(&mut self, buffers: &Buffers<'_>, room: u32) -> Result<Option<Header>, Failure> {
        let Some(connection) = &mut self.connection else {
            return Ok(None);
        };
        if room == 0 {
            return Err(Failure::new("a buffer without room for data"));
        }
        let length = room.min(connection.credit()) as usize;
        buffers.vectors(HEADER_BYTES, length, &mut self.vectors);
        let read = self.host.read(&self.vectors);
        self.vectors.clear();
        match read {
            Read::Nothing => Ok(None),
            Read::Bytes(bytes) => {
                let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
                connection.send(bytes);
                Ok(Some(connection.header(op::DATA, bytes)))
            }
            Read::End => {
                let flags = if self.host.is_gone() {
                    NO_MORE_RECEIVED | NO_MORE_SENT
                } else {
                    NO_MORE_SENT
                };
                connection.shut_down(flags);
                Ok(connection.control_packet())
            }
        }
    }

    /// Tells the guest that its connections are gone, once it has a buffer for this.
    fn deliver_reset(&mut self, rings: &mut Rings<'_>) -> Result<(), Failure> {
        if !self.owes_reset {
            return Ok(());
        }
        let memory = rings.memory;
        let Some(chain) = rings.next(EVENT)? else {
            return Ok(());
        };
        if !chain.writable(memory).write(0, &TRANSPORT_RESET) {
            return Err(Failure::new("a buffer without room for an event"));
        }
        self.owes_reset = false;
        rings.complete(EVENT, u32::try_from(TRANSPORT_RESET.len()).unwrap_or(0))
    }

    /// Works in both directions until there is nothing to do now.
    fn work(&mut self, rings: &mut Rings<'_>, transmit: bool) -> Result<Progress, Failure> {
        let mut more = transmit && self.transmit(rings)?;
        if self.deliver(rings)? {
            more = true;
        }
        Ok(if more { Progress::More } else { Progress::Idle })
    }
}

impl Device for Vsock {
    fn name(&self) -> &str {
        "vsock"
    }

    fn id(&self) -> u32 {
        ID
    }

    fn queues(&self) -> &'static [u16] {
        &[QUEUE_SIZE, QUEUE_SIZE, QUEUE_SIZE]
    }

    fn features(&self) -> u64 {
        0
    }

    fn config(&self) -> &[u8] {
        &self.config
    }

    fn reset(&mut self) {
        // A device that is reset waits for nothing, so the keeper would never get the rest, or the end behind it.
        if self.connection.take().is_some() || self.host.has_waiting() {
            self.is_over = true;
            self.host.cut();
        }
        self.resets.clear();
        self.is_starved = false;
        self.owes_reset = false;
    }

    fn process(&mut self, queue: usize, rings: &mut Rings<'_>) -> Result<Progress, Failure> {
        match queue {
            RECEIVE => {
                self.is_starved = false;
                // Packets of the guest may wait for room for their resets.
                self.work(rings, true)
            }
            TRANSMIT => self.work(rings, true),
            _ => self.deliver_reset(rings).map(|()| Progress::Idle),
        }
    }

    fn check_idle(&self) -> Result<(), Failure> {
        match self.resets.len() {
            0 => Ok(()),
            _ => Err(Failure::new("a reset waits for a buffer of the guest")),
        }
    }

    /// The connection belongs to the VM that was saved. A copy makes its own.
    fn restored(&mut self) {
        self.owes_reset = true;
    }

    fn source(&self) -> Option<Source> {
        let mut events = 0;
        if self.wants_data() && !self.is_starved {
            events |= libc::POLLIN;
        }
        if self.host.has_waiting() {
            events |= libc::POLLOUT;
        }
        (events != 0).then(|| Source {
            fd: self.host.fd(),
            events,
        })
    }

    fn source_ready(&mut self, _events: i16, rings: &mut Rings<'_>) -> Result<Progress, Failure> {
        let sent = self.host.flush();
        self.forwarded(sent);
        self.work(rings, false)
    }

    fn finish(&mut self) {
        self.host.flush();
    }
}

#[cfg(test)]
mod tests;
