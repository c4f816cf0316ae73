//! How the VM of this keeper began: with a boot, or as a copy of a snapshot.

use serde_json::{Value, json};

#[derive(Debug, Clone, Default)]
pub struct StartReport {
    /// The key of the snapshot from which the VM began; `None` if it booted.
    pub snapshot: Option<String>,
    /// The reason why a VM did not begin from a snapshot that exists, or why none was made.
    pub note: Option<String>,
    /// Whether the VM waited in the pool.
    pub pooled: bool,
    /// When the guest that waited got `Start`; `None` if it did not wait.
    pub sent_at_ms: Option<u64>,
}

impl StartReport {
    /// Returns the part of `status`: `{ kind: "cold" | "snapshot", key, note, sentAtMs, pooled }`.
    pub fn describe(&self) -> Value {
        json!({
            "kind": if self.snapshot.is_some() { "snapshot" } else { "cold" },
            "key": self.snapshot,
            "note": self.note,
            "sentAtMs": self.sent_at_ms,
            "pooled": self.pooled,
        })
    }
}
