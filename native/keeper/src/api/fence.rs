//! The fence of the client that drives the VM: the highest granted one, until another client attaches.

use super::request::Head;
use crate::error::{Code, Failure};
use crate::keeper::Keeper;

/// Accepts a request with the granted fence, and renews the lease.
pub fn check(keeper: &Keeper, head: &Head) -> Result<u64, Failure> {
    let Some(fence) = head.fence else {
        return Err(Failure::bad_request(format!(
            "{} needs a fence: attach first",
            head.name
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

/// Returns once a fence above `fence` is granted.
pub async fn raised(keeper: &Keeper, fence: u64) {
    let mut granted = keeper.fence.subscribe();
    // The sender lives as long as the keeper.
    let _ = granted.wait_for(|granted| *granted > fence).await;
}

fn stale(fence: u64, granted: u64) -> Failure {
    Failure::new(
        Code::FenceStale,
        format!("fence {fence} is below the granted {granted}: another client has attached"),
    )
}
