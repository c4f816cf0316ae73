//! The scratch disk: sparse, ext4 without a journal, deleted with the VM.

use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use tokio::process::Command;

use crate::disk::Disk;
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

/// Makes a disk of `mib` MiB at `path` that `owner` may write, once there is room for it.
pub async fn make(
    mke2fs: &Path,
    path: &Path,
    mib: u32,
    owner: Option<u32>,
    disk: &Rc<Disk>,
) -> Result<(), Failure> {
    let mut waiting = None;
    loop {
        let made = try_make(mke2fs, path, mib, owner).await;
        // The text of mke2fs is only for users; the file system itself shows whether it has room.
        if made.is_ok() || disk.has_room() {
            return made;
        }
        waiting.get_or_insert_with(|| disk.wait_begins());
        disk.room().await;
    }
}

async fn try_make(mke2fs: &Path, path: &Path, mib: u32, owner: Option<u32>) -> Result<(), Failure> {
    let made =
        crate::run_dir::private_file(path).and_then(|file| file.set_len(u64::from(mib) << 20));
    made.map_err(|error| Failure::io(format_args!("making {}", path.display()), &error))?;
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
    if let Some(uid) = owner {
        chown(path, Some(uid), Some(uid))
            .map_err(|error| Failure::io("giving the scratch disk to the VMM", &error))?;
    }
    Ok(())
}
