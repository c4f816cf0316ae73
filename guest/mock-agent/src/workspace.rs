//! What the agent finds in its workspace, and does to it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

/// Of what a command printed.
const OUTPUT_BYTES: usize = 16 << 10;

pub struct Found {
    /// Names, in order.
    pub skills: Vec<String>,
    pub mcp_servers: Vec<String>,
    pub has_input: bool,
}

pub fn look(root: &Path) -> Found {
    Found {
        skills: skills(&root.join(".claude/skills")),
        mcp_servers: mcp_servers(&root.join(".mcp.json")),
        has_input: root.join("input.json").is_file(),
    }
}

/// `NAME.md` and `NAME/SKILL.md` are the same skill.
fn skills(folder: &Path) -> Vec<String> {
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.path().join("SKILL.md").is_file() {
            names.insert(name);
        } else if let Some(stem) = name.strip_suffix(".md") {
            names.insert(stem.into());
        }
    }
    names.into_iter().collect()
}

fn mcp_servers(file: &Path) -> Vec<String> {
    let text = fs::read_to_string(file).unwrap_or_default();
    let config: Value = serde_json::from_str(&text).unwrap_or_default();
    let servers = config.get("mcpServers").and_then(Value::as_object);
    servers
        .into_iter()
        .flatten()
        .map(|(name, _)| name.clone())
        .collect()
}

pub fn write(path: &str, content: &str) -> Result<(), String> {
    let path = Path::new(path);
    let parent = path.parent().map_or(Ok(()), fs::create_dir_all);
    parent
        .and_then(|()| fs::write(path, content))
        .map_err(|error| error.to_string())
}

/// What the command printed, on both streams, and its exit code.
pub fn run(command: &str) -> (String, i32) {
    let ended = Command::new("/bin/sh")
        .args(["-c", &format!("exec 2>&1\n{command}")])
        .stdin(Stdio::null())
        .output();
    match ended {
        Ok(ended) => {
            let shown = &ended.stdout[..ended.stdout.len().min(OUTPUT_BYTES)];
            let text = String::from_utf8_lossy(shown).into_owned();
            (text, ended.status.code().unwrap_or(1))
        }
        Err(error) => (error.to_string(), 127),
    }
}
