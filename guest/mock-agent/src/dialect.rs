//! Writes the streams of both command lines in the format of the real programs.

use std::io::{self, Write};
use std::thread;

use serde_json::{Value, json};

use crate::arguments::{Call, Dialect};
use crate::script::Plan;
use crate::workspace::Found;

/// The id is the same for each session, so that a stream does not depend on the time at which it was made.
pub const SESSION: &str = "00000000-0000-4000-8000-6d6f636b0001";

/// The counts of the session so far.
#[derive(Default)]
pub struct Tally {
    pub turns: u64,
    items: u64,
    calls: u64,
}

impl Tally {
    pub fn of_session(calls: u64) -> Self {
        Self {
            calls,
            ..Self::default()
        }
    }

    /// Returns the number of model calls: each message and each tool call is one. Codex counts the whole session.
    pub fn calls(&self) -> u64 {
        self.calls
    }
}

pub struct Player<'a, W> {
    call: &'a Call,
    plan: &'a Plan,
    found: &'a Found,
    out: W,
}

impl<'a, W: Write> Player<'a, W> {
    pub fn new(call: &'a Call, plan: &'a Plan, found: &'a Found, out: W) -> Self {
        Self {
            call,
            plan,
            found,
            out,
        }
    }

    pub fn pause(&self) {
        thread::sleep(self.plan.delay);
    }

    pub fn raw(&mut self, lines: &str) -> io::Result<()> {
        writeln!(self.out, "{}", lines.trim_end())?;
        self.out.flush()
    }

    fn line(&mut self, event: &Value) -> io::Result<()> {
        writeln!(self.out, "{event}")?;
        self.out.flush()
    }

    fn session(&self) -> &'a str {
        self.call.resume.as_deref().unwrap_or(SESSION)
    }

    fn model(&self) -> &'a str {
        let named = self.plan.model.as_deref().or(self.call.model.as_deref());
        named.unwrap_or("mock-model")
    }

    pub fn begin(&mut self) -> io::Result<()> {
        match self.call.dialect {
            Dialect::Claude => {
                let servers = self.found.mcp_servers.iter();
                let servers: Value = servers
                    .map(|name| json!({"name": name, "status": "connected"}))
                    .collect();
                self.line(&json!({
                    "type": "system", "subtype": "init", "session_id": self.session(), "model": self.model(),
                    "cwd": self.found.cwd, "permissionMode": "bypassPermissions", "tools": ["Bash", "Read", "Write"],
                    "skills": self.found.skills, "mcp_servers": servers, "has_input": self.found.has_input,
                }))
            }
            Dialect::Codex => {
                self.line(&json!({"type": "thread.started", "thread_id": self.session()}))?;
                self.line(&json!({"type": "turn.started"}))
            }
        }
    }

    fn usage(&self, turns: u64) -> Value {
        let (input, output) = (
            self.plan.input_tokens * turns,
            self.plan.output_tokens * turns,
        );
        match self.call.dialect {
            Dialect::Claude => json!({"input_tokens": input, "output_tokens": output,
                "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}),
            Dialect::Codex => json!({"input_tokens": input, "cached_input_tokens": 0,
                "cache_write_input_tokens": 0, "output_tokens": output, "reasoning_output_tokens": 0}),
        }
    }

    /// Returns the line for an ended call in the session's file, with the number of calls including it.
    pub fn call_in_session(&self, calls: u64) -> Value {
        match self.call.dialect {
            Dialect::Claude => json!({"type": "assistant",
                "message": {"id": format!("msg_{calls}"), "role": "assistant", "model": self.model(), "usage": self.usage(1)}}),
            Dialect::Codex => json!({"type": "event_msg", "payload": {"type": "token_count",
                "info": {"total_token_usage": self.usage(calls), "last_token_usage": self.usage(1)}}}),
        }
    }

    /// Returns the line for a tool's result in the session's file, which precedes the stream's.
    pub fn result_in_session(&self, tally: &Tally) -> Value {
        let item = tally.items + 1;
        match self.call.dialect {
            Dialect::Claude => json!({"type": "user", "message": {"role": "user",
                "content": [{"type": "tool_result", "tool_use_id": format!("toolu_{item}")}]}}),
            Dialect::Codex => json!({"type": "response_item",
                "payload": {"type": "function_call_output", "call_id": format!("item_{item}")}}),
        }
    }

    fn assistant(&mut self, content: &Value, tally: &mut Tally) -> io::Result<()> {
        tally.turns += 1;
        tally.calls += 1;
        let message = json!({"id": format!("msg_{}", tally.turns), "type": "message", "role": "assistant",
            "model": self.model(), "content": [content], "stop_reason": null, "usage": self.usage(1)});
        self.line(&json!({"type": "assistant", "message": message, "parent_tool_use_id": null, "session_id": self.session()}))
    }

    fn item(&mut self, mut item: Value, tally: &mut Tally) -> io::Result<()> {
        item["id"] = json!(format!("item_{}", tally.items));
        tally.items += 1;
        tally.calls += 1;
        self.line(&json!({"type": "item.completed", "item": item}))
    }

    pub fn say(&mut self, text: &str, tally: &mut Tally) -> io::Result<()> {
        match self.call.dialect {
            Dialect::Claude => self.assistant(&json!({"type": "text", "text": text}), tally),
            Dialect::Codex => self.item(json!({"type": "agent_message", "text": text}), tally),
        }
    }

    pub fn tool_write(
        &mut self,
        path: &str,
        outcome: &Result<(), String>,
        tally: &mut Tally,
    ) -> io::Result<()> {
        match self.call.dialect {
            Dialect::Claude => {
                let done = outcome.as_ref().map(|()| format!("wrote {path}"));
                self.tool(
                    "Write",
                    &json!({"file_path": path}),
                    done.as_deref().map_err(|error| error.as_str()),
                    tally,
                )
            }
            Dialect::Codex => {
                let status = if outcome.is_ok() {
                    "completed"
                } else {
                    "failed"
                };
                self.item(
                    json!({"type": "file_change", "changes": [{"path": path, "kind": "update"}], "status": status}),
                    tally,
                )
            }
        }
    }

    pub fn tool_run(
        &mut self,
        command: &str,
        output: &str,
        exit_code: i32,
        tally: &mut Tally,
    ) -> io::Result<()> {
        match self.call.dialect {
            Dialect::Claude => {
                let done = if exit_code == 0 {
                    Ok(output)
                } else {
                    Err(output)
                };
                self.tool("Bash", &json!({"command": command}), done, tally)
            }
            Dialect::Codex => {
                let status = if exit_code == 0 {
                    "completed"
                } else {
                    "failed"
                };
                self.item(
                    json!({"type": "command_execution", "command": command, "aggregated_output": output,
                        "exit_code": exit_code, "status": status}),
                    tally,
                )
            }
        }
    }

    fn tool(
        &mut self,
        name: &str,
        input: &Value,
        done: Result<&str, &str>,
        tally: &mut Tally,
    ) -> io::Result<()> {
        tally.items += 1;
        let id = format!("toolu_{}", tally.items);
        self.assistant(
            &json!({"type": "tool_use", "id": id, "name": name, "input": input}),
            tally,
        )?;
        let (Ok(text) | Err(text)) = done;
        let result = json!({"type": "tool_result", "tool_use_id": id, "content": text, "is_error": done.is_err()});
        let message = json!({"role": "user", "content": [result]});
        self.line(&json!({"type": "user", "message": message, "parent_tool_use_id": null, "session_id": self.session()}))
    }

    fn result(
        &mut self,
        subtype: &str,
        is_error: bool,
        text: Option<&str>,
        tally: &Tally,
    ) -> io::Result<()> {
        let turns = tally.turns.max(1);
        let mut event = json!({
            "type": "result", "subtype": subtype, "is_error": is_error, "duration_ms": 1, "duration_api_ms": 1,
            "num_turns": turns, "session_id": self.session(), "total_cost_usd": self.plan.cost_usd,
            "usage": self.usage(turns), "permission_denials": [],
        });
        if let Some(text) = text {
            event["result"] = json!(text);
            if let Ok(value @ (Value::Object(_) | Value::Array(_))) = serde_json::from_str(text)
                && self.call.schema.is_some()
            {
                event["structured_output"] = value;
            }
        }
        self.line(&event)
    }

    pub fn finish(&mut self, text: &str, tally: &mut Tally) -> io::Result<()> {
        self.say(text, tally)?;
        match self.call.dialect {
            Dialect::Claude => {
                let spent = self
                    .call
                    .max_budget_usd
                    .is_some_and(|limit| self.plan.cost_usd > limit);
                if spent {
                    return self.result("error_max_budget_usd", true, None, tally);
                }
                self.result("success", false, Some(text), tally)
            }
            Dialect::Codex => {
                let usage = self.usage(tally.calls.max(1));
                self.line(&json!({"type": "turn.completed", "usage": usage}))
            }
        }
    }

    pub fn fail(&mut self, message: &str, tally: &Tally) -> io::Result<()> {
        match self.call.dialect {
            // As in the real program, only `is_error` shows the failure.
            Dialect::Claude => self.result("success", true, Some(message), tally),
            Dialect::Codex => {
                self.line(&json!({"type": "error", "message": message}))?;
                self.line(&json!({"type": "turn.failed", "error": {"message": message}}))
            }
        }
    }

    pub fn out_of_turns(&mut self, tally: &Tally) -> io::Result<()> {
        self.result("error_max_turns", true, None, tally)
    }

    /// Prints a line of `text`, repeated `times` times.
    pub fn print(&mut self, text: &str, times: u64) -> io::Result<()> {
        for _ in 0..times {
            self.out.write_all(text.as_bytes())?;
        }
        self.raw("\n")
    }

    pub fn cut(&mut self) -> io::Result<()> {
        match self.call.dialect {
            Dialect::Claude => write!(
                self.out,
                "{{\"type\":\"assistant\",\"message\":{{\"content\":[{{\"ty"
            )?,
            Dialect::Codex => write!(self.out, "{{\"type\":\"item.completed\",\"item\":{{\"ty")?,
        }
        self.out.flush()
    }
}
