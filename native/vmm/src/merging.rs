//! A process that merges a chain of saved states and runs no VM.

use std::os::fd::{FromRawFd, OwnedFd, RawFd};

use crate::config::{LINE_LIMIT_BYTES, MergeConfig, SnapshotConfig};
use crate::control::{Channel, Input, Message};
use crate::ended::{Ended, host_failed};
use crate::filters::{MERGE_FILTER, install};
use crate::snapshot::{ChainError, Files, MergeError, merge, read_links};

/// Merges the chain whose configuration comes over the control. Returns the exit code of the process: 0 after the
/// message `merged`.
///
/// The thread that calls this has the filter of a merge before it reads a file, and keeps it.
///
/// `control` and the descriptors of the configuration must have no other owner in this process.
pub fn run_merge(control: RawFd) -> u8 {
    // SAFETY: the caller gives the descriptor away.
    let mut channel = Channel::new(unsafe { OwnedFd::from_raw_fd(control) });
    match read_and_merge(&mut channel) {
        Ok(()) => {
            channel.tell(&Message::Merged);
            0
        }
        Err(reason) => {
            let reason = reason.bounded();
            let code = reason.exit_code();
            channel.tell(&Message::Ended { reason });
            code
        }
    }
}

fn read_and_merge(channel: &mut Channel) -> Result<(), Ended> {
    let refuse = |key: &str, text: String| Ended::BadConfiguration {
        key: key.into(),
        text,
    };
    let line = match channel.first_line() {
        Ok(Input::Line(line)) => line,
        Ok(Input::TooLong) => {
            let text = format!("more than {LINE_LIMIT_BYTES} bytes");
            return Err(refuse("configuration", text));
        }
        Ok(Input::Closed | Input::Partial) => return Err(refuse("configuration", "none".into())),
        Err(error) => return Err(refuse("configuration", error.to_string())),
    };
    let config = MergeConfig::parse(&line, channel.fd()).map_err(|e| refuse(&e.key, e.text))?;
    voidbox_jail::filter::report(channel.fd())
        .map_err(|e| host_failed("the report of a forbidden call", e))?;
    install(&MERGE_FILTER)?;
    let chain = config.chain.iter().map(take).collect();
    let into = take(&config.into);
    let failed = |error: MergeError| match error {
        MergeError::Chain(ChainError {
            link,
            is_memory,
            text,
        }) => {
            let file = if is_memory { "memoryFd" } else { "stateFd" };
            refuse(&format!("chain[{link}].{file}"), text)
        }
        MergeError::Result(text) => refuse("into", text),
    };
    let links = read_links(chain).map_err(|error| failed(error.into()))?;
    merge(&links, &into).map_err(failed)
}

fn take(files: &SnapshotConfig) -> Files {
    // SAFETY: the configuration names each descriptor once, and all are open.
    let [state, memory] =
        [files.state_fd, files.memory_fd].map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }.into());
    Files { state, memory }
}
