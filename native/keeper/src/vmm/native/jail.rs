//! The jail of `voidbox-vmm`. It contains the program and no file of the VM: the VMM has all of them open.

use std::ffi::OsString;
use std::os::fd::RawFd;
use std::path::Path;

use crate::config::NativeSettings;
use crate::error::Failure;
use crate::vmm::jail::{Jail, readable};

/// The path of the program in the jail.
const PROGRAM: &str = "/vm/voidbox-vmm";

/// Returns the whole command: the jail, and the VMM inside it.
pub fn command(
    settings: &NativeSettings,
    keeper: &Path,
    uid: Option<u32>,
    control: RawFd,
) -> Result<Vec<OsString>, Failure> {
    let mut jail = Jail::new(&settings.bwrap, uid);
    if uid.is_some() {
        // The program that gives up root's rights is a dynamic one. The VMM itself is static.
        jail.show_libraries();
    }
    jail.show(readable("VMM", &settings.program, uid)?, PROGRAM);
    let words = [PROGRAM, "--control", &control.to_string()];
    jail.command(keeper, words.map(OsString::from).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(uid: Option<u32>) -> Vec<String> {
        let settings = NativeSettings {
            program: "/usr/bin/env".into(),
            bwrap: "/usr/bin/bwrap".into(),
            mke2fs: None,
            folders: None,
            kvm: None,
        };
        let words = command(&settings, Path::new("/usr/bin/env"), uid, 12).unwrap();
        words
            .into_iter()
            .map(|word| word.into_string().unwrap())
            .collect()
    }

    #[test]
    fn the_jail_shows_programs_and_nothing_that_can_be_written() {
        let words = words(None);
        let shown: Vec<&str> = words
            .windows(3)
            .filter(|three| three[0].contains("bind"))
            .map(|three| three[2].as_str())
            .collect();
        assert_eq!(shown, [PROGRAM, "/vm/voidbox-vm"]);
        assert!(
            !words
                .iter()
                .any(|word| word.contains("kvm") || word == "--bind")
        );
        assert_eq!(words[words.len() - 3..], [PROGRAM, "--control", "12"]);
    }

    #[test]
    fn root_gives_up_every_group_because_kvm_is_open_already() {
        let words = words(Some(1_900_000_000));
        assert!(words.contains(&"--clear-groups".to_owned()));
        assert!(
            !words
                .iter()
                .any(|word| word.contains("/dev/kvm") || word == "--bind")
        );
    }
}
