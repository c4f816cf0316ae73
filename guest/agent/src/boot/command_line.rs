//! The parameters of the agent on the kernel's command line. It contains no secret, because user code can read it too.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use super::boot_error::BootError;
use super::port::Transport;
use crate::procfs;

/// The `voidbox.` parameters, by name without the prefix. A `HashMap` would draw random numbers that copies of this guest
/// share.
pub struct CommandLine(BTreeMap<String, String>);

impl CommandLine {
    pub fn read() -> Self {
        Self::parse(&procfs::command_line())
    }

    fn parse(text: &str) -> Self {
        let parameters = text
            .split_ascii_whitespace()
            .filter_map(|word| word.strip_prefix("voidbox.")?.split_once('='))
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        Self(parameters.collect())
    }

    /// Returns `voidbox.scratch=/dev/…`; by default the first virtio disk.
    pub fn scratch_device(&self) -> PathBuf {
        self.0
            .get("scratch")
            .map_or_else(|| PathBuf::from("/dev/vda"), PathBuf::from)
    }

    /// Returns `voidbox.root=…`, the device or the serial number of the disk with the guest's root.
    pub fn root_disk(&self) -> Option<&str> {
        self.0.get("root").map(String::as_str)
    }

    /// Returns the way to the keeper: `voidbox.port=vsock:` and the port, or by default the virtio-serial port.
    pub fn transport(&self) -> Result<Transport, BootError> {
        let Some(value) = self.0.get("port") else {
            return Ok(Transport::Serial);
        };
        let port = value.strip_prefix("vsock:");
        match port.and_then(|port| port.parse::<u32>().ok()) {
            // The last number means any port, and 0 is reserved.
            Some(port) if port != 0 && port != libc::VMADDR_PORT_ANY => {
                Ok(Transport::Vsock { port })
            }
            _ => Err(BootError::at(
                format!("reading voidbox.port={value:?}, expected vsock:PORT"),
                io::Error::from(io::ErrorKind::InvalidInput),
            )),
        }
    }

    /// Returns true with `voidbox.wait=1`: the guest waits for `Start` before it has a disk.
    pub fn waits(&self) -> bool {
        self.0.get("wait").is_some_and(|value| value == "1")
    }
}

#[cfg(test)]
mod tests {
    use super::{CommandLine, Transport};
    use std::path::Path;

    #[test]
    fn the_scratch_device_is_found_among_other_words() {
        let line = CommandLine::parse("quiet voidbox.scratch=/dev/vdb panic=-1\n");
        assert_eq!(line.scratch_device(), Path::new("/dev/vdb"));
        assert_eq!(line.root_disk(), None);
        let line = CommandLine::parse("voidbox.root=voidbox-root root=/dev/vda");
        assert_eq!(line.root_disk(), Some("voidbox-root"));
        assert!(!line.waits());
        assert!(CommandLine::parse("a voidbox.wait=1 b").waits());
        let line = CommandLine::parse("quiet scratch=/dev/vdb");
        assert_eq!(line.scratch_device(), Path::new("/dev/vda"));
    }

    #[test]
    fn the_way_to_the_keeper_is_the_serial_port_unless_the_line_names_a_vsock_port() {
        let transport = |text: &str| CommandLine::parse(text).transport();
        assert_eq!(transport("quiet").unwrap(), Transport::Serial);
        assert_eq!(
            transport("a voidbox.port=vsock:1024 b").unwrap(),
            Transport::Vsock { port: 1024 }
        );
        for value in [
            "",
            "1024",
            "vsock:",
            "vsock:0",
            "vsock:4294967295",
            "vsock:-1",
            "tcp:1",
        ] {
            let error = transport(&format!("voidbox.port={value}")).unwrap_err();
            assert!(error.to_string().contains("expected vsock:PORT"), "{error}");
        }
    }
}
