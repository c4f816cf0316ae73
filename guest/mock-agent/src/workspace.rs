//! Reads and changes the workspace of the agent.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::pipe::PipeFlags;

use crate::arguments::{Call, Dialect};

/// The limit of a command's output in bytes.
const OUTPUT_BYTES: usize = 16 << 10;
/// The number of pieces that are read before the shell is checked again: more than a pipe holds.
const DRAINED_PIECES: usize = 16;
/// The interval between checks, because the end of the shell does not wake a reader of the pipe.
const LOOK_AGAIN: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 10_000_000,
};

pub struct Found {
    /// Names of skills, in order.
    pub skills: Vec<String>,
    pub mcp_servers: Vec<String>,
    pub has_input: bool,
    /// The working folder.
    pub cwd: PathBuf,
}

/// Searches the same folders as the real program: the working folder and its parents up to the top of a repository, and
/// the home.
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

/// Runs a command. Returns its output on both streams until its shell ended, and its exit code. Like a real agent, it
/// does not wait for background processes that hold the output open.
pub fn run(command: &str) -> (String, i32) {
    match printed(command) {
        Ok((printed, exit_code)) => (String::from_utf8_lossy(&printed).into_owned(), exit_code),
        Err(error) => (error.to_string(), 127),
    }
}

fn printed(command: &str) -> io::Result<(Vec<u8>, i32)> {
    let (reader, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    fcntl_setfl(&reader, OFlags::NONBLOCK)?;
    // This statement closes the command's own copy of the writing end.
    let mut shell = Command::new("/bin/sh")
        .args(["-c", &format!("exec 2>&1\n{command}")])
        .stdin(Stdio::null())
        .stdout(writer)
        .spawn()?;
    let mut reader = File::from(reader);
    let mut kept = Vec::new();
    loop {
        // This check precedes the read: when the shell has ended, all its output is in the pipe.
        let ended = shell.try_wait()?;
        let is_closed = drain(&mut reader, &mut kept)?;
        if let Some(status) = ended {
            return Ok((kept, status.code().unwrap_or(1)));
        }
        if is_closed {
            return Ok((kept, shell.wait()?.code().unwrap_or(1)));
        }
        rustix::event::poll(
            &mut [PollFd::new(&reader, PollFlags::IN)],
            Some(&LOOK_AGAIN),
        )?;
    }
}

/// Reads the bytes that are in the pipe now, and keeps the beginning of the whole output. Returns true at its end.
fn drain(reader: &mut File, kept: &mut Vec<u8>) -> io::Result<bool> {
    let mut buffer = [0; 16 << 10];
    for _ in 0..DRAINED_PIECES {
        match reader.read(&mut buffer) {
            Ok(0) => return Ok(true),
            Ok(bytes) => {
                let room = OUTPUT_BYTES.saturating_sub(kept.len());
                kept.extend_from_slice(&buffer[..bytes.min(room)]);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use std::time::{Duration, Instant};

    use super::{OUTPUT_BYTES, look, run};
    use crate::arguments::parse;

    fn put(folder: &Path, name: &str) {
        fs::create_dir_all(folder.join(name)).unwrap();
        fs::write(folder.join(name).join("SKILL.md"), "x").unwrap();
    }

    #[test]
    fn a_process_in_the_background_that_holds_the_output_is_not_waited_for() {
        let started = Instant::now();
        assert_eq!(
            run("sleep 12 & echo started; echo warned >&2; exit 3"),
            ("started\nwarned\n".into(), 3)
        );
        assert!(started.elapsed() < Duration::from_secs(10));
    }

    #[test]
    fn a_background_process_that_prints_without_an_end_does_not_hold_the_answer() {
        let started = Instant::now();
        let (output, exit_code) = run("(timeout 12 yes) & echo $!");
        assert_eq!(exit_code, 0);
        assert!(!output.is_empty());
        assert!(started.elapsed() < Duration::from_secs(10));
    }

    #[test]
    fn a_command_that_prints_more_than_a_pipe_holds_ends_and_its_beginning_is_kept() {
        let (output, exit_code) = run("head -c 3000000 /dev/zero | tr '\\0' x; exit 5");
        assert_eq!((output.len(), exit_code), (OUTPUT_BYTES, 5));
        assert_eq!(run("exec >&- 2>&-; exit 4"), (String::new(), 4));
        assert_eq!(run("kill -9 $$"), (String::new(), 1));
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
