//! The module that Node loads (docs/adr/0168-the-binding-for-node.md). Each call works on a thread of the binding and
//! answers with a line of JSON, as the commands of `voidbox-vm` do.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use napi::Env;
use napi::bindgen_prelude::Object;
use napi_derive::napi;
use serde_json::{Value, json};
use voidbox_run_dir::RunDir;

mod program;
mod threads;

use program::{Outcome, Task};
use threads::THREADS;

/// Answers like `voidbox-vm status --dir DIR`.
#[napi]
pub fn status(env: &Env, dir: String) -> napi::Result<Object<'_>> {
    answer(env, move || {
        let report = RunDir::at(dir).report();
        report.map_or_else(
            |error| failure("reading the run directory", &error),
            |report| json!(report),
        )
    })
}

/// Answers like `voidbox-vm seal --dir DIR --key KEY`.
#[napi]
pub fn seal(env: &Env, dir: String, key: String) -> napi::Result<Object<'_>> {
    answer(env, move || match RunDir::at(dir).seal(&key, now_ms()) {
        Ok(state) => json!({ "state": state }),
        Err(error) => failure(&error.what, &error.source),
    })
}

/// Returns an id for `runProgram` and `stopProgram`.
#[napi]
pub fn next_id() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Runs a program to its end.
#[napi]
#[allow(clippy::too_many_arguments)]
pub fn run_program(
    env: &Env,
    id: u32,
    program: String,
    args: Vec<String>,
    variables: Vec<String>,
    input: String,
    limit_ms: u32,
    most_bytes: u32,
) -> napi::Result<Object<'_>> {
    let task = Task {
        id,
        program,
        args,
        env: variables,
        input: input.into_bytes(),
        limit: Duration::from_millis(limit_ms.into()),
        most_bytes: most_bytes as usize,
    };
    program::announce(id);
    answer(env, move || describe(program::run(&task)))
}

/// Kills a program that `runProgram` runs.
#[napi]
pub fn stop_program(id: u32) {
    program::stop(id);
}

fn describe(outcome: io::Result<Outcome>) -> Value {
    match outcome {
        Ok(Outcome::Ended {
            status,
            stdout,
            stderr,
        }) => json!({
            "exitCode": status.code(),
            "signal": status.signal(),
            "stdout": String::from_utf8_lossy(&stdout),
            "stderr": String::from_utf8_lossy(&stderr),
        }),
        Ok(Outcome::TimeOver) => json!({ "over": "time" }),
        Ok(Outcome::TooLong) => json!({ "over": "bytes" }),
        Ok(Outcome::Stopped) => json!({ "over": "stopped" }),
        Err(error) => match error.raw_os_error() {
            Some(errno) => json!({ "errno": errno }),
            None => failure("starting a program", &error),
        },
    }
}

fn failure(what: &str, error: &io::Error) -> Value {
    json!({ "error": { "code": "host/io", "message": format!("{what}: {error}") } })
}

fn now_ms() -> u64 {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

type Resolver = Box<dyn FnOnce(Env) -> napi::Result<String> + Send>;

/// Returns a promise of the line of JSON that `work` gives.
fn answer(env: &Env, work: impl FnOnce() -> Value + Send + 'static) -> napi::Result<Object<'_>> {
    let (deferred, promise) = env.create_deferred::<String, Resolver>()?;
    THREADS.run(
        move || work().to_string(),
        move |line| {
            let line = line.unwrap_or_else(|reason| {
                let message = format!("a call of the binding failed: {reason}");
                json!({ "error": { "code": "host/io", "message": message } }).to_string()
            });
            deferred.resolve(Box::new(move |_| Ok(line)));
        },
    );
    Ok(promise)
}
