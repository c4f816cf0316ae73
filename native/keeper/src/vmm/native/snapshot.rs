//! Snapshots of `voidbox-vmm`: it writes the state of a paused VM into a pipe, and the memory into a file of the keeper.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::rc::Rc;

use super::configuration::{BeginningFiles, SavedFiles, shape};
use super::control::NativeControl;
use crate::config::{LaunchConfig, NativeSettings, SavedLink, SnapshotSettings};
use crate::disk_copy;
use crate::error::{Code, Failure};
use crate::host::{HostCpu, HostTsc};
use crate::snapshots::{Reading, Record, Writing, memory};
use crate::vmm::interface::{Beginning, NewVm, Publishing};
use crate::vmm::plan::{self, Plan};

/// The bits of a mode for all but the owner.
const OTHERS: u32 = 0o077;

/// How one VM begins.
pub struct Preparation {
    pub files: BeginningFiles,
    pub saving: Option<Saving>,
    /// Only for a VM that begins from a snapshot.
    pub copy: Option<CopyOf>,
    pub note: Option<String>,
}

/// The snapshot from which a VM begins.
pub struct CopyOf {
    pub key: String,
    /// Whether the keepers of later copies know the pages that a copy uses first.
    pub knows_pages: bool,
    /// The memory, which the VMM maps.
    pub memory: Rc<File>,
}

/// A snapshot that the VMM has still to write.
pub struct Saving {
    writing: Writing,
    memory: Rc<File>,
    record: Record,
}

impl Preparation {
    fn boot(note: Option<String>) -> Self {
        Self {
            files: BeginningFiles::Boot,
            saving: None,
            copy: None,
            note,
        }
    }

    pub fn beginning(&self) -> Beginning {
        match self.files {
            BeginningFiles::Boot => Beginning::Boot,
            BeginningFiles::Save(..) => Beginning::BootToSave,
            BeginningFiles::Copy { .. } | BeginningFiles::Chain(_) => Beginning::Snapshot,
        }
    }
}

/// Opens the full saves of a VM. For another VM, finds a snapshot or decides to make one: every failure then leads to a
/// plain boot, and its note names the failure.
pub async fn prepare(settings: &NativeSettings, vm: &NewVm<'_>) -> Result<Preparation, Failure> {
    let chain = vm.config.chain();
    if !chain.is_empty() {
        let links: Result<_, Failure> = chain.iter().map(open_link).collect();
        return Ok(Preparation {
            files: BeginningFiles::Chain(links?),
            ..Preparation::boot(None)
        });
    }
    let snapshots = vm.config.snapshots.as_ref().filter(|_| vm.with_snapshots);
    let Some(snapshots) = snapshots else {
        return Ok(Preparation::boot(None));
    };
    let prepared = try_prepare(settings, vm.config, snapshots).await;
    Ok(prepared.unwrap_or_else(|error| {
        Preparation::boot(Some(format!("snapshots are not used: {error}")))
    }))
}

/// Opens the files of a full save, which only their user can have changed.
fn open_link(link: &SavedLink) -> Result<SavedFiles, Failure> {
    let open = |path: &Path| {
        let unfit = |why: String| {
            let message = format!("the file {} of a full save: {why}", path.display());
            Failure::new(Code::CheckpointUnfit, message)
        };
        let file = disk_copy::open(path).map_err(|error| unfit(error.to_string()))?;
        let found = file.metadata().map_err(|error| unfit(error.to_string()))?;
        let is_private =
            found.uid() == rustix::process::geteuid().as_raw() && found.mode() & OTHERS == 0;
        match is_private {
            true => Ok(file),
            false => Err(unfit("another user could have changed it".into())),
        }
    };
    Ok(SavedFiles {
        state: open(&link.state)?,
        memory: open(&link.memory)?,
    })
}

async fn try_prepare(
    settings: &NativeSettings,
    config: &LaunchConfig,
    snapshots: &SnapshotSettings,
) -> io::Result<Preparation> {
    let cpu = HostCpu::read()?;
    let shape = [shape(settings, config)];
    let parts = plan::key_parts(config, "vmm kvm", &settings.program, Some(&cpu), shape)?;
    let (plan, note) = plan::decide(config, snapshots, parts).await?;
    match plan {
        Plan::Boot => Ok(Preparation::boot(note)),
        Plan::Copy(found) => {
            let memory = Rc::new(found.memory()?);
            let state = Reading::start(found.state)?;
            Ok(Preparation {
                saving: None,
                copy: Some(CopyOf {
                    key: found.record.key,
                    knows_pages: found.touched.is_some(),
                    memory: memory.clone(),
                }),
                files: BeginningFiles::Copy {
                    state,
                    memory,
                    pages: found.touched,
                },
                note,
            })
        }
        Plan::Save(making, mut record) => {
            record.tsc_khz = HostTsc::measure().await.khz;
            let (writing, pipe) = Writing::start(*making)?;
            let memory = Rc::new(memory::create_to_seal(record.guest_bytes())?);
            Ok(Preparation {
                files: BeginningFiles::Save(pipe, memory.clone()),
                saving: Some(Saving {
                    writing,
                    memory,
                    record: *record,
                }),
                copy: None,
                note,
            })
        }
    }
}

impl Saving {
    /// Lets the VMM write state and memory, seals the memory, and continues the VM, whatever the result is.
    pub async fn save(self, control: &mut NativeControl) -> Result<Publishing, String> {
        let saved = match control.save().await {
            Ok(()) => Ok((
                self.writing
                    .wait_for_end()
                    .await
                    .map_err(|error| error.to_string()),
                memory::seal(&self.memory, self.record.guest_bytes())
                    .map_err(|error| format!("sealing the memory: {error}")),
            )),
            Err(why) => Err(why),
        };
        control.run().await?;
        let (written, sealed) = saved?;
        sealed?;
        let memory = self.memory.try_clone().map_err(|error| error.to_string())?;
        written?
            .publish(self.record, memory)
            .map_err(|error| error.to_string())
    }
}
