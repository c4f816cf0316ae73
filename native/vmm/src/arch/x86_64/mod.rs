//! x86-64: how a guest boots, and what its CPUs and tables say.

pub mod acpi;
pub mod boot;
pub mod cpuid;
pub mod host;
pub mod kernel;
pub mod layout;
pub mod pre_fault;
pub mod registers;
pub mod saved;
pub mod template;
pub mod vm;
