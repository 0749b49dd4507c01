//! The tests of the blobs, as one program: nodes of one process that talk over real sockets.

mod delivery;
mod faults;
mod local;
mod strangers;
mod support;
