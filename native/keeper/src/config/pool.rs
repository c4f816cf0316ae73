//! Which launch may take a VM that waits.

use super::{LaunchConfig, VmmSettings};

impl LaunchConfig {
    /// Whether a VM that waits can become this VM. Their snapshot keys are compared by the caller: they contain the
    /// memory, the CPUs, and the files of VMM, kernel and initramfs.
    pub fn could_be(&self, waiting: &Self) -> bool {
        let folders = |config: &Self| -> Vec<_> {
            let mounts = config.mounts.iter();
            mounts.map(|mount| mount.host_path.clone()).collect()
        };
        let snapshots = |config: &Self| config.snapshots.as_ref().map(|found| found.dir.clone());
        !self.waits
            && waiting.waits
            && self.from.is_none()
            && self.vmm == waiting.vmm
            && self.kernel == waiting.kernel
            && self.initramfs == waiting.initramfs
            && self.root_disk == waiting.root_disk
            && self.memory_mib == waiting.memory_mib
            && self.vcpus == waiting.vcpus
            // A file system is never made smaller.
            && self.disk_mib >= waiting.disk_mib
            // The jail shows the folders from its start on, in this order; the guest learns their names later.
            && folders(self) == folders(waiting)
            && self.snapshots.is_some()
            && snapshots(self) == snapshots(waiting)
    }

    /// Whether a VM of this configuration can wait: its VMM can change the size of its disk.
    pub fn can_wait(&self) -> bool {
        self.from.is_none() && self.snapshots.is_some() && !matches!(self.vmm, VmmSettings::Vmm(_))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn config(change: impl FnOnce(&mut Value)) -> LaunchConfig {
        let mut config = json!({
            "v": 1, "vmKey": "run/scope/0", "memoryMib": 512, "vcpus": 1, "diskMib": 64,
            "kernel": { "path": "/k", "kind": "debian" }, "initramfs": "/i",
            "vmm": { "name": "qemu", "program": "/q", "accelerator": "tcg", "bwrap": "/b" },
            "mounts": [{ "hostPath": "/claude", "guestPath": "/opt/claude" }],
            "snapshots": { "dir": "/s", "maxMib": 100 },
        });
        change(&mut config);
        serde_json::from_value(config).unwrap()
    }

    #[test]
    fn a_launch_takes_only_a_vm_with_its_parts() {
        let waiting = config(|config| config["waits"] = true.into());
        assert!(waiting.can_wait());
        for (field, value) in [
            ("vmKey", json!("other")),
            ("diskMib", json!(65)),
            ("egress", json!({ "allow": "any" })),
            ("discard", json!(true)),
            (
                "mounts",
                json!([{ "hostPath": "/claude", "guestPath": "/c" }]),
            ),
        ] {
            let wanted = config(|config| config[field] = value);
            assert!(wanted.could_be(&waiting), "{field}");
        }
        for (field, value) in [
            ("waits", json!(true)),
            ("from", json!({ "disk": "/d" })),
            ("memoryMib", json!(513)),
            ("vcpus", json!(2)),
            ("diskMib", json!(63)),
            ("initramfs", json!("/j")),
            ("rootDisk", json!("/r")),
            ("kernel", json!({ "path": "/k", "kind": "voidbox" })),
            ("vmm", json!({ "name": "vmm", "program": "/q" })),
            ("mounts", json!([])),
            (
                "mounts",
                json!([{ "hostPath": "/data", "guestPath": "/c" }]),
            ),
            ("snapshots", json!({ "dir": "/other", "maxMib": 100 })),
            ("snapshots", Value::Null),
        ] {
            let wanted = config(|config| config[field] = value);
            assert!(!wanted.could_be(&waiting), "{field}");
        }
        assert!(!config(|_| ()).could_be(&config(|_| ())));
    }
}
