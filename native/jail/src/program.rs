//! The program that the confined process becomes.

use std::convert::Infallible;
use std::ffi::{CString, OsString};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

/// A static program, opened outside of the jail, where its path and its libraries would not exist.
pub struct Program {
    file: File,
    words: Vec<CString>,
}

impl Program {
    /// Opens a program; `words` begins with its name.
    pub fn open(path: &Path, words: Vec<OsString>) -> io::Result<Self> {
        let words = words
            .into_iter()
            .map(|word| CString::new(word.into_vec()))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            file: File::open(path)?,
            words,
        })
    }

    pub(crate) fn fd(&self) -> i32 {
        self.file.as_raw_fd()
    }

    /// Becomes the program, with an empty environment. Returns only if that fails.
    pub fn exec(&self) -> Result<Infallible, io::Error> {
        let mut words: Vec<*const libc::c_char> =
            self.words.iter().map(|word| word.as_ptr()).collect();
        words.push(std::ptr::null());
        let environment: [*const libc::c_char; 1] = [std::ptr::null()];
        // SAFETY: each list ends with a null pointer, and all of its strings live across the call.
        unsafe {
            libc::syscall(
                libc::SYS_execveat,
                self.fd(),
                c"".as_ptr(),
                words.as_ptr(),
                environment.as_ptr(),
                libc::AT_EMPTY_PATH,
            );
        }
        Err(io::Error::last_os_error())
    }
}
