//! The jail of a process that is not trusted: a VMM, later other helpers of a VM.
//!
//! ```text
//! caller            the process that asked; it waits, outside of the jail
//!   └─ lifeline     PID 1 of the jail; it ends with standard input, and all others end with it
//!        └─ inside  the confined process
//! ```
//!
//! All three are one program until the confined one replaces itself. The jail works for root and for other users. Both get
//! a user namespace, so the same steps follow.

mod capabilities;
mod descriptors;
mod error;
pub mod filter;
mod lifeline;
mod limits;
mod program;
mod root;
mod shown;
mod start;
mod users;

pub use error::{Error, REMEDY};
pub use limits::Limits;
pub use program::Program;
pub use shown::SHOWN;
pub use start::{Jail, Place};

/// Returns whether the kernel has Landlock, by which a process gives up files beyond some folders.
pub fn has_landlock() -> bool {
    const VERSION: libc::c_int = 1;
    // SAFETY: with this flag, the call takes no structure and returns a number.
    unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, 0, 0, VERSION) > 0 }
}
