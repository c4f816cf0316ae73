//! Counts open connections of the API, and work that the keeper must finish before it ends.

use std::rc::Rc;

use crate::keeper::Keeper;

/// Counts a connection while it is open.
pub struct Open(Rc<Keeper>);

impl Open {
    pub fn new(keeper: &Rc<Keeper>) -> Self {
        keeper.connections.set(keeper.connections.get() + 1);
        Self(keeper.clone())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.connections.set(self.0.connections.get() - 1);
    }
}

/// Counts a request or a stream while it runs, so that the keeper waits for it before it ends.
pub struct Busy(Rc<Keeper>);

impl Busy {
    pub fn new(keeper: &Rc<Keeper>) -> Self {
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
