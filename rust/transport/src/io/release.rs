//! Sending open frames whose time to wait for company is over.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::timer::Timer;
use crate::health::Failure;
use crate::network::NetworkState;

/// Sends open frames that wait for company when their time is over, give or take [`PATIENCE`].
///
/// In a stream the next records send them in time; this is for those that nothing follows.
pub(super) async fn release_held(state: Arc<NetworkState>, held: Arc<Notify>) {
    let Ok(timer) = Timer::new() else {
        return state.health.fail(Failure::Cancelled);
    };
    loop {
        held.notified().await;
        while let Some(due) = state
            .outputs()
            .iter()
            .filter_map(|output| output.release())
            .min()
        {
            let looked_after = due.max(Instant::now() + PATIENCE);
            if timer.wait_until(looked_after).await.is_err() {
                return state.health.fail(Failure::Cancelled);
            }
        }
    }
}

/// Least time between two looks: a wake-up takes more than ten µs of CPU.
const PATIENCE: Duration = Duration::from_micros(500);
