//! Users of the guest.

/// A user and its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    pub uid: u32,
    pub gid: u32,
}

/// The user that runs commands and owns new files.
pub const SANDBOX: Owner = Owner {
    uid: 1000,
    gid: 1000,
};
