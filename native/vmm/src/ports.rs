//! The devices at I/O ports: COM1, the keyboard controller's reset, power off. Other ports read as ones, and writes to
//! them have no effect, as on a PC without a device there.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use vm_superio::serial::{NoEvents, SerialState};
use vm_superio::{Serial, Trigger};
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

use crate::arch::layout;
use crate::console::Console;
use crate::state::{Reader, StateError, Writer};

/// The buffer of COM1 for the guest, which no host fills here.
const COM1_INPUT_BYTES: usize = 64;

/// The effect of a write to a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    None,
    Reset,
}

/// The interrupt of COM1.
pub struct Com1Interrupt(EventFd);

impl Trigger for Com1Interrupt {
    type E = io::Error;

    fn trigger(&self) -> io::Result<()> {
        // A counter that is full has raised the line already.
        let _ = self.0.write(1);
        Ok(())
    }
}

/// A writer that never fails and never waits.
struct Output(Arc<Console>);

impl io::Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let now = Instant::now();
        for byte in bytes {
            self.0.push(*byte, now);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

type Com1 = Serial<Com1Interrupt, NoEvents, Output>;

/// The ports of a VM.
pub struct Ports {
    com1: Mutex<Com1>,
    interrupt: EventFd,
    console: Arc<Console>,
    unknown: AtomicU64,
}

impl Ports {
    pub fn new(console: Arc<Console>) -> io::Result<Self> {
        let interrupt = EventFd::new(EFD_NONBLOCK)?;
        let trigger = Com1Interrupt(interrupt.try_clone()?);
        Ok(Self {
            com1: Mutex::new(Serial::new(trigger, Output(console.clone()))),
            interrupt,
            console,
            unknown: AtomicU64::new(0),
        })
    }

    /// Returns the descriptor that KVM turns into COM1's interrupt.
    pub fn com1_interrupt(&self) -> &EventFd {
        &self.interrupt
    }

    fn com1(&self) -> MutexGuard<'_, Com1> {
        self.com1.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes the registers of COM1. Bytes for the console stay with this VM.
    pub fn save(&self, to: &mut Writer) {
        let state = self.com1().state();
        for register in [
            state.baud_divisor_low,
            state.baud_divisor_high,
            state.interrupt_enable,
            state.interrupt_identification,
            state.line_control,
            state.line_status,
            state.modem_control,
            state.modem_status,
            state.scratch,
        ] {
            to.u8(register);
        }
        to.list(&state.in_buffer);
    }

    /// Takes over saved registers. A pending interrupt is raised again, so the interrupt controllers have their state.
    pub fn restore(&self, from: &mut Reader<'_>) -> Result<(), StateError> {
        let state = SerialState {
            baud_divisor_low: from.u8()?,
            baud_divisor_high: from.u8()?,
            interrupt_enable: from.u8()?,
            interrupt_identification: from.u8()?,
            line_control: from.u8()?,
            line_status: from.u8()?,
            modem_control: from.u8()?,
            modem_status: from.u8()?,
            scratch: from.u8()?,
            in_buffer: from.list(COM1_INPUT_BYTES, "bytes for COM1")?.to_vec(),
        };
        let failed = |error: &dyn std::fmt::Display| StateError::new(format!("COM1: {error}"));
        let trigger = Com1Interrupt(self.interrupt.try_clone().map_err(|e| failed(&e))?);
        let output = Output(self.console.clone());
        let restored = Serial::from_state(&state, trigger, NoEvents, output);
        *self.com1() = restored.map_err(|e| failed(&format!("{e:?}")))?;
        Ok(())
    }

    /// Returns the number of accesses to ports without a device.
    pub fn unknown(&self) -> u64 {
        self.unknown.load(Ordering::Relaxed)
    }

    fn com1_register(port: u16) -> Option<u8> {
        let offset = port.checked_sub(layout::COM1)?;
        u8::try_from(offset).ok().filter(|offset| *offset < 8)
    }

    /// Writes a value of 1, 2 or 4 bytes to a port.
    pub fn write(&self, port: u16, value: &[u8]) -> Effect {
        let [byte] = *value else {
            // Every device here has registers of one byte.
            self.unknown.fetch_add(1, Ordering::Relaxed);
            return Effect::None;
        };
        if let Some(register) = Self::com1_register(port) {
            // The output takes everything, and an interrupt cannot fail.
            let _ = self.com1().write(register, byte);
            return Effect::None;
        }
        match port {
            layout::KEYBOARD_COMMAND if byte == layout::KEYBOARD_RESET => Effect::Reset,
            layout::SLEEP_CONTROL if byte & layout::SLEEP_ENABLE != 0 => Effect::Reset,
            layout::KEYBOARD | layout::KEYBOARD_COMMAND | layout::SLEEP_CONTROL => Effect::None,
            _ => {
                self.unknown.fetch_add(1, Ordering::Relaxed);
                Effect::None
            }
        }
    }

    /// Reads a value of 1, 2 or 4 bytes from a port.
    pub fn read(&self, port: u16, value: &mut [u8]) {
        value.fill(0xff);
        let [byte] = value else {
            self.unknown.fetch_add(1, Ordering::Relaxed);
            return;
        };
        if let Some(register) = Self::com1_register(port) {
            *byte = self.com1().read(register);
            return;
        }
        match port {
            // The controller has no byte for the guest, and takes one.
            layout::KEYBOARD | layout::KEYBOARD_COMMAND => *byte = 0,
            layout::SLEEP_CONTROL | layout::SLEEP_STATUS => *byte = 0,
            _ => {
                self.unknown.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    use super::*;

    fn ports() -> (Ports, Arc<Console>, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let console = Arc::new(Console::new(ours.into(), Instant::now()).unwrap());
        (Ports::new(console.clone()).unwrap(), console, theirs)
    }

    #[test]
    fn bytes_of_com1_reach_the_console_and_interrupt_when_the_guest_wants_it() {
        let (ports, console, mut reader) = ports();
        ports.write(layout::COM1, b"h");
        assert!(ports.com1_interrupt().read().is_err());
        // The interrupt "transmitter is empty".
        ports.write(layout::COM1 + 1, &[2]);
        ports.write(layout::COM1, b"i");
        assert!(ports.com1_interrupt().read().is_ok());
        let mut identification = [0];
        ports.read(layout::COM1 + 2, &mut identification);
        assert_eq!(identification[0] & 0xf, 2);
        console.flush();
        let mut bytes = [0; 2];
        reader.read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"hi");
    }

    #[test]
    fn the_keyboard_controller_and_the_sleep_control_end_the_vm() {
        let (ports, ..) = ports();
        assert_eq!(ports.write(0x64, &[0xfe]), Effect::Reset);
        assert_eq!(
            ports.write(layout::SLEEP_CONTROL, &[5 << 2 | 1 << 5]),
            Effect::Reset
        );
        assert_eq!(ports.write(0x64, &[0xd1]), Effect::None);
        assert_eq!(ports.write(layout::SLEEP_CONTROL, &[5 << 2]), Effect::None);
    }

    #[test]
    fn other_ports_and_odd_widths_read_as_ones_and_are_counted() {
        let (ports, ..) = ports();
        for (port, width) in [
            (0xcf8, 4),
            (0x70, 1),
            (layout::COM1, 2),
            (0x64, 4),
            (0xffff, 1),
        ] {
            let mut value = vec![0; width];
            ports.read(port, &mut value);
            assert_eq!(value, vec![0xff; width]);
            assert_eq!(ports.write(port, &vec![0xfe; width]), Effect::None);
        }
        assert_eq!(ports.unknown(), 10);
    }

    #[test]
    fn only_two_of_all_ports_end_the_vm_whatever_is_written_in_any_width() {
        let (ports, ..) = ports();
        for port in 0..=u16::MAX {
            for width in [1, 2, 4] {
                ports.read(port, &mut vec![0; width]);
                for value in [0, 0x5f, 0xfe, 0xff] {
                    let ends = ports.write(port, &vec![value; width]) == Effect::Reset;
                    let may_end = match port {
                        layout::KEYBOARD_COMMAND => value == layout::KEYBOARD_RESET,
                        layout::SLEEP_CONTROL => value & layout::SLEEP_ENABLE != 0,
                        _ => false,
                    };
                    assert_eq!(ends, may_end && width == 1, "{port:#x} {value:#x}");
                }
            }
        }
    }
}
