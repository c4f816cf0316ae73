//! Gives up every capability for good.

use rustix::io::Errno;
use rustix::thread::{
    CapabilitiesSecureBits, CapabilitySet, CapabilitySets, clear_ambient_capability_set,
    set_capabilities, set_capabilities_secure_bits, set_no_new_privs,
};

use crate::error::Error;

/// Gives up all capabilities of this thread.
pub fn drop_all() -> Result<(), Error> {
    forbid_return()?;
    drop_present()
}

/// Forbids that another user or another program brings any back. The present ones stay.
pub fn forbid_return() -> Result<(), Error> {
    clear_ambient_capability_set().map_err(Error::of("clearing ambient capabilities"))?;
    empty_bounding_set().map_err(Error::of("emptying the bounding set"))?;
    // User 0 of the namespace would get all capabilities back at the start of a program.
    let locked = CapabilitiesSecureBits::NO_ROOT
        | CapabilitiesSecureBits::NO_ROOT_LOCKED
        | CapabilitiesSecureBits::NO_SETUID_FIXUP
        | CapabilitiesSecureBits::NO_SETUID_FIXUP_LOCKED
        | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE
        | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE_LOCKED
        | CapabilitiesSecureBits::KEEP_CAPS_LOCKED;
    set_capabilities_secure_bits(locked).map_err(Error::of("locking the secure bits"))?;
    set_no_new_privs(true).map_err(Error::of("forbidding new privileges"))
}

/// Drops the present capabilities.
pub fn drop_present() -> Result<(), Error> {
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, none).map_err(Error::of("dropping capabilities"))
}

/// Removes each capability that the kernel knows; a newer kernel may know more than this program.
fn empty_bounding_set() -> Result<(), Errno> {
    for capability in 0..64 {
        // SAFETY: the call takes no pointers.
        let result = unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) };
        if result == -1 {
            let errno = std::io::Error::last_os_error();
            // The first number beyond the known ones.
            if errno.raw_os_error() == Some(libc::EINVAL) && capability > 0 {
                return Ok(());
            }
            return Err(Errno::from_raw_os_error(
                errno.raw_os_error().unwrap_or(libc::EIO),
            ));
        }
    }
    Ok(())
}
