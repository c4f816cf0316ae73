//! The plan of the mock agent: the steps of `MOCK_AGENT_SCRIPT`, or else the scenario of `MOCK_CLAUDE_SCENARIO`.

use std::time::Duration;

use serde_json::Value;

use crate::arguments::Call;
use crate::instance::instance_of;
use crate::workspace::Found;

const MOST_STEPS: usize = 10_000;
/// The number of the prompt's characters that an answer repeats.
const ECHOED: usize = 120;

#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    Say(String),
    Write {
        path: String,
        content: String,
    },
    Run(String),
    Sleep(Duration),
    /// The agent holds this many MiB until its end.
    HoldMib(usize),
    /// Prints a line of the stream unchanged: the text, repeated.
    Print {
        text: String,
        times: u64,
    },
    /// The stream ends in the middle of a line.
    Cut,
    /// The call to the model fails.
    Fail(String),
    /// The result with which the agent ends.
    Result(String),
}

#[derive(Debug, PartialEq)]
pub struct Plan {
    pub steps: Vec<Step>,
    /// The result if no step sets another.
    pub text: String,
    /// Lines that are printed as they are, instead of the steps.
    pub custom: Option<String>,
    pub delay: Duration,
    pub model: Option<String>,
    /// Tokens of each turn.
    pub input_tokens: u64,
    pub output_tokens: u64,
    /// Cost of the whole session.
    pub cost_usd: f64,
}

/// Reads the plan. `goes_on` means that the session has not ended, so its own steps are played, not those of a resumed
/// session.
pub fn plan(call: &Call, found: &Found, goes_on: bool) -> Result<Plan, String> {
    from(call, found, goes_on, &|name| std::env::var(name).ok())
}

fn from(
    call: &Call,
    found: &Found,
    goes_on: bool,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Plan, String> {
    let number = |name: &str, otherwise: u64| count(name, variable(name), otherwise);
    let cost = variable("MOCK_CLAUDE_COST").unwrap_or("0.003".into());
    let mut plan = Plan {
        steps: Vec::new(),
        text: answer(call, found)?,
        custom: None,
        delay: Duration::from_millis(number("MOCK_CLAUDE_DELAY_MS", 0)?),
        model: variable("MOCK_CLAUDE_MODEL"),
        input_tokens: number("MOCK_CLAUDE_INPUT_TOKENS", 500)?,
        output_tokens: number("MOCK_CLAUDE_OUTPUT_TOKENS", 200)?,
        cost_usd: cost
            .parse()
            .map_err(|_| format!("MOCK_CLAUDE_COST is not a number: {cost:?}"))?,
    };
    if let Some(script) = variable("MOCK_AGENT_SCRIPT") {
        plan.steps = steps(&script, call.resume.is_some() && !goes_on)?;
        return Ok(plan);
    }
    let tools = variable("MOCK_CLAUDE_TOOLS").unwrap_or("Bash,Read".into());
    let turns = |least: u64| number("MOCK_CLAUDE_TURNS", least);
    match variable("MOCK_CLAUDE_SCENARIO")
        .as_deref()
        .unwrap_or("simple")
    {
        "simple" => {
            for turn in 1..turns(1)? {
                plan.steps.push(Step::Say(format!("turn {turn}")));
            }
        }
        "multi_tool" => plan.steps = tool_steps(&tools, turns(1)?),
        "heavy" => plan.steps = tool_steps(&tools, turns(50)?),
        "error" => plan.steps.push(Step::Fail(
            variable("MOCK_CLAUDE_ERROR").unwrap_or("mock error".into()),
        )),
        "custom" => {
            plan.custom = Some(
                variable("MOCK_CLAUDE_CUSTOM_JSONL")
                    .ok_or("the scenario custom needs MOCK_CLAUDE_CUSTOM_JSONL")?,
            );
        }
        other => {
            return Err(format!(
                "MOCK_CLAUDE_SCENARIO is {other:?}: write simple, multi_tool, error, heavy or custom"
            ));
        }
    }
    Ok(plan)
}

fn count(name: &str, text: Option<String>, otherwise: u64) -> Result<u64, String> {
    text.map_or(Ok(otherwise), |text| {
        text.parse()
            .map_err(|_| format!("{name} is not a whole number: {text:?}"))
    })
}

fn tool_steps(tools: &str, turns: u64) -> Vec<Step> {
    let of_a_turn = tools.split(',').filter(|tool| !tool.is_empty());
    (0..turns)
        .flat_map(|_| of_a_turn.clone())
        .map(|tool| {
            Step::Run(format!(
                "echo {}",
                tool.replace(|c: char| !c.is_alphanumeric(), "_")
            ))
        })
        .take(MOST_STEPS)
        .collect()
}

/// The prompt and the found files, or the smallest value that fits the answer's schema.
fn answer(call: &Call, found: &Found) -> Result<String, String> {
    match &call.schema {
        None => {
            let prompt: String = call.prompt.chars().take(ECHOED).collect();
            let lists = [
                ("skills", &found.skills),
                ("MCP servers", &found.mcp_servers),
            ];
            let told = lists
                .iter()
                .filter(|(_, names)| !names.is_empty())
                .map(|(what, names)| format!("\n[mock] {what}: {}", names.join(", ")));
            Ok(format!("[mock] {prompt}{}", told.collect::<String>()))
        }
        Some(text) => {
            let schema: Value =
                serde_json::from_str(text).map_err(|error| format!("the schema: {error}"))?;
            Ok(instance_of(&schema).to_string())
        }
    }
}

/// Reads `steps`, or `resumed` if an ended session is asked again.
fn steps(script: &str, asked_again: bool) -> Result<Vec<Step>, String> {
    let script: Value =
        serde_json::from_str(script).map_err(|error| format!("MOCK_AGENT_SCRIPT: {error}"))?;
    let list = match &script {
        Value::Array(_) => &script,
        Value::Object(named) => {
            let key = if asked_again { "resumed" } else { "steps" };
            named.get(key).unwrap_or(&Value::Null)
        }
        _ => &Value::Null,
    };
    let list = list
        .as_array()
        .ok_or("MOCK_AGENT_SCRIPT is a list of steps, or { \"steps\": […], \"resumed\": […] }")?;
    if list.len() > MOST_STEPS {
        return Err(format!(
            "MOCK_AGENT_SCRIPT has {} steps; at most {MOST_STEPS} are allowed",
            list.len()
        ));
    }
    list.iter().enumerate().map(|(index, step)| read_step(step).ok_or(format!(
        "step {index} of MOCK_AGENT_SCRIPT is {step}: write one of say, write, run, sleep_ms, hold_mb, print, cut, fail, result"
    ))).collect()
}

fn read_step(step: &Value) -> Option<Step> {
    let (name, value) = match step.as_object() {
        Some(members) if members.len() == 1 => members.iter().next()?,
        _ => return None,
    };
    let text = || value.as_str().map(String::from);
    match name.as_str() {
        "say" => Some(Step::Say(text()?)),
        "run" => Some(Step::Run(text()?)),
        "fail" => Some(Step::Fail(text()?)),
        // A value that is not text is written as JSON.
        "result" => Some(Step::Result(text().unwrap_or_else(|| value.to_string()))),
        "sleep_ms" => Some(Step::Sleep(Duration::from_millis(value.as_u64()?))),
        "hold_mb" => Some(Step::HoldMib(usize::try_from(value.as_u64()?).ok()?)),
        "print" => Some(Step::Print {
            text: value.get("text")?.as_str()?.into(),
            times: match value.get("times") {
                None => 1,
                Some(times) => times.as_u64()?,
            },
        }),
        "cut" => Some(Step::Cut),
        "write" => Some(Step::Write {
            path: value.get("path")?.as_str()?.into(),
            content: value.get("text")?.as_str()?.into(),
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Plan, Step, from};
    use crate::arguments::{Call, parse};
    use crate::workspace::Found;

    fn call() -> Call {
        parse("claude", vec!["-p".into(), "ü".repeat(200)]).unwrap()
    }

    fn found(skills: &[&str], mcp_servers: &[&str]) -> Found {
        let names = |list: &[&str]| list.iter().map(|&name| name.into()).collect();
        Found {
            skills: names(skills),
            mcp_servers: names(mcp_servers),
            has_input: false,
            cwd: "/workspace".into(),
        }
    }

    #[test]
    fn the_answer_names_what_was_found() {
        let call = parse("claude", vec!["fix".into()]).unwrap();
        let text = |skills, servers| {
            let plan = from(&call, &found(skills, servers), false, &|_| None);
            plan.unwrap().text
        };
        assert_eq!(text(&[], &[]), "[mock] fix");
        assert_eq!(
            text(&["a", "b"], &["m"]),
            "[mock] fix\n[mock] skills: a, b\n[mock] MCP servers: m"
        );
    }

    #[test]
    fn the_prompt_is_cut_between_characters() {
        let plan = from(&call(), &found(&[], &[]), false, &|_| None).unwrap();
        assert_eq!(plan.text, format!("[mock] {}", "ü".repeat(120)));
        assert_eq!((plan.input_tokens, plan.output_tokens), (500, 200));
        assert_eq!((plan.cost_usd, plan.delay), (0.003, Duration::ZERO));
        assert_eq!((plan.model, plan.custom), (None, None));
        assert!(plan.steps.is_empty());
    }

    /// Variables, and the difference that they make to the default plan.
    type Row = (&'static [(&'static str, &'static str)], fn(&mut Plan));

    fn runs(programs: &[&str]) -> Vec<Step> {
        let run = |name: &&str| Step::Run(format!("echo {name}"));
        programs.iter().map(run).collect()
    }

    #[test]
    fn each_variable_and_each_scenario_changes_what_is_played() {
        const MULTI: (&str, &str) = ("MOCK_CLAUDE_SCENARIO", "multi_tool");
        const HEAVY: (&str, &str) = ("MOCK_CLAUDE_SCENARIO", "heavy");
        const ERROR: (&str, &str) = ("MOCK_CLAUDE_SCENARIO", "error");
        const CUSTOM: (&str, &str) = ("MOCK_CLAUDE_SCENARIO", "custom");
        let rows: &[Row] = &[
            (&[("MOCK_CLAUDE_SCENARIO", "simple")], |_| ()),
            (&[("MOCK_CLAUDE_TURNS", "3")], |plan| {
                plan.steps = vec![Step::Say("turn 1".into()), Step::Say("turn 2".into())];
            }),
            (&[MULTI], |plan| plan.steps = runs(&["Bash", "Read"])),
            (&[MULTI, ("MOCK_CLAUDE_TOOLS", "Grep,,mcp__a b")], |plan| {
                plan.steps = runs(&["Grep", "mcp__a_b"]);
            }),
            (&[MULTI, ("MOCK_CLAUDE_TURNS", "2")], |plan| {
                plan.steps = runs(&["Bash", "Read", "Bash", "Read"]);
            }),
            (&[HEAVY], |plan| {
                plan.steps = runs(&["Bash", "Read"].repeat(50))
            }),
            (
                &[
                    HEAVY,
                    ("MOCK_CLAUDE_TURNS", "2"),
                    ("MOCK_CLAUDE_TOOLS", "Edit"),
                ],
                |plan| plan.steps = runs(&["Edit", "Edit"]),
            ),
            (&[HEAVY, ("MOCK_CLAUDE_TURNS", "9000")], |plan| {
                plan.steps = runs(&["Bash", "Read"].repeat(5_000));
            }),
            (&[ERROR], |plan| {
                plan.steps = vec![Step::Fail("mock error".into())]
            }),
            (&[ERROR, ("MOCK_CLAUDE_ERROR", "rate limit")], |plan| {
                plan.steps = vec![Step::Fail("rate limit".into())];
            }),
            (
                &[CUSTOM, ("MOCK_CLAUDE_CUSTOM_JSONL", "{\"a\":1}\n")],
                |plan| {
                    plan.custom = Some("{\"a\":1}\n".into());
                },
            ),
            (&[("MOCK_CLAUDE_COST", "0.25")], |plan| plan.cost_usd = 0.25),
            (&[("MOCK_CLAUDE_DELAY_MS", "40")], |plan| {
                plan.delay = Duration::from_millis(40);
            }),
            (&[("MOCK_CLAUDE_MODEL", "m-1")], |plan| {
                plan.model = Some("m-1".into())
            }),
            (&[("MOCK_CLAUDE_INPUT_TOKENS", "7")], |plan| {
                plan.input_tokens = 7
            }),
            (&[("MOCK_CLAUDE_OUTPUT_TOKENS", "8")], |plan| {
                plan.output_tokens = 8
            }),
            // A script takes precedence over a scenario.
            (
                &[
                    ERROR,
                    ("MOCK_CLAUDE_COST", "1"),
                    ("MOCK_AGENT_SCRIPT", "[{\"say\":\"a\"}]"),
                ],
                |plan| {
                    plan.cost_usd = 1.0;
                    plan.steps = vec![Step::Say("a".into())];
                },
            ),
        ];
        for (set, change) in rows {
            let variable = |wanted: &str| {
                let found = set.iter().find(|(name, _)| *name == wanted);
                found.map(|(_, value)| (*value).to_string())
            };
            let mut expected = from(&call(), &found(&[], &[]), false, &|_| None).unwrap();
            change(&mut expected);
            assert_eq!(
                from(&call(), &found(&[], &[]), false, &variable).unwrap(),
                expected,
                "{set:?}"
            );
        }
    }

    #[test]
    fn a_line_is_printed_once_or_so_many_times() {
        let script = r#"[{"print":{"text":"a"}},{"print":{"text":"b","times":3}}]"#;
        let variable = |name: &str| (name == "MOCK_AGENT_SCRIPT").then(|| script.to_string());
        let plan = from(&call(), &found(&[], &[]), false, &variable).unwrap();
        let print = |text: &str, times| Step::Print {
            text: text.into(),
            times,
        };
        assert_eq!(plan.steps, [print("a", 1), print("b", 3)]);
    }

    #[test]
    fn a_script_goes_on_by_other_steps() {
        let script = r#"{"steps":[{"write":{"path":"/tmp/a","text":"b"}},{"cut":true}],"resumed":[{"result":{"ok":true}}]}"#;
        let variable = |name: &str| (name == "MOCK_AGENT_SCRIPT").then(|| script.to_string());
        let first = from(&call(), &found(&[], &[]), false, &variable).unwrap();
        assert_eq!(first.steps.len(), 2);
        let mut resumed = call();
        resumed.resume = Some("s".into());
        let plan = from(&resumed, &found(&[], &[]), false, &variable).unwrap();
        assert_eq!(plan.steps, [Step::Result(r#"{"ok":true}"#.into())]);
        assert_eq!(
            from(&resumed, &found(&[], &[]), true, &variable)
                .unwrap()
                .steps,
            first.steps
        );
    }

    #[test]
    fn what_is_no_step_and_no_scenario_is_refused() {
        for (name, value) in [
            ("MOCK_AGENT_SCRIPT", "{"),
            ("MOCK_AGENT_SCRIPT", "[{\"jump\":1}]"),
            (
                "MOCK_AGENT_SCRIPT",
                "[{\"print\":{\"text\":\"a\",\"times\":-1}}]",
            ),
            ("MOCK_CLAUDE_SCENARIO", "none"),
            // The custom scenario without its lines.
            ("MOCK_CLAUDE_SCENARIO", "custom"),
            ("MOCK_CLAUDE_TURNS", "-1"),
            ("MOCK_CLAUDE_DELAY_MS", "soon"),
            ("MOCK_CLAUDE_COST", "much"),
        ] {
            let variable = |wanted: &str| (wanted == name).then(|| value.to_string());
            assert!(
                from(&call(), &found(&[], &[]), false, &variable).is_err(),
                "{name}={value}"
            );
        }
    }
}
