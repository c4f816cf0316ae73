//! The failure of a request, as the agent sends it to the keeper.

use std::io;

use thiserror::Error;
use voidbox_protocol::body::{ErrorBody, ErrorCode};

/// A request's failure: a code of the protocol and a text that names the place.
#[derive(Debug, Error)]
#[error("{message}")]
pub struct Failure {
    pub code: ErrorCode,
    pub message: String,
}

impl Failure {
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }

    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::BadRequest, message)
    }

    pub fn cancelled() -> Self {
        Self::new(ErrorCode::Cancelled, "the request was cancelled")
    }

    /// A failure of the system at `place`; the code follows from the errno.
    pub fn io(place: impl std::fmt::Display, error: impl Into<io::Error>) -> Self {
        let error = error.into();
        Self::new(code_of(&error), format!("{place}: {error}"))
    }

    /// A failure to read output of the command. If permissions deny the read, the command caused it.
    pub fn output(place: impl std::fmt::Display, error: impl Into<io::Error>) -> Self {
        let error = error.into();
        let code = match code_of(&error) {
            ErrorCode::NotAllowed => ErrorCode::BadOutput,
            code => code,
        };
        Self::new(code, format!("{place}: {error}"))
    }

    pub fn into_body(self) -> ErrorBody {
        // A message must stay far below the limit of a control frame, whatever names it contains.
        let message = self.message.chars().take(4096).collect();
        ErrorBody {
            code: self.code,
            message,
        }
    }
}

fn code_of(error: &io::Error) -> ErrorCode {
    match error.raw_os_error() {
        Some(libc::ENOSPC | libc::EDQUOT | libc::EFBIG) => ErrorCode::NoSpace,
        Some(libc::ENOENT | libc::ENOTDIR) => ErrorCode::NotFound,
        Some(libc::EACCES | libc::EPERM | libc::EROFS | libc::ELOOP | libc::EXDEV) => {
            ErrorCode::NotAllowed
        }
        Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM | libc::EAGAIN) => ErrorCode::Limit,
        Some(libc::ENAMETOOLONG | libc::EISDIR | libc::EINVAL) => ErrorCode::BadRequest,
        // A refusal of the agent itself.
        None if error.kind() == io::ErrorKind::PermissionDenied => ErrorCode::NotAllowed,
        _ => ErrorCode::Io,
    }
}
