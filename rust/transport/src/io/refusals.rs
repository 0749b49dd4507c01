//! Counting refused connections.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use omq_tokio::{MonitorEvent, MonitorRecvError, MonitorStream};

use crate::network::NetworkState;
use crate::security::Security;

/// Counts the connections that a listening socket turns away, until it closes.
pub(super) async fn count(state: Arc<NetworkState>, mut events: MonitorStream) {
    loop {
        match events.recv().await {
            Ok(MonitorEvent::HandshakeFailed { .. }) => {
                let early = state.security.as_ref().is_some_and(Security::take_early);
                if !early {
                    state.refused_connections.fetch_add(1, Ordering::Relaxed);
                }
            }
            Ok(_) | Err(MonitorRecvError::Lagged(_)) => {}
            Err(_) => return,
        }
    }
}
