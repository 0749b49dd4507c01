//! The first failure of a network, which all of its threads see.

use std::sync::OnceLock;

use tokio::sync::watch;

use crate::{ChannelLost, EmitError, FinishError, ReceiveError};

/// Whether a network still works; the first failure stays.
///
/// Reading it costs one atomic load. The I/O thread wakes every waiter after a failure, so that
/// waiters only have to look here each time they wake.
#[derive(Debug)]
pub(crate) struct Health {
    failure: OnceLock<Failure>,
    failed: watch::Sender<bool>,
}

impl Health {
    pub(crate) fn new() -> Self {
        Self {
            failure: OnceLock::new(),
            failed: watch::Sender::new(false),
        }
    }

    /// Records a failure, unless there was one before.
    pub(crate) fn fail(&self, failure: Failure) {
        if self.failure.set(failure).is_ok() {
            self.failed.send_replace(true);
        }
    }

    /// Records a failure and wakes nobody.
    pub(crate) fn fail_silently(&self, failure: Failure) {
        let _ = self.failure.set(failure); // else there was one before
    }

    pub(crate) fn check(&self) -> Result<(), Failure> {
        self.failure
            .get()
            .map_or(Ok(()), |failure| Err(failure.clone()))
    }

    pub(crate) fn is_failed(&self) -> bool {
        self.failure.get().is_some()
    }

    pub(crate) async fn wait_failed(&self) {
        let mut failed = self.failed.subscribe();
        // The sender lives as long as this borrow, so waiting cannot fail.
        let _ = failed.wait_for(|failed| *failed).await;
    }
}

/// Why a network stopped working.
#[derive(Debug, Clone)]
pub(crate) enum Failure {
    Cancelled,
    Lost(ChannelLost),
}

impl From<Failure> for ReceiveError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Cancelled => Self::Cancelled,
            Failure::Lost(lost) => Self::Lost(lost),
        }
    }
}

impl From<Failure> for EmitError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Cancelled => Self::Cancelled,
            Failure::Lost(lost) => Self::Lost(lost),
        }
    }
}

impl From<Failure> for FinishError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Cancelled => Self::Cancelled,
            Failure::Lost(lost) => Self::Lost(lost),
        }
    }
}
