//! The ACPI tables: a hardware-reduced machine with its CPUs, COM1 and the virtio devices.

use acpi_tables::aml::{
    Arg, Device, EISAName, Equal, IO, If, Interrupt, Memory32Fixed, Method, Name, Notify, ONE,
    Package, ResourceTemplate, Scope,
};
use acpi_tables::fadt::{FADTBuilder, Flags};
use acpi_tables::gas::{AccessSize, AddressSpace, GAS};
use acpi_tables::madt::{
    EnabledStatus, IoApic, LocalInterruptController, MADT, ProcessorLocalApic,
};
use acpi_tables::rsdp::Rsdp;
use acpi_tables::sdt::Sdt;
use acpi_tables::xsdt::XSDT;
use acpi_tables::{Aml, aml};
use vm_memory::{Bytes, GuestAddress};

use super::layout;
use crate::guest_memory::GuestMemory;

const OEM: [u8; 6] = *b"VOIDBX";
const OEM_TABLE: [u8; 8] = *b"VOIDBVMM";
const REVISION: u32 = 1;

/// No legacy devices, no keyboard controller.
const BOOT_VGA_NOT_PRESENT: u16 = 1 << 2;
const BOOT_MSI_NOT_SUPPORTED: u16 = 1 << 3;
/// Without this bit Linux looks for a CMOS clock, for 3 s and 40,000 exits.
const BOOT_CMOS_RTC_NOT_PRESENT: u16 = 1 << 5;

/// The tables do not fit into their place; no configuration within its limits needs that much.
#[derive(Debug, thiserror::Error)]
#[error("the ACPI tables need {0} bytes")]
pub struct TooLarge(usize);

/// Writes the tables for `vcpus` CPUs and `devices` virtio devices. Returns the address of their root.
pub fn write(memory: &GuestMemory, vcpus: u8, devices: usize) -> Result<u64, TooLarge> {
    let (tables, root) = tables(vcpus, devices);
    let room = usize::try_from(layout::GENERATION - layout::ACPI_START).unwrap_or(0);
    if tables.len() > room {
        return Err(TooLarge(tables.len()));
    }
    memory
        .write_slice(&tables, GuestAddress(layout::ACPI_START))
        .map_err(|_| TooLarge(tables.len()))?;
    Ok(root)
}

/// Returns the bytes of all tables from [`layout::ACPI_START`], and the address of their root.
fn tables(vcpus: u8, devices: usize) -> (Vec<u8>, u64) {
    let mut bytes = vec![0; Rsdp::len().next_multiple_of(16)];
    let mut place = |table: &dyn Aml| {
        let at = layout::ACPI_START + bytes.len() as u64;
        table.to_aml_bytes(&mut bytes);
        bytes.resize(bytes.len().next_multiple_of(16), 0);
        at
    };
    let dsdt = place(&dsdt(devices));
    let fadt = place(&fadt(dsdt));
    let madt = place(&madt(vcpus));
    let mut root = XSDT::new(OEM, OEM_TABLE, REVISION);
    root.add_entry(fadt);
    root.add_entry(madt);
    let root = place(&root);
    let mut pointer = Vec::new();
    Rsdp::new(OEM, root).to_aml_bytes(&mut pointer);
    bytes[..pointer.len()].copy_from_slice(&pointer);
    (bytes, layout::ACPI_START)
}

fn port(address: u16) -> GAS {
    GAS::new(
        AddressSpace::SystemIo,
        8,
        0,
        AccessSize::ByteAccess,
        address.into(),
    )
}

fn fadt(dsdt: u64) -> acpi_tables::fadt::FADT {
    let mut fadt = FADTBuilder::new(OEM, OEM_TABLE, REVISION)
        .dsdt_64(dsdt)
        .flag(Flags::HwReducedAcpi)
        .flag(Flags::PwrButton)
        .flag(Flags::SlpButton)
        .flag(Flags::ResetRegSup);
    fadt.iapc_boot_arch =
        (BOOT_VGA_NOT_PRESENT | BOOT_MSI_NOT_SUPPORTED | BOOT_CMOS_RTC_NOT_PRESENT).into();
    fadt.reset_reg = port(layout::KEYBOARD_COMMAND);
    fadt.reset_value = layout::KEYBOARD_RESET;
    fadt.sleep_control_reg = port(layout::SLEEP_CONTROL);
    fadt.sleep_status_reg = port(layout::SLEEP_STATUS);
    fadt.finalize()
}

fn madt(vcpus: u8) -> MADT {
    let address = LocalInterruptController::Address(layout::LOCAL_APIC);
    let mut madt = MADT::new(OEM, OEM_TABLE, REVISION, address);
    for id in 0..vcpus {
        madt.add_structure(ProcessorLocalApic::new(id, id, EnabledStatus::Enabled));
    }
    madt.add_structure(IoApic::new(0, layout::IO_APIC, 0));
    madt
}

fn dsdt(devices: usize) -> Sdt {
    let mut body = Vec::new();
    Scope::new(aml::Path::new("_SB_"), vec![&Com1]).to_aml_bytes(&mut body);
    for index in 0..devices {
        Scope::new(aml::Path::new("_SB_"), vec![&Virtio(index)]).to_aml_bytes(&mut body);
    }
    Scope::new(aml::Path::new("_SB_"), vec![&Generation, &Events]).to_aml_bytes(&mut body);
    // Power off is the sleep state of type 5.
    Name::new(aml::Path::new("_S5_"), &Package::new(vec![&5u8])).to_aml_bytes(&mut body);
    let mut table = Sdt::new(*b"DSDT", 36, 2, OEM, OEM_TABLE, REVISION);
    table.append_slice(&body);
    table
}

struct Com1;

impl Aml for Com1 {
    fn to_aml_bytes(&self, sink: &mut dyn acpi_tables::AmlSink) {
        Device::new(
            aml::Path::new("COM1"),
            vec![
                &Name::new(aml::Path::new("_HID"), &EISAName::new("PNP0501")),
                &Name::new(aml::Path::new("_UID"), &aml::ZERO),
                &Name::new(
                    aml::Path::new("_CRS"),
                    &ResourceTemplate::new(vec![
                        &IO::new(layout::COM1, layout::COM1, 1, 8),
                        &edge_interrupt(layout::COM1_INTERRUPT),
                    ]),
                ),
            ],
        )
        .to_aml_bytes(sink);
    }
}

struct Virtio(usize);

impl Aml for Virtio {
    fn to_aml_bytes(&self, sink: &mut dyn acpi_tables::AmlSink) {
        let Self(index) = *self;
        let address = u32::try_from(layout::device_address(index)).unwrap_or(u32::MAX);
        let length = u32::try_from(layout::DEVICE_SIZE).unwrap_or(u32::MAX);
        Device::new(
            aml::Path::new(&format!("VR{index:02}")),
            vec![
                &Name::new(aml::Path::new("_HID"), &"LNRO0005"),
                &Name::new(aml::Path::new("_UID"), &index),
                &Name::new(aml::Path::new("_CCA"), &ONE),
                &Name::new(
                    aml::Path::new("_CRS"),
                    &ResourceTemplate::new(vec![
                        &Memory32Fixed::new(true, address, length),
                        &edge_interrupt(layout::device_interrupt(index)),
                    ]),
                ),
            ],
        )
        .to_aml_bytes(sink);
    }
}

/// The identity of the VM, which Linux finds by this name.
struct Generation;

/// The notification of a device whose state has changed.
const CHANGED: u8 = 0x80;

impl Aml for Generation {
    fn to_aml_bytes(&self, sink: &mut dyn acpi_tables::AmlSink) {
        let low = layout::GENERATION & 0xFFFF_FFFF;
        let high = layout::GENERATION >> 32;
        Device::new(
            aml::Path::new("GENC"),
            vec![
                &Name::new(aml::Path::new("_HID"), &"VMGENCTR"),
                &Name::new(aml::Path::new("_CID"), &"VM_Gen_Counter"),
                &Name::new(aml::Path::new("_DDN"), &"VM_Gen_Counter"),
                &Name::new(aml::Path::new("ADDR"), &Package::new(vec![&low, &high])),
            ],
        )
        .to_aml_bytes(sink);
    }
}

/// The device of ACPI that turns an interrupt into a notification.
struct Events;

impl Aml for Events {
    fn to_aml_bytes(&self, sink: &mut dyn acpi_tables::AmlSink) {
        Device::new(
            aml::Path::new("GED_"),
            vec![
                &Name::new(aml::Path::new("_HID"), &"ACPI0013"),
                &Name::new(aml::Path::new("_UID"), &aml::ZERO),
                &Name::new(
                    aml::Path::new("_CRS"),
                    &ResourceTemplate::new(vec![&edge_interrupt(layout::GENERATION_INTERRUPT)]),
                ),
                &Method::new(
                    aml::Path::new("_EVT"),
                    1,
                    true,
                    vec![&If::new(
                        &Equal::new(&Arg(0), &layout::GENERATION_INTERRUPT),
                        vec![&Notify::new(&aml::Path::new("\\_SB_.GENC"), &CHANGED)],
                    )],
                ),
            ],
        )
        .to_aml_bytes(sink);
    }
}

/// An irqfd raises and lowers its line at once, so each interrupt is an edge.
fn edge_interrupt(number: u32) -> Interrupt {
    Interrupt::new(true, true, false, false, number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn u32_at(bytes: &[u8], at: usize) -> u32 {
        u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
    }

    /// Follows the pointers from the root as a guest does, and returns the tables by signature.
    fn read(bytes: &[u8]) -> std::collections::BTreeMap<String, Vec<u8>> {
        let table = |address: u64| {
            let at = usize::try_from(address - layout::ACPI_START).unwrap();
            let length = u32_at(bytes, at + 4) as usize;
            let table = bytes[at..at + length].to_vec();
            let sum = table.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte));
            assert_eq!(sum, 0, "checksum");
            (String::from_utf8(table[..4].to_vec()).unwrap(), table)
        };
        assert_eq!(&bytes[..8], b"RSD PTR ");
        let root = u64::from_le_bytes(bytes[24..32].try_into().unwrap());
        let (signature, root) = table(root);
        assert_eq!(signature, "XSDT");
        let mut all: std::collections::BTreeMap<_, _> = root[36..]
            .chunks(8)
            .map(|entry| table(u64::from_le_bytes(entry.try_into().unwrap())))
            .collect();
        let dsdt = u64::from_le_bytes(all["FACP"][140..148].try_into().unwrap());
        all.extend([table(dsdt)]);
        all
    }

    #[test]
    fn a_guest_finds_its_tables_by_pointers_and_checksums() {
        let (bytes, root) = tables(2, 3);
        assert_eq!(root, layout::ACPI_START);
        let tables = read(&bytes);
        assert_eq!(tables.keys().collect::<Vec<_>>(), ["APIC", "DSDT", "FACP"]);
    }

    #[test]
    fn the_machine_is_hardware_reduced_without_a_cmos_clock() {
        let (bytes, _) = tables(1, 1);
        let fadt = &read(&bytes)["FACP"];
        let boot = u16::from_le_bytes(fadt[109..111].try_into().unwrap());
        assert_eq!(boot & BOOT_CMOS_RTC_NOT_PRESENT, BOOT_CMOS_RTC_NOT_PRESENT);
        assert_eq!(boot & 0b11, 0, "no legacy devices, no keyboard");
        assert_ne!(u32_at(fadt, 112) & (1 << 20), 0, "hardware-reduced");
    }

    #[test]
    fn each_cpu_has_an_entry_with_its_apic() {
        let (bytes, _) = tables(32, 1);
        let madt = &read(&bytes)["APIC"];
        let apics = madt[44..].chunks(8).take_while(|entry| entry[0] == 0);
        assert_eq!(apics.clone().count(), 32);
        assert!(
            apics
                .enumerate()
                .all(|(id, entry)| usize::from(entry[3]) == id)
        );
    }

    #[test]
    fn each_virtio_device_has_its_name_address_and_interrupt() {
        let (bytes, _) = tables(1, 10);
        let dsdt = &read(&bytes)["DSDT"];
        let count = |what: &[u8]| dsdt.windows(what.len()).filter(|w| *w == what).count();
        assert_eq!(count(b"LNRO0005"), 10);
        for index in 0..10 {
            let address = u32::try_from(layout::device_address(index)).unwrap();
            assert_eq!(count(format!("VR{index:02}").as_bytes()), 1);
            assert_eq!(count(&address.to_le_bytes()), 1, "address of {index}");
            let mut interrupt = vec![0x89, 6, 0, 0b0011, 1];
            interrupt.extend(layout::device_interrupt(index).to_le_bytes());
            assert_eq!(count(&interrupt), 1, "interrupt of {index}");
        }
    }

    #[test]
    fn the_identity_of_the_vm_has_an_address_and_a_notification_of_its_change() {
        let (bytes, _) = tables(1, 1);
        let dsdt = &read(&bytes)["DSDT"];
        let place = |what: &[u8]| dsdt.windows(what.len()).position(|w| w == what);
        for name in ["VMGENCTR", "VM_Gen_Counter", "ACPI0013"] {
            assert!(place(name.as_bytes()).is_some(), "{name}");
        }
        // ADDR: a package of two numbers, 32 bits of the address and zero.
        let mut address = b"ADDR\x12\x08\x02\x0c".to_vec();
        address.extend(u32::try_from(layout::GENERATION).unwrap().to_le_bytes());
        address.push(0);
        assert!(place(&address).is_some());
        let mut interrupt = vec![0x89, 6, 0, 0b0011, 1];
        interrupt.extend(layout::GENERATION_INTERRUPT.to_le_bytes());
        assert!(place(&interrupt).is_some());
        // _EVT(1 argument, serialized): if (Arg0 == 23) notify \_SB.GENC of 0x80.
        let mut event = b"_EVT\x09\xa0".to_vec();
        let notify = b"\x93\x68\x0a\x17\x86\x5c\x2e_SB_GENC\x0a\x80";
        event.push(u8::try_from(notify.len() + 1).unwrap());
        event.extend(notify);
        assert!(place(&event).is_some());
    }

    #[test]
    fn the_largest_machine_has_room_for_its_tables() {
        let (bytes, _) = tables(32, crate::config::MAX_DISKS + 4);
        assert!(bytes.len() < 0x1_0000, "{}", bytes.len());
    }
}
