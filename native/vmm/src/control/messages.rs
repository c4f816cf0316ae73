//! The messages of the control.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::ended::Ended;

/// A message of the VMM.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "event", rename_all = "camelCase")]
pub enum Message {
    /// All CPUs exist, and none has run.
    Started,
    /// A write of a disk found no room on the host. All CPUs are paused.
    NoRoom {
        serial: String,
    },
    Paused,
    Resumed,
    /// The state and the memory are written, and their files are closed. A full save tells the name of the state.
    Saved {
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<String>,
    },
    /// The chain is a base now.
    Merged,
    /// A request that was not carried out.
    Refused {
        why: String,
    },
    Statistics(Statistics),
    /// The last message.
    Ended {
        reason: Ended,
    },
}

/// Counters of KVM and of the VMM.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Statistics {
    pub vm: BTreeMap<String, u64>,
    pub vcpus: Vec<BTreeMap<String, u64>>,
}

/// A line of the keeper.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    r#do: Request,
}

/// A request of the keeper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Request {
    Pause,
    Resume,
    Save,
    /// The message has the descriptors of two files, for the state and the memory.
    SaveFull,
    /// As [`Self::SaveFull`], for the pages that changed since the last full save.
    SaveDiff,
    Statistics,
    End,
}

impl Request {
    /// Parses a line. The error says what is wrong with it.
    pub fn parse(line: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(line)
            .map(|line: Line| line.r#do)
            .map_err(|e| e.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_one_tagged_object_each() {
        let text = |message: &Message| serde_json::to_string(message).unwrap();
        assert_eq!(text(&Message::Started), r#"{"event":"started"}"#);
        assert_eq!(text(&Message::Saved { id: None }), r#"{"event":"saved"}"#);
        let id = Some("0f".into());
        assert_eq!(
            text(&Message::Saved { id }),
            r#"{"event":"saved","id":"0f"}"#
        );
        let serial = "voidbox-scratch".into();
        assert_eq!(
            text(&Message::NoRoom { serial }),
            r#"{"event":"noRoom","serial":"voidbox-scratch"}"#
        );
        assert_eq!(
            text(&Message::Ended {
                reason: Ended::Reset
            }),
            r#"{"event":"ended","reason":{"kind":"reset"}}"#
        );
        assert_eq!(
            text(&Message::Statistics(Statistics::default())),
            r#"{"event":"statistics","vm":{},"vcpus":[]}"#
        );
    }

    #[test]
    fn only_the_seven_requests_are_known() {
        for (line, request) in [
            (r#"{"do":"pause"}"#, Request::Pause),
            (r#"{"do":"resume"}"#, Request::Resume),
            (r#"{"do":"save"}"#, Request::Save),
            (r#"{"do":"saveFull"}"#, Request::SaveFull),
            (r#"{"do":"saveDiff"}"#, Request::SaveDiff),
            (r#"{"do":"statistics"}"#, Request::Statistics),
            (r#" {"do":"end"} "#, Request::End),
        ] {
            assert_eq!(Request::parse(line.as_bytes()), Ok(request));
        }
        for line in [
            "",
            "{}",
            r#"{"do":"start"}"#,
            r#"{"do":"end","now":true}"#,
            "\"end\"",
            "\u{0}",
        ] {
            Request::parse(line.as_bytes()).unwrap_err();
        }
    }
}
