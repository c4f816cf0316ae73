//! Addresses in the guest.

/// The end of conventional memory; from here to 1 MiB a PC has its firmware.
pub const LOW_END: u64 = 0x9_fc00;
pub const HIGH_START: u64 = 0x10_0000;

pub const GDT: u64 = 0x500;
pub const PVH_INFO: u64 = 0x6000;
pub const PVH_MODULES: u64 = 0x6100;
pub const PVH_MEMORY_MAP: u64 = 0x6200;
pub const BOOT_PARAMS: u64 = 0x7000;
pub const STACK: u64 = 0x8ff0;
/// Six pages of tables: all below 4 GiB at its own addresses, devices included.
pub const PAGE_TABLES: u64 = 0x9000;
pub const MAPPED_GIB: u64 = 4;
pub const COMMAND_LINE: u64 = 0x2_0000;

/// The ACPI tables lie where a PC has its firmware, which the memory map reserves.
pub const ACPI_START: u64 = 0xe_0000;
pub const ACPI_END: u64 = 0x10_0000;

/// The identity of the VM: the last page behind the tables.
pub const GENERATION: u64 = ACPI_END - 0x1000;

/// The registers of the first virtio device; each next one lies [`DEVICE_SIZE`] behind.
pub const DEVICES: u64 = 0xd000_0000;
pub const DEVICE_SIZE: u64 = 0x1000;
/// The interrupt of the first virtio device; each has its own.
pub const FIRST_INTERRUPT: u32 = 5;
/// The interrupt that tells of a change of the identity, the last one of KVM's I/O APIC.
pub const GENERATION_INTERRUPT: u32 = 23;

pub const IO_APIC: u32 = 0xfec0_0000;
pub const LOCAL_APIC: u32 = 0xfee0_0000;
/// KVM needs pages of the guest's address space on Intel's processors.
pub const IDENTITY_MAP: u64 = 0xfffb_c000;
pub const TSS: usize = 0xfffb_d000;

pub const COM1: u16 = 0x3f8;
pub const COM1_INTERRUPT: u32 = 4;
/// The keyboard controller, whose only function here is a reset.
pub const KEYBOARD: u16 = 0x60;
pub const KEYBOARD_COMMAND: u16 = 0x64;
pub const KEYBOARD_RESET: u8 = 0xfe;
/// ACPI's sleep control; a sleep of any kind is power off.
pub const SLEEP_CONTROL: u16 = 0x600;
pub const SLEEP_STATUS: u16 = 0x601;
pub const SLEEP_ENABLE: u8 = 1 << 5;

/// Returns the address of the registers of a virtio device.
pub fn device_address(index: usize) -> u64 {
    DEVICES + index as u64 * DEVICE_SIZE
}

/// Returns the interrupt of a virtio device.
pub fn device_interrupt(index: usize) -> u32 {
    FIRST_INTERRUPT + u32::try_from(index).unwrap_or(u32::MAX - FIRST_INTERRUPT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::MAX_DISKS;
    use crate::memory::GAP_START;

    #[test]
    fn every_device_that_a_configuration_can_name_has_an_interrupt_and_a_place_in_the_gap() {
        // With vsock, folders, rng and the balloon. Files as memory take the places of disks.
        let last = MAX_DISKS + 3;
        assert!(device_interrupt(last) < GENERATION_INTERRUPT);
        assert!(device_address(last) + DEVICE_SIZE <= u64::from(IO_APIC));
        assert!(device_address(0) >= GAP_START);
    }
}
