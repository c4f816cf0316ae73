//! The state that all requests of this process share: the user of commands, and the parts of the guest.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use crate::cgroup::CgroupParent;
use crate::disks::Storage;
use crate::lock::lock;
use crate::owner::{Owner, SANDBOX};
use crate::precedence::Precedences;
use crate::reaper::Reaper;
use crate::tunnel::Tunnels;

/// The role of the agent's process.
pub enum Role {
    /// PID 1 of a guest.
    Init(Storage),
    /// A process under test, on a machine that it shares.
    Process,
}

type Variables = Arc<[(String, String)]>;

/// The guest's state for requests.
pub struct Guest {
    pub role: Role,
    pub reaper: Reaper,
    pub cgroup: Option<CgroupParent>,
    pub precedences: Precedences,
    configuring: AtomicBool,
    configured: AtomicBool,
    /// Folders outside the user's own that were made for copies, as guest paths.
    pub made_folders: Mutex<Vec<PathBuf>>,
    /// Present in a session whose keeper provides a door for this guest.
    pub tunnels: Mutex<Option<Arc<Tunnels>>>,
    /// Closes the door of the session.
    pub close_door: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    /// The default environment variables of commands.
    variables: Mutex<Variables>,
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
            tunnels: Mutex::default(),
            close_door: Mutex::default(),
            variables: Mutex::default(),
        }
    }

    pub fn is_configured(&self) -> bool {
        self.configured.load(Ordering::Acquire)
    }

    /// Returns true only for the first call.
    pub fn claim_configuration(&self) -> bool {
        !self.configuring.swap(true, Ordering::AcqRel)
    }

    /// Allows all requests.
    pub fn set_configured(&self) {
        self.configured.store(true, Ordering::Release);
    }

    /// Lets the next session configure the guest again.
    pub fn forget_configuration(&self) {
        self.configured.store(false, Ordering::Release);
        self.configuring.store(false, Ordering::Release);
    }

    /// Sets the variables of all later commands.
    pub fn set_variables(&self, variables: Vec<(String, String)>) {
        *lock(&self.variables) = variables.into();
    }

    pub fn variables(&self) -> Variables {
        lock(&self.variables).clone()
    }

    /// Returns a path on the disk that stores users' files.
    pub fn disk(&self) -> &Path {
        match &self.role {
            Role::Init(storage) => &storage.scratch,
            Role::Process => Path::new("/tmp"),
        }
    }

    /// The user with whose rights file requests run; `None` means the process's own user.
    pub fn file_owner(&self) -> Option<Owner> {
        rustix::process::geteuid().is_root().then_some(SANDBOX)
    }

    /// Returns the user to switch to for a program; `None` if this process already runs as that user.
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
