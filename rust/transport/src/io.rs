//! The I/O thread: a single-threaded runtime that owns the sockets.
//!
//! It takes in what arrives, hands credits to the outputs, and watches the connections. It never
//! waits for the task and never needs the interpreter.

mod arrival;
mod connect;
mod refusals;
mod release;
mod rings;
mod tick;
#[cfg_attr(
    any(not(target_os = "linux"), feature = "portable"),
    path = "io/portable_timer.rs"
)]
mod timer;
mod watch;

use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use oka_protocol::FRAME_BYTES;
use omq_tokio::{Options, ReconnectPolicy, Socket, SocketType};
use tokio::task::JoinSet;

use crate::endpoint::shm_path;
use crate::health::Failure;
use crate::network::NetworkState;
use crate::shm::rendezvous::{Bells, Rendezvous, ShmListener};
use crate::{BindError, ChannelSpec, ConnectError, EndpointKind, NetworkConfig};

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
    bells: Bells,
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
            match bind(state, bells, listen).await {
                Err(error) => drop(bound.send(Err(error))),
                Ok((listening, endpoints)) => {
                    drop(bound.send(Ok(endpoints)));
                    serve(state, listening, commands).await;
                }
            }
        }),
    }
}

/// What a network listens on.
struct BoundSockets {
    /// For channels over sockets: one socket per endpoint, since encryption is a matter of the whole
    /// socket.
    pulls: Vec<Socket>,
    /// For channels in shared memory.
    listeners: Vec<ShmListener>,
    rendezvous: Rendezvous,
}

async fn bind(
    state: &NetworkState,
    bells: Bells,
    listen: &[String],
) -> Result<(BoundSockets, Vec<String>), BindError> {
    let mut listening = BoundSockets {
        pulls: Vec::new(),
        listeners: Vec::new(),
        rendezvous: Rendezvous::new(bells, state.config.attempt),
    };
    let mut endpoints = Vec::with_capacity(listen.len());
    for endpoint in listen {
        let refused = |reason: String| BindError::Refused {
            endpoint: endpoint.clone(),
            reason,
        };
        if let Some(path) = shm_path(endpoint) {
            let listener = ShmListener::bind(path).map_err(|error| refused(error.to_string()))?;
            listening.listeners.push(listener);
            endpoints.push(endpoint.clone());
            continue;
        }
        let encrypted = EndpointKind::of(endpoint)? == EndpointKind::Tcp;
        let security = state.security.as_ref().filter(|_| encrypted);
        let options = socket_options(&state.config);
        let options = match security {
            Some(security) => security.server(options),
            None => options,
        };
        let pull = Socket::new(SocketType::Pull, options);
        let bound = pull.bind(endpoint.as_str()).await;
        let bound = bound
            .map_err(|error| refused(error.to_string()))?
            .to_string();
        endpoints.push(match security {
            Some(security) => security.announce(&bound)?,
            None => bound,
        });
        listening.pulls.push(pull);
    }
    Ok((listening, endpoints))
}

async fn serve(
    state: &Arc<NetworkState>,
    listening: BoundSockets,
    mut commands: tokio::sync::mpsc::UnboundedReceiver<Command>,
) {
    let BoundSockets {
        pulls,
        listeners,
        rendezvous,
    } = listening;
    let mut tasks = JoinSet::new();
    let rendezvous = Arc::new(rendezvous);
    for listener in listeners {
        let (rendezvous, state) = (Arc::clone(&rendezvous), Arc::clone(state));
        tasks.spawn(rendezvous.receive(listener, move || {
            state.dropped_messages.fetch_add(1, Ordering::Relaxed);
        }));
    }
    tasks.spawn(watch::wake_after_failure(Arc::clone(state)));
    for pull in &pulls {
        tasks.spawn(refusals::count(Arc::clone(state), pull.monitor()));
    }
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
                let (state, pulls) = (Arc::clone(state), pulls.clone());
                let rendezvous = Arc::clone(&rendezvous);
                tasks.spawn(connect::serve_channels(
                    state, pulls, rendezvous, outputs, inputs, answer,
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
    close(state, pulls).await;
}

/// Closes all sockets; credits that are queued still leave, unless the network failed.
async fn close(state: &NetworkState, pulls: Vec<Socket>) {
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
    for pull in pulls {
        let _ = pull.close_with_linger(Some(Duration::ZERO)).await;
    }
}

/// The options of every socket: credits, not queue lengths, bound what is in flight.
fn socket_options(config: &NetworkConfig) -> Options {
    let frames = config.window_bytes / FRAME_BYTES + SPARE_FRAMES;
    let options = Options::default()
        .send_hwm(frames as u32)
        .recv_hwm(frames as u32)
        .linger(CLOSE_LINGER)
        .reconnect(ReconnectPolicy::Fixed(RECONNECT_INTERVAL))
        .handshake_timeout(HANDSHAKE_TIMEOUT)
        .max_pending_handshakes(HOSTS_SHARE * (config.channels + SPARE_HANDSHAKES))
        .max_message_size(config.max_frame_bytes.saturating_add(FRAME_BYTES));
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

/// How long a peer may take to prove who it is.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// One host may hold an eighth of the pending handshakes, which must do for all channels.
const HOSTS_SHARE: usize = 8;

/// Pending handshakes of one host beyond one per channel.
const SPARE_HANDSHAKES: usize = 16;
