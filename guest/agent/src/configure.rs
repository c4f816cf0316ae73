//! Configure: the settings of the guest before the first exec.

use std::io;

use voidbox_protocol::body::Configure;

use crate::boot::{bind_read_only, credit_entropy, mount_shared_tree, set_clock};
use crate::door;
use crate::failure::Failure;
use crate::files::mount_point;
use crate::guest::{Guest, Role};
use crate::log;

/// The limit of hex digits, for 512 bytes of randomness.
const MAX_ENTROPY_DIGITS: usize = 1024;

/// Sets clock, hostname and random pool, and makes the mounts. It works only once.
pub fn configure(guest: &Guest, wanted: &Configure) -> Result<(), Failure> {
    let entropy = parse_hex(&wanted.entropy)?;
    if !guest.claim_configuration() {
        return Err(Failure::bad_request("the guest is configured already"));
    }
    if matches!(guest.role, Role::Init(_)) {
        set_clock(wanted.clock_unix_ms).map_err(|error| Failure::io("setting the clock", error))?;
        rustix::system::sethostname(wanted.hostname.as_bytes())
            .map_err(|error| Failure::io("setting the hostname", io::Error::from(error)))?;
        if let Err(error) = credit_entropy(&entropy) {
            log::line(&format!("crediting randomness: {error}"));
        }
        make_mounts(wanted)?;
    }
    if let Some(wanted) = &wanted.door {
        let Some(tunnels) = guest.tunnels.get() else {
            return Err(Failure::bad_request(
                "a door was not agreed on in the handshake",
            ));
        };
        door::open(guest, tunnels, wanted)?;
    }
    guest.set_configured();
    Ok(())
}

fn make_mounts(wanted: &Configure) -> Result<(), Failure> {
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
        let target = mount_point(&mount.guest_path, is_folder)?;
        bind_read_only(&source, &target).map_err(failed)?;
    }
    Ok(())
}

fn parse_hex(digits: &str) -> Result<Vec<u8>, Failure> {
    let refused = || {
        Failure::bad_request(format!(
            "entropy is not hex of at most {} bytes",
            MAX_ENTROPY_DIGITS / 2
        ))
    };
    if digits.len() % 2 != 0 || digits.len() > MAX_ENTROPY_DIGITS || !digits.is_ascii() {
        return Err(refused());
    }
    (0..digits.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&digits[at..at + 2], 16).map_err(|_| refused()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::parse_hex;

    #[test]
    fn hex_is_taken_whole_or_not_at_all() {
        assert_eq!(parse_hex("00fF").unwrap(), [0, 255]);
        assert!(parse_hex("").unwrap().is_empty());
        for wrong in ["0", "0g", "ää", &"00".repeat(513)] {
            assert!(parse_hex(wrong).is_err(), "{wrong}");
        }
    }
}
