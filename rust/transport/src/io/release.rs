use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
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
struct Timer(AsyncFd<Descriptor>);

struct Descriptor(TimerFd);

impl Timer {
    fn new() -> io::Result<Self> {
        let flags = TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC;
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, flags)?;
        // SAFETY: `Descriptor` owns the descriptor, gives out that one only, and closes it on drop.
        let registered =
            unsafe { AsyncFd::register_with_interest(Descriptor(timer), Interest::READABLE) };
        Ok(Self(registered?))
    }

    async fn wait_until(&self, due: Instant) -> io::Result<()> {
        let left = due.saturating_duration_since(Instant::now());
        if left.is_zero() {
            tokio::task::yield_now().await;
            return Ok(());
        }
        let expiration = Expiration::OneShot(left.into());
        let Descriptor(timer) = self.0.get_ref();
        timer.set(expiration, TimerSetTimeFlags::empty())?;
        self.0.readable().await?.clear_ready();
        Ok(())
    }
}

impl AsFd for Descriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for Descriptor {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}
