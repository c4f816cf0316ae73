//! The facts of the host about limits of VMs.

use super::find::{Controller, Machine};

/// The reasons why control groups do not limit VMs; absent for a limit that VMs have.
#[derive(Debug, serde::Serialize)]
pub struct Unlimited {
    pub cpu: Option<String>,
    pub memory: Option<String>,
}

impl Unlimited {
    pub fn read() -> Self {
        let machine = Machine::read();
        let why = |controller| match &machine {
            Ok(machine) => machine.find(controller).err(),
            Err(error) => Some(error.to_string()),
        };
        Self {
            cpu: why(Controller::Cpu),
            memory: why(Controller::Memory),
        }
    }
}
