//! The I/O thread: a single-threaded runtime that owns the sockets.
//!
//! It takes in what arrives, hands credits to the outputs, and watches the connections. It never
//! waits for the task and never needs the interpreter.

mod arrival;
mod connect;
mod release;
mod watch;

use std::sync::{Arc, mpsc};
use std::time::Duration;

use oka_protocol::FRAME_BYTES;
use omq_tokio::{Options, ReconnectPolicy, Socket, SocketType};
use tokio::task::JoinSet;

use crate::health::Failure;
use crate::network::NetworkState;
use crate::{BindError, ChannelSpec, ConnectError, NetworkConfig};

/// What a network asks of its I/O thread.
pub(crate) enum Command {
    Connect {
        outputs: Vec<ChannelSpec>,
        inputs: Vec<ChannelSpec>,
        answer: mpsc::Sender<Result<(), ConnectError>>,
    },
    Close,
}

/// The body of the I/O thread: listens, answers, and serves commands until it is told to close.
pub(crate) fn run(
    state: &Arc<NetworkState>,
    listen: &[String],
    bound: &mpsc::Sender<Result<Vec<String>, BindError>>,
    commands: tokio::sync::mpsc::UnboundedReceiver<Command>,
) {
    let _last = WakeOnExit(state);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    // Whoever bound the network waits for the answer, so sending it cannot fail.
    match runtime {
        Err(error) => drop(bound.send(Err(BindError::Thread(error)))),
        Ok(runtime) => runtime.block_on(async {
            match bind(&state.config, listen).await {
                Err(error) => drop(bound.send(Err(error))),
                Ok((pull, endpoints)) => {
                    drop(bound.send(Ok(endpoints)));
                    serve(state, pull, commands).await;
                }
            }
        }),
    }
}

async fn bind(
    config: &NetworkConfig,
    listen: &[String],
) -> Result<(Socket, Vec<String>), BindError> {
    let pull = Socket::new(SocketType::Pull, socket_options(config));
    let mut endpoints = Vec::with_capacity(listen.len());
    for endpoint in listen {
        let bound = pull.bind(endpoint.as_str()).await;
        let bound = bound.map_err(|error| BindError::Refused {
            endpoint: endpoint.clone(),
            reason: error.to_string(),
        })?;
        endpoints.push(bound.to_string());
    }
    Ok((pull, endpoints))
}

async fn serve(
    state: &Arc<NetworkState>,
    pull: Socket,
    mut commands: tokio::sync::mpsc::UnboundedReceiver<Command>,
) {
    let mut tasks = JoinSet::new();
    tasks.spawn(watch::wake_after_failure(Arc::clone(state)));
    let mut connected = false;
    while let Some(command) = commands.recv().await {
        match command {
            Command::Connect { answer, .. } if connected => {
                drop(answer.send(Err(ConnectError::AlreadyConnected)));
            }
            Command::Connect {
                outputs,
                inputs,
                answer,
            } => {
                connected = true;
                let (state, pull) = (Arc::clone(state), pull.clone());
                tasks.spawn(connect::serve_channels(
                    state, pull, outputs, inputs, answer,
                ));
            }
            Command::Close => break,
        }
    }
    tokio::select! {
        () = state.inbox.wait_closed() => {}
        () = state.health.wait_failed() => {}
        () = tokio::time::sleep(CLOSE_LINGER) => {}
    }
    tasks.shutdown().await;
    close(state, pull).await;
}

/// Closes all sockets; credits that are queued still leave, unless the network failed.
async fn close(state: &NetworkState, pull: Socket) {
    let linger = if state.health.is_failed() {
        Duration::ZERO
    } else {
        CLOSE_LINGER
    };
    let outputs = state.outputs().iter().map(|output| output.socket());
    let inputs = state.inbox.credit_lines().iter().map(|line| &line.socket);
    let mut closing = JoinSet::new();
    for socket in outputs.chain(inputs) {
        closing.spawn(socket.clone().close_with_linger(Some(linger)));
    }
    // Peers that are gone already make no difference.
    while closing.join_next().await.is_some() {}
    let _ = pull.close_with_linger(Some(Duration::ZERO)).await;
}

/// The options of every socket: credits, not queue lengths, bound what is in flight.
fn socket_options(config: &NetworkConfig) -> Options {
    let frames = config.window_bytes / FRAME_BYTES + SPARE_FRAMES;
    let options = Options::default()
        .send_hwm(frames as u32)
        .recv_hwm(frames as u32)
        .linger(CLOSE_LINGER)
        .reconnect(ReconnectPolicy::Fixed(RECONNECT_INTERVAL))
        .max_pending_handshakes(PENDING_HANDSHAKES)
        .max_message_size(config.max_frame_bytes.saturating_add(FRAME_BYTES))
        .shm_max_memory(2 * config.window_bytes + SHARED_MEMORY_BYTES);
    debug_assert!(options.recv_spin.is_zero(), "an idle job burns no CPU");
    options
}

/// Leaves no waiter behind, however the I/O thread ends.
struct WakeOnExit<'a>(&'a NetworkState);

impl Drop for WakeOnExit<'_> {
    fn drop(&mut self) {
        self.0.health.fail(Failure::Cancelled);
        self.0.wake();
    }
}

/// How long the last credits may take to arrive at close.
const CLOSE_LINGER: Duration = Duration::from_secs(1);

/// Between two attempts to reach a peer that does not listen yet.
const RECONNECT_INTERVAL: Duration = Duration::from_millis(20);

/// Frames in flight beyond the full ones a window holds: small ones, credits, the end.
const SPARE_FRAMES: usize = 8;

/// Peers that may connect to one task at the same moment.
const PENDING_HANDSHAKES: usize = 8192;

/// Shared memory of one channel beyond two windows.
const SHARED_MEMORY_BYTES: usize = 16 * 1024 * 1024;
