//! The file of a session, at the path of the real command lines: its progress, so that a later call can resume it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::arguments::{Call, Dialect};

/// The limit of a session's file in bytes.
const FILE_BYTES: u64 = 16 << 20;

pub struct Session {
    file: File,
    /// The steps that an earlier call has played, if it did not end the session; `None` if the session is new or has
    /// ended.
    pub done: Option<usize>,
    /// The number of model calls in earlier calls of the program, which Codex includes in its totals.
    pub calls: u64,
}

impl Session {
    /// Resumes or begins the session of the call.
    pub fn open(call: &Call, id: &str, home: &Path, cwd: &Path) -> io::Result<Self> {
        let path = path_of(call.dialect, id, home, cwd);
        let place =
            |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        let text = match call.resume {
            Some(_) => read(&path).map_err(place)?,
            None => None,
        };
        let count = |kind: &str| text.as_deref().map_or(0, |text| entries(text, kind));
        let folder = path.parent().map_or(Ok(()), fs::create_dir_all);
        let mut options = OpenOptions::new();
        match call.resume {
            Some(_) => options.append(true),
            None => options.write(true).truncate(true),
        };
        let file = folder.and_then(|()| options.create(true).open(&path));
        Ok(Self {
            file: file.map_err(place)?,
            done: (text.is_some() && count("end") == 0).then(|| count("step")),
            calls: count("event_msg") as u64,
        })
    }

    /// Records that a step is over.
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
    // An id is a name, not a path.
    let id = plain(id, "_");
    match dialect {
        // Claude finds only sessions of the same folder.
        Dialect::Claude => home.join(format!(
            ".claude/projects/{}/{id}.jsonl",
            plain(&cwd.to_string_lossy(), "-")
        )),
        Dialect::Codex => home.join(format!(
            ".codex/sessions/2026/01/01/rollout-2026-01-01T00-00-00-{id}.jsonl"
        )),
    }
}

fn read(path: &Path) -> io::Result<Option<String>> {
    match fs::metadata(path) {
        Ok(found) if found.len() <= FILE_BYTES => fs::read_to_string(path).map(Some),
        Ok(_) => Err(io::Error::other("the session is too long")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn entries(text: &str, kind: &str) -> usize {
    text.lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|entry| entry["type"] == kind)
        .count()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

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
    fn a_session_of_codex_counts_the_calls_of_all_its_commands() {
        let home = std::env::temp_dir().join(format!("mock-agent-calls-{}", std::process::id()));
        let call = |line: &str| {
            parse(
                "codex",
                line.split(' ').map(String::from).collect::<Vec<_>>(),
            )
            .unwrap()
        };
        let open = |line: &str| Session::open(&call(line), "s-1", &home, Path::new("/")).unwrap();
        let mut first = open("exec --json fix");
        assert_eq!(first.calls, 0);
        first.line(&json!({"type": "event_msg"})).unwrap();
        first.end().unwrap();
        let mut second = open("exec resume s-1 --json fix");
        assert_eq!((second.done, second.calls), (None, 1));
        second.line(&json!({"type": "event_msg"})).unwrap();
        assert_eq!(open("exec resume s-1 --json fix").calls, 2);
        assert_eq!(open("exec --json fix").calls, 0);
        std::fs::remove_dir_all(home).unwrap();
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
