//! Parses and checks one request line: its op and its arguments.

use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use voidbox_protocol::body::{PathRequest, WriteFile};

use crate::error::{Code, Failure};
use crate::exec::{Cause, StartExec};

pub const API_VERSION: u64 = 1;

#[derive(Debug)]
pub struct Request {
    pub head: Head,
    pub op: Op,
}

/// The fields that every request has.
#[derive(Debug)]
pub struct Head {
    pub id: Value,
    /// The op's name from the client, for messages.
    pub name: String,
    /// The fence of the request, if it has one.
    pub fence: Option<u64>,
}

/// The requested op. Each op is in one of three lists. Only the list determines the checks before the op, and how its
/// connection is used.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub enum Op {
    Call(Call),
    Stream(StreamOp),
}

/// Ops that are answered with one line.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub enum Call {
    Open(OpenCall),
    Fenced(FencedCall),
}

/// Ops for every client.
#[derive(Debug, Deserialize)]
#[serde(tag = "op")]
pub enum OpenCall {
    #[serde(rename = "status")]
    Status,
    #[serde(rename = "attach")]
    Attach,
    #[serde(rename = "ready")]
    Ready(Args<Ready>),
    #[serde(rename = "keepalive")]
    Keepalive,
    #[serde(rename = "exec.wait")]
    ExecWait(Args<ExecKey>),
    #[serde(rename = "stats")]
    Stats,
    #[serde(rename = "usage")]
    Usage,
}

/// Ops for the client that has the granted fence.
#[derive(Debug, Deserialize)]
#[serde(tag = "op")]
pub enum FencedCall {
    #[serde(rename = "renew")]
    Renew,
    #[serde(rename = "exec.start")]
    ExecStart(Args<StartExec>),
    #[serde(rename = "exec.end")]
    ExecEnd(Args<End>),
    #[serde(rename = "exec.signal")]
    ExecSignal(Args<Signal>),
    #[serde(rename = "exec.ack")]
    ExecAck(Args<ExecKey>),
    #[serde(rename = "exec.stdin.end")]
    ExecStdinEnd(Args<StdinEnd>),
    #[serde(rename = "tar.cut")]
    TarCut(Args<PathRequest>),
    #[serde(rename = "retain")]
    Retain(Args<Retain>),
    #[serde(rename = "take")]
    Take(Args<Take>),
    #[serde(rename = "stop")]
    Stop,
}

/// Ops that take their connection over: raw bytes follow the answer line.
#[derive(Debug, Deserialize)]
#[serde(tag = "op")]
pub enum StreamOp {
    #[serde(rename = "tie")]
    Tie(Args<Tie>),
    #[serde(rename = "exec.stdin")]
    ExecStdin(Args<ExecKey>),
    #[serde(rename = "exec.output")]
    ExecOutput(Args<Output>),
    #[serde(rename = "exec.outputs")]
    ExecOutputs(Args<Outputs>),
    #[serde(rename = "exec.freeze")]
    ExecFreeze(Args<Freeze>),
    #[serde(rename = "checkpoint")]
    Checkpoint(Args<Checkpoint>),
    #[serde(rename = "checkpoint.full")]
    CheckpointFull(Args<CheckpointFull>),
    #[serde(rename = "notices")]
    Notices(Args<Offset>),
    #[serde(rename = "file.put")]
    FilePut(Args<WriteFile>),
    #[serde(rename = "file.get")]
    FileGet(Args<PathRequest>),
    #[serde(rename = "tar.put")]
    TarPut(Args<PathRequest>),
    #[serde(rename = "tar.get")]
    TarGet(Args<PathRequest>),
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ready {
    pub timeout_ms: u64,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExecKey {
    pub exec_key: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StdinEnd {
    pub exec_key: String,
    pub size_bytes: u64,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Tie {
    /// Whether the VM stays when the client disconnects, until its lease expires.
    #[serde(default)]
    pub keep: bool,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Retain {
    pub for_ms: u64,
    /// A note for clients, which read it from the run directory.
    #[serde(default)]
    pub note: serde_json::Map<String, Value>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Take {
    /// The run directory, which was renamed.
    pub dir: PathBuf,
    /// The launch configuration of the VM from now on.
    pub config: Value,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Signal {
    pub exec_key: String,
    pub signal: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct End {
    pub exec_key: String,
    /// The time between SIGTERM and SIGKILL.
    pub grace_ms: u64,
    /// The cause for clients, which read it in the answer of `exec.wait`.
    pub cause: Cause,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Freeze {
    pub exec_key: String,
    /// The guest resumes the command after this time, and after 30 s at the latest.
    pub limit_ms: u64,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Checkpoint {
    /// The file that will have the copy; an absolute path at which nothing exists.
    pub dest: PathBuf,
    /// The guest thaws its disk after this time, and after 30 s at the latest.
    pub limit_ms: u64,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckpointFull {
    /// The folder that will have the files; an absolute path at which nothing exists.
    pub dest: PathBuf,
    pub pages: Pages,
}

/// The pages of the memory that a full save has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pages {
    All,
    /// Those that have changed since the VM's last full save.
    Changed,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Output {
    pub exec_key: String,
    pub stream: String,
    pub offset: u64,
}

/// Reads both outputs, each from the reader's offset.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Outputs {
    pub exec_key: String,
    pub stdout: u64,
    pub stderr: u64,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Offset {
    pub offset: u64,
}

/// An op's own fields, or their error. The error is reported only after the op is known and its fence is the granted
/// one. Fields that no op of this build knows are ignored.
#[derive(Debug)]
pub struct Args<T>(Result<T, String>);

impl<'de, T: DeserializeOwned> Deserialize<'de> for Args<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let fields = Value::deserialize(deserializer)?;
        Ok(Self(
            T::deserialize(fields).map_err(|error| error.to_string()),
        ))
    }
}

impl Head {
    /// Returns the arguments of this request's op.
    pub fn read<T>(&self, args: Args<T>) -> Result<T, Failure> {
        args.0
            .map_err(|why| Failure::bad_request(format!("{}: {why}", self.name)))
    }
}

impl Request {
    /// Parses a line. An error comes with the id for its answer, which is `null` if the line has no id.
    pub fn parse(line: &[u8]) -> Result<Self, (Value, Failure)> {
        let body: Value = serde_json::from_slice(line).map_err(|error| {
            (
                Value::Null,
                Failure::bad_request(format!("the request is not JSON: {error}")),
            )
        })?;
        let id = body.get("id").cloned().unwrap_or(Value::Null);
        if !(id.is_u64() || id.is_string()) {
            return Err((
                Value::Null,
                Failure::bad_request("id is missing, expected a number or a string"),
            ));
        }
        match body.get("v").and_then(Value::as_u64) {
            Some(API_VERSION) => {}
            _ => {
                let found = body.get("v").cloned().unwrap_or(Value::Null);
                let message = format!("v is {found}, this keeper speaks {API_VERSION}");
                return Err((id, Failure::new(Code::ApiVersion, message)));
            }
        }
        let Some(name) = body.get("op").and_then(Value::as_str).map(str::to_owned) else {
            return Err((id, Failure::bad_request("op is missing")));
        };
        let fence = body.get("fence").and_then(Value::as_u64);
        // Parsing arguments never fails here, so an error means that no list contains the name.
        match Op::deserialize(body) {
            Ok(op) => Ok(Self {
                head: Head { id, name, fence },
                op,
            }),
            Err(_) => Err((id, Failure::bad_request(format!("op {name:?} is unknown")))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_version_is_answered_under_its_id() {
        let (id, failure) = Request::parse(br#"{"v":2,"id":9,"op":"status"}"#).unwrap_err();
        assert_eq!((id, failure.code), (9.into(), Code::ApiVersion));
    }

    #[test]
    fn what_is_no_request_is_said_to_be_none() {
        for line in [
            "",
            "[]",
            "{",
            r#"{"v":1,"op":"status"}"#,
            r#"{"v":1,"id":1}"#,
        ] {
            assert_eq!(
                Request::parse(line.as_bytes()).unwrap_err().1.code,
                Code::BadRequest,
                "{line}"
            );
        }
    }

    /// Extracts the ops of a list from its parser's error about an unknown op.
    fn names<T: DeserializeOwned + std::fmt::Debug>(marks: &'static str) -> Vec<(String, String)> {
        let refusal = serde_json::from_str::<T>(r#"{"op":""}"#).unwrap_err();
        let text = refusal.to_string();
        let (_, list) = text.split_once("expected one of ").unwrap();
        let quoted = list.split('`').skip(1).step_by(2);
        quoted
            .map(|name| (name.to_owned(), marks.to_owned()))
            .collect()
    }

    #[test]
    fn the_manual_has_every_op_with_what_it_takes() {
        let manual = include_str!("../../../../docs/reference/keeper.md");
        let (_, api) = manual.split_once("\n| op | request | answer |\n").unwrap();
        let rows = api.lines().skip(1).take_while(|line| line.starts_with('|'));
        let mut documented: Vec<(String, String)> = rows
            .map(|row| {
                let mut cells = row.split(" | ");
                let name = cells.next().unwrap().trim_matches(['|', ' ', '`']);
                let takes = cells.next().unwrap();
                let marks = match (takes.starts_with("fenced"), takes.contains("stream ")) {
                    (_, true) => "stream",
                    (true, false) => "fenced",
                    (false, false) => "open",
                };
                (name.to_owned(), marks.to_owned())
            })
            .collect();
        let mut known = names::<OpenCall>("open");
        known.extend(names::<FencedCall>("fenced"));
        known.extend(names::<StreamOp>("stream"));
        documented.sort();
        known.sort();
        assert_eq!(documented, known);
    }
}
