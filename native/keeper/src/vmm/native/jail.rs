//! The jail of `voidbox-vmm`: an empty root. The VMM gets all its files by descriptor.

use std::ffi::OsString;
use std::os::fd::RawFd;
use std::path::Path;

use crate::config::NativeSettings;
use crate::error::Failure;
use crate::vmm::jail::resolve;

/// The name of the program in its own command line.
const NAME: &str = "voidbox-vmm";

/// Returns the whole command: the keeper's own binary makes the jail, and becomes the VMM in it.
pub fn command(
    settings: &NativeSettings,
    keeper: &Path,
    uid: Option<u32>,
    control: RawFd,
    files: impl IntoIterator<Item = RawFd>,
) -> Result<Vec<OsString>, Failure> {
    let mut words: Vec<OsString> = vec![keeper.into(), "jail".into(), "--program".into()];
    words.push(resolve(&settings.program)?.into());
    if let Some(uid) = uid {
        words.extend(["--uid".into(), uid.to_string().into()]);
    }
    let kept: Vec<String> = std::iter::once(control)
        .chain(files)
        .map(|fd| fd.to_string())
        .collect();
    words.extend(["--keep".into(), kept.join(",").into()]);
    words.extend(["--", NAME, "--control"].map(OsString::from));
    words.push(control.to_string().into());
    Ok(words)
}

/// Describes the confinement of a VMM, and of the server of its folders if it has one, for the run.
pub fn description(uid: Option<u32>, has_landlock: bool) -> String {
    let user = match uid {
        Some(uid) => format!("uid {uid}"),
        None => "user namespace".into(),
    };
    match has_landlock {
        true => format!("empty root, {user}"),
        false => format!("empty root, {user}, folders without Landlock"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::CpuTemplate;

    fn words(uid: Option<u32>) -> String {
        let settings = NativeSettings {
            program: "/usr/bin/env".into(),
            mke2fs: None,
            folders: None,
            cpu: CpuTemplate::Host,
            pmem: false,
            kvm: None,
        };
        let words = command(&settings, Path::new("/k"), uid, 12, [5, 9]).unwrap();
        let words: Vec<String> = words
            .into_iter()
            .map(|word| word.into_string().unwrap())
            .collect();
        words.join(" ")
    }

    #[test]
    fn the_vmm_keeps_its_control_and_its_files_and_sees_no_path() {
        let env = Path::new("/usr/bin/env").canonicalize().unwrap();
        let expected = format!(
            "/k jail --program {} --keep 12,5,9 -- voidbox-vmm --control 12",
            env.display()
        );
        assert_eq!(words(None), expected);
    }

    #[test]
    fn the_description_names_what_the_kernel_lacks() {
        assert_eq!(description(Some(7), true), "empty root, uid 7");
        assert_eq!(
            description(None, false),
            "empty root, user namespace, folders without Landlock"
        );
    }

    #[test]
    fn root_gives_the_vmm_a_user_of_its_own() {
        assert!(words(Some(1_900_000_000)).contains(" --uid 1900000000 --keep "));
    }
}
