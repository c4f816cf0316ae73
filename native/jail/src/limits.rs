//! The resource limits of the confined process.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::error::Error;

/// The limits; a process cannot raise them again.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The number of descriptors. Those that the jail keeps count.
    pub open_files: u64,
    /// The number of threads, if the process has a user of its own. Otherwise it counts all processes of this user.
    pub threads: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            open_files: 256,
            threads: 128,
        }
    }
}

impl Limits {
    pub(crate) fn apply(self, has_own_user: bool) -> Result<(), Error> {
        // A core file would contain the memory of the guest.
        lower(Resource::Core, 0)?;
        lower(Resource::Nofile, self.open_files)?;
        // Memory that cannot be swapped, real-time priority and queues of messages.
        lower(Resource::Memlock, 0)?;
        lower(Resource::Rtprio, 0)?;
        lower(Resource::Msgqueue, 0)?;
        if has_own_user {
            lower(Resource::Nproc, self.threads)?;
        }
        Ok(())
    }
}

/// Sets both limits. A host may have set a lower one, which stays.
fn lower(resource: Resource, to: u64) -> Result<(), Error> {
    let to = getrlimit(resource).maximum.map_or(to, |now| now.min(to));
    let limit = Rlimit {
        current: Some(to),
        maximum: Some(to),
    };
    setrlimit(resource, limit).map_err(Error::of("setting a resource limit"))
}
