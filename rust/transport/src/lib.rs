//! The network of one task: rings in shared memory, `ZeroMQ` sockets and the I/O thread that carry
//! the protocol's frames.
//!
//! A [`Network`] listens on one endpoint per transport, connects to the tasks upstream and
//! downstream, and moves whole frames between them. Order, credits, acknowledgement, end,
//! and what a task's inputs have come to together are decided by `oka-protocol`, for sockets and rings
//! alike; this crate feeds its state machines and carries out their answers.
//! All calls may be made from any thread; those named `wait_*`, `receive`, `connect` and `finish`
//! block until there is an answer, the others never wait for a peer.

mod barrier_wait;
mod buffers;
mod clock;
mod config;
mod endpoint;
mod error;
mod health;
mod inbox;
mod io;
mod network;
mod open_frame;
mod outbox;
mod output;
mod received;
mod retained;
mod security;
mod shm;
mod statistics;
mod wait_time;

pub use config::NetworkConfig;
pub use error::{
    BindError, ChannelLost, ConnectError, EmitError, FinishError, LostReason, NoInput, ReceiveError,
};
pub use network::{ChannelSpec, Network};
pub use oka_ipc::{EndpointKind, InvalidEndpoint};
pub use oka_protocol::{Control, Encoding, FRAME_BYTES};
pub use open_frame::OpenFrame;
pub use output::OutputChannel;
pub use received::{Element, ReceivedFrames};
pub use statistics::{InputStatistics, NetworkStatistics, OutputStatistics};
