//! Sending open frames whose time to wait for company is over.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;

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

/// Waits with the precision of the kernel's timers, about 50 µs.
struct Timer(AsyncFd<OwnedFd>);

impl Timer {
    fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        // SAFETY: `OwnedFd` gives out one descriptor only, and closes it on drop.
        let registered = unsafe { AsyncFd::register_with_interest(timer, Interest::READABLE) };
        Ok(Self(registered?))
    }

    async fn wait_until(&self, due: Instant) -> io::Result<()> {
        let left = due.saturating_duration_since(Instant::now());
        if left.is_zero() {
            tokio::task::yield_now().await;
            return Ok(());
        }
        let never = Duration::ZERO.try_into().map_err(io::Error::other)?;
        let expiration = Itimerspec {
            it_interval: never,
            it_value: left.try_into().map_err(io::Error::other)?,
        };
        timerfd_settime(&self.0, TimerfdTimerFlags::empty(), &expiration)?;
        self.0.readable().await?.clear_ready();
        Ok(())
    }
}
