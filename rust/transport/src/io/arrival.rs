//! Handing arrived frames to their channels.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use oka_protocol::{Credit, FrameKind, Frames, Report};
use omq_tokio::{Message, Socket};

use crate::ChannelLost;
use crate::health::Failure;
use crate::inbox::ArrivalError;
use crate::network::NetworkState;
use crate::outbox::Outbox;

/// Where the frames of a channel go.
pub(super) enum Route {
    Input(usize),
    Output(Arc<Outbox>),
}

/// Takes in messages as they arrive, until the socket closes. Whatever does not belong to a channel
/// is dropped and counted.
pub(super) async fn take_in(
    state: Arc<NetworkState>,
    pull: Socket,
    routes: Arc<HashMap<u32, Route>>,
) {
    let mut messages = Vec::with_capacity(MESSAGES_AT_ONCE);
    while pull
        .recv_many_into(MESSAGES_AT_ONCE, &mut messages)
        .await
        .is_ok()
    {
        for message in messages.drain(..) {
            if dispatch(&state, &routes, message).is_none() {
                state.dropped_messages.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// Hands the frames of one message to their channel; `None` if they are dropped.
fn dispatch(state: &NetworkState, routes: &HashMap<u32, Route>, message: Message) -> Option<()> {
    let bytes = message.into_bytes().ok()?;
    // All or nothing: the frames are checked before the first is handed on.
    let channel = Frames::new(&bytes).channel(state.config.attempt)?;
    match routes.get(&channel)? {
        Route::Input(input) => match state.inbox.on_message(*input, &bytes) {
            Ok(()) => Some(()),
            Err(ArrivalError::Malformed | ArrivalError::OutOfPlace) => None,
            Err(ArrivalError::Channel(error)) => {
                let peer = &state.inbox.credit_lines()[*input].spec.peer;
                state.health.fail(Failure::Lost(ChannelLost {
                    channel,
                    peer: peer.clone(),
                    reason: error.into(),
                }));
                None
            }
        },
        Route::Output(output) => {
            for (header, body) in Frames::new(&bytes).map_while(Result::ok) {
                match header.kind {
                    FrameKind::Credit => output.on_credit(Credit::decode(&header, body)?).ok()?,
                    FrameKind::State => output.on_state(Report::decode(&header, body)?).ok()?,
                    _ => return None,
                }
            }
            Some(())
        }
    }
}

const MESSAGES_AT_ONCE: usize = 64;
