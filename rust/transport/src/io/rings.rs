//! Connecting channels in shared memory, and noticing when their peers go.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use oka_ring::{Doorbell, MapError};
use tokio::net::UnixStream;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::endpoint::shm_path;
use crate::health::Failure;
use crate::network::NetworkState;
use crate::shm::rendezvous::{Acquaintance, Rendezvous, wait_gone};
use crate::shm::{RingInput, RingOutput};
use crate::{ChannelLost, ChannelSpec, ConnectError, LostReason, NetworkConfig};

/// Visits the receiver of each channel.
pub(super) async fn connect_outputs(
    state: &Arc<NetworkState>,
    rendezvous: &Arc<Rendezvous>,
    specs: Vec<ChannelSpec>,
) -> Result<Vec<(Arc<RingOutput>, UnixStream)>, ConnectError> {
    let bytes = ring_bytes(&state.config, specs.len());
    let connect = |spec: ChannelSpec| {
        let (state, rendezvous) = (Arc::clone(state), Arc::clone(rendezvous));
        async move {
            let path = shm_path(&spec.peer).unwrap_or_default();
            let visited = rendezvous.visit(&path, spec.id, bytes);
            let Acquaintance {
                ring,
                bell,
                mark,
                stream,
            } = in_time(&spec, state.config.connect_timeout, visited).await?;
            let output = RingOutput::new(spec, ring, bell, mark, &state);
            Ok((Arc::new(output), stream))
        }
    };
    all(specs.into_iter().map(connect)).await
}

/// Waits for the sender of an input channel, hands it to the inbox, and tells it when the sender is
/// gone; what that one wrote before is still taken.
pub(super) async fn serve_input(
    state: Arc<NetworkState>,
    input: usize,
    spec: ChannelSpec,
    arrival: oneshot::Receiver<Acquaintance>,
) {
    let limit = state.config.connect_timeout;
    let Ok(Ok(Acquaintance {
        ring,
        bell,
        mark,
        stream,
    })) = timeout(limit, arrival).await
    else {
        return state.health.fail(Failure::Lost(ChannelLost {
            channel: spec.id,
            peer: spec.peer,
            reason: LostReason::Absent { waited: limit },
        }));
    };
    let gone = Arc::new(AtomicBool::new(false));
    let bell = Arc::new(Doorbell::new(bell));
    let (attempt, limit) = (state.config.attempt, state.config.max_frame_bytes);
    let writer_gone = Arc::clone(&gone);
    let ring = RingInput::new(spec.id, spec.peer, ring, bell, writer_gone, attempt, limit);
    state.inbox.attach(input, ring, mark);
    wait_gone(&stream).await;
    gone.store(true, Ordering::Release);
    state.inbox.receiving().ring_with(mark);
}

/// Reports an output channel as lost if its peer goes before everything was consumed.
pub(super) async fn watch_output(output: Arc<RingOutput>, stream: UnixStream) {
    wait_gone(&stream).await;
    output.on_disconnected();
}

async fn in_time(
    spec: &ChannelSpec,
    limit: Duration,
    connecting: impl Future<Output = Result<Acquaintance, MapError>>,
) -> Result<Acquaintance, ConnectError> {
    match timeout(limit, connecting).await {
        Ok(connected) => connected.map_err(|error| ConnectError::Refused {
            channel: spec.id,
            peer: spec.peer.clone(),
            reason: error.to_string(),
        }),
        Err(_) => Err(ConnectError::TimedOut {
            channel: spec.id,
            peer: spec.peer.clone(),
            waited: limit,
        }),
    }
}

/// Runs them side by side; their results in the order in which they were given.
async fn all<T: Send + 'static>(
    connecting: impl Iterator<Item = impl Future<Output = Result<T, ConnectError>> + Send + 'static>,
) -> Result<Vec<T>, ConnectError> {
    let mut running = JoinSet::new();
    for (place, future) in connecting.enumerate() {
        running.spawn(async move { (place, future.await) });
    }
    let mut done = Vec::with_capacity(running.len());
    while let Some(joined) = running.join_next().await {
        let (place, result) = joined.map_err(|_| ConnectError::Cancelled)?;
        done.push((place, result?));
    }
    done.sort_by_key(|(place, _)| *place);
    Ok(done.into_iter().map(|(_, connected)| connected).collect())
}

/// Bytes of each ring: a window, or a fair share of what all channels of a task may take.
fn ring_bytes(config: &NetworkConfig, outputs: usize) -> usize {
    let share = (OUTPUT_BYTES / outputs.max(1)).max(LEAST_RING_BYTES);
    config.window_bytes.min(share).next_power_of_two()
}

/// Shared memory for all output channels of one task, where they are few enough.
const OUTPUT_BYTES: usize = 2 * 1024 * 1024;

/// Holds many small frames; a full one goes through in parts.
const LEAST_RING_BYTES: usize = 64 * 1024;
