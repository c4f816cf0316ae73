//! Loads a kernel and an initramfs into the guest's memory.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use linux_loader::loader::bootparam::setup_header;
use linux_loader::loader::elf::PvhBootCapability;
use linux_loader::loader::{BzImage, Elf, KernelLoader, KernelLoaderResult};
use vm_memory::{Bytes, GuestAddress, ReadVolatile};

use super::layout;
use crate::guest_memory::GuestMemory;

/// The pages of an initramfs begin at a multiple of this.
const PAGE: u64 = 0x1000;
/// The flag of a kernel that has the 64-bit entry of the boot protocol.
const XLF_KERNEL_64: u16 = 1;
/// The 64-bit entry lies this far behind the start of the loaded kernel.
const ENTRY_64: u64 = 0x200;
/// The oldest boot protocol with `xloadflags`.
const BOOT_PROTOCOL: u16 = 0x20c;

/// How a loaded kernel begins.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Kernel {
    pub entry: Entry,
    /// The first address behind the kernel and the memory that it needs at its start.
    pub end: u64,
    /// The header of a bzImage.
    pub header: Option<setup_header>,
}

/// The entry of a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// In 32-bit mode without paging, as a note of the ELF file says.
    Pvh(u64),
    /// In 64-bit mode, by the protocol of Linux.
    Linux64(u64),
}

/// A place in the guest's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    pub address: u64,
    pub size: u64,
}

/// A kernel or an initramfs that does not load.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    #[error("it is neither an ELF file nor a bzImage: {0}")]
    Shape(String),
    #[error("the bzImage has no 64-bit entry (boot protocol {protocol:#x})")]
    NoEntry64 { protocol: u16 },
    #[error("the kernel needs memory up to {end:#x}, and the guest has {low_end:#x}")]
    NoRoom { end: u64, low_end: u64 },
    #[error("the entry {0:#x} is outside of the kernel")]
    Entry(u64),
    #[error("reading it failed: {0}")]
    Read(#[from] io::Error),
    #[error(
        "the initramfs of {size} bytes has no room between the kernel's end {start:#x} and {end:#x}"
    )]
    NoRoomForInitramfs { size: u64, start: u64, end: u64 },
}

/// Loads an ELF file or a bzImage into memory whose part below the gap ends at `low_end`.
pub fn load_kernel<F>(
    memory: &GuestMemory,
    low_end: u64,
    file: &mut F,
) -> Result<Kernel, KernelError>
where
    F: Read + ReadVolatile + Seek,
{
    let mut magic = [0; 4];
    file.rewind()?;
    file.read_exact(&mut magic)?;
    let kernel = if magic == *b"\x7fELF" {
        load_elf(memory, file)?
    } else {
        load_bzimage(memory, file)?
    };
    if kernel.end > low_end {
        return Err(KernelError::NoRoom {
            end: kernel.end,
            low_end,
        });
    }
    let (Entry::Pvh(entry) | Entry::Linux64(entry)) = kernel.entry;
    if !(layout::HIGH_START..kernel.end).contains(&entry) {
        return Err(KernelError::Entry(entry));
    }
    Ok(kernel)
}

fn load_elf<F>(memory: &GuestMemory, file: &mut F) -> Result<Kernel, KernelError>
where
    F: Read + ReadVolatile + Seek,
{
    let start = Some(GuestAddress(layout::HIGH_START));
    let loaded: KernelLoaderResult =
        Elf::load(memory, None, file, start).map_err(|e| KernelError::Shape(e.to_string()))?;
    Ok(Kernel {
        entry: match loaded.pvh_boot_cap {
            PvhBootCapability::PvhEntryPresent(entry) => Entry::Pvh(entry.0),
            _ => Entry::Linux64(loaded.kernel_load.0),
        },
        end: loaded.kernel_end,
        header: None,
    })
}

fn load_bzimage<F>(memory: &GuestMemory, file: &mut F) -> Result<Kernel, KernelError>
where
    F: Read + ReadVolatile + Seek,
{
    let start = Some(GuestAddress(layout::HIGH_START));
    let loaded =
        BzImage::load(memory, None, file, start).map_err(|e| KernelError::Shape(e.to_string()))?;
    let header = loaded.setup_header.unwrap_or_default();
    let (protocol, flags) = (header.version, header.xloadflags);
    if protocol < BOOT_PROTOCOL || flags & XLF_KERNEL_64 == 0 {
        return Err(KernelError::NoEntry64 { protocol });
    }
    let start = loaded.kernel_load.0;
    Ok(Kernel {
        entry: Entry::Linux64(start.saturating_add(ENTRY_64)),
        end: loaded
            .kernel_end
            .max(start.saturating_add(header.init_size.into())),
        header: Some(header),
    })
}

/// Loads an initramfs as high as possible below the gap, so that the kernel has room to unpack itself.
pub fn load_initramfs(
    memory: &GuestMemory,
    low_end: u64,
    kernel: &Kernel,
    file: &mut File,
) -> Result<Place, KernelError> {
    let size = file.seek(SeekFrom::End(0))?;
    file.rewind()?;
    let highest = kernel.header.map_or(low_end, |header| {
        low_end.min(u64::from(header.initrd_addr_max).saturating_add(1))
    });
    let start = kernel.end.next_multiple_of(PAGE);
    let address = highest
        .checked_sub(size)
        .map(|address| address & !(PAGE - 1))
        .filter(|address| *address >= start)
        .ok_or(KernelError::NoRoomForInitramfs {
            size,
            start,
            end: highest,
        })?;
    let length = usize::try_from(size).map_err(io::Error::other)?;
    memory
        .read_exact_volatile_from(GuestAddress(address), file, length)
        .map_err(io::Error::other)?;
    Ok(Place { address, size })
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Write};

    use super::*;
    use crate::memory::Ram;

    /// An ELF file with one segment at `address`, and the note of PVH if `pvh` names an entry.
    fn elf(address: u64, entry: u64, code: &[u8], pvh: Option<u32>) -> Vec<u8> {
        let headers = 64 + 2 * 56;
        let mut note = Vec::new();
        if let Some(entry) = pvh {
            for word in [4, 4, 18] {
                note.extend(u32::to_le_bytes(word));
            }
            note.extend(b"Xen\0");
            note.extend(entry.to_le_bytes());
        }
        let mut file = Vec::new();
        file.extend(b"\x7fELF\x02\x01\x01");
        file.resize(16, 0);
        file.extend(2u16.to_le_bytes());
        file.extend(62u16.to_le_bytes());
        file.extend(1u32.to_le_bytes());
        file.extend(entry.to_le_bytes());
        file.extend(64u64.to_le_bytes());
        file.extend(0u64.to_le_bytes());
        file.extend(0u32.to_le_bytes());
        for half in [64u16, 56, 2, 0, 0, 0] {
            file.extend(half.to_le_bytes());
        }
        let mut segment = |kind: u32, offset: usize, address: u64, size: usize| {
            file.extend(kind.to_le_bytes());
            file.extend(7u32.to_le_bytes());
            for value in [offset as u64, address, address, size as u64, size as u64, 0] {
                file.extend(value.to_le_bytes());
            }
        };
        segment(1, headers + note.len(), address, code.len());
        segment(if note.is_empty() { 0 } else { 4 }, headers, 0, note.len());
        file.extend(&note);
        file.extend(code);
        file
    }

    fn load(file: Vec<u8>) -> Result<Kernel, KernelError> {
        let ram = Ram::new(64).unwrap();
        load_kernel(ram.memory(), ram.low_end(), &mut Cursor::new(file))
    }

    #[test]
    fn an_elf_file_begins_at_its_64_bit_entry_unless_a_note_names_that_of_pvh() {
        let kernel = load(elf(0x100_0000, 0x100_0004, &[0x90; 16], None)).unwrap();
        assert_eq!(kernel.entry, Entry::Linux64(0x100_0004));
        assert_eq!(kernel.end, 0x100_0010);
        let kernel = load(elf(0x100_0000, 0x100_0004, &[0x90; 16], Some(0x100_0008))).unwrap();
        assert_eq!(kernel.entry, Entry::Pvh(0x100_0008));
    }

    #[test]
    fn the_code_of_an_elf_file_lies_at_its_physical_address() {
        let ram = Ram::new(64).unwrap();
        let file = elf(0x100_0000, 0x100_0000, b"code", None);
        load_kernel(ram.memory(), ram.low_end(), &mut Cursor::new(file)).unwrap();
        let mut read = [0; 4];
        ram.memory()
            .read_slice(&mut read, GuestAddress(0x100_0000))
            .unwrap();
        assert_eq!(&read, b"code");
    }

    #[test]
    fn a_kernel_outside_of_the_memory_is_refused() {
        let error = load(elf((64 << 20) - 8, (64 << 20) - 8, &[0x90; 16], None)).unwrap_err();
        assert!(matches!(error, KernelError::Shape(_)), "{error}");
        let error = load(elf(0x100_0000, 0x100_0010, &[0x90; 16], None)).unwrap_err();
        assert!(matches!(error, KernelError::Entry(0x100_0010)), "{error}");
        let error = load(elf(0x100_0000, 0x100_0000, &[0x90; 16], Some(0x7000))).unwrap_err();
        assert!(matches!(error, KernelError::Entry(0x7000)), "{error}");
    }

    #[test]
    fn what_is_no_kernel_is_refused() {
        for file in [vec![], b"#!/bin/sh\n".to_vec(), vec![0; 4096]] {
            load(file).unwrap_err();
        }
    }

    /// A bzImage whose kernel is `size` bytes at 1 MiB.
    fn bzimage(version: u16, xloadflags: u16, init_size: u32, size: usize) -> Vec<u8> {
        let mut file = vec![0; 0x400];
        file[0x1f1] = 1;
        file[0x202..0x206].copy_from_slice(b"HdrS");
        file[0x206..0x208].copy_from_slice(&version.to_le_bytes());
        file[0x211] = 1;
        file[0x214..0x218].copy_from_slice(&0x10_0000u32.to_le_bytes());
        file[0x22c..0x230].copy_from_slice(&0x1ff_ffffu32.to_le_bytes());
        file[0x236..0x238].copy_from_slice(&xloadflags.to_le_bytes());
        file[0x260..0x264].copy_from_slice(&init_size.to_le_bytes());
        file[0x202..0x206].copy_from_slice(&0x5372_6448u32.to_le_bytes());
        file.resize(0x400 + size, 0x90);
        file
    }

    #[test]
    fn a_bzimage_begins_at_its_64_bit_entry_and_keeps_room_to_unpack_itself() {
        let kernel = load(bzimage(0x20f, 1, 0x80_0000, 0x1000)).unwrap();
        assert_eq!(kernel.entry, Entry::Linux64(0x10_0200));
        assert_eq!(kernel.end, 0x90_0000);
        let error = load(bzimage(0x20f, 0, 0, 0x1000)).unwrap_err();
        assert!(matches!(error, KernelError::NoEntry64 { .. }), "{error}");
        let error = load(bzimage(0x20b, 1, 0, 0x1000)).unwrap_err();
        assert!(matches!(error, KernelError::NoEntry64 { .. }), "{error}");
        let error = load(bzimage(0x20f, 1, 64 << 20, 0x1000)).unwrap_err();
        assert!(matches!(error, KernelError::NoRoom { .. }), "{error}");
    }

    fn initramfs(size: usize, kernel: &Kernel) -> Result<Place, KernelError> {
        let ram = Ram::new(64).unwrap();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&vec![7; size]).unwrap();
        let place = load_initramfs(ram.memory(), ram.low_end(), kernel, &mut file)?;
        let mut last = [0];
        let end = GuestAddress(place.address + place.size - 1);
        ram.memory().read_slice(&mut last, end).unwrap();
        assert_eq!(last, [7]);
        Ok(place)
    }

    #[test]
    fn an_initramfs_lies_at_the_end_of_the_memory_behind_the_kernel() {
        let kernel = Kernel {
            entry: Entry::Linux64(0x100_0000),
            end: 0x200_0000,
            header: None,
        };
        let place = initramfs(5000, &kernel).unwrap();
        assert_eq!(place.address, (64 << 20) - 0x2000);
        assert_eq!(place.size, 5000);
        assert!(initramfs((32 << 20) - 1, &kernel).is_ok());
        let error = initramfs((32 << 20) + 1, &kernel).unwrap_err();
        assert!(
            matches!(error, KernelError::NoRoomForInitramfs { .. }),
            "{error}"
        );
    }

    #[test]
    fn the_kernel_says_how_high_its_initramfs_may_lie() {
        let header = setup_header {
            initrd_addr_max: 0x1ff_ffff,
            ..Default::default()
        };
        let kernel = Kernel {
            entry: Entry::Linux64(0x100_0000),
            end: 0x180_0000,
            header: Some(header),
        };
        assert_eq!(initramfs(0x1000, &kernel).unwrap().address, 0x1ff_f000);
    }
}
