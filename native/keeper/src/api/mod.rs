//! The local API: lines of JSON over a Unix socket, and connections that become byte streams.

mod calls;
mod connection;
mod fence;
mod request;
mod streams;

use std::rc::Rc;

use tokio::net::UnixListener;

use crate::keeper::Keeper;

/// Connections that may be open at once; more are closed at once.
const MAX_CONNECTIONS: usize = 64;

/// Accepts connections until it is aborted.
pub async fn serve(keeper: Rc<Keeper>, listener: UnixListener) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) if keeper.connections.get() < MAX_CONNECTIONS => {
                let open = Open::new(&keeper);
                tokio::task::spawn_local(connection::run(keeper.clone(), stream, open));
            }
            Ok(_) => {}
            Err(error) => {
                // Out of descriptors: what is open goes on, and closing it makes room.
                eprintln!("accepting a connection: {error}");
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            }
        }
    }
}

/// Counts a connection while it is open.
pub(crate) struct Open(Rc<Keeper>);

impl Open {
    fn new(keeper: &Rc<Keeper>) -> Self {
        keeper.connections.set(keeper.connections.get() + 1);
        Self(keeper.clone())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.connections.set(self.0.connections.get() - 1);
    }
}

/// Counts a request or a stream while it is at work, so that the keeper's end waits for it.
pub(crate) struct Busy(Rc<Keeper>);

impl Busy {
    fn new(keeper: &Rc<Keeper>) -> Self {
        keeper.busy.set(keeper.busy.get() + 1);
        Self(keeper.clone())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.busy.set(self.0.busy.get() - 1);
        self.0.idle.notify_one();
    }
}
