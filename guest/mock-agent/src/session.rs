//! What is kept of a session, where the real command lines keep theirs: how far it came, so that another call can go on with it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::arguments::{Call, Dialect};

/// Of a session's file.
const FILE_BYTES: u64 = 16 << 20;

pub struct Session {
    file: File,
    /// Steps that an earlier call has played of a session that it did not end; none of one that is new, or has ended.
    pub done: Option<usize>,
}

impl Session {
    /// The session of the call, which goes on or begins.
    pub fn open(call: &Call, id: &str, home: &Path, cwd: &Path) -> io::Result<Self> {
        let path = path_of(call.dialect, id, home, cwd);
        let place =
            |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        let done = match call.resume {
            Some(_) => steps_done(&path).map_err(place)?,
            None => None,
        };
        let folder = path.parent().map_or(Ok(()), fs::create_dir_all);
        let mut options = OpenOptions::new();
        match call.resume {
            Some(_) => options.append(true),
            None => options.write(true).truncate(true),
        };
        let file = folder.and_then(|()| options.create(true).open(&path));
        Ok(Self {
            file: file.map_err(place)?,
            done,
        })
    }

    /// A step is over.
    pub fn step(&mut self) -> io::Result<()> {
        self.line(&json!({"type": "step"}))
    }

    pub fn end(&mut self) -> io::Result<()> {
        self.line(&json!({"type": "end"}))
    }

    pub fn line(&mut self, entry: &Value) -> io::Result<()> {
        writeln!(self.file, "{entry}")
    }
}

fn path_of(dialect: Dialect, id: &str, home: &Path, cwd: &Path) -> PathBuf {
    let plain = |text: &str, otherwise: &str| -> String {
        let parts = text.split(|c: char| !c.is_alphanumeric() && c != '-');
        parts.collect::<Vec<_>>().join(otherwise)
    };
    // An id is a name and no path.
    let id = plain(id, "_");
    match dialect {
        // Of another folder it finds none.
        Dialect::Claude => home.join(format!(
            ".claude/projects/{}/{id}.jsonl",
            plain(&cwd.to_string_lossy(), "-")
        )),
        Dialect::Codex => home.join(format!(
            ".codex/sessions/2026/01/01/rollout-2026-01-01T00-00-00-{id}.jsonl"
        )),
    }
}

fn steps_done(path: &Path) -> io::Result<Option<usize>> {
    let text = match fs::metadata(path) {
        Ok(found) if found.len() <= FILE_BYTES => fs::read_to_string(path)?,
        Ok(_) => return Err(io::Error::other("the session is too long")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let lines = |kind: &str| {
        text.lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok())
            .filter(|entry| entry["type"] == kind)
            .count()
    };
    Ok((lines("end") == 0).then(|| lines("step")))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::Session;
    use crate::arguments::{Call, parse};

    fn call(resume: bool) -> Call {
        let line = if resume {
            "-p go --resume s/1"
        } else {
            "-p go"
        };
        parse("claude", line.split(' ').map(String::from).collect()).unwrap()
    }

    #[test]
    fn a_session_that_did_not_end_goes_on_where_it_was() {
        let home = std::env::temp_dir().join(format!("mock-agent-session-{}", std::process::id()));
        let cwd = Path::new("/workspace/repository");
        let mut first = Session::open(&call(false), "s/1", &home, cwd).unwrap();
        assert_eq!(first.done, None);
        first.step().unwrap();
        first.step().unwrap();
        let mut second = Session::open(&call(true), "s/1", &home, cwd).unwrap();
        assert_eq!(second.done, Some(2));
        second.step().unwrap();
        assert_eq!(
            Session::open(&call(true), "s/1", &home, cwd).unwrap().done,
            Some(3)
        );
        let elsewhere = Session::open(&call(true), "s/1", &home, Path::new("/workspace"));
        assert_eq!(elsewhere.unwrap().done, None);
        second.end().unwrap();
        assert_eq!(
            Session::open(&call(true), "s/1", &home, cwd).unwrap().done,
            None
        );
        assert_eq!(
            Session::open(&call(true), "unknown", &home, cwd)
                .unwrap()
                .done,
            None
        );
        std::fs::remove_dir_all(home).unwrap();
    }
}
