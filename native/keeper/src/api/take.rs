//! `take`: a VM that waits becomes the VM of a key.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::rc::Rc;

use serde_json::{Value, json};

use super::request::Take;
use crate::config::LaunchConfig;
use crate::error::Failure;
use crate::keeper::{Keeper, Phase};
use crate::run_dir::{INTENT, RunDir, STARTED};

/// Writes the new intent and then the marker, both durably, and gives the VM to the launch. Returns once the keeper
/// serves the VM under its key. Said again with the same key, it changes nothing.
pub async fn take(keeper: &Rc<Keeper>, take: Take) -> Result<Value, Failure> {
    // A client that leaves between the steps does not stop them: after the marker, the VM must leave its wait.
    let given = tokio::task::spawn_local(give(keeper.clone(), take)).await;
    let is_new =
        given.map_err(|error| Failure::io("taking the VM", &io::Error::other(error)))??;
    if !is_new {
        return Ok(json!({}));
    }
    let mut phase = keeper.phase.subscribe();
    // The sender lives as long as the keeper.
    let _ = phase
        .wait_for(|phase| matches!(phase, Phase::Ended(_)))
        .await;
    Ok(json!({}))
}

/// Returns false if the keeper serves this key already.
async fn give(keeper: Rc<Keeper>, Take { dir, config }: Take) -> Result<bool, Failure> {
    let config = LaunchConfig::parse(config.to_string().as_bytes())?;
    let one = keeper.attaching.lock().await;
    if !matches!(*keeper.phase.borrow(), Phase::Waiting) || keeper.taking.borrow().is_some() {
        if keeper.config.vm_key == config.vm_key {
            return Ok(false);
        }
        let key = &keeper.config.vm_key;
        return Err(Failure::bad_request(format!(
            "take: the VM of {key:?} does not wait"
        )));
    }
    if !config.could_be(&keeper.config) {
        return Err(Failure::bad_request(
            "take: the VM that waits has other parts",
        ));
    }
    let is_own = is_working_folder(&dir).map_err(|error| Failure::io(dir.display(), &error))?;
    if !is_own {
        let message = format!("take: {} is not the folder of this VM", dir.display());
        return Err(Failure::bad_request(message));
    }
    let dir = RunDir::at(dir);
    let intent = serde_json::to_vec(&config).expect("plain data serialises");
    let written = {
        let dir = dir.clone();
        tokio::task::spawn_blocking(move || {
            dir.write_durable(INTENT, &intent)?;
            dir.write_durable(STARTED, b"")
        })
    };
    written
        .await
        .map_err(io::Error::other)
        .and_then(|written| written)
        .map_err(|error| {
            // The folder may have the intent of the key by now, and no launch could take the VM again. Its folder is
            // free once the VM has ended.
            keeper.stop_asked.notify_one();
            Failure::run_dir("taking the VM", &error)
        })?;
    keeper.taking.replace(Some((dir, config)));
    keeper.taken.notify_one();
    drop(one);
    Ok(true)
}

/// The working folder of a keeper is its run directory, also after a rename.
fn is_working_folder(dir: &Path) -> io::Result<bool> {
    let [here, there] = [fs::metadata(".")?, fs::metadata(dir)?];
    Ok((here.dev(), here.ino()) == (there.dev(), there.ino()))
}
