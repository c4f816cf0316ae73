//! What the agent finds in its workspace, and does to it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::arguments::{Call, Dialect};

/// Of what a command printed.
const OUTPUT_BYTES: usize = 16 << 10;

pub struct Found {
    /// Names, in order.
    pub skills: Vec<String>,
    pub mcp_servers: Vec<String>,
    pub has_input: bool,
    /// The folder it works in.
    pub cwd: PathBuf,
}

/// As the real one: of the folder it works in and those above it, up to the top of a repository, and of its home.
pub fn look(call: &Call, cwd: &Path, home: &Path) -> Found {
    let folder = match call.dialect {
        Dialect::Claude => ".claude/skills",
        Dialect::Codex => ".agents/skills",
    };
    let top = cwd.ancestors().find(|path| path.join(".git").exists());
    let projects = cwd.ancestors().take_while(|path| match top {
        Some(top) => path.starts_with(top),
        None => *path == cwd,
    });
    let skills: BTreeSet<String> = projects
        .chain([home])
        .flat_map(|path| skills(&path.join(folder)))
        .collect();
    Found {
        skills: skills.into_iter().collect(),
        mcp_servers: call.mcp_servers.clone(),
        has_input: Path::new("/workspace/input.json").is_file(),
        cwd: cwd.into(),
    }
}

fn skills(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.path().join("SKILL.md").is_file())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::look;
    use crate::arguments::parse;

    fn put(folder: &Path, name: &str) {
        fs::create_dir_all(folder.join(name)).unwrap();
        fs::write(folder.join(name).join("SKILL.md"), "x").unwrap();
    }

    #[test]
    fn skills_above_a_repository_are_not_seen_and_those_of_the_home_are() {
        let root = std::env::temp_dir().join(format!("mock-agent-skills-{}", std::process::id()));
        let repository = root.join("workspace/repository");
        let home = root.join("home");
        fs::create_dir_all(repository.join(".git")).unwrap();
        put(&root.join("workspace/.claude/skills"), "above");
        put(&repository.join(".claude/skills"), "top");
        put(&repository.join("inner/.claude/skills"), "inner");
        put(&home.join(".claude/skills"), "home");
        put(&home.join(".agents/skills"), "of-codex");
        fs::write(home.join(".claude/skills/flat.md"), "x").unwrap();
        let seen = |name: &str, cwd: &Path| {
            let words = ["exec", "fix"].map(String::from);
            let words = words.into_iter().skip(usize::from(name == "claude"));
            look(&parse(name, words.collect()).unwrap(), cwd, &home).skills
        };
        let inner = repository.join("inner");
        assert_eq!(seen("claude", &inner), ["home", "inner", "top"]);
        assert_eq!(seen("claude", &repository), ["home", "top"]);
        assert_eq!(seen("claude", &root.join("workspace")), ["above", "home"]);
        assert_eq!(seen("codex", &inner), ["of-codex"]);
        fs::remove_dir_all(root).unwrap();
    }
}
