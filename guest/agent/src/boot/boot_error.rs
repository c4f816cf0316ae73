//! The reason why a guest could not boot.

use thiserror::Error;

/// A step of the boot that failed. The guest cannot work without any of them.
#[derive(Debug, Error)]
#[error("{step}: {source}")]
pub struct BootError {
    step: String,
    source: std::io::Error,
}

impl BootError {
    pub fn at(step: impl Into<String>, source: impl Into<std::io::Error>) -> Self {
        Self {
            step: step.into(),
            source: source.into(),
        }
    }
}
