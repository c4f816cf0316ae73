//! The users of the jail's user namespace.

use std::fs;
use std::io;

use rustix::process::{getegid, geteuid};
use rustix::thread::{Gid, Uid, set_thread_groups, set_thread_res_gid, set_thread_res_uid};

use crate::error::Error;

/// The caller's user inside: the lifeline has it.
const CALLER: u32 = 0;
/// The confined process's own user inside.
const OWN: u32 = 1;

/// Writes the users of a process that is in a new user namespace. With `own`, an id of the host, which only root can give,
/// the namespace has a second user; group ids are the same.
pub fn write_maps(pid: i32, own: Option<u32>) -> Result<(), Error> {
    let map = |caller: u32| match own {
        Some(own) => format!("{CALLER} {caller} 1\n{OWN} {own} 1\n"),
        None => format!("{CALLER} {caller} 1\n"),
    };
    let write = |name: &str, text: &str| fs::write(format!("/proc/{pid}/{name}"), text);
    // A user that is not root may map its group only if no process of the namespace changes its groups.
    if own.is_none() {
        let denied = write("setgroups", "deny");
        // The file is missing only in kernels that do not ask for it.
        if let Err(error) = denied
            && error.kind() != io::ErrorKind::NotFound
        {
            return Err(Error::at("forbidding changes of groups")(error));
        }
    }
    write("uid_map", &map(geteuid().as_raw())).map_err(Error::at("mapping the users"))?;
    write("gid_map", &map(getegid().as_raw())).map_err(Error::at("mapping the groups"))
}

/// Becomes the caller's user as the namespace names it.
pub fn become_caller() -> Result<(), Error> {
    become_user(CALLER)
}

/// Becomes the confined process's user, without any other group.
pub fn become_own() -> Result<(), Error> {
    set_thread_groups(&[]).map_err(Error::of("leaving the groups"))?;
    become_user(OWN)
}

fn become_user(id: u32) -> Result<(), Error> {
    let (uid, gid) = (Uid::from_raw(id), Gid::from_raw(id));
    set_thread_res_gid(gid, gid, gid).map_err(Error::of("changing the group"))?;
    set_thread_res_uid(uid, uid, uid).map_err(Error::of("changing the user"))
}
