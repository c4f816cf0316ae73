//! The host's CPU as guests on KVM see it.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// The limit of what is read of one processor; a processor with 300 flags has 3 KiB.
const MAX_PROCESSOR_BYTES: usize = 64 << 10;
const MAX_PARAMETER_BYTES: u64 = 256;
/// The modules of KVM that run guests on hardware.
const MODULES: [&str; 3] = ["kvm", "kvm_intel", "kvm_amd"];

/// Facts that must be equal for a guest on KVM to continue. They may change while the host runs: by new microcode, if
/// KVM's modules are loaded again, or if the host is itself a VM that moves to another machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostCpu {
    /// Vendor, family, model, stepping, and microcode if the host knows it.
    pub model: String,
    /// The features that the host's kernel uses.
    pub features: String,
    /// The parameters with which KVM's modules were loaded, because some of them hide features from guests.
    pub modules: String,
}

impl HostCpu {
    /// Reads the first processor. Linux runs only on processors with equal features.
    pub fn read() -> io::Result<Self> {
        let (model, features) = parse(&read_first(File::open("/proc/cpuinfo")?)?)?;
        Ok(Self {
            model,
            features,
            modules: describe_modules(Path::new("/sys/module"))?,
        })
    }
}

/// Reads the text of the first processor, up to its empty line. The kernel writes the text of the others only if they
/// are read.
fn read_first(mut file: impl Read) -> io::Result<String> {
    let mut text = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let count = file.read(&mut buffer)?;
        text.extend(&buffer[..count]);
        let end = text.windows(2).position(|two| two == b"\n\n");
        if let Some(end) = end {
            text.truncate(end);
        } else if text.len() > MAX_PROCESSOR_BYTES {
            return Err(invalid("the text of the first processor is too long"));
        }
        if end.is_some() || count == 0 {
            return Ok(String::from_utf8_lossy(&text).into_owned());
        }
    }
}

/// Returns the model and the features of a processor.
fn parse(text: &str) -> io::Result<(String, String)> {
    let find = |wanted: &str| {
        text.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            (name.trim() == wanted).then(|| value.trim())
        })
    };
    let need = |name: &str| {
        find(name)
            .filter(|value| !value.is_empty())
            .ok_or_else(|| invalid(&format!("no {name:?}")))
    };
    let model = format!(
        "{} family {} model {} stepping {} microcode {}",
        need("vendor_id")?,
        need("cpu family")?,
        need("model")?,
        need("stepping")?,
        // A hypervisor may hide it.
        find("microcode").unwrap_or("unknown"),
    );
    Ok((model, need("flags")?.to_owned()))
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("/proc/cpuinfo: {what}"))
}

/// Describes the parameters that only a load of the module sets; root changes the others at any time, and they change no
/// feature of a guest. A module that is not loaded is skipped.
fn describe_modules(folder: &Path) -> io::Result<String> {
    let mut parameters = Vec::new();
    for module in MODULES {
        let entries = match fs::read_dir(folder.join(module).join("parameters")) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        for entry in entries {
            let entry = entry?;
            if entry.metadata()?.permissions().mode() & 0o222 != 0 {
                continue;
            }
            let path = entry.path();
            let value = read_parameter(&path).map_err(|error| {
                io::Error::new(error.kind(), format!("{}: {error}", path.display()))
            })?;
            let name = entry.file_name();
            parameters.push(format!(
                "{module}.{}={}",
                name.to_string_lossy(),
                value.trim()
            ));
        }
    }
    parameters.sort();
    Ok(parameters.join(" "))
}

fn read_parameter(path: &Path) -> io::Result<String> {
    let mut value = Vec::new();
    File::open(path)?
        .take(MAX_PARAMETER_BYTES)
        .read_to_end(&mut value)?;
    Ok(String::from_utf8_lossy(&value).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTEL: &str = "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\n\
        model name\t: Intel(R) Xeon(R) Platinum: 8481C\nstepping\t: 8\nmicrocode\t: 0x2b000590\ncpu MHz\t\t: 2699.998\n\
        flags\t\t: fpu vme avx512f amx_tile\nvmx flags\t: vnmi ept\nbugs\t\t: spectre_v1\npower management:\n\n\
        processor\t: 1\nvendor_id\t: GenuineIntel\nstepping\t: 9\nflags\t\t: fpu\n\n";
    const AMD: &str = "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 23\nmodel\t\t: 1\n\
        model name\t: AMD EPYC Processor\nstepping\t: 2\nflags\t\t: fpu svm\n";

    fn describe(text: &str) -> io::Result<(String, String)> {
        parse(&read_first(text.as_bytes())?)
    }

    #[test]
    fn two_cpus_have_their_models_and_features() {
        let (model, features) = describe(INTEL).unwrap();
        assert_eq!(
            model,
            "GenuineIntel family 6 model 143 stepping 8 microcode 0x2b000590"
        );
        assert_eq!(features, "fpu vme avx512f amx_tile");
        let (model, features) = describe(AMD).unwrap();
        assert_eq!(
            model,
            "AuthenticAMD family 23 model 1 stepping 2 microcode unknown"
        );
        assert_eq!(features, "fpu svm");
    }

    #[test]
    fn each_fact_of_a_cpu_changes_its_description() {
        let one = describe(INTEL).unwrap();
        for (from, to) in [
            ("GenuineIntel", "OtherVendor"),
            ("cpu family\t: 6", "cpu family\t: 7"),
            (": 143", ": 144"),
            ("stepping\t: 8", "stepping\t: 9"),
            ("0x2b000590", "0x2b000591"),
            (" amx_tile", ""),
        ] {
            let changed = INTEL.replacen(from, to, 1);
            assert_ne!(changed, INTEL, "{from}");
            assert_ne!(describe(&changed).unwrap(), one, "{from}");
        }
        // The clock's frequency changes all the time.
        let faster = INTEL.replace("2699.998", "3100.000");
        assert_eq!(describe(&faster).unwrap(), one);
    }

    #[test]
    fn a_text_that_describes_no_cpu_is_an_error_that_names_the_fact() {
        for (text, named) in [
            (String::new(), "vendor_id"),
            ("\n\n".into(), "vendor_id"),
            ("vendor_id\n:\n: x\n".into(), "vendor_id"),
            (AMD.replace("AuthenticAMD", ""), "vendor_id"),
            (AMD.replace("cpu family", "cpu"), "cpu family"),
            // `model name` is another fact.
            (AMD.replace("model\t\t: 1\n", ""), "model"),
            (AMD.replace("stepping", "steps"), "stepping"),
            (AMD.replace("flags", "Features"), "flags"),
            ("x".repeat(MAX_PROCESSOR_BYTES * 2), "too long"),
        ] {
            let error = describe(&text).unwrap_err().to_string();
            assert!(error.contains(named), "{named}: {error}");
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_replaced() {
        let text = [b"vendor_id\t: \xff\xfe\n", AMD.as_bytes()].concat();
        let (model, _) = parse(&read_first(&text[..]).unwrap()).unwrap();
        assert!(
            model.starts_with("\u{fffd}\u{fffd} family 23 "),
            "{model:?}"
        );
    }

    #[test]
    fn only_parameters_of_a_load_of_kvms_modules_count() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(describe_modules(folder.path()).unwrap(), "");
        for (path, value, mode) in [
            ("kvm_amd/parameters/nested", "1\n", 0o444),
            ("kvm_amd/parameters/long", &*"y".repeat(1_000), 0o400),
            ("kvm/parameters/enable_pmu", "Y\n", 0o444),
            ("kvm/parameters/halt_poll_ns", "200000\n", 0o644),
            ("loop/parameters/max_loop", "8\n", 0o444),
        ] {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, value).unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        }
        let long = "y".repeat(256);
        assert_eq!(
            describe_modules(folder.path()).unwrap(),
            format!("kvm.enable_pmu=Y kvm_amd.long={long} kvm_amd.nested=1")
        );
    }

    #[test]
    fn the_cpu_of_this_host_is_read_alike_twice() {
        let cpu = HostCpu::read().unwrap();
        assert!(cpu.model.contains(" family "), "{cpu:?}");
        assert!(cpu.features.split(' ').any(|name| name == "sse2"));
        assert_eq!(cpu, HostCpu::read().unwrap());
    }
}
