//! A keeper whose guest misbehaves: each misbehaviour is an error within its time limit, and the keeper ends. The guest
//! is a shell script on the guest port; there is no jail and no VM.

mod checkpoints;
mod life;
mod protocol;
mod silence;
mod support;
mod tunnels;
mod waiting;
