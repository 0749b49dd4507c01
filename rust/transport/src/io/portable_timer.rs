//! A timer of tokio, where the kernel has none to wait for beside sockets.
//!
//! On Linux the feature `portable` has this compiled and tested in the place of `timer.rs`.

use std::io;
use std::time::Instant;

/// Waits with the precision of tokio's timers, a millisecond.
pub(super) struct Timer;

impl Timer {
    #[allow(clippy::unnecessary_wraps, reason = "as that of Linux")]
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self)
    }

    #[allow(clippy::unused_self, reason = "as that of Linux")]
    pub(super) async fn wait_until(&self, due: Instant) -> io::Result<()> {
        tokio::time::sleep_until(due.into()).await;
        Ok(())
    }
}
