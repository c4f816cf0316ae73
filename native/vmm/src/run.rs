//! The life of a VM: its configuration, its start, the requests of its keeper, its end.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use crate::bus::Slot;
use crate::config::{Config, ConfigError};
use crate::control::{Channel, Input, Message, Request, Statistics};
use crate::device_thread::{DeviceEvent, DeviceThread};
use crate::ended::{Ended, host_failed};
use crate::filters::{self, FILTERS, Filters};
use crate::machine::{Assembled, assemble};
use crate::mailbox::Mailbox;
use crate::poll::Poll;
use crate::snapshot::{Files, Parts};
use crate::vcpu::Team;

/// Runs the VM whose configuration comes over the control. Returns the exit code of the process.
///
/// `control` and the descriptors of the configuration must have no other owner in this process.
pub fn run(control: RawFd) -> u8 {
    run_with(control, FILTERS)
}

/// The same with any filters, for tests of filters.
pub fn run_with(control: RawFd, filters: Filters) -> u8 {
    // SAFETY: the caller gives the descriptor away.
    let mut channel = Channel::new(unsafe { OwnedFd::from_raw_fd(control) });
    let reason = live(&mut channel, filters)
        .unwrap_or_else(|end| end)
        .bounded();
    let code = reason.exit_code();
    channel.tell(&Message::Ended { reason });
    code
}

fn live(channel: &mut Channel, filters: Filters) -> Result<Ended, Ended> {
    let config = configure(channel)?;
    voidbox_jail::filter::report(channel.fd())
        .map_err(|e| host_failed("the report of a forbidden call", e))?;
    let mut vm = Running::start(assemble(&config)?, filters)?;
    // The other threads have their own.
    filters::install(match config.save {
        _ if config.full_saves => filters.fully_saving_control,
        Some(_) => filters.saving_control,
        None => filters.control,
    })?;
    vm.check_threads()?;
    channel.tell(&Message::Started);
    vm.team.resume();
    vm.devices.resume();
    let end = vm.serve(channel);
    vm.team.stop();
    vm.devices.stop();
    end.map_err(|e| host_failed("the control", e))
}

fn configure(channel: &mut Channel) -> Result<Config, Ended> {
    let bad = |error: ConfigError| Ended::BadConfiguration {
        key: error.key,
        text: error.text,
    };
    match channel.first_line() {
        Ok(Input::Line(line)) => Config::parse(&line, channel.fd()).map_err(bad),
        Ok(Input::TooLong) => Err(bad(ConfigError {
            key: "configuration".into(),
            text: format!("more than {} bytes", crate::config::LINE_LIMIT_BYTES),
        })),
        Ok(Input::Closed | Input::Partial) => Err(closed()),
        Err(error) => Err(host_failed("the control", error)),
    }
}

fn closed() -> Ended {
    Ended::Killed {
        text: "the keeper closed the control".into(),
    }
}

/// A VM whose threads exist. The threads end before what they use is dropped.
struct Running {
    team: Team,
    devices: DeviceThread,
    events: Arc<Mailbox<DeviceEvent>>,
    paused: bool,
    parts: Assembled,
}

impl Running {
    fn start(mut parts: Assembled, filters: Filters) -> Result<Self, Ended> {
        let events = Arc::new(Mailbox::new().map_err(|e| host_failed("eventfd", e))?);
        let tell = {
            let events = events.clone();
            move |event| events.send(event)
        };
        let end = {
            let tell = tell.clone();
            move |end| tell(DeviceEvent::Ended(end))
        };
        let devices =
            DeviceThread::start(parts.machine.clone(), parts.console.clone(), filters, tell)
                .map_err(|e| host_failed("the thread of the devices", e))?;
        let vcpus = std::mem::take(&mut parts.vcpus);
        let team = Team::start(vcpus, &parts.machine, filters, end)
            .map_err(|e| host_failed("the threads of the CPUs", e))?;
        Ok(Self {
            team,
            devices,
            events,
            paused: false,
            parts,
        })
    }

    /// Returns once each thread has its filter. A thread without one has ended, and no guest may run then.
    fn check_threads(&self) -> Result<(), Ended> {
        self.team.wait_until_ready();
        self.devices.pause();
        match self.events.take() {
            Some(DeviceEvent::Ended(end)) => Err(end),
            // A device has nothing to do yet.
            Some(DeviceEvent::NoRoom(_)) | None => Ok(()),
        }
    }

    /// Serves the keeper until the VM ends.
    fn serve(&mut self, channel: &mut Channel) -> io::Result<Ended> {
        let mut poll = Poll::default();
        loop {
            poll.clear();
            let requests = poll.add(channel.fd(), libc::POLLIN);
            poll.add(self.events.wake().as_raw_fd(), libc::POLLIN);
            poll.wait(None)?;
            while let Some(event) = self.events.take() {
                match event {
                    DeviceEvent::Ended(end) => return Ok(end),
                    DeviceEvent::NoRoom(serial) => {
                        self.pause();
                        channel.tell(&Message::NoRoom { serial });
                    }
                }
            }
            if poll.events(requests) == 0 {
                continue;
            }
            let mut input = channel.read()?;
            loop {
                match input {
                    Input::Partial => break,
                    Input::Closed => return Ok(closed()),
                    Input::TooLong => {
                        return Ok(Ended::Killed {
                            text: "the keeper sent a line beyond its limit".into(),
                        });
                    }
                    Input::Line(line) => {
                        if let Some(end) = self.answer(&line, channel) {
                            return Ok(end);
                        }
                    }
                }
                input = channel.buffered();
            }
        }
    }

    fn answer(&mut self, line: &[u8], channel: &mut Channel) -> Option<Ended> {
        // A request that needs no files closes them.
        let files = channel.take_descriptors();
        let message = match Request::parse(line) {
            Ok(Request::Pause) => {
                self.pause();
                Message::Paused
            }
            Ok(Request::Resume) => {
                self.resume();
                Message::Resumed
            }
            Ok(request @ (Request::Save | Request::SaveFull | Request::SaveDiff)) => {
                match self.save(request, files) {
                    Ok(id) => Message::Saved { id },
                    Err(why) => Message::Refused { why },
                }
            }
            Ok(Request::Statistics) => Message::Statistics(self.statistics()),
            Ok(Request::End) => {
                return Some(Ended::Killed {
                    text: "the keeper asked for the end".into(),
                });
            }
            Err(why) => Message::Refused { why },
        };
        channel.tell(&message);
        None
    }

    /// Stops the CPUs first: they give the devices work.
    fn pause(&mut self) {
        self.team.pause();
        self.devices.pause();
        self.paused = true;
    }

    fn resume(&mut self) {
        if std::mem::take(&mut self.paused) {
            self.devices.resume();
            self.team.resume();
        }
    }

    /// Saves a paused VM that may be saved. Returns the name of the state of a full save.
    fn save(&mut self, what: Request, files: Vec<OwnedFd>) -> Result<Option<String>, String> {
        if !self.paused {
            return Err("only a paused VM is saved".into());
        }
        let Assembled {
            saver,
            vm,
            ram,
            machine,
            ..
        } = &mut self.parts;
        let saver = saver.as_mut().ok_or("this VM may not be saved")?;
        let parts = Parts { vm, ram, machine };
        if what == Request::Save {
            return saver.save(parts).map(|()| None);
        }
        let [state, memory] = <[OwnedFd; 2]>::try_from(files)
            .map_err(|files| {
                let count = files.len();
                format!(
                    "{count} descriptors came with the request; it needs those of state and memory"
                )
            })?
            .map(File::from);
        let files = Files { state, memory };
        let id = match what {
            Request::SaveDiff => saver.save_diff(parts, &files),
            _ => saver.save_full(parts, &files),
        }?;
        Ok(Some(id.to_string()))
    }

    fn statistics(&self) -> Statistics {
        let parts = &self.parts;
        // A counter that cannot be read is absent.
        let mut vm = parts
            .vm_counters
            .as_ref()
            .and_then(|counters| counters.read().ok())
            .unwrap_or_default();
        vm.insert("unknown_ports".into(), parts.machine.ports.unknown());
        vm.insert("unknown_addresses".into(), parts.machine.bus.unknown());
        let slots = parts.machine.bus.slots();
        let failed = slots
            .iter()
            .filter(|slot| slot.transport().failure().is_some());
        vm.insert("failed_devices".into(), failed.count() as u64);
        let kicks = slots.iter().map(Slot::kicked).sum();
        vm.insert("kicks".into(), kicks);
        let interrupts = slots.iter().map(|slot| slot.interrupt().raised()).sum();
        vm.insert("interrupts".into(), interrupts);
        Statistics {
            vm,
            vcpus: parts
                .vcpu_counters
                .iter()
                .map(|counters| counters.read().unwrap_or_default())
                .collect(),
        }
    }
}
