//! How a caller stops what it waits for.

use std::future::Future;
use std::time::Duration;

/// The caller's own reason to stop waiting, such as Ctrl-C.
#[derive(Debug, thiserror::Error)]
#[error("interrupted")]
pub struct Interrupted;

/// Waits for `work`, asking `interrupted` every now and then; on yes drops it and returns.
pub(crate) async fn unless<T>(
    work: impl Future<Output = T>,
    interrupted: &mut dyn FnMut() -> bool,
) -> Result<T, Interrupted> {
    let mut work = std::pin::pin!(work);
    let mut tick = tokio::time::interval(PERIOD);
    tick.tick().await; // the first ends at once
    loop {
        tokio::select! {
            biased;
            done = &mut work => return Ok(done),
            _ = tick.tick() => {
                if interrupted() {
                    return Err(Interrupted);
                }
            }
        }
    }
}

const PERIOD: Duration = Duration::from_millis(100);
