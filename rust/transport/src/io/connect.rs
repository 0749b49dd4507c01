use std::collections::HashMap;
use std::sync::{Arc, mpsc};

use omq_tokio::{Socket, SocketType};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::arrival::{Route, take_in};
use super::{release, socket_options, watch};
use crate::buffers::BufferPool;
use crate::inbox::CreditLine;
use crate::network::NetworkState;
use crate::outbox::Outbox;
use crate::{ChannelSpec, ConnectError};

/// Connects the channels, answers, and serves them until it is aborted.
pub(super) async fn serve_channels(
    state: Arc<NetworkState>,
    pulls: Vec<Socket>,
    outputs: Vec<ChannelSpec>,
    inputs: Vec<ChannelSpec>,
    answer: mpsc::Sender<Result<(), ConnectError>>,
) {
    let specs: Vec<_> = outputs.iter().chain(&inputs).cloned().collect();
    let sockets = tokio::select! {
        biased;
        () = state.health.wait_failed() => Err(ConnectError::Cancelled),
        sockets = connect_all(&state, specs) => sockets,
    };
    let mut sockets = match sockets {
        Ok(sockets) => sockets,
        Err(error) => return drop(answer.send(Err(error))),
    };
    let input_sockets = sockets.split_off(outputs.len());

    let held = Arc::new(Notify::new());
    let pool = Arc::new(BufferPool::default());
    let outputs: Vec<_> = outputs
        .iter()
        .zip(sockets)
        .map(|(spec, socket)| {
            let (pool, health) = (Arc::clone(&pool), Arc::clone(&state.health));
            let held = Arc::clone(&held);
            let output = Outbox::new(spec, &state.config, socket, pool, health, held);
            Arc::new(output)
        })
        .collect();
    let lines: Vec<_> = inputs
        .into_iter()
        .zip(input_sockets)
        .map(|(spec, socket)| CreditLine { spec, socket })
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
    let _ = state.outputs.set(outputs);
    tasks.spawn(release::release_held(Arc::clone(&state), held));
    state.inbox.connect(lines, state.config.window_bytes);
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
        let options = socket_options(&state.config);
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
