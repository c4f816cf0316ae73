//! The reason of a VMM's end, as the VMM itself gives it.

use serde::{Deserialize, Serialize};

/// The limits of a VMM's texts, in bytes.
const MAX_TEXT_BYTES: usize = 500;
/// An instruction has at most 15 bytes.
const MAX_INSTRUCTION_DIGITS: usize = 30;
const MAX_RIP_DIGITS: usize = 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum EndKind {
    /// The guest reset the machine.
    Reset,
    TripleFault,
    /// KVM could not run an instruction of the guest.
    InternalError,
    /// KVM returned for a reason that the VMM does not know.
    UnknownExit,
    /// The guest used a device in a way that the device does not survive.
    DeviceFailed,
    /// The keeper asked for it.
    Killed,
    /// The VMM refuses its configuration.
    BadConfiguration,
    /// A call of the host failed.
    HostFailed,
    /// A thread of the VMM tried a system call that its filter forbids.
    ForbiddenCall,
}

/// The last message of a VMM, and `vmmEnd` in `exit.json`. A VMM may be hostile, so its texts are bounded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct VmmEnd {
    pub kind: EndKind,
    /// The address of the instruction, as `0x` and hex digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rip: Option<String>,
    /// The bytes of the instruction, as hex digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The key of a configuration that the VMM refuses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

impl VmmEnd {
    /// Returns the end with printable texts; the error names a field that no VMM of this project sends.
    pub fn check(self) -> Result<Self, String> {
        let is_hex = |digits: &str, limit: usize| {
            (1..=limit).contains(&digits.len())
                && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
        };
        if let Some(rip) = &self.rip
            && !rip
                .strip_prefix("0x")
                .is_some_and(|digits| is_hex(digits, MAX_RIP_DIGITS))
        {
            return Err("the reason of its end has a rip that is no address".into());
        }
        if let Some(bytes) = &self.bytes
            && !is_hex(bytes, MAX_INSTRUCTION_DIGITS)
        {
            return Err("the reason of its end has bytes that are no instruction".into());
        }
        for text in [&self.text, &self.key].into_iter().flatten() {
            if text.len() > MAX_TEXT_BYTES {
                return Err(format!(
                    "the reason of its end has a text of more than {MAX_TEXT_BYTES} bytes"
                ));
            }
        }
        Ok(Self {
            text: self.text.as_deref().map(printable),
            key: self.key.as_deref().map(printable),
            ..self
        })
    }

    /// Returns the reason as the part of a sentence.
    pub fn describe(&self) -> String {
        let mut text = match self.kind {
            EndKind::Reset => "the guest reset its machine",
            EndKind::TripleFault => "the guest's CPU had a triple fault",
            EndKind::InternalError => "KVM could not run an instruction of the guest",
            EndKind::UnknownExit => "KVM stopped the guest for an unknown reason",
            EndKind::DeviceFailed => "the guest broke a device",
            EndKind::Killed => "the VMM was told to end",
            EndKind::BadConfiguration => "the VMM refuses its configuration",
            EndKind::HostFailed => "a call of the host failed",
            EndKind::ForbiddenCall => "the VMM tried a forbidden call",
        }
        .to_owned();
        for (what, value) in [
            ("key", &self.key),
            ("rip", &self.rip),
            ("bytes", &self.bytes),
        ] {
            if let Some(value) = value {
                text.push_str(&format!(", {what} {value}"));
            }
        }
        match &self.text {
            Some(more) => format!("{text} ({more})"),
            None => text,
        }
    }
}

/// Replaces control characters, with which a VMM could change a terminal.
fn printable(text: &str) -> String {
    text.chars()
        .map(|character| match character.is_control() {
            true => '?',
            false => character,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(value: serde_json::Value) -> Result<VmmEnd, String> {
        let end: VmmEnd = serde_json::from_value(value).map_err(|error| error.to_string())?;
        end.check()
    }

    #[test]
    fn an_end_names_the_instruction_at_which_the_guest_stopped() {
        let internal = end(serde_json::json!({
            "kind": "internalError", "rip": "0xffffffff81000000", "bytes": "480fc708", "text": "suberror 1",
        }));
        assert_eq!(
            internal.unwrap().describe(),
            "KVM could not run an instruction of the guest, rip 0xffffffff81000000, bytes 480fc708 (suberror 1)"
        );
        let refused = end(serde_json::json!({ "kind": "badConfiguration", "key": "vcpus" }));
        assert_eq!(
            refused.unwrap().describe(),
            "the VMM refuses its configuration, key vcpus"
        );
    }

    #[test]
    fn texts_of_a_hostile_vmm_are_refused_or_made_printable() {
        for hostile in [
            serde_json::json!({ "kind": "success" }),
            serde_json::json!({ "rip": "0x1" }),
            serde_json::json!({ "kind": "reset", "more": 1 }),
            serde_json::json!({ "kind": "reset", "rip": "1" }),
            serde_json::json!({ "kind": "reset", "rip": "0x" }),
            serde_json::json!({ "kind": "reset", "rip": "0x11111111111111111" }),
            serde_json::json!({ "kind": "reset", "rip": 1 }),
            serde_json::json!({ "kind": "reset", "bytes": "zz" }),
            serde_json::json!({ "kind": "reset", "bytes": "0".repeat(31) }),
            serde_json::json!({ "kind": "reset", "text": "x".repeat(501) }),
            serde_json::json!({ "kind": "reset", "key": "x".repeat(501) }),
        ] {
            assert!(end(hostile.clone()).is_err(), "{hostile}");
        }
        let coloured = end(serde_json::json!({ "kind": "reset", "text": "\u{1b}[31mred\n" }));
        assert_eq!(coloured.unwrap().text.unwrap(), "?[31mred?");
    }
}
