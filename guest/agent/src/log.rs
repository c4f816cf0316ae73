//! The agent's log: `/dev/kmsg` in a guest, standard error in a test. It never uses the console's tty, where a reader
//! can block the writer.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::sync::OnceLock;

static KMSG: OnceLock<File> = OnceLock::new();

/// Sends all later lines to `/dev/kmsg`. Earlier lines, and all lines if it cannot be opened, go to standard error.
pub fn open_kmsg() {
    if let Ok(file) = OpenOptions::new().write(true).open("/dev/kmsg") {
        let _ = KMSG.set(file);
    }
}

/// Writes one line. A record of kmsg has at most about 1 KiB, so longer lines are cut.
pub fn line(text: &str) {
    let clean: String = text
        .chars()
        .map(|character| {
            if character.is_control() {
                ' '
            } else {
                character
            }
        })
        .take(800)
        .collect();
    match KMSG.get() {
        Some(mut file) => {
            let _ = file.write_all(format!("<5>voidbox-agent: {clean}\n").as_bytes());
        }
        None => eprintln!("voidbox-agent: {clean}"),
    }
}

/// Sends the text of panics to the log too.
pub fn catch_panics() {
    std::panic::set_hook(Box::new(|info| line(&format!("panic: {info}"))));
}
