//! The arguments of `exec.start`.

use serde::Deserialize;

/// One command in a client's request.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StartExec {
    pub exec_key: String,
    pub program: String,
    #[serde(default)]
    pub args: Vec<String>,
    #[serde(default)]
    pub env: std::collections::BTreeMap<String, String>,
    pub cwd: String,
    #[serde(default = "default_id")]
    pub uid: u32,
    #[serde(default = "default_id")]
    pub gid: u32,
    pub stdin_bytes: Option<u64>,
    pub timeout_ms: u64,
    #[serde(default = "default_max_output_bytes")]
    pub max_output_bytes: u64,
}

fn default_id() -> u32 {
    1000
}

fn default_max_output_bytes() -> u64 {
    256 << 20
}
