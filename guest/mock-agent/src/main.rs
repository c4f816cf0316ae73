//! Acts as the command line of a coding agent, without a model: the same call produces the same stream. Its name
//! selects whether it writes like `claude` (stream-json) or `codex` (JSONL), and accepts the options of the real
//! program.

mod arguments;
mod dialect;
mod instance;
mod script;
mod session;
mod workspace;

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use arguments::Call;
use dialect::{Player, Tally};
use script::{Plan, Step};
use session::Session;
use workspace::Found;

/// The exit code of a killed process: a `cut` ends the stream as if this process was killed.
const CUT_EXIT_CODE: u8 = 137;

fn main() -> ExitCode {
    let mut arguments = std::env::args();
    let name = arguments.next().unwrap_or_default();
    let call = match arguments::parse(&name, arguments.collect()) {
        Ok(call) => call,
        Err(problem) => {
            eprintln!("error: {problem}");
            return ExitCode::from(2);
        }
    };
    let home = std::env::var("HOME").unwrap_or("/".into());
    let home = Path::new(&home);
    let cwd = std::env::current_dir().unwrap_or("/".into());
    let found = workspace::look(&call, &cwd, home);
    let id = call.resume.as_deref().unwrap_or(dialect::SESSION);
    let session = match Session::open(&call, id, home, &cwd) {
        Ok(session) => session,
        Err(problem) => {
            eprintln!("error: {problem}");
            return ExitCode::FAILURE;
        }
    };
    let plan = match script::plan(&call, &found, session.done.is_some()) {
        Ok(plan) => plan,
        Err(problem) => {
            eprintln!("error: {problem}");
            return ExitCode::from(2);
        }
    };
    // A reader that has ended stops the mock agent, like any program.
    play(&call, &found, &plan, session).unwrap_or(ExitCode::FAILURE)
}

fn play(call: &Call, found: &Found, plan: &Plan, mut session: Session) -> io::Result<ExitCode> {
    let mut player = Player::new(call, plan, found, io::stdout().lock());
    let mut tally = Tally::of_session(session.calls);
    player.begin()?;
    if let Some(jsonl) = &plan.custom {
        player.raw(jsonl)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = plan.text.clone();
    let mut held = Vec::new();
    for step in plan.steps.iter().skip(session.done.unwrap_or(0)) {
        player.pause();
        match step {
            Step::Say(words) => {
                session.step()?;
                player.say(words, &mut tally)?;
                session.line(&player.call_in_session(tally.calls()))?;
            }
            Step::Write { path, content } => {
                let outcome = workspace::write(path, content);
                session.step()?;
                session.line(&player.result_in_session(&tally))?;
                player.tool_write(path, &outcome, &mut tally)?;
                session.line(&player.call_in_session(tally.calls()))?;
            }
            Step::Run(command) => {
                let (output, exit_code) = workspace::run(command);
                session.step()?;
                session.line(&player.result_in_session(&tally))?;
                player.tool_run(command, &output, exit_code, &mut tally)?;
                session.line(&player.call_in_session(tally.calls()))?;
            }
            Step::Sleep(time) => {
                std::thread::sleep(*time);
                session.step()?;
            }
            Step::HoldMib(size_mib) => {
                // The memory is written in pieces, so that the guest's kernel provides each page.
                for _ in 0..*size_mib {
                    held.push(vec![1_u8; 1 << 20]);
                }
                session.step()?;
            }
            Step::Print { text, times } => {
                session.step()?;
                player.print(text, *times)?;
            }
            Step::Cut => {
                player.cut()?;
                return Ok(ExitCode::from(CUT_EXIT_CODE));
            }
            Step::Fail(message) => {
                player.fail(message, &tally)?;
                return Ok(ExitCode::FAILURE);
            }
            Step::Result(words) => {
                session.step()?;
                text.clone_from(words);
            }
        }
        if let Some(limit) = call.max_turns
            && tally.turns > limit
        {
            player.out_of_turns(&tally)?;
            return Ok(ExitCode::FAILURE);
        }
    }
    session.line(&player.call_in_session(tally.calls() + 1))?;
    session.end()?;
    player.finish(&text, &mut tally)?;
    io::stdout().flush()?;
    Ok(ExitCode::SUCCESS)
}
