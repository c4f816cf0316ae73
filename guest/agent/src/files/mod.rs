//! Transfers files in and out. The keeper is trusted, but the folders are not: user code owns them, and moves links
//! while they are read. So every thread that uses them gives up root first, and has only the sandbox user's rights.
//! Only reading uses root's rights for files that this user owns, because an owner can grant itself every right.

mod access;
mod bulk_writer;
mod folder;
mod read;
mod reader;
mod stat;
mod tar_get;
mod tar_put;
mod write;

pub use access::become_file_user;
pub use folder::{make_for_user, mount_point};
pub use read::read_file;
pub use reader::Reader;
pub use stat::file_stat;
pub use tar_get::tar_get;
pub use tar_put::tar_put;
pub use write::{mkdir_p, write_file};
