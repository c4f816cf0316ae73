//! The ops that are answered with one line.

use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use voidbox_protocol::body::{Empty, PathRequest};
use voidbox_protocol::message::Message;

use super::request::Request;
use crate::error::{Code, Failure};
use crate::exec::{self, Exec, StartExec};
use crate::guest::transfer::Transfer;
use crate::keeper::{Keeper, Phase};
use crate::run_dir::EXECS;
use crate::transfer::tree;
use crate::vmm;

/// What this keeper can beyond the API's first version; a client asks before it uses one of them.
const FEATURES: &[&str] = &["keepalive"];

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExecKey {
    exec_key: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Tree {
    host_path: PathBuf,
    guest_path: String,
}

/// The answer to a request.
pub async fn run(keeper: &Rc<Keeper>, request: &Request) -> Result<Value, Failure> {
    match request.op.as_str() {
        "status" => Ok(status(keeper)),
        "attach" => attach(keeper).await,
        "ready" => ready(keeper, request).await,
        "exec.wait" => {
            let outcome = find_exec(keeper, request)?.wait().await?;
            Ok(serde_json::to_value(outcome).expect("plain data serialises"))
        }
        "stats" => stats(keeper).await,
        "keepalive" => {
            keeper.lease.renew();
            Ok(json!({ "leaseLeftMs": keeper.lease.left_ms() }))
        }
        "renew" | "exec.start" | "exec.signal" | "exec.ack" | "tar.cut" | "tree.in"
        | "tree.out" | "stop" => fenced(keeper, request).await,
        other => Err(Failure::bad_request(format!("op {other:?} is unknown"))),
    }
}

async fn fenced(keeper: &Rc<Keeper>, request: &Request) -> Result<Value, Failure> {
    let fence = check_fence(keeper, request)?;
    match request.op.as_str() {
        "renew" => Ok(json!({ "leaseLeftMs": keeper.lease.left_ms() })),
        "exec.start" => start_exec(keeper, request).await,
        "exec.signal" => signal_exec(keeper, request).await,
        "exec.ack" => {
            find_exec(keeper, request)?.acknowledge()?;
            Ok(json!({}))
        }
        "tar.cut" => {
            let PathRequest { path } = request.fields()?;
            Ok(match keeper.why_cut(&path) {
                Some(failure) => {
                    json!({ "code": failure.code.as_str(), "message": failure.message })
                }
                None => json!({}),
            })
        }
        "tree.in" | "tree.out" => {
            let link = keeper.guest().await?;
            let Tree {
                host_path,
                guest_path,
            } = request.fields()?;
            let copied = async {
                if request.op == "tree.in" {
                    let read = tree::copy_in(&link, host_path, guest_path).await?;
                    return Ok(
                        json!({ "entries": read.entries, "bytes": read.bytes, "skipped": read.skipped }),
                    );
                }
                let written =
                    tree::copy_out(&link, guest_path, host_path, keeper.config.guest_bytes())
                        .await?;
                Ok(json!({ "entries": written.entries, "bytes": written.bytes }))
            };
            tokio::select! {
                copied = copied => copied,
                () = fence_raised(keeper, fence) => Err(stale(fence, *keeper.fence.borrow())),
            }
        }
        _ => stop(keeper).await,
    }
}

fn stale(fence: u64, granted: u64) -> Failure {
    Failure::new(
        Code::FenceStale,
        format!("fence {fence} is below the granted {granted}: another client has attached"),
    )
}

/// Lets a request with the granted fence through and renews the lease.
pub fn check_fence(keeper: &Keeper, request: &Request) -> Result<u64, Failure> {
    let Some(fence) = request.fence() else {
        return Err(Failure::bad_request(format!(
            "{} needs a fence: attach first",
            request.op
        )));
    };
    let granted = *keeper.fence.borrow();
    if fence < granted {
        return Err(stale(fence, granted));
    }
    if fence > granted {
        return Err(Failure::bad_request(format!(
            "fence {fence} was never granted, the last one is {granted}"
        )));
    }
    keeper.lease.renew();
    Ok(fence)
}

/// Returns when a fence above `fence` is granted.
pub async fn fence_raised(keeper: &Keeper, fence: u64) {
    let mut granted = keeper.fence.subscribe();
    // The sender lives as long as the keeper.
    let _ = granted.wait_for(|granted| *granted > fence).await;
}

fn status(keeper: &Keeper) -> Value {
    let execs: Vec<Value> = keeper
        .execs
        .borrow()
        .iter()
        .map(|(key, exec)| json!({ "execKey": key, "state": exec.phase() }))
        .collect();
    let config = &keeper.config;
    json!({
        "state": keeper.phase.borrow().name(),
        "vmKey": config.vm_key,
        "fence": *keeper.fence.borrow(),
        "bootMs": keeper.boot_ms.get(),
        "startedAtMs": keeper.started_at_ms,
        "boots": keeper.boots.get(),
        "accelerator": config.accelerator,
        "kernel": config.kernel.kind,
        "jail": vmm::jail_description(config, &keeper.dir),
        "memoryMib": config.memory_mib,
        "leaseLeftMs": keeper.lease.left_ms(),
        "vmmPid": keeper.vmm_pid.get(),
        "diskFull": keeper.disk.report(),
        "execs": execs,
        "features": FEATURES,
    })
}

async fn attach(keeper: &Rc<Keeper>) -> Result<Value, Failure> {
    let _one = keeper.attaching.lock().await;
    let fence = *keeper.fence.borrow() + 1;
    let dir = keeper.dir.clone();
    let written = tokio::task::spawn_blocking(move || dir.write_fence(fence)).await;
    written
        .map_err(std::io::Error::other)
        .and_then(|written| written)
        .map_err(|error| Failure::io("writing the fence", &error))?;
    keeper.fence.send_replace(fence);
    for exec in keeper.execs.borrow().values() {
        exec.cut_stdin();
    }
    keeper.lease.renew();
    Ok(json!({ "fence": fence }))
}

async fn ready(keeper: &Rc<Keeper>, request: &Request) -> Result<Value, Failure> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Ready {
        timeout_ms: u64,
    }
    let Ready { timeout_ms } = request.fields()?;
    let limit = Duration::from_millis(timeout_ms);
    match keeper.disk.within(limit, keeper.guest()).await {
        Ok(guest) => guest.map(|_| status(keeper)),
        Err(_) => Err(Failure::new(
            Code::BootTimeout,
            format!("the guest did not answer within {timeout_ms} ms"),
        )),
    }
}

pub fn find_exec(keeper: &Keeper, request: &Request) -> Result<Rc<Exec>, Failure> {
    let ExecKey { exec_key } = request.fields()?;
    let found = keeper.execs.borrow().get(&exec_key).cloned();
    found.ok_or_else(|| {
        Failure::new(
            Code::ExecUnknown,
            format!("exec {exec_key:?} was never started here"),
        )
    })
}

async fn start_exec(keeper: &Rc<Keeper>, request: &Request) -> Result<Value, Failure> {
    let start: StartExec = request.fields()?;
    let link = keeper.guest().await?;
    // From here to the insert nothing waits, so that a key is started once.
    check_fence(keeper, request)?;
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
    Ok(json!({ "known": false }))
}

async fn signal_exec(keeper: &Rc<Keeper>, request: &Request) -> Result<Value, Failure> {
    #[derive(Deserialize)]
    struct Signal {
        signal: String,
    }
    let Signal { signal } = request.fields()?;
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
    let exec = find_exec(keeper, request)?;
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
    figures["vmmRssBytes"] = json!(keeper.vmm_pid.get().map(vmm::resident_bytes));
    Ok(figures)
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
