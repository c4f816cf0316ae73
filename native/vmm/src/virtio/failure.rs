//! The failure of a device.

/// A request of the guest that violates the protocol. The device fails until the guest resets it; the VM continues.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Failure(pub String);

impl Failure {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}
