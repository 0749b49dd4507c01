//! Channels in shared memory, between tasks on one machine.
//!
//! A channel is one ring ([`oka_ring`]) of the same frames that sockets carry. The task that writes
//! puts frames into the ring itself, and the task that reads takes them out in place: the I/O thread
//! only makes the two acquainted and notices when one of them goes. The room in the ring is the
//! sender's credit; what was consumed is what is acknowledged. Whoever runs out of work sleeps on its
//! task's doorbell. While a reader is busy frames gather in the ring, and it takes them all at once:
//! small ones stay cheap without anyone waiting for company.
//!
//! Markers travel before their records here, so that a batch never has to wait for its markers.

mod input;
mod inputs;
mod output;
pub(crate) mod rendezvous;
mod sleeper;

pub(crate) use input::RingInput;
pub(crate) use inputs::RingInputs;
pub(crate) use output::{RingOutput, finish_rings, wait_rings_writable};
pub(crate) use sleeper::Sleeper;
