//! The virtio devices at their addresses, for the virtual CPUs and for the thread of the devices.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

use crate::arch::layout;
use crate::guest_memory::GuestMemory;
use crate::virtio::{Device, Interrupt, Transport, registers};

/// A device, the descriptors of its queues' kicks, and its interrupt.
pub struct Slot {
    transport: Mutex<Transport>,
    interrupt: Arc<Interrupt>,
    kicks: Vec<EventFd>,
    kicked: AtomicU64,
}

impl Slot {
    /// `report` learns of each failure of the device, as one line.
    pub fn new(
        device: Box<dyn Device>,
        memory: GuestMemory,
        report: impl Fn(&str) + Send + 'static,
    ) -> io::Result<Self> {
        let interrupt = Arc::new(Interrupt::new()?);
        let transport = Transport::new(device, memory, interrupt.clone(), Box::new(report));
        let kicks = (0..transport.queues())
            .map(|_| EventFd::new(EFD_NONBLOCK))
            .collect::<io::Result<_>>()?;
        Ok(Self {
            transport: Mutex::new(transport),
            interrupt,
            kicks,
            kicked: AtomicU64::new(0),
        })
    }

    pub fn transport(&self) -> MutexGuard<'_, Transport> {
        self.transport
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub fn interrupt(&self) -> &Interrupt {
        &self.interrupt
    }

    /// Returns a descriptor for each queue, which is readable after a kick.
    pub fn kicks(&self) -> &[EventFd] {
        &self.kicks
    }

    /// Makes the descriptor of a queue unreadable until the next kick.
    pub fn take_kicks(&self, queue: usize) {
        // It is readable, or another wait has read it.
        if let Ok(count) = self.kicks[queue].read() {
            self.kicked.fetch_add(count, Ordering::Relaxed);
        }
    }

    /// Returns the number of kicks that were taken.
    pub fn kicked(&self) -> u64 {
        self.kicked.load(Ordering::Relaxed)
    }
}

/// All virtio devices of a VM.
pub struct Bus {
    slots: Vec<Slot>,
    unknown: AtomicU64,
}

impl Bus {
    pub fn new(slots: Vec<Slot>) -> Self {
        Self {
            slots,
            unknown: AtomicU64::new(0),
        }
    }

    pub fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// Returns the number of accesses to addresses without a device.
    pub fn unknown(&self) -> u64 {
        self.unknown.load(Ordering::Relaxed)
    }

    fn find(&self, address: u64) -> Option<(&Slot, u64)> {
        let offset = address.checked_sub(layout::DEVICES)?;
        let index = usize::try_from(offset / layout::DEVICE_SIZE).ok()?;
        Some((self.slots.get(index)?, offset % layout::DEVICE_SIZE))
    }

    /// Reads for a virtual CPU. Addresses without a device read as ones.
    pub fn read(&self, address: u64, data: &mut [u8]) {
        match self.find(address) {
            // An interrupt handler must not wait for the thread of the devices.
            Some((slot, registers::INTERRUPT_STATUS)) if data.len() == 4 => {
                data.copy_from_slice(&slot.interrupt.reasons().to_le_bytes());
            }
            Some((slot, offset)) => slot.transport().read(offset, data),
            None => {
                self.unknown.fetch_add(1, Ordering::Relaxed);
                data.fill(0xff);
            }
        }
    }

    /// Writes for a virtual CPU. Writes to addresses without a device have no effect.
    pub fn write(&self, address: u64, data: &[u8]) {
        let word = <[u8; 4]>::try_from(data).map(u32::from_le_bytes);
        match (self.find(address), word) {
            (Some((slot, registers::INTERRUPT_ACKNOWLEDGE)), Ok(reasons)) => {
                slot.interrupt.acknowledge(reasons);
            }
            // KVM itself handles most kicks of queues that exist.
            (Some((slot, registers::QUEUE_NOTIFY)), Ok(queue)) => {
                match slot.kicks.get(queue as usize) {
                    Some(kick) => {
                        // It fails only at a full counter, by which the thread of the devices has a kick to serve already.
                        let _ = kick.write(1);
                    }
                    None => {
                        slot.transport().process(queue as usize);
                    }
                }
            }
            (Some((slot, offset)), _) => slot.transport().write(offset, data),
            (None, _) => {
                self.unknown.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use vm_memory::GuestAddress;

    use super::*;
    use crate::devices::rng::Rng;

    fn bus() -> Bus {
        let memory = GuestMemory::from_ranges(&[(GuestAddress(0), 0x1_0000)]).unwrap();
        let slot = || Slot::new(Box::new(Rng), memory.clone(), |_| ()).unwrap();
        Bus::new(vec![slot(), slot()])
    }

    fn read(bus: &Bus, address: u64) -> u32 {
        let mut data = [0; 4];
        bus.read(address, &mut data);
        u32::from_le_bytes(data)
    }

    #[test]
    fn each_device_answers_at_its_address_and_no_other_does() {
        let bus = bus();
        for index in 0..2 {
            let at = layout::device_address(index);
            assert_eq!(read(&bus, at), u32::from_le_bytes(*b"virt"));
            assert_eq!(read(&bus, at + registers::DEVICE_ID), 4);
        }
        for address in [
            layout::device_address(2),
            layout::DEVICES - 4,
            0,
            u64::MAX - 3,
        ] {
            assert_eq!(read(&bus, address), u32::MAX);
            bus.write(address, &[0; 4]);
        }
        assert_eq!(bus.unknown(), 8);
    }

    #[test]
    fn a_kick_that_kvm_did_not_take_reaches_its_queue_and_no_further_one() {
        let bus = bus();
        let notify = layout::device_address(1) + registers::QUEUE_NOTIFY;
        bus.write(notify, &0u32.to_le_bytes());
        assert_eq!(bus.slots()[1].kicks()[0].read().unwrap(), 1);
        bus.write(notify, &1u32.to_le_bytes());
        assert!(bus.slots()[1].transport().failure().is_some());
        assert!(bus.slots()[0].transport().failure().is_none());
    }

    #[test]
    fn reasons_of_an_interrupt_are_read_and_acknowledged_without_the_devices_lock() {
        let bus = bus();
        let _held = bus.slots()[0].transport();
        bus.slots()[0].interrupt().used();
        let at = layout::device_address(0);
        assert_eq!(read(&bus, at + registers::INTERRUPT_STATUS), 1);
        bus.write(at + registers::INTERRUPT_ACKNOWLEDGE, &1u32.to_le_bytes());
        assert_eq!(read(&bus, at + registers::INTERRUPT_STATUS), 0);
    }
}
