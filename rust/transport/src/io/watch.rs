use std::sync::Arc;

use omq_tokio::{Error, Socket};

use crate::health::Failure;
use crate::network::NetworkState;
use crate::outbox::Outbox;
use crate::{ChannelLost, ChannelSpec};

/// Wakes every waiter once the network failed.
pub(super) async fn wake_after_failure(state: Arc<NetworkState>) {
    state.health.wait_failed().await;
    state.wake();
}

/// Reports an output channel as lost if its peer goes before everything was consumed.
///
/// A peer that ends well stays until it knows that its last credit arrived.
pub(super) async fn watch_output(state: Arc<NetworkState>, output: Arc<Outbox>) {
    if wait_disconnected(output.socket()).await.is_err() {
        return;
    }
    if output.is_drained() {
        forget(output.socket(), &output.peer).await;
    } else {
        state.health.fail(disconnected(output.id, &output.peer));
    }
}

/// Reports an input channel as lost if its peer goes before its end.
pub(super) async fn watch_input(
    state: Arc<NetworkState>,
    input: usize,
    spec: ChannelSpec,
    socket: Socket,
) {
    if wait_disconnected(&socket).await.is_err() {
        return;
    }
    if state.inbox.on_disconnected(input) {
        forget(&socket, &spec.peer).await;
    } else {
        state.health.fail(disconnected(spec.id, &spec.peer));
    }
}

/// Waits until the only connection of this socket is gone; an error if the socket closes first.
async fn wait_disconnected(socket: &Socket) -> Result<(), Error> {
    let mut generation = socket.connections_generation();
    while !socket.connections().await?.is_empty() {
        generation = socket.connections_changed(generation).await?;
    }
    Ok(())
}

/// Stops trying to reach a peer that ended as it should.
async fn forget(socket: &Socket, peer: &str) {
    let _ = socket.disconnect(peer).await;
}

fn disconnected(channel: u32, peer: &str) -> Failure {
    Failure::Lost(ChannelLost {
        channel,
        peer: peer.to_owned(),
        reason: "its connection closed before the channel ended".to_owned(),
    })
}
