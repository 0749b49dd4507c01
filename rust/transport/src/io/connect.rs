//! Connecting channels over sockets, and serving them.

use std::collections::HashMap;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use omq_tokio::{Options, Socket, SocketType};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::arrival::{Route, take_in};
use super::{release, rings, socket_options, tick, watch};
use crate::buffers::BufferPool;
use crate::clock::clock_id;
use crate::endpoint::shm_path;
use crate::inbox::CreditLine;
use crate::network::NetworkState;
use crate::outbox::Outbox;
use crate::output::SendingEnd;
use crate::shm::rendezvous::Rendezvous;
use crate::{ChannelSpec, ConnectError, EndpointKind, OutputChannel};

/// Connects the channels, answers, and serves them until it is aborted.
pub(super) async fn serve_channels(
    state: Arc<NetworkState>,
    pulls: Vec<Socket>,
    rendezvous: Arc<Rendezvous>,
    all_outputs: Vec<ChannelSpec>,
    all_inputs: Vec<ChannelSpec>,
    answer: mpsc::Sender<Result<(), ConnectError>>,
) {
    let in_memory = |spec: &ChannelSpec| shm_path(&spec.peer).is_some();
    let (ring_outputs, outputs): (Vec<_>, Vec<_>) =
        all_outputs.iter().cloned().partition(in_memory);
    let (ring_inputs, inputs): (Vec<_>, Vec<_>) = all_inputs.into_iter().partition(in_memory);
    let specs = outputs.iter().chain(&inputs).cloned().collect();
    let connected = tokio::select! {
        biased;
        () = state.health.wait_failed() => Err(ConnectError::Cancelled),
        connected = async { tokio::try_join!(
            connect_all(&state, specs),
            rings::connect_outputs(&state, &rendezvous, ring_outputs),
        )} => connected,
    };
    let (mut sockets, ring_outputs) = match connected {
        Ok(connected) => connected,
        Err(error) => return drop(answer.send(Err(error))),
    };
    let input_sockets = sockets.split_off(outputs.len());

    let clock = clock_id();
    let held = Arc::new(Notify::new());
    let pool = Arc::new(BufferPool::default());
    let outputs: Vec<_> = outputs
        .iter()
        .zip(sockets)
        .map(|(spec, socket)| {
            let (pool, health) = (Arc::clone(&pool), Arc::clone(&state.health));
            let held = Arc::clone(&held);
            let output = Outbox::new(spec, &state.config, clock, socket, pool, health, held);
            Arc::new(output)
        })
        .collect();
    let lines: Vec<_> = inputs
        .into_iter()
        .zip(input_sockets)
        .map(|(spec, socket)| CreditLine {
            spec,
            attempt: state.config.attempt,
            socket,
        })
        .collect();

    let mut routes = HashMap::new();
    let mut tasks = JoinSet::new();
    for output in &outputs {
        routes.insert(output.id, Route::Output(Arc::clone(output)));
        tasks.spawn(watch::watch_output(Arc::clone(&state), Arc::clone(output)));
    }
    for (input, line) in lines.iter().enumerate() {
        routes.insert(line.spec.id, Route::Input(input));
        let (spec, socket) = (line.spec.clone(), line.socket.clone());
        tasks.spawn(watch::watch_input(Arc::clone(&state), input, spec, socket));
    }
    let mut channels: Vec<_> = outputs.iter().cloned().map(SendingEnd::Socket).collect();
    for (output, stream) in ring_outputs {
        channels.push(SendingEnd::Ring(Arc::clone(&output)));
        tasks.spawn(rings::watch_output(output, stream));
    }
    let mut channels: Vec<_> = channels
        .into_iter()
        .map(|end| OutputChannel::new(end, Arc::clone(&state.blocked)))
        .collect();
    let place = |channel: &OutputChannel| all_outputs.iter().position(|s| s.id == channel.id());
    channels.sort_by_key(place);
    let _ = state.channels.set(channels);
    let _ = state.outputs.set(outputs);
    tasks.spawn(release::release_held(Arc::clone(&state), held));
    state
        .inbox
        .connect(&ring_inputs, lines, state.config.window_bytes, clock);
    let ids: Vec<_> = ring_inputs.iter().map(|spec| spec.id).collect();
    let arrivals = rendezvous.expect(&ids);
    for ((input, spec), arrival) in ring_inputs.into_iter().enumerate().zip(arrivals) {
        tasks.spawn(rings::serve_input(Arc::clone(&state), input, spec, arrival));
    }
    tasks.spawn(tick::tick(Arc::clone(&state)));
    // Only now are messages taken in, so that none comes before its channel is known.
    let routes = Arc::new(routes);
    for pull in pulls {
        tasks.spawn(take_in(Arc::clone(&state), pull, Arc::clone(&routes)));
    }
    drop(answer.send(Ok(())));
    while tasks.join_next().await.is_some() {}
}

/// One connected socket per channel, in the order of the specs.
async fn connect_all(
    state: &NetworkState,
    specs: Vec<ChannelSpec>,
) -> Result<Vec<Socket>, ConnectError> {
    let mut sockets = Vec::with_capacity(specs.len());
    let mut connecting = JoinSet::new();
    for spec in specs {
        let options = over_network(socket_options(&state.config), &spec.peer);
        let options = match &state.security {
            Some(security) => security.client(options, spec.id),
            None => options,
        };
        let socket = Socket::new(SocketType::Push, options);
        sockets.push(socket.clone());
        let timeout = state.config.connect_timeout;
        connecting.spawn(async move {
            let connected = match socket.connect(spec.peer.as_str()).await {
                Ok(()) => socket.wait_connected(1, timeout).await.map(drop),
                Err(error) => Err(error),
            };
            connected.map_err(|_| ConnectError::TimedOut {
                channel: spec.id,
                peer: spec.peer,
                waited: timeout,
            })
        });
    }
    while let Some(connected) = connecting.join_next().await {
        connected.unwrap_or(Err(ConnectError::Cancelled))?;
    }
    Ok(sockets)
}

/// The options of a socket that over TCP notices a silent link, and tries again soon.
fn over_network(options: Options, peer: &str) -> Options {
    if EndpointKind::of(peer) != Ok(EndpointKind::Tcp) {
        return options;
    }
    options
        .heartbeat_interval(HEARTBEAT_INTERVAL)
        .heartbeat_timeout(HEARTBEAT_TIMEOUT)
        .heartbeat_ttl(2 * HEARTBEAT_TIMEOUT)
        .tcp_user_timeout(HEARTBEAT_TIMEOUT)
        .handshake_timeout(ATTEMPT_TIMEOUT)
}

/// Between two questions whether the other host is there: some µs of CPU each.
const HEARTBEAT_INTERVAL: Duration = Duration::from_millis(500);

/// A silent connection is closed after this time, give or take the interval, and made anew.
const HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(1);

/// One attempt to connect: the kernel repeats its first packet after one second and then too late.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(3);
