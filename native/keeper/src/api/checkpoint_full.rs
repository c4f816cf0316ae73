//! Full saves: the state of a running VM, its memory and its disk, in a folder that is complete or does not exist.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;
use tokio::sync::oneshot;

use super::checkpoint::Turn;
use super::request::{CheckpointFull, Pages};
use crate::client::{Client, Interrupted};
use crate::config::MAX_LINKS;
use crate::disk_copy;
use crate::error::Failure;
use crate::keeper::{Keeper, SaveInFull, Tip, failed, no_parent};
use crate::vmm::{FullSave, SavedPages};

/// Saves the VM into the folder `dest`. The first answer confirms that the save begins, the second that all files are in
/// place. If the client leaves before, nothing is left. The VM continues in each case.
pub async fn make(
    keeper: &Rc<Keeper>,
    CheckpointFull { dest, pages }: CheckpointFull,
    client: &mut Client,
) -> Result<(), Interrupted> {
    if !dest.is_absolute() {
        let message = format!("dest is {}, expected an absolute path", dest.display());
        return Err(Failure::bad_request(message).into());
    }
    if !keeper.config.full_saves {
        return Err(failed("the VM was launched without fullSaves").into());
    }
    let link = keeper.guest().await?;
    if !link.can_rest {
        return Err(failed("the guest's agent is of an earlier build and cannot rest").into());
    }
    let _turn = Turn::take(keeper)?;
    let parent = find_parent(keeper, pages)?;
    let making = |error: io::Error| Failure::io(format_args!("making {}", dest.display()), &error);
    let mut folder = Folder::create(&dest).map_err(making)?;
    let (files, disk) = folder
        .files(u64::from(keeper.config.memory_mib) << 20, pages)
        .map_err(making)?;
    let written = files.clone_files().map_err(making)?;
    client.answer(&Ok(json!({}))).await?;

    let (done, saved) = oneshot::channel();
    keeper.full_saves.ask(SaveInFull {
        files,
        disk,
        parent: parent.clone(),
        done,
    });
    let saved = tokio::select! {
        saved = saved => saved.map_err(|_| failed("the VM ended before it was saved"))??,
        () = client.left() => return Err(Interrupted::Gone),
    };
    let used_bytes = tokio::select! {
        placed = folder.place(written) => placed
            .map_err(io::Error::other)
            .and_then(|done| done)
            .map_err(|error| Failure::io(format_args!("writing {}", dest.display()), &error))?,
        () = client.left() => return Err(Interrupted::Gone),
    };
    folder.is_placed = true;
    let links = parent.as_ref().map_or(0, |parent| parent.links) + 1;
    keeper.full_saves.keep(Tip {
        id: saved.id.clone(),
        links,
    });
    let paused_ms = u64::try_from(saved.paused.as_millis()).unwrap_or(u64::MAX);
    let answer = json!({
        "id": saved.id, "parent": parent.map(|parent| parent.id), "links": links,
        "usedBytes": used_bytes, "pausedMs": paused_ms, "way": saved.way.name(),
    });
    client.answer(&Ok(answer)).await?;
    Ok(())
}

/// Returns the state to which a diff will refer; `None` for a base.
fn find_parent(keeper: &Keeper, pages: Pages) -> Result<Option<Tip>, Failure> {
    if pages == Pages::All {
        return Ok(None);
    }
    match keeper.full_saves.tip() {
        None => Err(no_parent()),
        Some(tip) if tip.links >= MAX_LINKS => Err(failed(format!(
            "the chain has {MAX_LINKS} links: save all pages"
        ))),
        tip => Ok(tip),
    }
}

/// The files that the VMM writes. A guest that has taken its VMM over may keep them open, so they get no name: the save
/// has copies of them.
struct Written {
    state: File,
    memory: File,
}

impl FullSave {
    fn clone_files(&self) -> io::Result<Written> {
        Ok(Written {
            state: self.state.try_clone()?,
            memory: self.memory.try_clone()?,
        })
    }
}

/// A save under another name. Dropping this stops its threads and removes it, unless it is in place.
struct Folder {
    dest: PathBuf,
    partial: PathBuf,
    stop: Arc<AtomicBool>,
    is_placed: bool,
}

impl Folder {
    fn create(dest: &Path) -> io::Result<Self> {
        if dest.symlink_metadata().is_ok() {
            return Err(io::Error::from(io::ErrorKind::AlreadyExists));
        }
        let mut name: OsString = dest.into();
        name.push(".new");
        let partial = PathBuf::from(name);
        DirBuilder::new().mode(0o700).create(&partial)?;
        Ok(Self {
            dest: dest.to_owned(),
            partial,
            stop: Arc::default(),
            is_placed: false,
        })
    }

    /// Returns the files of the VMM, and the one of the disk.
    fn files(&self, memory_bytes: u64, pages: Pages) -> io::Result<(FullSave, Arc<File>)> {
        let nameless = || {
            let path = self.partial.join("written");
            let file = create(&path)?;
            fs::remove_file(&path)?;
            io::Result::Ok(file)
        };
        let memory = nameless()?;
        memory.set_len(memory_bytes)?;
        let pages = match pages {
            Pages::All => SavedPages::All,
            Pages::Changed => SavedPages::Changed,
        };
        let save = FullSave {
            state: nameless()?,
            memory,
            pages,
        };
        Ok((save, Arc::new(create(&self.partial.join("disk"))?)))
    }

    /// Copies the files of the VMM, and gives the folder its name once all is on the disk. Returns the bytes that it
    /// uses.
    fn place(&self, written: Written) -> tokio::task::JoinHandle<io::Result<u64>> {
        let (dest, partial) = (self.dest.clone(), self.partial.clone());
        let stop = self.stop.clone();
        tokio::task::spawn_blocking(move || {
            for (name, from) in [("state", written.state), ("memory", written.memory)] {
                disk_copy::copy(&from, &create(&partial.join(name))?, &stop)?;
            }
            let mut used_bytes = 0;
            for name in ["state", "memory", "disk"] {
                let file = File::open(partial.join(name))?;
                file.sync_all()?;
                used_bytes += disk_copy::used_bytes(&file)?;
            }
            File::open(&partial)?.sync_all()?;
            fs::rename(&partial, &dest)?;
            File::open(dest.parent().unwrap_or(Path::new("/")))?.sync_all()?;
            Ok(used_bytes)
        })
    }
}

fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
}

impl Drop for Folder {
    fn drop(&mut self) {
        if self.is_placed {
            return;
        }
        self.stop.store(true, Ordering::Release);
        // Names that are not there need no removal.
        let _ = fs::remove_dir_all(&self.partial);
    }
}
