//! The reason why a jail cannot be made.

use std::io;

/// The setting that most often forbids a jail.
pub const REMEDY: &str = "allow user namespaces: sudo sysctl -w kernel.unprivileged_userns_clone=1 \
    user.max_user_namespaces=15000 (Ubuntu also: kernel.apparmor_restrict_unprivileged_userns=0)";

/// A step of the jail that failed. No process runs then.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel refuses the namespaces, or the rights that a user namespace gives.
    #[error("the jail cannot be made ({step}: {source}); {REMEDY}")]
    Forbidden {
        step: &'static str,
        source: io::Error,
    },
    #[error("making the jail, {step}: {source}")]
    Failed {
        step: &'static str,
        source: io::Error,
    },
}

impl Error {
    /// Returns the error of a step.
    pub(crate) fn at(step: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| match source.raw_os_error() {
            // ENOSPC: the limit of namespaces is reached, and it may be zero.
            Some(libc::EPERM | libc::EACCES | libc::ENOSPC | libc::ENOSYS) => {
                Self::Forbidden { step, source }
            }
            _ => Self::Failed { step, source },
        }
    }

    /// The same for errors of rustix.
    pub(crate) fn of(step: &'static str) -> impl FnOnce(rustix::io::Errno) -> Self {
        move |errno| Self::at(step)(errno.into())
    }
}
