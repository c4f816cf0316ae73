//! The parts of a VM that waits, which the launch that takes it gets.

use std::rc::Rc;

use super::end::End;
use crate::cgroups::Group;
use crate::config::LaunchConfig;
use crate::run_dir::RunDir;
use crate::vmm::Started;

/// The parts that a keeper gets before it serves the VM of a key.
pub(super) struct Given {
    pub group: Rc<Group>,
    pub jail: String,
    pub begun: Option<Started>,
}

/// A VM that a launch has taken.
pub struct Taken {
    pub(super) dir: RunDir,
    pub(super) config: LaunchConfig,
    pub(super) given: Given,
}

/// How a wait ended.
pub enum Wait {
    Taken(Box<Taken>),
    Ended(End),
}
