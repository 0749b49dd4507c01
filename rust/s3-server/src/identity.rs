//! Who may ask: the long-lived key, and temporary ones with their session tokens.

use hyper::header::HeaderValue;
use s3s::access::{S3Access, S3AccessContext};
use s3s::auth::{S3Auth, SecretKey};
use s3s::{S3Result, s3_error};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};
use subtle::ConstantTimeEq;

/// All keys that the server knows; shared by everything that checks a request.
pub(crate) struct Identities {
    access_key: String,
    secret_key: SecretKey,
    /// The longest that temporary credentials last.
    session: Duration,
    temporary: Mutex<HashMap<String, Temporary>>,
}

/// Credentials that end. `token` travels with every request signed by them.
pub(crate) struct IssuedCredentials {
    pub access_key: String,
    pub secret_key: String,
    pub token: String,
    pub expires: SystemTime,
}

struct Temporary {
    secret_key: SecretKey,
    token: String,
    expires: SystemTime,
}

impl Identities {
    pub fn new(access_key: String, secret_key: String, session: Duration) -> Self {
        Self {
            access_key,
            secret_key: secret_key.into(),
            session,
            temporary: Mutex::default(),
        }
    }

    /// New temporary credentials for this long, at most for the server's limit.
    pub fn issue(&self, wanted: Duration) -> std::io::Result<IssuedCredentials> {
        let expires = SystemTime::now() + wanted.min(self.session);
        let issued = IssuedCredentials {
            access_key: format!("ASIA{}", random_text(16)?),
            secret_key: random_text(40)?,
            token: random_text(96)?,
            expires,
        };
        let mut known = self.known();
        // Expired ones are kept for a while, so that their owners are told what is wrong.
        let old = SystemTime::now() - REMEMBERED;
        known.retain(|_, each| each.expires > old);
        known.insert(
            issued.access_key.clone(),
            Temporary {
                secret_key: issued.secret_key.as_str().into(),
                token: issued.token.clone(),
                expires,
            },
        );
        Ok(issued)
    }

    fn secret_key(&self, access_key: &str) -> S3Result<SecretKey> {
        if access_key == self.access_key {
            return Ok(self.secret_key.clone());
        }
        let known = self.known();
        let temporary = known.get(access_key).ok_or_else(|| {
            s3_error!(
                InvalidAccessKeyId,
                "The access key id you provided does not exist in our records."
            )
        })?;
        if temporary.expires <= SystemTime::now() {
            return Err(s3_error!(ExpiredToken, "The provided token has expired."));
        }
        Ok(temporary.secret_key.clone())
    }

    /// Whether the session token belongs to the key: none to the long-lived one.
    pub fn check_token(&self, access_key: &str, given: Option<&[u8]>) -> S3Result<()> {
        let known = self.known();
        let right = match (known.get(access_key), given) {
            (None, None) => true,
            (Some(temporary), Some(given)) => temporary.token.as_bytes().ct_eq(given).into(),
            _ => false,
        };
        if right {
            return Ok(());
        }
        Err(s3_error!(
            InvalidToken,
            "The provided token is malformed or otherwise invalid."
        ))
    }

    fn known(&self) -> std::sync::MutexGuard<'_, HashMap<String, Temporary>> {
        self.temporary
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// The secret by which a signature is checked.
pub(crate) struct Keys(pub Arc<Identities>);

#[async_trait::async_trait]
impl S3Auth for Keys {
    async fn get_secret_key(&self, access_key: &str) -> S3Result<SecretKey> {
        self.0.secret_key(access_key)
    }
}

/// What is checked after the signature: that there was one, and the session token.
pub(crate) struct Gate(pub Arc<Identities>);

#[async_trait::async_trait]
impl S3Access for Gate {
    async fn check(&self, context: &mut S3AccessContext<'_>) -> S3Result<()> {
        let Some(credentials) = context.credentials() else {
            return Err(s3_error!(AccessDenied, "The request is not signed."));
        };
        let header = context.headers().get(TOKEN).map(HeaderValue::as_bytes);
        let query = context.uri().query().and_then(token_of_query);
        let given = header.or(query.as_deref().map(str::as_bytes));
        self.0.check_token(&credentials.access_key, given)
    }
}

/// The session token of a presigned URL.
fn token_of_query(query: &str) -> Option<String> {
    form_urlencoded::parse(query.as_bytes())
        .find(|(name, _)| name.eq_ignore_ascii_case(TOKEN))
        .map(|(_, value)| value.into_owned())
}

/// Letters and digits from the system's generator, five bits each.
pub(crate) fn random_text(length: usize) -> std::io::Result<String> {
    let mut bytes = vec![0_u8; length];
    let mut filled = 0;
    while filled < length {
        filled +=
            rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty())?;
    }
    Ok(bytes
        .iter()
        .map(|byte| char::from(LETTERS[usize::from(byte % 32)]))
        .collect())
}

pub(crate) const TOKEN: &str = "x-amz-security-token";
const LETTERS: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
const REMEMBERED: Duration = Duration::from_hours(1);
