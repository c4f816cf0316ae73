//! The state that all requests of this process share: the user of commands, and the parts of the guest.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use crate::cgroup::CgroupParent;
use crate::disks::Storage;
use crate::owner::{Owner, SANDBOX};
use crate::precedence::Precedences;
use crate::reaper::Reaper;
use crate::tunnel::Tunnels;

/// The process that the agent is.
pub enum Role {
    /// PID 1 of a guest.
    Init(Storage),
    /// A process under test, on a machine that is not its own.
    Process,
}

/// The guest as requests see it.
pub struct Guest {
    pub role: Role,
    pub reaper: Reaper,
    pub cgroup: Option<CgroupParent>,
    pub precedences: Precedences,
    configuring: AtomicBool,
    configured: AtomicBool,
    /// Folders outside the user's own that were made for copies, by their guest path.
    pub made_folders: Mutex<Vec<PathBuf>>,
    /// There once the keeper keeps a door for this guest.
    pub tunnels: OnceLock<Arc<Tunnels>>,
    /// The environment variables of commands, which their own override.
    variables: OnceLock<Vec<(String, String)>>,
}

impl Guest {
    pub fn new(role: Role, reaper: Reaper, cgroup: Option<CgroupParent>) -> Self {
        let precedences = match role {
            Role::Init(_) => Precedences::of_guest(),
            Role::Process => Precedences::unchanged(),
        };
        Self {
            role,
            reaper,
            cgroup,
            precedences,
            configuring: AtomicBool::new(false),
            configured: AtomicBool::new(false),
            made_folders: Mutex::default(),
            tunnels: OnceLock::new(),
            variables: OnceLock::new(),
        }
    }

    pub fn is_configured(&self) -> bool {
        self.configured.load(Ordering::Acquire)
    }

    /// True for the first call alone.
    pub fn claim_configuration(&self) -> bool {
        !self.configuring.swap(true, Ordering::AcqRel)
    }

    /// Lets every request through.
    pub fn set_configured(&self) {
        self.configured.store(true, Ordering::Release);
    }

    /// Sets the variables of all later commands. Only the first call sets them.
    pub fn set_variables(&self, variables: Vec<(String, String)>) {
        let _ = self.variables.set(variables);
    }

    pub fn variables(&self) -> &[(String, String)] {
        self.variables.get().map_or(&[], Vec::as_slice)
    }

    /// A place on the disk that has what users write.
    pub fn disk(&self) -> &Path {
        match &self.role {
            Role::Init(storage) => &storage.scratch,
            Role::Process => Path::new("/tmp"),
        }
    }

    /// The user whose rights file requests have: `None` is the process's own.
    pub fn file_owner(&self) -> Option<Owner> {
        rustix::process::geteuid().is_root().then_some(SANDBOX)
    }

    /// The user to change to for a program; `None` when that is who this process is already.
    pub fn may_run_as(&self, uid: u32, gid: u32) -> Result<Option<Owner>, String> {
        let me = rustix::process::geteuid();
        if uid == 0 || gid == 0 {
            return Err("programs of a guest do not run as root".into());
        }
        if me.is_root() {
            return Ok(Some(Owner { uid, gid }));
        }
        if me.as_raw() == uid {
            return Ok(None);
        }
        Err(format!(
            "an agent of user {} can't become user {uid}",
            me.as_raw()
        ))
    }
}
