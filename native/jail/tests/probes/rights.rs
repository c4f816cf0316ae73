//! Rights: capabilities, namespaces, users and limits.

use rustix::process::{Resource, getrlimit};
use rustix::thread::capabilities;
use voidbox_jail::{Jail, REMEDY};

use super::{expect_errno, has_own_user};

pub fn has_no_capability(_: &[String]) -> Result<(), String> {
    let sets = capabilities(None).map_err(|error| error.to_string())?;
    let all = sets.effective | sets.permitted | sets.inheritable;
    if !all.is_empty() {
        return Err(format!("capabilities {sets:?}"));
    }
    for number in 0..64 {
        // SAFETY: plain calls without pointers.
        let (bounding, ambient) = unsafe {
            let ambient = libc::PR_CAP_AMBIENT_IS_SET;
            (
                libc::prctl(libc::PR_CAPBSET_READ, number, 0, 0, 0),
                libc::prctl(libc::PR_CAP_AMBIENT, ambient, number, 0, 0),
            )
        };
        if bounding == 1 || ambient == 1 {
            return Err(format!("capability {number} can return"));
        }
    }
    // SAFETY: a plain call without pointers.
    match unsafe { libc::prctl(libc::PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) } {
        1 => Ok(()),
        other => Err(format!("no_new_privs is {other}")),
    }
}

pub fn makes_no_namespace(_: &[String]) -> Result<(), String> {
    for (what, flag) in [
        ("user", libc::CLONE_NEWUSER),
        ("mount", libc::CLONE_NEWNS),
        ("pid", libc::CLONE_NEWPID),
        ("net", libc::CLONE_NEWNET),
        ("ipc", libc::CLONE_NEWIPC),
        ("uts", libc::CLONE_NEWUTS),
        ("cgroup", libc::CLONE_NEWCGROUP),
    ] {
        // SAFETY: a plain call without pointers.
        let made = unsafe { libc::unshare(flag) };
        expect_errno(&format!("a {what} namespace"), made.into(), &[libc::EPERM])?;
    }
    // SAFETY: all pointers are strings that live across the calls.
    unsafe {
        let (none, root) = (c"none".as_ptr(), c"/".as_ptr());
        let mounted = libc::mount(none, root, c"tmpfs".as_ptr(), 0, std::ptr::null());
        expect_errno("a mount", mounted.into(), &[libc::EPERM])?;
        let changed = libc::chroot(root);
        expect_errno("a change of the root", changed.into(), &[libc::EPERM])
    }
}

pub fn becomes_no_other_user(_: &[String]) -> Result<(), String> {
    let own = u32::from(has_own_user());
    // SAFETY: plain calls; a count of zero needs no buffer.
    let (uid, gid, groups) = unsafe {
        (
            libc::getuid(),
            libc::getgid(),
            libc::getgroups(0, std::ptr::null_mut()),
        )
    };
    if (uid, gid) != (own, own) || (has_own_user() && groups != 0) {
        return Err(format!("user {uid}, group {gid}, {groups} more groups"));
    }
    for other in [0, 1, 1000, 65534].into_iter().filter(|id| *id != own) {
        // SAFETY: plain calls without pointers.
        let (user, group) = unsafe { (libc::setuid(other), libc::setgid(other)) };
        expect_errno(
            &format!("user {other}"),
            user.into(),
            &[libc::EPERM, libc::EINVAL],
        )?;
        if group != -1 {
            return Err(format!("it became group {other}"));
        }
    }
    Ok(())
}

pub fn raises_no_limit(_: &[String]) -> Result<(), String> {
    for (what, resource, most) in [
        ("core", Resource::Core, 0),
        ("descriptors", Resource::Nofile, 256),
        ("locked memory", Resource::Memlock, 0),
    ] {
        let limit = getrlimit(resource);
        if limit.maximum.is_none_or(|now| now > most) || limit.current != limit.maximum {
            return Err(format!("{what}: {limit:?}"));
        }
    }
    let limit = libc::rlimit {
        rlim_cur: 1024,
        rlim_max: 1024,
    };
    // SAFETY: the structure lives across the call.
    let raised = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
    expect_errno("more descriptors", raised.into(), &[libc::EPERM])?;
    let mut threads = Vec::new();
    while let Ok(thread) = std::thread::Builder::new()
        .stack_size(16 << 10)
        .spawn(std::thread::park)
    {
        threads.push(thread);
        if threads.len() > 300 {
            break;
        }
    }
    // The limit counts all processes of a user, so it holds only for a user of the jail's own.
    match has_own_user() && threads.len() > 128 {
        true => Err("it started more than 128 threads".into()),
        false => std::process::exit(0),
    }
}

/// A jail inside of a jail needs what the outer one has taken: the error names the remedy.
pub fn makes_no_jail(_: &[String]) -> Result<(), String> {
    // SAFETY: this process has one thread.
    let made = unsafe { Jail::default().enter(None) };
    match made {
        Err(error) if error.to_string().contains(REMEDY) => Ok(()),
        other => Err(format!("{other:?}")),
    }
}
