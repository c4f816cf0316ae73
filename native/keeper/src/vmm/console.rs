//! The console and the VMM's own words, in a file that never outgrows its cap.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;

/// A file that keeps the last of what is appended: at its cap it goes on from its newer half.
#[derive(Debug)]
pub struct Ring {
    path: PathBuf,
    file: File,
    len: u64,
    max_bytes: u64,
}

impl Ring {
    pub fn open(path: PathBuf, max_bytes: u64) -> io::Result<Self> {
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(&path)?;
        let len = file.metadata()?.len();
        Ok(Self {
            path,
            file,
            len,
            max_bytes,
        })
    }

    pub fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let half = self.max_bytes / 2;
        let newest = &bytes[bytes
            .len()
            .saturating_sub(usize::try_from(half).unwrap_or(usize::MAX))..];
        if self.len + newest.len() as u64 > self.max_bytes {
            let kept = tail_bytes(&self.path, half)?;
            let temporary = self.path.with_extension("new");
            let mut file = crate::run_dir::private_file(&temporary)?;
            file.write_all(&kept)?;
            fs::rename(&temporary, &self.path)?;
            self.file = OpenOptions::new().append(true).open(&self.path)?;
            self.len = kept.len() as u64;
        }
        self.file.write_all(newest)?;
        self.len += newest.len() as u64;
        Ok(())
    }
}

fn tail_bytes(path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let len = file.metadata()?.len();
    file.seek(SeekFrom::Start(len.saturating_sub(max_bytes)))?;
    let mut bytes = Vec::new();
    file.take(max_bytes).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The end of the console as text.
pub fn tail(path: &Path, max_bytes: u64) -> String {
    let bytes = tail_bytes(path, max_bytes).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Takes everything off `console` until it ends, so that the VMM never waits for it. What a full
/// disk does not take is lost.
pub async fn drain(mut console: UnixStream, mut ring: Ring) {
    let mut buffer = [0u8; 16 << 10];
    loop {
        match console.read(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(count) => {
                let _ = ring.append(&buffer[..count]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run_dir::tests::TempDir;

    #[test]
    fn the_ring_keeps_the_end_within_its_cap() {
        let temp = TempDir::new("ring");
        let path = temp.0.join("console.log");
        let mut ring = Ring::open(path.clone(), 100).unwrap();
        for line in 0..50 {
            ring.append(format!("line {line:02}\n").as_bytes()).unwrap();
            assert!(fs::metadata(&path).unwrap().len() <= 100);
        }
        assert!(tail(&path, 1000).ends_with("line 48\nline 49\n"));
        ring.append(&[b'x'; 500]).unwrap();
        assert!(fs::metadata(&path).unwrap().len() <= 100);
        assert_eq!(tail(&path, 4), "xxxx");
    }
}
