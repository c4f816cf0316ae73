//! The parts that a saved VM and its copy have in common. A state begins with them.

use super::link::{Link, check_memory};
use crate::config::{Config, CpuTemplate};
use crate::state::{Reader, StateError, Writer};

/// The parts of a configuration that a copy has like its template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    pub memory_bytes: u64,
    pub cpus: usize,
    pub template: CpuTemplate,
}

impl Shape {
    pub fn of(config: &Config) -> Self {
        Self {
            memory_bytes: u64::from(config.memory_mib) << 20,
            cpus: config.vcpus as usize,
            template: config.cpu,
        }
    }
}

/// The first fields of a state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    pub memory_bytes: u64,
    pub template: String,
    pub link: Link,
}

impl Head {
    pub fn write(&self, to: &mut Writer) {
        to.u64(self.memory_bytes);
        to.text(&self.template);
        self.link.write(to);
    }

    pub fn read(from: &mut Reader<'_>) -> Result<Self, StateError> {
        let memory_bytes = from.u64()?;
        check_memory(memory_bytes)?;
        let template = from.text()?;
        Ok(Self {
            link: Link::read(from, memory_bytes)?,
            memory_bytes,
            template,
        })
    }

    /// Fails unless a VM of this shape can have the state.
    pub fn check(&self, shape: &Shape) -> Result<(), StateError> {
        self.check_like(shape.memory_bytes, shape.template.name())
    }

    /// Fails unless the state is of a VM with this memory and this CPU template.
    pub fn check_like(&self, memory_bytes: u64, template: &str) -> Result<(), StateError> {
        if self.memory_bytes != memory_bytes {
            return Err(StateError::new(format!(
                "it was saved with {} bytes of memory, and has {memory_bytes}",
                self.memory_bytes
            )));
        }
        if self.template != template {
            return Err(StateError::new(format!(
                "it was saved with the CPU template {:?}, and has {template:?}",
                self.template
            )));
        }
        Ok(())
    }
}
