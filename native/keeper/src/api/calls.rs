//! The ops whose answer is one line.

use std::rc::Rc;
use std::time::Duration;

use serde_json::{Value, json};
use voidbox_protocol::body::{Empty, PathRequest};
use voidbox_protocol::message::Message;

use super::request::{
    Call, End, ExecKey, FencedCall, Head, OpenCall, Ready, Retain, Signal, StdinEnd,
};
use super::{fence, take};
use crate::error::{Code, Failure};
use crate::exec::{self, Exec, StartExec, now_ms};
use crate::guest::transfer::Transfer;
use crate::keeper::{Keeper, Phase};
use crate::lease::LONGEST_RETENTION;
use crate::run_dir::{EXECS, RETAINED};
use crate::vmm::{self, Usage};

/// The ops that came after the first release. Keepers of earlier builds lack them, so a client reads this list before
/// it sends one. A name in a released list is never removed.
const FEATURES: &[&str] = &["checkpoint", "checkpoint.full", "take"];

/// The longest cause of an `exec.end`, as JSON.
const CAUSE_BYTES: usize = 4096;

/// Runs a call, and returns its answer.
pub async fn run(keeper: &Rc<Keeper>, head: &Head, call: Call) -> Result<Value, Failure> {
    match call {
        Call::Open(call) => open(keeper, head, call).await,
        Call::Fenced(call) => fenced(keeper, head, call).await,
    }
}

async fn open(keeper: &Rc<Keeper>, head: &Head, call: OpenCall) -> Result<Value, Failure> {
    match call {
        OpenCall::Status => Ok(status(keeper)),
        OpenCall::Attach => attach(keeper).await,
        OpenCall::Ready(args) => ready(keeper, head.read(args)?).await,
        OpenCall::Keepalive => {
            keeper.lease.renew();
            Ok(json!({ "leaseLeftMs": keeper.lease.left_ms() }))
        }
        OpenCall::ExecWait(args) => {
            let ExecKey { exec_key } = head.read(args)?;
            let outcome = keeper.exec(&exec_key)?.wait().await?;
            Ok(serde_json::to_value(outcome).expect("plain data serialises"))
        }
        OpenCall::Stats => stats(keeper).await,
        OpenCall::Usage => usage(keeper).await,
    }
}

async fn fenced(keeper: &Rc<Keeper>, head: &Head, call: FencedCall) -> Result<Value, Failure> {
    fence::check(keeper, head)?;
    match call {
        FencedCall::Renew => Ok(json!({ "leaseLeftMs": keeper.lease.left_ms() })),
        FencedCall::ExecStart(args) => start_exec(keeper, head, head.read(args)?).await,
        FencedCall::ExecEnd(args) => end_exec(keeper, head.read(args)?).await,
        FencedCall::ExecSignal(args) => signal_exec(keeper, head.read(args)?).await,
        FencedCall::ExecAck(args) => {
            let ExecKey { exec_key } = head.read(args)?;
            keeper.exec(&exec_key)?.acknowledge()?;
            Ok(json!({}))
        }
        FencedCall::ExecStdinEnd(args) => end_stdin(keeper, head.read(args)?).await,
        FencedCall::TarCut(args) => {
            let PathRequest { path } = head.read(args)?;
            Ok(match keeper.why_cut(&path) {
                Some(failure) => {
                    json!({ "code": failure.code.as_str(), "message": failure.message })
                }
                None => json!({}),
            })
        }
        FencedCall::Retain(args) => retain(keeper, head.read(args)?).await,
        FencedCall::Take(args) => take::take(keeper, head.read(args)?).await,
        FencedCall::Stop => stop(keeper).await,
    }
}

fn status(keeper: &Keeper) -> Value {
    let execs: Vec<Value> = keeper
        .execs
        .borrow()
        .iter()
        .map(|(key, exec)| json!({ "execKey": key, "state": exec.phase() }))
        .collect();
    let config = &keeper.config;
    let vmm = vmm::of(config);
    json!({
        "state": keeper.phase.borrow().name(),
        "vmKey": config.vm_key,
        "fence": *keeper.fence.borrow(),
        "bootMs": keeper.boot_ms.get(),
        "startedAtMs": keeper.started_at_ms,
        "boots": keeper.boots.get(),
        "start": keeper.start.borrow().describe(),
        "vmm": vmm.name(),
        "accelerator": vmm.accelerator(),
        "kernel": config.kernel.kind,
        "jail": keeper.jail,
        "limits": keeper.group.describe(),
        "memoryMib": config.memory_mib,
        "leaseLeftMs": keeper.lease.left_ms(),
        "retained": keeper.lease.is_retained(),
        "vmmPid": keeper.running_vm().map(|vm| vm.pid()),
        "diskFull": keeper.disk.report(),
        "execs": execs,
        "refusedConnections": keeper.door.as_ref().map(|door| door.refused()),
        "features": FEATURES,
    })
}

async fn attach(keeper: &Rc<Keeper>) -> Result<Value, Failure> {
    let _one = keeper.attaching.lock().await;
    let fence = *keeper.fence.borrow() + 1;
    let dir = keeper.folder();
    let written = tokio::task::spawn_blocking(move || dir.write_fence(fence)).await;
    written
        .map_err(std::io::Error::other)
        .and_then(|written| written)
        .map_err(|error| Failure::run_dir("writing the fence", &error))?;
    keeper.fence.send_replace(fence);
    for exec in keeper.execs.borrow().values() {
        exec.cut_stdin();
    }
    keeper.lease.renew();
    Ok(json!({ "fence": fence }))
}

async fn ready(keeper: &Rc<Keeper>, Ready { timeout_ms }: Ready) -> Result<Value, Failure> {
    let limit = Duration::from_millis(timeout_ms);
    match keeper.disk.within(limit, keeper.guest()).await {
        Ok(guest) => guest.map(|_| status(keeper)),
        Err(_) => Err(Failure::new(
            Code::BootTimeout,
            format!("the guest did not answer within {timeout_ms} ms"),
        )),
    }
}

async fn start_exec(keeper: &Rc<Keeper>, head: &Head, start: StartExec) -> Result<Value, Failure> {
    let link = loop {
        let link = keeper.guest().await?;
        // With a wrong time, a command would reject certificates as not valid yet.
        keeper.clock.be_right(&link).await;
        // A full save may have begun since. Its VM then has another link.
        if matches!(&*keeper.phase.borrow(), Phase::Ready(now) if Rc::ptr_eq(now, &link)) {
            break link;
        }
    };
    // No await follows until the insert, so that a key is started only once.
    fence::check(keeper, head)?;
    if keeper.execs.borrow().contains_key(&start.exec_key) {
        return Ok(json!({ "known": true }));
    }
    let key = start.exec_key.clone();
    let folder = exec::folder(&keeper.dir.file(EXECS), &key);
    let exec = Exec::start(
        start,
        folder,
        keeper.budget.clone(),
        keeper.disk.clone(),
        &link,
    )?;
    keeper.execs.borrow_mut().insert(key, exec);
    keeper.exec_starts.send_modify(|count| *count += 1);
    Ok(json!({ "known": false }))
}

async fn end_stdin(
    keeper: &Rc<Keeper>,
    StdinEnd {
        exec_key,
        size_bytes,
    }: StdinEnd,
) -> Result<Value, Failure> {
    let exec = keeper.exec(&exec_key)?;
    let link = keeper.guest().await?;
    exec.end_stdin(&link, size_bytes).await?;
    Ok(json!({}))
}

async fn end_exec(
    keeper: &Rc<Keeper>,
    End {
        exec_key,
        grace_ms,
        cause,
    }: End,
) -> Result<Value, Failure> {
    let size_bytes = serde_json::to_string(&cause).map_or(0, |text| text.len());
    if size_bytes > CAUSE_BYTES {
        return Err(Failure::bad_request(format!(
            "cause has {size_bytes} bytes of JSON, at most {CAUSE_BYTES} are allowed"
        )));
    }
    let exec = keeper.exec(&exec_key)?;
    let link = keeper.guest().await?;
    exec.end(&link, cause, Duration::from_millis(grace_ms));
    Ok(json!({}))
}

async fn signal_exec(
    keeper: &Rc<Keeper>,
    Signal { exec_key, signal }: Signal,
) -> Result<Value, Failure> {
    let number = match signal.as_str() {
        "SIGHUP" => libc::SIGHUP,
        "SIGINT" => libc::SIGINT,
        "SIGQUIT" => libc::SIGQUIT,
        "SIGKILL" => libc::SIGKILL,
        "SIGUSR1" => libc::SIGUSR1,
        "SIGUSR2" => libc::SIGUSR2,
        "SIGTERM" => libc::SIGTERM,
        "SIGSTOP" => libc::SIGSTOP,
        "SIGCONT" => libc::SIGCONT,
        other => {
            return Err(Failure::bad_request(format!(
                "signal {other:?} is unknown, expected SIGTERM, SIGKILL, …"
            )));
        }
    };
    let exec = keeper.exec(&exec_key)?;
    let link = keeper.guest().await?;
    exec.signal(&link, number);
    Ok(json!({}))
}

async fn stats(keeper: &Rc<Keeper>) -> Result<Value, Failure> {
    let link = keeper.guest().await?;
    let Message::StatsResponse(guest) = Transfer::open(&link, &Message::Stats(Empty {}))?
        .response()
        .await?
    else {
        return Err(Failure::new(
            Code::GuestError,
            "the guest answered with something else",
        ));
    };
    let mut figures = serde_json::to_value(guest).expect("plain data serialises");
    figures["vmmRssBytes"] = json!(keeper.running_vm().map(|vm| vm.resident_bytes()));
    Ok(figures)
}

async fn usage(keeper: &Rc<Keeper>) -> Result<Value, Failure> {
    // Before this point, a boot may be given up together with its figures.
    keeper.guest().await?;
    let usage = keeper
        .running_vm()
        .map_or_else(Usage::default, |vm| vm.usage());
    Ok(serde_json::to_value(usage).expect("plain data serialises"))
}

/// Retains the VM. The record for clients is written first, so that every retained VM has one.
async fn retain(keeper: &Rc<Keeper>, Retain { for_ms, note }: Retain) -> Result<Value, Failure> {
    let _one = keeper.attaching.lock().await;
    if !keeper.lease.is_retained() {
        let length = Duration::from_millis(for_ms).min(LONGEST_RETENTION);
        let length_ms = u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
        let file = json!({ "v": 1, "untilMs": now_ms() + length_ms, "note": note });
        let (dir, text) = (keeper.dir.clone(), file.to_string());
        tokio::task::spawn_blocking(move || dir.write_durable(RETAINED, text.as_bytes()))
            .await
            .map_err(std::io::Error::other)
            .and_then(|written| written)
            .map_err(|error| Failure::run_dir(&format!("writing {RETAINED}"), &error))?;
        keeper.lease.retain(length);
    }
    Ok(json!({ "leftMs": keeper.lease.left_ms() }))
}

async fn stop(keeper: &Rc<Keeper>) -> Result<Value, Failure> {
    let mut phase = keeper.phase.subscribe();
    keeper.stop_asked.notify_one();
    // The sender lives as long as the keeper.
    let _ = phase
        .wait_for(|phase| matches!(phase, Phase::Ended(_)))
        .await;
    Ok(json!({}))
}

#[cfg(test)]
mod tests {
    use super::FEATURES;
    use crate::api::request::Request;

    /// Returns the names that are not ops of this keeper.
    fn unknown_ops<'a>(names: &[&'a str]) -> Vec<&'a str> {
        let is_op = |name: &str| {
            let line = serde_json::json!({ "v": 1, "id": 1, "op": name });
            Request::parse(line.to_string().as_bytes()).is_ok()
        };
        names.iter().copied().filter(|name| !is_op(name)).collect()
    }

    #[test]
    fn a_feature_is_an_op_of_this_keeper() {
        assert_eq!(unknown_ops(FEATURES), Vec::<&str>::new());
        assert_eq!(unknown_ops(&["tie", "made.up"]), ["made.up"]);
    }

    #[test]
    fn the_manual_names_the_features() {
        let manual = include_str!("../../../../docs/reference/keeper.md");
        let listed = format!("features:{}", serde_json::json!(FEATURES));
        assert!(
            manual.contains(&listed),
            "docs/reference/keeper.md has not {listed}"
        );
    }
}
