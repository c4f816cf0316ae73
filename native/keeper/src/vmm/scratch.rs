//! The scratch disk: sparse, ext4 without a journal, deleted with the VM. It is new, or the copy of a checkpoint's disk.

use std::fs::File;
use std::io;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::process::Command;

use crate::config::LaunchConfig;
use crate::disk::Disk;
use crate::disk_copy;
use crate::error::{Code, Failure};

/// Finds the tool that makes the disk: `configured`, or one at a usual path.
pub fn find_mke2fs(configured: Option<&Path>) -> Result<PathBuf, Failure> {
    let known = ["/usr/sbin/mke2fs", "/sbin/mke2fs", "/usr/bin/mke2fs"].map(Path::new);
    let mut candidates = configured.into_iter().chain(known);
    let found = candidates.find(|path| path.is_file());
    found.map(Path::to_owned).ok_or_else(|| {
        Failure::new(
            Code::HostNotReady,
            "no mke2fs: apt install e2fsprogs".to_owned(),
        )
    })
}

/// Makes the disk of a VM at `path` that `owner` may write, once there is room for it: a copy of the disk of a
/// checkpoint, or an empty disk.
pub async fn make(
    mke2fs: &Path,
    path: &Path,
    config: &LaunchConfig,
    owner: Option<u32>,
    disk: &Rc<Disk>,
) -> Result<(), Failure> {
    let mut waiting = None;
    loop {
        let made = try_make(mke2fs, path, config, owner).await;
        // The text of mke2fs is only for users; the file system itself shows whether it has room.
        if made.is_ok() || disk.has_room() {
            return made;
        }
        waiting.get_or_insert_with(|| disk.wait_begins());
        disk.room().await;
    }
}

async fn try_make(
    mke2fs: &Path,
    path: &Path,
    config: &LaunchConfig,
    owner: Option<u32>,
) -> Result<(), Failure> {
    let bytes = u64::from(config.disk_mib) << 20;
    let failed = |error: io::Error| Failure::io(format_args!("making {}", path.display()), &error);
    let file = crate::run_dir::private_file(path).map_err(failed)?;
    match config.open_from()? {
        Some(from) => copy(from, file, bytes).await.map_err(failed)?,
        None => {
            file.set_len(bytes).map_err(failed)?;
            make_file_system(mke2fs, path).await?;
        }
    }
    if let Some(uid) = owner {
        chown(path, Some(uid), Some(uid))
            .map_err(|error| Failure::io("giving the scratch disk to the VMM", &error))?;
    }
    Ok(())
}

/// Copies a disk, whose file system grows when its guest mounts it. The copy stops when its start is given up.
async fn copy(from: File, to: File, bytes: u64) -> io::Result<()> {
    let stop = Arc::new(AtomicBool::new(false));
    let _stops = StopOnDrop(stop.clone());
    tokio::task::spawn_blocking(move || {
        disk_copy::copy(&from, &to, &stop)?;
        to.set_len(bytes)
    })
    .await
    .map_err(io::Error::other)?
}

struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

async fn make_file_system(mke2fs: &Path, path: &Path) -> Result<(), Failure> {
    let output = Command::new(mke2fs)
        .args([
            "-q",
            "-F",
            "-t",
            "ext4",
            "-b",
            "4096",
            "-m",
            "0",
            "-O",
            "^has_journal",
        ])
        .args(["-E", "lazy_itable_init=1,nodiscard"])
        .arg(path)
        .env_clear()
        .kill_on_drop(true)
        .output()
        .await
        .map_err(|error| Failure::io(format_args!("starting {}", mke2fs.display()), &error))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(Failure::new(
            Code::HostIo,
            format!("mke2fs {}: {}", output.status, said.trim()),
        ));
    }
    Ok(())
}
