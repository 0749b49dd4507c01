//! Large values: relayed from node to node in chunks, one sealed copy in memory per node.
//!
//! A [`BlobNode`] belongs to one worker. A blob begins at its origin, where a [`Landing`] is filled.
//! It goes along a chain of nodes, each of which relays a chunk as soon as it has verified it
//! (`send`, `receive`); where it is whole it is sealed, and handed to the other processes of the
//! machine, which map the same memory (`local`). Who is sent to next, what a node knows about each
//! blob and what is said on a connection are decided without sockets and clock (`chain`, `table`,
//! `message`). Threads block; none of them spins, and all of them end when the node is closed.

mod available;
mod chain;
mod config;
mod error;
mod landing;
mod local;
mod memory;
mod message;
mod node;
mod receive;
mod send;
mod shared;
mod statistics;
mod table;
mod transfer;
mod wire;

pub use config::BlobConfig;
pub use error::{
    BindError, BlobLost, ConnectError, CreateError, FillError, MemoryError, WaitError,
};
pub use landing::{Landing, View};
pub use memory::Blob;
pub use message::{ChunkHead, FailedNode, Header, MalformedMessage, Message, Refusal};
pub use node::BlobNode;
pub use statistics::BlobStatistics;
