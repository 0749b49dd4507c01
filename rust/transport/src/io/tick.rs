//! A timer by which channels repeat what was not answered.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

use crate::network::NetworkState;

/// Lets the channels ask for what they have waited for too long.
///
/// Nothing is sent while everything is acknowledged; a wake-up costs some ten µs of CPU.
pub(super) async fn tick(state: Arc<NetworkState>) {
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        for output in state.outputs() {
            output.tick();
        }
        state.inbox.tick();
    }
}

/// Half of the interval at which channels ask.
const TICK: Duration = Duration::from_millis(100);
