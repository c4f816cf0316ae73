//! The file behind a disk.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::fd::AsRawFd;

use super::request::{Data, Range};

pub const SECTOR: u64 = 512;

/// A file of whole sectors.
pub struct DiskFile {
    file: File,
    sectors: u64,
}

/// A request that the host did not carry out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskError {
    /// The host has no room for a write. It may be repeated as a whole.
    NoRoom,
    /// Neither this disk nor its file can do this.
    Unsupported,
    /// The range is outside of the disk, or the host fails to read or to write.
    Failed,
}

impl From<io::Error> for DiskError {
    fn from(error: io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::ENOSPC | libc::EDQUOT) => Self::NoRoom,
            Some(libc::EOPNOTSUPP) => Self::Unsupported,
            _ => Self::Failed,
        }
    }
}

impl DiskFile {
    pub fn new(mut file: File) -> io::Result<Self> {
        let size = file.seek(SeekFrom::End(0))?;
        Ok(Self {
            file,
            sectors: size / SECTOR,
        })
    }

    pub fn sectors(&self) -> u64 {
        self.sectors
    }

    /// Returns the place of `bytes` bytes at `sector`, if they are whole sectors of the disk.
    fn place(&self, sector: u64, bytes: u64) -> Result<libc::off_t, DiskError> {
        let sectors = bytes / SECTOR;
        let end = sector.checked_add(sectors).ok_or(DiskError::Failed)?;
        if bytes % SECTOR != 0 || end > self.sectors {
            return Err(DiskError::Failed);
        }
        libc::off_t::try_from(sector * SECTOR).map_err(|_| DiskError::Failed)
    }

    /// Reads sectors into the guest's memory. Returns their bytes.
    pub fn read(
        &self,
        sector: u64,
        into: Data<'_>,
        vectors: &mut Vec<libc::iovec>,
    ) -> Result<u32, DiskError> {
        self.transfer(sector, into, vectors, libc::preadv)
    }

    /// Writes sectors from the guest's memory. Returns zero, for the guest's memory is not written.
    pub fn write(
        &self,
        sector: u64,
        from: Data<'_>,
        vectors: &mut Vec<libc::iovec>,
    ) -> Result<u32, DiskError> {
        self.transfer(sector, from, vectors, libc::pwritev)
            .map(|_| 0)
    }

    fn transfer(
        &self,
        sector: u64,
        data: Data<'_>,
        vectors: &mut Vec<libc::iovec>,
        call: Call,
    ) -> Result<u32, DiskError> {
        let place = self.place(sector, data.len().into())?;
        let mut done = 0;
        while done < data.len() {
            data.vectors(done, vectors);
            let count = libc::c_int::try_from(vectors.len()).map_err(|_| DiskError::Failed)?;
            // SAFETY: the vectors point into the guest's memory, which outlives this call and to which no reference
            // exists.
            let now = unsafe {
                call(
                    self.file.as_raw_fd(),
                    vectors.as_ptr(),
                    count,
                    place + libc::off_t::from(done),
                )
            };
            vectors.clear();
            match u32::try_from(now) {
                // A file that another process has cut has no more bytes.
                Ok(0) => return Err(DiskError::Failed),
                Ok(now) => done += now,
                Err(_) => {
                    let error = io::Error::last_os_error();
                    if error.kind() != io::ErrorKind::Interrupted {
                        return Err(error.into());
                    }
                }
            }
        }
        Ok(done)
    }

    /// Makes a range a hole, which reads as zeroes.
    pub fn punch(&self, range: Range) -> Result<(), DiskError> {
        let bytes = u64::from(range.sectors) * SECTOR;
        let place = self.place(range.sector, bytes)?;
        if bytes == 0 {
            return Ok(());
        }
        let length = libc::off_t::try_from(bytes).map_err(|_| DiskError::Failed)?;
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        // SAFETY: changes a range of a file that this process owns.
        if unsafe { libc::fallocate(self.file.as_raw_fd(), mode, place, length) } == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error().into())
        }
    }
}

/// `preadv` or `pwritev`.
type Call = unsafe extern "C" fn(
    libc::c_int,
    *const libc::iovec,
    libc::c_int,
    libc::off_t,
) -> libc::ssize_t;
