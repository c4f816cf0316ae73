//! The registers of a virtio device over MMIO, and the life of the device behind them.

use std::sync::Arc;

use super::device::{Device, Progress, Source};
use super::failure::Failure;
use super::interrupt::Interrupt;
use super::ring::{Ring, RingAddresses, Rings};
use crate::guest_memory::GuestMemory;
use crate::state::{Reader, StateError, Writer};

/// The offsets of registers.
pub mod registers {
    pub const MAGIC: u64 = 0x00;
    pub const VERSION: u64 = 0x04;
    pub const DEVICE_ID: u64 = 0x08;
    pub const VENDOR_ID: u64 = 0x0c;
    pub const DEVICE_FEATURES: u64 = 0x10;
    pub const DEVICE_FEATURES_SELECT: u64 = 0x14;
    pub const DRIVER_FEATURES: u64 = 0x20;
    pub const DRIVER_FEATURES_SELECT: u64 = 0x24;
    pub const QUEUE_SELECT: u64 = 0x30;
    pub const QUEUE_LONGEST: u64 = 0x34;
    pub const QUEUE_SIZE: u64 = 0x38;
    pub const QUEUE_READY: u64 = 0x44;
    pub const QUEUE_NOTIFY: u64 = 0x50;
    pub const INTERRUPT_STATUS: u64 = 0x60;
    pub const INTERRUPT_ACKNOWLEDGE: u64 = 0x64;
    pub const STATUS: u64 = 0x70;
    pub const QUEUE_DESCRIPTORS_LOW: u64 = 0x80;
    pub const QUEUE_DESCRIPTORS_HIGH: u64 = 0x84;
    pub const QUEUE_AVAILABLE_LOW: u64 = 0x90;
    pub const QUEUE_AVAILABLE_HIGH: u64 = 0x94;
    pub const QUEUE_USED_LOW: u64 = 0xa0;
    pub const QUEUE_USED_HIGH: u64 = 0xa4;
    pub const CONFIG_GENERATION: u64 = 0xfc;
    pub const CONFIG: u64 = 0x100;
}
use registers::*;

/// Bits of the status.
pub mod status {
    pub const DRIVER: u32 = 2;
    pub const DRIVER_OK: u32 = 4;
    pub const FEATURES_OK: u32 = 8;
    pub const NEEDS_RESET: u32 = 64;
}

const MAGIC_VALUE: u32 = u32::from_le_bytes(*b"virt");
const VERSION_VALUE: u32 = 2;
const VENDOR: u32 = u32::from_le_bytes(*b"VOID");

/// Features of the transport.
pub const INDIRECT_DESCRIPTORS: u64 = 1 << 28;
pub const EVENT_INDEX: u64 = 1 << 29;
pub const VERSION_1: u64 = 1 << 32;

/// The limit of the configuration of a device.
const CONFIG_LIMIT_BYTES: usize = 256;

/// A queue before it starts.
#[derive(Debug, Clone, Copy, Default)]
struct QueueSetting {
    size: u16,
    addresses: RingAddresses,
}

/// A device with its registers and queues.
pub struct Transport {
    device: Box<dyn Device>,
    memory: GuestMemory,
    interrupt: Arc<Interrupt>,
    rings: Vec<Ring>,
    settings: Vec<QueueSetting>,
    status: u32,
    device_features_select: u32,
    driver_features_select: u32,
    driver_features: u64,
    queue_select: u32,
    /// Another number after each change of the configuration: a guest that reads the configuration then reads it again.
    config_generation: u32,
    /// The reason why the device needs a reset.
    failure: Option<Failure>,
    report: Box<dyn Fn(&str) + Send>,
}

impl Transport {
    pub fn new(
        device: Box<dyn Device>,
        memory: GuestMemory,
        interrupt: Arc<Interrupt>,
        report: Box<dyn Fn(&str) + Send>,
    ) -> Self {
        let rings: Vec<Ring> = device
            .queues()
            .iter()
            .map(|size| Ring::new(*size))
            .collect();
        Self {
            settings: vec![QueueSetting::default(); rings.len()],
            device,
            memory,
            interrupt,
            rings,
            status: 0,
            device_features_select: 0,
            driver_features_select: 0,
            driver_features: 0,
            queue_select: 0,
            config_generation: 0,
            failure: None,
            report,
        }
    }

    pub fn name(&self) -> &str {
        self.device.name()
    }

    pub fn queues(&self) -> usize {
        self.rings.len()
    }

    pub fn failure(&self) -> Option<&Failure> {
        self.failure.as_ref()
    }

    fn features(&self) -> u64 {
        self.device.features() | INDIRECT_DESCRIPTORS | EVENT_INDEX | VERSION_1
    }

    /// Reads a register or a part of the configuration.
    pub fn read(&mut self, offset: u64, data: &mut [u8]) {
        data.fill(0xff);
        if offset >= CONFIG {
            self.read_config(offset - CONFIG, data);
            return;
        }
        match (<&mut [u8; 4]>::try_from(data), offset % 4) {
            (Ok(data), 0) => *data = self.read_register(offset).to_le_bytes(),
            _ => self.fail(Failure::new(format!(
                "a read of register {offset:#x} of an odd width"
            ))),
        }
    }

    fn read_config(&self, offset: u64, data: &mut [u8]) {
        let config = self.device.config();
        let Ok(start) = usize::try_from(offset) else {
            return;
        };
        // Bytes behind the configuration are zero.
        data.fill(0);
        for (byte, from) in data.iter_mut().zip(config.iter().skip(start)) {
            *byte = *from;
        }
    }

    fn read_register(&self, offset: u64) -> u32 {
        let queue = self.rings.get(self.queue_select as usize);
        match offset {
            MAGIC => MAGIC_VALUE,
            VERSION => VERSION_VALUE,
            DEVICE_ID => self.device.id(),
            VENDOR_ID => VENDOR,
            DEVICE_FEATURES => half(self.features(), self.device_features_select),
            QUEUE_LONGEST => queue.map_or(0, |queue| queue.longest().into()),
            QUEUE_READY => queue.map_or(0, |queue| queue.ready().into()),
            INTERRUPT_STATUS => self.interrupt.reasons(),
            STATUS => self.status,
            CONFIG_GENERATION => self.config_generation,
            // There is no shared memory: its length is all ones.
            0xb0..=0xbc => u32::MAX,
            _ => 0,
        }
    }

    /// Writes a register or a part of the configuration.
    pub fn write(&mut self, offset: u64, data: &[u8]) {
        if offset >= CONFIG {
            if let Err(failure) = self.device.write_config(offset - CONFIG, data) {
                self.fail(failure);
            }
            return;
        }
        match (<[u8; 4]>::try_from(data), offset % 4) {
            (Ok(data), 0) => self.write_register(offset, u32::from_le_bytes(data)),
            _ => self.fail(Failure::new(format!(
                "a write of {} bytes to {offset:#x}",
                data.len()
            ))),
        }
    }

    fn write_register(&mut self, offset: u64, value: u32) {
        match offset {
            DEVICE_FEATURES_SELECT => self.device_features_select = value,
            DRIVER_FEATURES_SELECT => self.driver_features_select = value,
            DRIVER_FEATURES => self.accept_features(value),
            QUEUE_SELECT => self.queue_select = value,
            INTERRUPT_ACKNOWLEDGE => self.interrupt.acknowledge(value),
            STATUS => self.set_status(value),
            QUEUE_SIZE | QUEUE_READY | QUEUE_DESCRIPTORS_LOW..=QUEUE_USED_HIGH => {
                self.set_queue(offset, value)
            }
            _ => {}
        }
    }

    fn accept_features(&mut self, value: u32) {
        if self.status & (status::DRIVER | status::FEATURES_OK) != status::DRIVER {
            self.fail(Failure::new(
                "features before the driver or after their end",
            ));
            return;
        }
        match self.driver_features_select {
            0 => self.driver_features = self.driver_features & !0xffff_ffff | u64::from(value),
            1 => {
                self.driver_features = self.driver_features & 0xffff_ffff | u64::from(value) << 32;
            }
            _ if value == 0 => {}
            _ => self.fail(Failure::new("features beyond the last")),
        }
    }

    fn set_status(&mut self, value: u32) {
        if value == 0 {
            self.reset();
            return;
        }
        let added = value & !self.status;
        if self.status & !value & !status::NEEDS_RESET != 0 {
            self.fail(Failure::new("a status without bits that it had"));
            return;
        }
        let mut accepted = value & !status::NEEDS_RESET | self.status & status::NEEDS_RESET;
        if added & status::FEATURES_OK != 0 && !self.features_are_acceptable() {
            // The driver sees that its choice was not taken.
            accepted &= !status::FEATURES_OK;
        }
        self.status = accepted;
        if added & status::DRIVER_OK != 0 {
            self.start();
        }
    }

    fn features_are_acceptable(&self) -> bool {
        self.driver_features & !self.features() == 0 && self.driver_features & VERSION_1 != 0
    }

    fn start(&mut self) {
        if self.status & status::FEATURES_OK == 0 {
            self.fail(Failure::new("a start before the features"));
            return;
        }
        let event_index = self.driver_features & EVENT_INDEX != 0;
        for ring in &mut self.rings {
            ring.use_event_index(event_index);
        }
    }

    /// Settings of a queue are taken between the features and the start.
    fn set_queue(&mut self, offset: u64, value: u32) {
        if offset == QUEUE_READY && value == 0 {
            // A driver also stops the queues of a device that it has just reset.
            if let Some(ring) = self.rings.get_mut(self.queue_select as usize) {
                ring.stop();
            }
            return;
        }
        let phase = status::FEATURES_OK | status::DRIVER_OK;
        if self.status & phase != status::FEATURES_OK {
            self.fail(Failure::new(format!(
                "a setting of a queue ({offset:#x}) outside of its time"
            )));
            return;
        }
        let select = self.queue_select as usize;
        let (Some(ring), Some(setting)) =
            (self.rings.get_mut(select), self.settings.get_mut(select))
        else {
            self.fail(Failure::new(format!("a setting of the queue {select}")));
            return;
        };
        let addresses = &mut setting.addresses;
        match offset {
            QUEUE_SIZE => setting.size = u16::try_from(value).unwrap_or(u16::MAX),
            QUEUE_DESCRIPTORS_LOW => set_half(&mut addresses.descriptors, 0, value),
            QUEUE_DESCRIPTORS_HIGH => set_half(&mut addresses.descriptors, 1, value),
            QUEUE_AVAILABLE_LOW => set_half(&mut addresses.available, 0, value),
            QUEUE_AVAILABLE_HIGH => set_half(&mut addresses.available, 1, value),
            QUEUE_USED_LOW => set_half(&mut addresses.used, 0, value),
            QUEUE_USED_HIGH => set_half(&mut addresses.used, 1, value),
            QUEUE_READY => {
                let started = ring.start(&self.memory, setting.size, *addresses);
                if let Err(failure) = started {
                    self.fail(failure);
                }
            }
            _ => {}
        }
    }

    fn reset(&mut self) {
        self.device.reset();
        for ring in &mut self.rings {
            ring.reset();
        }
        self.settings.fill(QueueSetting::default());
        self.interrupt.acknowledge(u32::MAX);
        self.status = 0;
        self.driver_features = 0;
        self.device_features_select = 0;
        self.driver_features_select = 0;
        self.queue_select = 0;
        self.failure = None;
    }

    /// Stops the device until the guest resets it.
    fn fail(&mut self, failure: Failure) {
        if self.failure.is_some() {
            return;
        }
        self.device.reset();
        (self.report)(&format!(
            "the device {} needs a reset: {failure}",
            self.device.name()
        ));
        self.status |= status::NEEDS_RESET;
        self.failure = Some(failure);
        if self.status & status::DRIVER_OK != 0 {
            self.interrupt.changed();
        }
    }

    fn is_running(&self) -> bool {
        self.status & status::DRIVER_OK != 0 && self.failure.is_none()
    }

    /// Handles a turn of a queue that the guest has kicked.
    pub fn process(&mut self, queue: usize) -> Progress {
        if queue >= self.rings.len() {
            self.fail(Failure::new(format!("a kick of the queue {queue}")));
            return Progress::Idle;
        }
        self.turn(|device, rings| device.process(queue, rings))
    }

    /// Returns what else the device waits for.
    pub fn source(&self) -> Option<Source> {
        if self.is_running() {
            self.device.source()
        } else {
            None
        }
    }

    /// Handles events of the source.
    pub fn source_ready(&mut self, events: i16) -> Progress {
        self.turn(|device, rings| device.source_ready(events, rings))
    }

    /// Writes what the device still holds for the host.
    pub fn finish(&mut self) {
        self.device.finish();
    }

    /// Writes all that the guest knows of this device. Nothing of it is on its way.
    pub fn save(&self, to: &mut Writer) -> Result<(), StateError> {
        self.device
            .check_idle()
            .map_err(|busy| StateError::new(format!("the device {}: {busy}", self.name())))?;
        to.u32(self.device.id());
        to.list(self.device.config());
        to.u32(self.config_generation);
        to.u32(self.status);
        to.u32(self.device_features_select);
        to.u32(self.driver_features_select);
        to.u64(self.driver_features);
        to.u32(self.queue_select);
        to.u32(self.interrupt.reasons());
        to.flag(self.failure.is_some());
        if let Some(Failure(text)) = &self.failure {
            to.text(text);
        }
        to.count(self.rings.len());
        for (ring, setting) in self.rings.iter().zip(&self.settings) {
            to.u16(setting.size);
            to.u64(setting.addresses.descriptors);
            to.u64(setting.addresses.available);
            to.u64(setting.addresses.used);
            ring.save(to);
        }
        Ok(())
    }

    /// Takes over a saved device of the same kind, and interrupts its guest once. All queues have to be kicked after
    /// this. The interrupt controllers have their state already. After an error the device is of no use.
    pub fn restore(&mut self, from: &mut Reader<'_>) -> Result<(), StateError> {
        let refuse = |what: String| {
            let name = self.device.name();
            Err(StateError::new(format!("the device {name}: {what}")))
        };
        let id = from.u32()?;
        if id != self.device.id() {
            let own = self.device.id();
            return refuse(format!("it was saved as {id}, and is {own}"));
        }
        let config = from.list(CONFIG_LIMIT_BYTES, "bytes of a configuration")?;
        let changed = config != self.device.config();
        if changed && self.device.keeps_config() {
            return refuse("it was saved with another place or size".into());
        }
        let generation = from.u32()?;
        let bits = from.u32()?;
        let device_features_select = from.u32()?;
        let driver_features_select = from.u32()?;
        let driver_features = from.u64()?;
        if driver_features & !self.features() != 0 {
            return refuse(format!("its guest uses features {driver_features:#x}"));
        }
        let queue_select = from.u32()?;
        let reasons = from.u32()?;
        let failure = match from.flag()? {
            true => Some(Failure(from.text()?)),
            false => None,
        };
        let queues = from.count(self.rings.len(), "queues of a device")?;
        if queues != self.rings.len() {
            let own = self.rings.len();
            return refuse(format!("it was saved with {queues} queues, and has {own}"));
        }
        for (ring, setting) in self.rings.iter_mut().zip(&mut self.settings) {
            setting.size = from.u16()?;
            setting.addresses = RingAddresses {
                descriptors: from.u64()?,
                available: from.u64()?,
                used: from.u64()?,
            };
            ring.restore(from, &self.memory)?;
        }
        self.status = bits;
        self.device_features_select = device_features_select;
        self.driver_features_select = driver_features_select;
        self.driver_features = driver_features;
        self.queue_select = queue_select;
        self.config_generation = generation.wrapping_add(changed.into());
        self.failure = failure;
        if bits & status::DRIVER_OK != 0 {
            self.device.restored();
            self.interrupt.restore(reasons, changed);
        }
        Ok(())
    }

    fn turn(
        &mut self,
        work: impl FnOnce(&mut dyn Device, &mut Rings<'_>) -> Result<Progress, Failure>,
    ) -> Progress {
        if !self.is_running() {
            return Progress::Idle;
        }
        let mut rings = Rings {
            memory: &self.memory,
            rings: &mut self.rings,
            interrupt: &self.interrupt,
        };
        let done = work(self.device.as_mut(), &mut rings)
            .and_then(|progress| rings.notify().map(|()| progress));
        done.unwrap_or_else(|failure| {
            self.fail(failure);
            Progress::Idle
        })
    }
}

fn half(value: u64, select: u32) -> u32 {
    let half = match select {
        0 => value & 0xffff_ffff,
        1 => value >> 32,
        _ => 0,
    };
    u32::try_from(half).unwrap_or(0)
}

fn set_half(value: &mut u64, select: u32, half: u32) {
    let shift = 32 * select;
    *value = *value & !(0xffff_ffff << shift) | u64::from(half) << shift;
}
