//! The tests of the transport, as one program: what every endpoint kind must do, what strangers
//! cannot do, and what happens between processes.

#[macro_use]
mod support;

mod authenticated;
mod conformance;
mod controls;
mod paused;
mod processes;
mod reconnect;
mod strangers;
mod woken;
