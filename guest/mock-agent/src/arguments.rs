//! Parses the command lines of `claude` and `codex` that agents use. An unknown option is rejected, as the real
//! programs do.

use std::io::Read;

use serde_json::Value;

/// The limit of a prompt on standard input.
const PROMPT_BYTES: u64 = 4 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    Claude,
    Codex,
}

#[derive(Debug, PartialEq)]
pub struct Call {
    pub dialect: Dialect,
    pub prompt: String,
    pub model: Option<String>,
    /// The session to resume.
    pub resume: Option<String>,
    pub max_turns: Option<u64>,
    pub max_budget_usd: Option<f64>,
    /// A JSON Schema, as text.
    pub schema: Option<String>,
    /// The servers' names, in order.
    pub mcp_servers: Vec<String>,
}

pub fn parse(name: &str, arguments: Vec<String>) -> Result<Call, String> {
    let program = name.rsplit('/').next().unwrap_or_default();
    let (dialect, arguments) = match program {
        "claude" | "claude-code" => (Dialect::Claude, arguments),
        "codex" => (Dialect::Codex, codex_exec(arguments)?),
        _ => return Err(format!("called as {program:?}: call it as claude or codex")),
    };
    let mut call = Call {
        dialect,
        prompt: String::new(),
        model: None,
        resume: None,
        max_turns: None,
        max_budget_usd: None,
        schema: None,
        mcp_servers: Vec::new(),
    };
    let mut positional = Vec::new();
    let mut rest = arguments.into_iter();
    while let Some(argument) = rest.next() {
        if dialect == Dialect::Codex && argument == "resume" && positional.is_empty() {
            call.resume = Some(rest.next().ok_or("resume needs a session")?);
        } else if argument == "-" || !argument.starts_with('-') {
            positional.push(argument);
        } else {
            option(&mut call, &argument, &mut rest)?;
        }
    }
    call.prompt = match positional.as_slice() {
        [] => from_stdin()?,
        [only] if only == "-" => from_stdin()?,
        [only] => only.clone(),
        more => return Err(format!("{} prompts; at most one is allowed", more.len())),
    };
    if call.prompt.trim().is_empty() {
        return Err("the prompt is empty: give one as argument or on standard input".into());
    }
    Ok(call)
}

fn codex_exec(mut arguments: Vec<String>) -> Result<Vec<String>, String> {
    if arguments.first().is_none_or(|first| first != "exec") {
        return Err("the mock agent supports only `codex exec`".into());
    }
    Ok(arguments.split_off(1))
}

fn option(
    call: &mut Call,
    name: &str,
    rest: &mut impl Iterator<Item = String>,
) -> Result<(), String> {
    let mut value = || rest.next().ok_or(format!("{name} needs a value"));
    match (call.dialect, name) {
        (
            Dialect::Claude,
            "-p"
            | "--print"
            | "--verbose"
            | "--dangerously-skip-permissions"
            | "--strict-mcp-config",
        )
        | (
            Dialect::Codex,
            "--json" | "--skip-git-repo-check" | "--dangerously-bypass-approvals-and-sandbox",
        ) => {}
        (Dialect::Codex, "--disable") => {
            value()?;
        }
        (Dialect::Claude, "--settings") => {
            let text = value()?;
            serde_json::from_str::<Value>(&text).map_err(|error| format!("{name}: {error}"))?;
        }
        (Dialect::Claude, "--mcp-config") => call.mcp_servers = servers_of(&value()?)?,
        (Dialect::Codex, "-c" | "--config") => {
            let setting = value()?;
            let server = setting.strip_prefix("mcp_servers.");
            if let Some((server, _)) = server.and_then(|rest| rest.split_once('=')) {
                call.mcp_servers.push(server.into());
            }
        }
        (Dialect::Claude, "--output-format") => {
            let format = value()?;
            if format != "stream-json" {
                return Err(format!(
                    "the mock agent does not support --output-format {format}"
                ));
            }
        }
        (Dialect::Claude, "--model") | (Dialect::Codex, "-m" | "--model") => {
            call.model = Some(value()?);
        }
        (Dialect::Claude, "-r" | "--resume") => call.resume = Some(value()?),
        (Dialect::Claude, "--max-turns") => call.max_turns = Some(number(name, &value()?)?),
        (Dialect::Claude, "--max-budget-usd") => {
            call.max_budget_usd = Some(number(name, &value()?)?);
        }
        (Dialect::Claude, "--json-schema") => call.schema = Some(value()?),
        (Dialect::Codex, "--output-schema") => {
            let path = value()?;
            let text = std::fs::read_to_string(&path);
            call.schema = Some(text.map_err(|error| format!("{path}: {error}"))?);
        }
        _ => return Err(format!("unknown option {name:?}")),
    }
    Ok(())
}

/// Reads the servers' names from a file, which must exist.
fn servers_of(path: &str) -> Result<Vec<String>, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    let config: Value = serde_json::from_str(&text).map_err(|error| format!("{path}: {error}"))?;
    let servers = config.get("mcpServers").and_then(Value::as_object);
    let servers = servers.ok_or(format!("{path} has no mcpServers"))?;
    Ok(servers.keys().cloned().collect())
}

fn number<T: std::str::FromStr>(name: &str, text: &str) -> Result<T, String> {
    text.parse()
        .map_err(|_| format!("{name} is not a number: {text:?}"))
}

fn from_stdin() -> Result<String, String> {
    let mut text = String::new();
    std::io::stdin()
        .take(PROMPT_BYTES)
        .read_to_string(&mut text)
        .map_err(|error| format!("standard input: {error}"))?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::{Dialect, parse};

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(String::from).collect()
    }

    #[test]
    fn both_command_lines_are_read() {
        let call = parse(
            "/x/claude",
            words("-p fix --output-format stream-json --verbose --max-turns 3 --resume s1"),
        )
        .unwrap();
        assert_eq!(
            (call.dialect, call.prompt.as_str()),
            (Dialect::Claude, "fix")
        );
        assert_eq!(
            (call.max_turns, call.resume.as_deref()),
            (Some(3), Some("s1"))
        );
        let call = parse("codex", words("exec resume t1 --json -c a=b -m gpt-5 fix")).unwrap();
        assert_eq!(
            (call.dialect, call.prompt.as_str()),
            (Dialect::Codex, "fix")
        );
        assert_eq!(
            (call.model.as_deref(), call.resume.as_deref()),
            (Some("gpt-5"), Some("t1"))
        );
    }

    #[test]
    fn servers_are_those_that_the_command_line_names() {
        let path = std::env::temp_dir().join(format!("mock-agent-mcp-{}.json", std::process::id()));
        std::fs::write(&path, r#"{"mcpServers":{"a":{},"b":{}}}"#).unwrap();
        let line = format!("-p fix --mcp-config {} --strict-mcp-config", path.display());
        let claude = parse("claude", words(&line)).unwrap();
        std::fs::remove_file(path).unwrap();
        let line = "exec --json -c mcp_servers.a={command=\"x\"} -c model_provider=y -c mcp_servers.b={} fix";
        let codex = parse("codex", words(line)).unwrap();
        for call in [claude, codex] {
            assert_eq!(call.mcp_servers, ["a", "b"]);
        }
    }

    #[test]
    fn what_the_real_ones_would_refuse_is_refused() {
        for (name, line) in [
            ("claude", "-p fix --no-such"),
            ("claude", "-p fix --max-turns many"),
            ("claude", "-p fix --settings {"),
            ("claude", "-p fix --mcp-config /no/such.json"),
            ("claude", "one two"),
            ("codex", "login"),
            ("other", "-p fix"),
        ] {
            assert!(parse(name, words(line)).is_err(), "{name} {line}");
        }
    }
}
