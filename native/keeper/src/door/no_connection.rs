//! The reason why a request of the guest gets no connection.

use voidbox_protocol::body::ErrorCode;

/// The refusal of a connection: a text for the guest, and the code on which it acts.
pub struct NoConnection {
    pub code: ErrorCode,
    /// The same reason for readers of notices: `rules`, `closed`, `limit` or `failed`.
    pub cause: &'static str,
    pub reason: String,
}
