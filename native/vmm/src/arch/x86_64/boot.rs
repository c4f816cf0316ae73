//! A kernel's surroundings in memory at its entry: the map of the memory, its command line, its initramfs, the tables.

use linux_loader::loader::bootparam::{boot_e820_entry, boot_params};
use linux_loader::loader::elf::start_info::{
    hvm_memmap_table_entry, hvm_modlist_entry, hvm_start_info,
};
use vm_memory::{Bytes, GuestAddress, GuestMemoryError};

use super::kernel::{Entry, Kernel, Place};
use super::layout;
use crate::guest_memory::GuestMemory;
use crate::memory::Slot;

const USABLE: u32 = 1;
const RESERVED: u32 = 2;

const BOOT_FLAG: u16 = 0xaa55;
const HEADER: u32 = 0x5372_6448;
/// A loader without a number of its own.
const LOADER: u8 = 0xff;
const KERNEL_ALIGNMENT: u32 = 0x100_0000;
const PVH_MAGIC: u32 = 0x336e_c578;

/// The facts that a kernel reads at its entry.
pub struct BootInfo<'a> {
    pub slots: &'a [Slot],
    pub command_line: &'a str,
    pub initramfs: Option<Place>,
    /// The address of the root of the ACPI tables.
    pub acpi: u64,
}

/// A range of the memory map: start, size, kind.
type Range = (u64, u64, u32);

fn memory_map(slots: &[Slot]) -> Vec<Range> {
    let low_end = slots[0].size;
    let mut map = vec![
        (0, layout::LOW_END, USABLE),
        (
            layout::LOW_END,
            layout::HIGH_START - layout::LOW_END,
            RESERVED,
        ),
        (layout::HIGH_START, low_end - layout::HIGH_START, USABLE),
    ];
    map.extend(
        slots[1..]
            .iter()
            .map(|slot| (slot.guest, slot.size, USABLE)),
    );
    map
}

/// Writes what `kernel` reads at its entry.
pub fn write(
    memory: &GuestMemory,
    kernel: &Kernel,
    info: &BootInfo<'_>,
) -> Result<(), GuestMemoryError> {
    let mut line = info.command_line.as_bytes().to_vec();
    line.push(0);
    memory.write_slice(&line, GuestAddress(layout::COMMAND_LINE))?;
    match kernel.entry {
        Entry::Pvh(_) => write_pvh(memory, info),
        Entry::Linux64(_) => write_linux(memory, kernel, info),
    }
}

fn write_pvh(memory: &GuestMemory, info: &BootInfo<'_>) -> Result<(), GuestMemoryError> {
    let map = memory_map(info.slots);
    let mut at = GuestAddress(layout::PVH_MEMORY_MAP);
    for (addr, size, type_) in &map {
        let entry = hvm_memmap_table_entry {
            addr: *addr,
            size: *size,
            type_: *type_,
            reserved: 0,
        };
        memory.write_obj(entry, at)?;
        at = GuestAddress(at.0 + size_of::<hvm_memmap_table_entry>() as u64);
    }
    let mut start = hvm_start_info {
        magic: PVH_MAGIC,
        version: 1,
        cmdline_paddr: layout::COMMAND_LINE,
        rsdp_paddr: info.acpi,
        memmap_paddr: layout::PVH_MEMORY_MAP,
        memmap_entries: u32::try_from(map.len()).unwrap_or(0),
        ..Default::default()
    };
    if let Some(initramfs) = info.initramfs {
        let module = hvm_modlist_entry {
            paddr: initramfs.address,
            size: initramfs.size,
            ..Default::default()
        };
        memory.write_obj(module, GuestAddress(layout::PVH_MODULES))?;
        start.modlist_paddr = layout::PVH_MODULES;
        start.nr_modules = 1;
    }
    memory.write_obj(start, GuestAddress(layout::PVH_INFO))
}

fn write_linux(
    memory: &GuestMemory,
    kernel: &Kernel,
    info: &BootInfo<'_>,
) -> Result<(), GuestMemoryError> {
    let mut params = boot_params::default();
    if let Some(header) = kernel.header {
        params.hdr = header;
    } else {
        params.hdr.boot_flag = BOOT_FLAG;
        params.hdr.header = HEADER;
        params.hdr.kernel_alignment = KERNEL_ALIGNMENT;
    }
    params.hdr.type_of_loader = LOADER;
    params.hdr.cmd_line_ptr = u32::try_from(layout::COMMAND_LINE).unwrap_or(0);
    params.hdr.cmdline_size = u32::try_from(info.command_line.len()).unwrap_or(0);
    if let Some(initramfs) = info.initramfs {
        // Memory below the gap has 32-bit addresses.
        params.hdr.ramdisk_image = u32::try_from(initramfs.address).unwrap_or(0);
        params.hdr.ramdisk_size = u32::try_from(initramfs.size).unwrap_or(0);
    }
    params.acpi_rsdp_addr = info.acpi;
    let map = memory_map(info.slots);
    params.e820_entries = u8::try_from(map.len()).unwrap_or(0);
    for (entry, (addr, size, type_)) in params.e820_table.iter_mut().zip(map) {
        *entry = boot_e820_entry {
            addr,
            size,
            r#type: type_,
        };
    }
    memory.write_obj(params, GuestAddress(layout::BOOT_PARAMS))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Ram;

    fn boot(mib: u32, entry: Entry) -> Ram {
        let ram = Ram::new(mib).unwrap();
        let kernel = Kernel {
            entry,
            end: 0x200_0000,
            header: None,
        };
        let info = BootInfo {
            slots: ram.slots(),
            command_line: "console=ttyS0",
            initramfs: Some(Place {
                address: 0x300_0000,
                size: 77,
            }),
            acpi: layout::ACPI_START,
        };
        write(ram.memory(), &kernel, &info).unwrap();
        ram
    }

    #[test]
    fn pvh_names_the_command_line_the_initramfs_the_tables_and_all_memory() {
        let ram = boot(4096, Entry::Pvh(0x100_0000));
        let memory = ram.memory();
        let info: hvm_start_info = memory.read_obj(GuestAddress(layout::PVH_INFO)).unwrap();
        assert_eq!((info.magic, info.nr_modules), (PVH_MAGIC, 1));
        assert_eq!(info.rsdp_paddr, layout::ACPI_START);
        let module: hvm_modlist_entry = memory.read_obj(GuestAddress(info.modlist_paddr)).unwrap();
        assert_eq!((module.paddr, module.size), (0x300_0000, 77));
        let mut usable = 0;
        for index in 0..u64::from(info.memmap_entries) {
            let entry: hvm_memmap_table_entry = memory
                .read_obj(GuestAddress(info.memmap_paddr + index * 24))
                .unwrap();
            usable += if entry.type_ == USABLE { entry.size } else { 0 };
        }
        assert_eq!(usable, (4 << 30) - (layout::HIGH_START - layout::LOW_END));
        let mut line = [0; 14];
        memory
            .read_slice(&mut line, GuestAddress(info.cmdline_paddr))
            .unwrap();
        assert_eq!(&line, b"console=ttyS0\0");
    }

    #[test]
    fn the_boot_protocol_of_linux_names_the_same() {
        let ram = boot(4096, Entry::Linux64(0x100_0000));
        let params: boot_params = ram
            .memory()
            .read_obj(GuestAddress(layout::BOOT_PARAMS))
            .unwrap();
        let (image, size) = (params.hdr.ramdisk_image, params.hdr.ramdisk_size);
        assert_eq!((image, size), (0x300_0000, 77));
        let acpi = params.acpi_rsdp_addr;
        assert_eq!(acpi, layout::ACPI_START);
        assert_eq!(params.e820_entries, 4);
        let last = params.e820_table[3];
        let (start, length) = (last.addr, last.size);
        assert_eq!((start, length), (4 << 30, 1 << 30));
    }
}
