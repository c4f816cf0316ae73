//! The local API: lines of JSON over a Unix socket, and connections that become byte streams.

mod calls;
mod checkpoint;
mod checkpoint_full;
mod connection;
mod count;
mod fence;
mod request;
mod streams;
mod take;

use std::rc::Rc;

use tokio::net::UnixListener;

use crate::keeper::Keeper;
use count::Open;

/// The limit of open connections; the keeper closes further ones at once.
const MAX_CONNECTIONS: usize = 64;

/// Accepts connections until it is aborted.
pub async fn serve(keeper: Rc<Keeper>, listener: Rc<UnixListener>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) if keeper.connections.get() < MAX_CONNECTIONS => {
                let open = Open::new(&keeper);
                tokio::task::spawn_local(connection::run(keeper.clone(), stream, open));
            }
            Ok(_) => {}
            Err(error) => {
                // The keeper has no free descriptors. Open connections continue, and closing them frees descriptors.
                eprintln!("accepting a connection: {error}");
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            }
        }
    }
}
