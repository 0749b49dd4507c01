//! Settings of a node, with their defaults.

use std::time::Duration;

use crate::chain::Limits;
use crate::error::BindError;
use crate::message::CHUNK_BYTES;

/// Settings of a node; the defaults work.
#[derive(Debug, Clone)]
pub struct BlobConfig {
    /// Connections between nodes are encrypted, and both ends proven. Costs about a third of the
    /// throughput.
    pub encryption: bool,
    /// Bytes of a chunk: what a node must have before it relays it, and what is sent again when a
    /// bit was flipped. A smaller one costs more calls, a larger one delays the end of a long chain.
    pub chunk_bytes: u32,
    /// How long a blob that nobody sends is waited for, and a node that was bypassed tried again.
    pub patience: Duration,
    /// How long a node may be out of reach until it is bypassed.
    pub bypass: Duration,
    /// The most bytes of memory that the blobs of this node may take; without, what the system has.
    pub memory_limit: Option<u64>,
}

impl Default for BlobConfig {
    fn default() -> Self {
        Self {
            encryption: true,
            chunk_bytes: 1 << 20,
            patience: Duration::from_secs(10),
            bypass: Duration::from_secs(2),
            memory_limit: None,
        }
    }
}

impl BlobConfig {
    pub(crate) fn check(&self) -> Result<(), BindError> {
        if !CHUNK_BYTES.contains(&self.chunk_bytes) {
            return Err(BindError::Setting(format!(
                "chunk_bytes is {}, expected {} to {}\n\nhint: 1048576 suits most networks",
                self.chunk_bytes,
                CHUNK_BYTES.start(),
                CHUNK_BYTES.end()
            )));
        }
        if self.bypass < SHORTEST_BYPASS {
            return Err(BindError::Setting(format!(
                "bypass_seconds is {}, expected at least {}\n\nhint: a busy host may be silent for \
                 that long",
                self.bypass.as_secs_f64(),
                SHORTEST_BYPASS.as_secs_f64()
            )));
        }
        Ok(())
    }

    pub(crate) fn limits(&self) -> Limits {
        Limits {
            bypass: self.bypass,
            patience: self.patience,
        }
    }

    /// How often both ends of a connection say that they are there.
    pub(crate) fn tick(&self) -> Duration {
        (self.bypass / 8).min(Duration::from_millis(250))
    }
}

const SHORTEST_BYPASS: Duration = Duration::from_millis(100);
