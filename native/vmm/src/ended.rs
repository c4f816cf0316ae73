//! The reasons for which a VM ends, as the last line of the control names them.

use serde::Serialize;

/// The exit code of the process after a reset of the guest.
const EXIT_RESET: u8 = 0;
/// The exit code after any other end.
const EXIT_OTHER: u8 = 1;
/// The exit code after a configuration that the VMM refuses.
pub const BAD_CONFIGURATION: u8 = 2;

/// The limit of the text of an end.
const TEXT_LIMIT_BYTES: usize = 500;

/// The reason for which a VM ended. The first one is reported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum Ended {
    /// The guest asked for a reset or for power off.
    Reset,
    /// A fault of the guest in the handler of a double fault; also `reboot=t`.
    TripleFault {
        #[serde(skip_serializing_if = "Option::is_none")]
        rip: Option<String>,
    },
    /// KVM cannot continue the guest, such as at an instruction that it does not emulate.
    InternalError {
        #[serde(skip_serializing_if = "Option::is_none")]
        rip: Option<String>,
        /// The bytes of the instruction, hexadecimal; empty if KVM did not tell them.
        #[serde(skip_serializing_if = "String::is_empty")]
        bytes: String,
        text: String,
    },
    /// KVM returned for a reason that has no handler, which the text names.
    UnknownExit {
        #[serde(skip_serializing_if = "Option::is_none")]
        rip: Option<String>,
        text: String,
    },
    /// The keeper asked for the end, or its end of the control is closed.
    Killed { text: String },
    /// A call of the host failed, such as one of KVM.
    HostFailed { text: String },
    /// The configuration is refused; `key` is its part.
    BadConfiguration { key: String, text: String },
}

impl Ended {
    /// Returns the exit code of the process.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Reset => EXIT_RESET,
            Self::BadConfiguration { .. } => BAD_CONFIGURATION,
            _ => EXIT_OTHER,
        }
    }

    /// Cuts the text to its limit.
    #[must_use]
    pub fn bounded(mut self) -> Self {
        match &mut self {
            Self::Reset | Self::TripleFault { .. } => {}
            Self::InternalError { text, .. }
            | Self::UnknownExit { text, .. }
            | Self::Killed { text }
            | Self::HostFailed { text }
            | Self::BadConfiguration { text, .. } => {
                let mut end = text.len().min(TEXT_LIMIT_BYTES);
                while !text.is_char_boundary(end) {
                    end -= 1;
                }
                text.truncate(end);
            }
        }
        self
    }
}

/// Returns an end for a call of the host that failed.
pub fn host_failed(call: &str, error: impl std::fmt::Display) -> Ended {
    Ended::HostFailed {
        text: format!("{call}: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_one_tagged_object() {
        let end = Ended::InternalError {
            rip: Some("0x1000".into()),
            bytes: "0fc7".into(),
            text: "x".into(),
        };
        let line = serde_json::to_value(&end).unwrap();
        assert_eq!(line["kind"], "internalError");
        assert_eq!(line["bytes"], "0fc7");
        assert_eq!(serde_json::to_value(Ended::Reset).unwrap()["kind"], "reset");
    }

    #[test]
    fn an_end_has_no_field_without_a_value() {
        let text = || "x".to_owned();
        for end in [
            Ended::TripleFault { rip: None },
            Ended::InternalError {
                rip: None,
                bytes: String::new(),
                text: text(),
            },
            Ended::UnknownExit {
                rip: None,
                text: text(),
            },
        ] {
            let line = serde_json::to_value(&end).unwrap();
            let mut fields = line.as_object().unwrap().values();
            let has_value =
                |field: &serde_json::Value| field.as_str().is_some_and(|text| !text.is_empty());
            assert!(fields.all(has_value), "the keeper refuses {line}");
        }
    }

    #[test]
    fn a_text_is_cut_between_letters() {
        let end = Ended::Killed {
            text: format!("{}é", "x".repeat(TEXT_LIMIT_BYTES - 1)),
        };
        let Ended::Killed { text } = end.bounded() else {
            panic!("the same kind")
        };
        assert_eq!(text.len(), TEXT_LIMIT_BYTES - 1);
    }

    #[test]
    fn only_a_reset_is_a_good_end() {
        assert_eq!(Ended::Reset.exit_code(), 0);
        assert_eq!(Ended::TripleFault { rip: None }.exit_code(), 1);
        let bad = Ended::BadConfiguration {
            key: "vcpus".into(),
            text: "33".into(),
        };
        assert_eq!(bad.exit_code(), 2);
    }
}
