//! Why a request of the guest comes to no connection.

use voidbox_protocol::body::ErrorCode;

/// Why there is no connection: what the guest is told, and the code that it acts on.
pub struct NoConnection {
    pub code: ErrorCode,
    /// The same for readers of notices: `rules`, `closed`, `limit` or `failed`.
    pub cause: &'static str,
    pub reason: String,
}
