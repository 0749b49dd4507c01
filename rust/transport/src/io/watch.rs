//! Watching connections: waiters wake when one is lost.

use std::sync::Arc;
use std::time::{Duration, Instant};

use omq_tokio::{Error, Socket};
use tokio::time::timeout;

use crate::health::Failure;
use crate::network::NetworkState;
use crate::outbox::Outbox;
use crate::{ChannelLost, ChannelSpec, EndpointKind, LostReason};

/// Wakes every waiter once the network failed.
pub(super) async fn wake_after_failure(state: Arc<NetworkState>) {
    state.health.wait_failed().await;
    state.wake();
}

/// Tells an output channel when its connection goes and comes, and reports it as lost if it stays
/// away before everything was consumed.
///
/// A peer that ends well stays until it knows that its last credit arrived.
pub(super) async fn watch_output(state: Arc<NetworkState>, output: Arc<Outbox>) {
    let mut connection = Connection::new(output.socket());
    while connection.wait_gone().await.is_ok() {
        output.on_disconnected();
        let over = || output.is_drained();
        match connection.wait_back(&state, &output.peer, over).await {
            Ok(Reconnection::New) => output.on_reconnected(),
            Ok(Reconnection::Unwanted) => return forget(output.socket(), &output.peer).await,
            Ok(Reconnection::Never(reason)) => {
                return lose(&state, output.id, &output.peer, reason);
            }
            Err(_) => return,
        }
    }
}

/// The same for an input channel, whose connection carries credits; it is needed until the sender
/// has confirmed the end.
pub(super) async fn watch_input(
    state: Arc<NetworkState>,
    input: usize,
    spec: ChannelSpec,
    socket: Socket,
) {
    let mut connection = Connection::new(&socket);
    while connection.wait_gone().await.is_ok() {
        let over = || state.inbox.is_closed(input);
        match connection.wait_back(&state, &spec.peer, over).await {
            Ok(Reconnection::New) => state.inbox.on_reconnected(input),
            Ok(Reconnection::Unwanted) => return forget(&socket, &spec.peer).await,
            // The sender has gone without waiting for the last credit: its affair, all is here.
            Ok(Reconnection::Never(_)) if state.inbox.on_gone(input) => {
                return forget(&socket, &spec.peer).await;
            }
            Ok(Reconnection::Never(reason)) => return lose(&state, spec.id, &spec.peer, reason),
            Err(_) => return,
        }
    }
}

/// The only connection of a socket.
struct Connection {
    socket: Socket,
    id: Option<u64>,
}

/// What came of waiting for a connection.
enum Reconnection {
    New,
    Unwanted,
    Never(LostReason),
}

impl Connection {
    fn new(socket: &Socket) -> Self {
        Self {
            socket: socket.clone(),
            id: None,
        }
    }

    /// Waits until the connection is not there, or not the same; an error if the socket closes.
    async fn wait_gone(&mut self) -> Result<(), Error> {
        loop {
            let generation = self.socket.connections_generation();
            let id = self.current().await?;
            self.id = self.id.or(id);
            if id.is_none() || id != self.id {
                return Ok(());
            }
            self.socket.connections_changed(generation).await?;
        }
    }

    /// Waits for the next connection for as long as it may take, and is wanted.
    ///
    /// Only TCP connections come back: those within a machine go when the peer does.
    async fn wait_back(
        &mut self,
        state: &NetworkState,
        peer: &str,
        over: impl Fn() -> bool,
    ) -> Result<Reconnection, Error> {
        let gone = Instant::now();
        let comes_back = EndpointKind::of(peer) == Ok(EndpointKind::Tcp);
        loop {
            let generation = self.socket.connections_generation();
            let id = self.current().await?;
            if id.is_some() && id != self.id {
                self.id = id;
                return Ok(Reconnection::New);
            }
            if over() {
                return Ok(Reconnection::Unwanted);
            }
            if !comes_back {
                return Ok(Reconnection::Never(LostReason::Closed));
            }
            let waited = gone.elapsed();
            if waited >= state.config.reconnect_timeout {
                return Ok(Reconnection::Never(LostReason::CutOff { waited }));
            }
            let left = state.config.reconnect_timeout.saturating_sub(waited);
            let changed = self.socket.connections_changed(generation);
            if let Ok(Err(error)) = timeout(left.min(PATIENCE), changed).await {
                return Err(error);
            }
        }
    }

    async fn current(&self) -> Result<Option<u64>, Error> {
        let connections = self.socket.connections().await?;
        let mut ready = connections.iter().filter(|c| c.peer_info.is_some());
        Ok(ready.next().map(|connection| connection.connection_id))
    }
}

/// Stops trying to reach a peer that ended as it should.
async fn forget(socket: &Socket, peer: &str) {
    let _ = socket.disconnect(peer).await;
}

fn lose(state: &NetworkState, channel: u32, peer: &str, reason: LostReason) {
    state.health.fail(Failure::Lost(ChannelLost {
        channel,
        peer: peer.to_owned(),
        reason,
    }));
}

/// Between two looks whether the connection is still wanted.
const PATIENCE: Duration = Duration::from_millis(100);
