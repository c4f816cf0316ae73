//! Configure: the settings of the guest before the first exec.

use std::io;

use voidbox_protocol::body::Configure;

use crate::boot::{
    MAX_ENTROPY_BYTES, bind_read_only, credit_entropy, mount_shared_tree, set_clock,
};
use crate::disks::Storage;
use crate::door;
use crate::failure::Failure;
use crate::files::mount_point;
use crate::guest::{Guest, Role};
use crate::hex;
use crate::lock::lock;
use crate::log;

/// Sets clock, hostname and random pool, and makes the mounts. It works only once.
pub fn configure(guest: &Guest, wanted: &Configure) -> Result<(), Failure> {
    let entropy = hex::parse(&wanted.entropy, MAX_ENTROPY_BYTES).ok_or_else(|| {
        Failure::bad_request(format!(
            "entropy is not hex of at most {MAX_ENTROPY_BYTES} bytes"
        ))
    })?;
    if !guest.claim_configuration() {
        return Err(Failure::bad_request("the guest is already configured"));
    }
    if let Role::Init(storage) = &guest.role {
        set_clock(wanted.clock_unix_ms).map_err(|error| Failure::io("setting the clock", error))?;
        rustix::system::sethostname(wanted.hostname.as_bytes())
            .map_err(|error| Failure::io("setting the hostname", io::Error::from(error)))?;
        if let Err(error) = credit_entropy(&entropy) {
            log::line(&format!("crediting randomness: {error}"));
        }
        make_mounts(storage, wanted)?;
    }
    if let Some(wanted) = &wanted.door {
        let Some(tunnels) = lock(&guest.tunnels).clone() else {
            return Err(Failure::bad_request(
                "a door was not agreed on in the handshake",
            ));
        };
        let opened = door::open(guest, &tunnels, wanted)?;
        *lock(&guest.close_door) = Some(Box::new(|| opened.close()));
    }
    guest.set_configured();
    Ok(())
}

fn make_mounts(storage: &Storage, wanted: &Configure) -> Result<(), Failure> {
    if wanted.mounts.is_empty() {
        return Ok(());
    }
    let shared = mount_shared_tree()
        .map_err(|error| Failure::io("mounting the 9p device `mounts`", error))?;
    for mount in &wanted.mounts {
        let source = shared.join(mount.index.to_string());
        let failed = |error: io::Error| {
            Failure::io(
                format!("mount {} at {}", mount.index, mount.guest_path),
                error,
            )
        };
        let is_folder = std::fs::metadata(&source).map_err(failed)?.is_dir();
        let target = mount_point(storage, &mount.guest_path, is_folder)?;
        bind_read_only(&source, &target).map_err(failed)?;
    }
    Ok(())
}
