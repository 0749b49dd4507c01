//! Temporary credentials: fetched at the first use, and again before they end.

use object_store::aws::AwsCredential;
use object_store::client::CredentialProvider;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::sync::Mutex;

/// Where temporary credentials come from.
#[async_trait::async_trait]
pub(super) trait Source: Debug + Send + Sync + 'static {
    async fn fetch(&self) -> object_store::Result<TemporaryCredentials>;
}

#[derive(Debug)]
pub(super) struct TemporaryCredentials {
    pub credential: AwsCredential,
    /// None for some that do not end.
    pub ends: Option<SystemTime>,
}

/// A source of credentials, asked once for as long as they last.
#[derive(Debug)]
pub(super) struct RenewedCredentials<S> {
    source: S,
    current: Mutex<Option<CurrentCredentials>>,
}

#[derive(Debug)]
struct CurrentCredentials {
    credential: Arc<AwsCredential>,
    renew: Option<SystemTime>,
    ends: Option<SystemTime>,
}

impl<S: Source> RenewedCredentials<S> {
    pub fn new(source: S) -> Self {
        let current = Mutex::default();
        Self { source, current }
    }
}

impl CurrentCredentials {
    fn new(fetched: TemporaryCredentials, now: SystemTime) -> Self {
        let lasts = fetched.ends.map(|ends| ends.duration_since(now));
        let early = (lasts.and_then(Result::ok).unwrap_or_default() / 5).min(RENEW_BEFORE);
        Self {
            credential: Arc::new(fetched.credential),
            renew: fetched.ends.map(|ends| ends - early),
            ends: fetched.ends,
        }
    }
}

#[async_trait::async_trait]
impl<S: Source> CredentialProvider for RenewedCredentials<S> {
    type Credential = AwsCredential;

    async fn get_credential(&self) -> object_store::Result<Arc<AwsCredential>> {
        let mut current = self.current.lock().await;
        let now = SystemTime::now();
        let is_before = |moment: Option<SystemTime>| moment.is_none_or(|moment| now < moment);
        if let Some(current) = current.as_ref().filter(|current| is_before(current.renew)) {
            return Ok(current.credential.clone());
        }
        match self.source.fetch().await {
            Ok(fetched) => {
                let fetched = CurrentCredentials::new(fetched, now);
                Ok(current.insert(fetched).credential.clone())
            }
            Err(error) => match current.as_ref() {
                // Still good for a while, and the next request tries again.
                Some(current) if is_before(current.ends) => Ok(current.credential.clone()),
                _ => Err(error),
            },
        }
    }
}

/// A moment as AWS writes it, such as `2026-11-26T09:00:00Z`.
pub(super) fn moment(text: &str) -> Option<SystemTime> {
    Some(chrono::DateTime::parse_from_rfc3339(text).ok()?.into())
}

const RENEW_BEFORE: Duration = Duration::from_mins(5);
