//! The tests of the transport, as one program: what every endpoint kind must do, what strangers
//! cannot do, and what happens between processes.

mod authenticated;
mod conformance;
mod processes;
mod proxy;
mod reconnect;
mod strangers;
mod support;
