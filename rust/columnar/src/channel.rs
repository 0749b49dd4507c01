//! Batches on their way between tasks: a frame of columns holds messages of an Arrow IPC stream.
//!
//! - [`partition`] tells which rows go to which task; [`pieces`] cuts what is too large for a frame.
//! - [`encode`] and [`decode`] are the two ends of a channel, which read and write messages by a [`template`]
//!   of their columns; [`form`] is that of values without one of their own.
//! - [`gather`] copies rows to a frame; [`parts`] leaves large buffers where they are; [`ahead`] asks for memory
//!   before it is read.

pub(crate) mod ahead;
pub(crate) mod decode;
pub(crate) mod encode;
pub(crate) mod form;
pub(crate) mod framing;
mod gather;
pub(crate) mod partition;
pub(crate) mod parts;
pub(crate) mod pieces;
mod template;
