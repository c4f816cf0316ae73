//! One request line, checked.

use serde::Deserialize;
use serde_json::Value;

use crate::error::{Code, Failure};

pub const API_VERSION: u64 = 1;

#[derive(Debug)]
pub struct Request {
    pub id: Value,
    pub op: String,
    /// The whole object; each op takes its own fields out of it.
    body: Value,
}

impl Request {
    /// Parses a line; the error comes with the id to answer to, `null` when there is none.
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
        let Some(op) = body.get("op").and_then(Value::as_str).map(str::to_owned) else {
            return Err((id, Failure::bad_request("op is missing")));
        };
        Ok(Self { id, op, body })
    }

    /// The op's own fields.
    pub fn fields<T: for<'de> Deserialize<'de>>(&self) -> Result<T, Failure> {
        T::deserialize(&self.body)
            .map_err(|error| Failure::bad_request(format!("{}: {error}", self.op)))
    }

    /// The fence that the request carries, when it does.
    pub fn fence(&self) -> Option<u64> {
        self.body.get("fence").and_then(Value::as_u64)
    }

    pub fn is_stream(&self) -> bool {
        matches!(
            self.op.as_str(),
            "exec.stdin" | "exec.output" | "file.put" | "file.get" | "tar.put" | "tar.get"
        )
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
}
