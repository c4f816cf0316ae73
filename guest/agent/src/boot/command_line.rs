//! The parameters of the agent on the kernel's command line. It contains no secret, because user code can read it too.

use std::collections::BTreeMap;
use std::path::PathBuf;

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

    /// Returns `voidbox.root=…`, the serial number of the disk with the guest's root.
    pub fn root_disk(&self) -> Option<&str> {
        self.0.get("root").map(String::as_str)
    }

    /// Returns true with `voidbox.wait=1`: the guest waits for `Start` before it has a disk.
    pub fn waits(&self) -> bool {
        self.0.get("wait").is_some_and(|value| value == "1")
    }
}

#[cfg(test)]
mod tests {
    use super::CommandLine;
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
}
