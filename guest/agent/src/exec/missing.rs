//! Explains why an existing program is not found: for a missing interpreter, the kernel reports the script as missing.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The kernel reads at most this much of a first line.
const FIRST_LINE_BYTES: usize = 256;

/// Describes what the program lacks; `None` if the program itself does not exist.
///
/// `path` is the command's variable with a list of folders; relative folders are below `cwd`.
pub fn describe(program: &str, path: &str, cwd: &str) -> Option<String> {
    if let Some(line_end) = describe_line_end(program, path, cwd) {
        return Some(line_end);
    }
    let begin = read_begin(&find(program, path, cwd)?)?;
    if let Some(line) = begin.strip_prefix(b"#!") {
        return describe_script(line, cwd);
    }
    begin.starts_with(b"\x7fELF").then(|| {
        "it exists, but the loader that it names does not: it may be built for another image"
            .to_owned()
    })
}

/// Describes the end of the script's first line if it is CR LF; `None` for any other program.
pub fn describe_line_end(program: &str, path: &str, cwd: &str) -> Option<String> {
    let begin = read_begin(&find(program, path, cwd)?)?;
    let line = first_line(begin.strip_prefix(b"#!")?);
    let text = String::from_utf8_lossy(line.strip_suffix(b"\r")?);
    Some(format!(
        "its first line `#!{}` ends with CR LF, as on Windows, and the carriage return counts as \
         a part of a name: convert the file with `sed -i 's/\\r$//' FILE`, and set \
         `* text=auto eol=lf` in .gitattributes if it is in a repository",
        text.trim_end_matches('\r')
    ))
}

fn first_line(text: &[u8]) -> &[u8] {
    text.split(|byte| *byte == b'\n').next().unwrap_or_default()
}

fn describe_script(line: &[u8], cwd: &str) -> Option<String> {
    let text = String::from_utf8_lossy(first_line(line));
    let named = text.trim_start_matches([' ', '\t']);
    let shown = named.split([' ', '\t']).next().unwrap_or_default();
    if shown.is_empty() {
        return Some("its first line `#!` names no interpreter".to_owned());
    }
    let is_there = Path::new(cwd).join(shown).exists();
    (!is_there).then(|| {
        format!("its interpreter {shown}, which its first line names, is not in the guest")
    })
}

fn find(program: &str, path: &str, cwd: &str) -> Option<PathBuf> {
    let cwd = Path::new(cwd);
    let candidates = if program.contains('/') {
        vec![cwd.join(program)]
    } else {
        path.split(':')
            .map(|folder| cwd.join(folder).join(program))
            .collect()
    };
    candidates.into_iter().find(|file| file.is_file())
}

/// Reads the beginning of a regular file. A guest may have put a pipe at this path, which must not block the agent.
fn read_begin(file: &Path) -> Option<Vec<u8>> {
    let opened: File = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_CLOEXEC)
        .open(file)
        .ok()?;
    if !opened.metadata().ok()?.is_file() {
        return None;
    }
    let mut begin = Vec::new();
    opened
        .take(FIRST_LINE_BYTES as u64)
        .read_to_end(&mut begin)
        .ok()?;
    Some(begin)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn in_folder(content: &[u8], test: impl FnOnce(&str, &str)) {
        let folder = std::env::temp_dir().join(format!(
            "voidbox-missing-{}-{:?}",
            std::process::id(),
            std::thread::current().id()
        ));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("x.sh"), content).unwrap();
        let cwd = folder.to_str().unwrap().to_owned();
        test("./x.sh", &cwd);
        fs::remove_dir_all(&folder).unwrap();
    }

    fn of(content: &[u8]) -> Option<String> {
        let mut found = None;
        in_folder(content, |program, cwd| {
            found = describe(program, "/nowhere", cwd);
            // The name without a folder finds the same file in a folder of the variable.
            assert_eq!(describe("x.sh", &format!("/nowhere:{cwd}"), "/"), found);
        });
        found
    }

    #[test]
    fn a_first_line_that_ends_with_cr_lf_is_named_with_its_remedy() {
        for (script, line) in [
            ("#!/bin/sh\r\necho hi\r\n", "`#!/bin/sh`"),
            ("#! /usr/bin/env node\r\n", "`#! /usr/bin/env node`"),
            ("#!/bin/sh -e\r", "`#!/bin/sh -e`"),
        ] {
            let message = of(script.as_bytes()).unwrap();
            assert!(message.contains(line), "{message}");
            assert!(message.contains("ends with CR LF"), "{message}");
            assert!(message.contains("sed -i 's/\\r$//'"), "{message}");
            assert!(!message.contains('\r'), "{message}");
        }
    }

    #[test]
    fn an_interpreter_that_is_not_there_is_named() {
        assert_eq!(
            of(b"#!/opt/none/python3 -u\nprint(1)\n").as_deref(),
            Some(
                "its interpreter /opt/none/python3, which its first line names, is not in the guest"
            )
        );
        assert!(of(b"#! \n").unwrap().contains("names no interpreter"));
    }

    #[test]
    fn a_binary_without_its_loader_is_named() {
        assert!(of(b"\x7fELF\x02").unwrap().contains("loader"));
    }

    #[test]
    fn a_program_that_is_not_there_has_nothing_to_describe() {
        assert_eq!(describe("./x.sh", "/bin", "/nowhere"), None);
        assert_eq!(describe("no-such-program", "/bin:/usr/bin", "/"), None);
        assert_eq!(of(b"echo hi\n"), None);
        assert_eq!(of(b"#!/bin/sh\necho hi\n"), None);
    }
}
