//! Credentials of the standard chain: environment, profile, web identity, container, instance.
//!
//! Temporary ones are renewed before they end. Nothing here prints a secret.

use crate::client::failure::{innermost, text_of};
use crate::client::http::Connector;
use crate::client::profile::{Profile, Profiles, chosen, variable};
use hyper::{Method, header};
use object_store::RetryConfig;
use object_store::aws::{
    AmazonS3Builder, AmazonS3ConfigKey, AwsAuthorizer, AwsCredential, AwsCredentialProvider,
};
use object_store::client::{CredentialProvider, HttpRequest, StaticCredentialProvider};
use s3s::dto::{Timestamp, TimestampFormat};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::sync::Mutex;

/// Why there are no credentials.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CredentialError {
    #[error(
        "no credentials: the environment, the profile {profile:?}, a web identity, a container and \
         the instance have none"
    )]
    Missing { profile: String },
    #[error("the profile {profile:?} {problem}")]
    Profile { profile: String, problem: String },
    #[error("the token service at {endpoint} refused {what}: {code}: {message}")]
    Refused {
        endpoint: String,
        what: String,
        code: String,
        message: String,
    },
    #[error("the token service at {endpoint} did not answer: {reason}")]
    Unreachable { endpoint: String, reason: String },
    #[error("the web identity token {file} cannot be read: {reason}")]
    Token { file: String, reason: String },
}

impl CredentialError {
    pub(crate) fn code(&self) -> &str {
        match self {
            Self::Missing { .. } => "NoCredentials",
            Self::Profile { .. } => "Profile",
            Self::Refused { code, .. } => code,
            Self::Unreachable { .. } => "Unreachable",
            Self::Token { .. } => "WebIdentityToken",
        }
    }
}

impl From<CredentialError> for object_store::Error {
    fn from(error: CredentialError) -> Self {
        Self::Generic {
            store: "S3",
            source: Box::new(error),
        }
    }
}

/// What finding credentials depends on.
pub(crate) struct Setting {
    pub region: String,
    pub connector: Connector,
    /// Of the token service.
    pub endpoint: String,
    /// A role to assume with whatever the chain gives.
    pub role_arn: Option<String>,
}

/// The first source of the chain that is there, and the role on top of it.
pub(crate) fn find(
    profiles: &Profiles,
    setting: &Setting,
) -> Result<AwsCredentialProvider, CredentialError> {
    let base = chain(profiles, setting)?;
    Ok(match &setting.role_arn {
        Some(role) => assumed(base, role, &Profile::new(), setting),
        None => base,
    })
}

fn chain(profiles: &Profiles, setting: &Setting) -> Result<AwsCredentialProvider, CredentialError> {
    let (profile, by_name) = chosen();
    if let Some(provider) = environment() {
        return Ok(provider);
    }
    match profiles.get(&profile) {
        Some(_) => {
            if let Some(provider) = of_profile(profiles, &profile, setting, 0)? {
                return Ok(provider);
            }
        }
        None if by_name => {
            return Err(CredentialError::Profile {
                profile,
                problem: "does not exist".to_owned(),
            });
        }
        None => {}
    }
    let token = variable("AWS_WEB_IDENTITY_TOKEN_FILE");
    if let (Some(file), Some(role)) = (token, variable("AWS_ROLE_ARN")) {
        let session = variable("AWS_ROLE_SESSION_NAME");
        return Ok(web_identity(file, role, session, setting));
    }
    Ok(container(setting).unwrap_or_else(|| instance(setting, profile)))
}

fn environment() -> Option<AwsCredentialProvider> {
    fixed(
        variable("AWS_ACCESS_KEY_ID")?,
        variable("AWS_SECRET_ACCESS_KEY")?,
        variable("AWS_SESSION_TOKEN"),
    )
}

#[allow(clippy::unnecessary_wraps, reason = "the end of chains of options")]
fn fixed(
    key_id: String,
    secret_key: String,
    token: Option<String>,
) -> Option<AwsCredentialProvider> {
    Some(Arc::new(StaticCredentialProvider::new(AwsCredential {
        key_id,
        secret_key,
        token,
    })))
}

/// What a profile gives; None where it sets nothing about credentials.
fn of_profile(
    profiles: &Profiles,
    name: &str,
    setting: &Setting,
    depth: usize,
) -> Result<Option<AwsCredentialProvider>, CredentialError> {
    let wrong = |problem: &str| CredentialError::Profile {
        profile: name.to_owned(),
        problem: problem.to_owned(),
    };
    let profile = profiles.get(name).ok_or_else(|| wrong("does not exist"))?;
    let get = |key: &str| profile.get(key).cloned();
    let keys = || {
        fixed(
            get("aws_access_key_id")?,
            get("aws_secret_access_key")?,
            get("aws_session_token"),
        )
    };
    let Some(role) = get("role_arn") else {
        let other = profile
            .keys()
            .find(|key| *key == "credential_process" || key.starts_with("sso_"));
        return match (keys(), other) {
            (None, Some(other)) => Err(wrong(&format!("uses {other}, which is not supported"))),
            (keys, _) => Ok(keys),
        };
    };
    if let Some(file) = get("web_identity_token_file") {
        let session = get("role_session_name");
        return Ok(Some(web_identity(file, role, session, setting)));
    }
    let base = match (get("source_profile"), get("credential_source").as_deref()) {
        // A profile may be its own source: the role by the profile's own keys.
        (Some(source), _) if source == name => keys(),
        (Some(_), _) if depth >= MOST_DEPTH => return Err(wrong("is its own source")),
        (Some(source), _) => of_profile(profiles, &source, setting, depth + 1)?,
        (None, Some("Environment")) => environment(),
        (None, Some("EcsContainer")) => container(setting),
        (None, Some("Ec2InstanceMetadata")) => Some(instance(setting, name.to_owned())),
        (None, _) => keys(),
    };
    let base = base.ok_or_else(|| wrong("names a role, but no credentials to assume it with"))?;
    Ok(Some(assumed(base, &role, profile, setting)))
}

fn assumed(
    base: AwsCredentialProvider,
    role: &str,
    profile: &Profile,
    setting: &Setting,
) -> AwsCredentialProvider {
    let mut fields = vec![
        ("Action", "AssumeRole".to_owned()),
        ("RoleArn", role.to_owned()),
    ];
    if let Some(id) = profile.get("external_id") {
        fields.push(("ExternalId", id.clone()));
    }
    session(
        fields,
        profile.get("role_session_name").cloned(),
        setting,
        Proof::Signature(base),
    )
}

fn web_identity(
    file: String,
    role: String,
    name: Option<String>,
    setting: &Setting,
) -> AwsCredentialProvider {
    let action = "AssumeRoleWithWebIdentity".to_owned();
    let fields = vec![("Action", action), ("RoleArn", role)];
    session(fields, name, setting, Proof::Token(file))
}

fn session(
    mut fields: Vec<(&'static str, String)>,
    name: Option<String>,
    setting: &Setting,
    proof: Proof,
) -> AwsCredentialProvider {
    let name = name
        .or_else(|| variable("AWS_ROLE_SESSION_NAME"))
        .unwrap_or_else(|| format!("oka-{}", std::process::id()));
    fields.push(("RoleSessionName", name));
    fields.push(("Version", "2011-06-15".to_owned()));
    Arc::new(Session {
        fields,
        proof,
        endpoint: setting.endpoint.clone(),
        region: setting.region.clone(),
        connector: setting.connector.clone(),
        current: Mutex::default(),
    })
}

/// Credentials of a container, as the environment of one names them.
fn container(setting: &Setting) -> Option<AwsCredentialProvider> {
    let relative = variable("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
    let full = variable("AWS_CONTAINER_CREDENTIALS_FULL_URI");
    let token = variable("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
    let mut builder = metadata(setting);
    for (key, value) in [
        (AmazonS3ConfigKey::ContainerCredentialsRelativeUri, relative),
        (AmazonS3ConfigKey::ContainerCredentialsFullUri, full),
        (AmazonS3ConfigKey::ContainerAuthorizationTokenFile, token),
    ] {
        if let Some(value) = value {
            builder = builder.with_config(key, value);
        }
    }
    let given = builder.get_config_value(&AmazonS3ConfigKey::ContainerCredentialsRelativeUri);
    let full = builder.get_config_value(&AmazonS3ConfigKey::ContainerCredentialsFullUri);
    given.or(full)?;
    Some(builder.build().ok()?.credentials().clone())
}

/// Credentials of the machine; the end of the chain, so that its failure means: none anywhere.
fn instance(setting: &Setting, profile: String) -> AwsCredentialProvider {
    let disabled = variable("AWS_EC2_METADATA_DISABLED");
    let disabled = disabled.is_some_and(|value| value.eq_ignore_ascii_case("true"));
    let mut builder = metadata(setting);
    if let Some(endpoint) = variable("AWS_EC2_METADATA_SERVICE_ENDPOINT") {
        builder = builder.with_metadata_endpoint(endpoint);
    }
    let store = if disabled { None } else { builder.build().ok() };
    Arc::new(Instance {
        inner: store.map(|store| store.credentials().clone()),
        profile,
    })
}

/// Only to reach the providers for containers and instances that are inside it.
fn metadata(setting: &Setting) -> AmazonS3Builder {
    AmazonS3Builder::new()
        .with_bucket_name("none")
        .with_region(&setting.region)
        .with_retry(RetryConfig {
            max_retries: 1,
            retry_timeout: Duration::from_secs(3),
            ..RetryConfig::default()
        })
}

#[derive(Debug)]
struct Instance {
    inner: Option<AwsCredentialProvider>,
    profile: String,
}

#[async_trait::async_trait]
impl CredentialProvider for Instance {
    type Credential = AwsCredential;

    async fn get_credential(&self) -> object_store::Result<Arc<AwsCredential>> {
        let missing = || CredentialError::Missing {
            profile: self.profile.clone(),
        };
        let Some(inner) = &self.inner else {
            return Err(missing().into());
        };
        inner.get_credential().await.map_err(|_| missing().into())
    }
}

/// Temporary credentials of a role, fetched at the first use and again before they end.
#[derive(Debug)]
struct Session {
    fields: Vec<(&'static str, String)>,
    proof: Proof,
    endpoint: String,
    region: String,
    connector: Connector,
    current: Mutex<Option<Current>>,
}

/// By what the role may be assumed.
#[derive(Debug)]
enum Proof {
    Signature(AwsCredentialProvider),
    /// The file of a web identity token, which is replaced from time to time.
    Token(String),
}

#[derive(Debug)]
struct Current {
    credential: Arc<AwsCredential>,
    renew: SystemTime,
    ends: SystemTime,
}

#[async_trait::async_trait]
impl CredentialProvider for Session {
    type Credential = AwsCredential;

    async fn get_credential(&self) -> object_store::Result<Arc<AwsCredential>> {
        let mut current = self.current.lock().await;
        let now = SystemTime::now();
        if let Some(current) = current.as_ref().filter(|current| now < current.renew) {
            return Ok(current.credential.clone());
        }
        match self.fetch(now).await {
            Ok(fetched) => Ok(current.insert(fetched).credential.clone()),
            Err(error) => match current.as_ref() {
                // Still good for a while, and the next request tries again.
                Some(current) if now < current.ends => Ok(current.credential.clone()),
                _ => Err(error),
            },
        }
    }
}

impl Session {
    async fn fetch(&self, now: SystemTime) -> object_store::Result<Current> {
        let unreachable = |reason: String| CredentialError::Unreachable {
            endpoint: self.endpoint.clone(),
            reason,
        };
        let mut fault = String::new();
        for attempt in 0..ATTEMPTS {
            if attempt > 0 {
                tokio::time::sleep(FIRST_PAUSE * 2_u32.pow(attempt - 1)).await;
            }
            let request = self.request().await?;
            let response = match self.connector.client().execute(request).await {
                Ok(response) => response,
                Err(error) => {
                    fault = innermost(&error);
                    continue;
                }
            };
            let (parts, body) = response.into_parts();
            let body = match body.bytes().await {
                Ok(body) => body,
                Err(error) => {
                    fault = innermost(&error);
                    continue;
                }
            };
            if parts.status.is_server_error() {
                fault = format!("it answered {}", parts.status);
                continue;
            }
            return Ok(self.read(&String::from_utf8_lossy(&body), now)?);
        }
        Err(unreachable(fault).into())
    }

    async fn request(&self) -> object_store::Result<HttpRequest> {
        let mut request = HttpRequest::new(self.form()?.into());
        *request.method_mut() = Method::POST;
        let uri = format!("{}/", self.endpoint.trim_end_matches('/'));
        *request.uri_mut() = uri.parse().map_err(|_| CredentialError::Unreachable {
            endpoint: self.endpoint.clone(),
            reason: "it is no URL".to_owned(),
        })?;
        let form = header::HeaderValue::from_static("application/x-www-form-urlencoded");
        request.headers_mut().insert(header::CONTENT_TYPE, form);
        if let Proof::Signature(base) = &self.proof {
            let credential = base.get_credential().await?;
            AwsAuthorizer::new(&credential, "sts", &self.region)
                .try_authorize(&mut request, None)?;
        }
        Ok(request)
    }

    fn form(&self) -> Result<String, CredentialError> {
        let mut form = form_urlencoded::Serializer::new(String::new());
        form.extend_pairs(&self.fields);
        if let Proof::Token(file) = &self.proof {
            let token = std::fs::read_to_string(file).map_err(|error| CredentialError::Token {
                file: file.clone(),
                reason: error.to_string(),
            })?;
            form.append_pair("WebIdentityToken", token.trim());
        }
        Ok(form.finish())
    }

    /// The credentials in an answer, and when to ask for new ones.
    fn read(&self, answer: &str, now: SystemTime) -> Result<Current, CredentialError> {
        let field = |name| text_of(answer, name);
        let credential = || {
            Some(AwsCredential {
                key_id: field("AccessKeyId")?,
                secret_key: field("SecretAccessKey")?,
                token: Some(field("SessionToken")?),
            })
        };
        let ends = field("Expiration")
            .and_then(|text| Timestamp::parse(TimestampFormat::DateTime, &text).ok())
            .and_then(|ends| as_system_time(&ends));
        let (Some(credential), Some(ends)) = (credential(), ends) else {
            let what = self.fields.iter().take(2).map(|field| field.1.as_str());
            return Err(CredentialError::Refused {
                endpoint: self.endpoint.clone(),
                what: what.collect::<Vec<_>>().join(" of "),
                code: field("Code").unwrap_or_else(|| "Unknown".to_owned()),
                message: field("Message").unwrap_or_else(|| "no credentials".to_owned()),
            });
        };
        let lasts = ends.duration_since(now).unwrap_or_default();
        Ok(Current {
            credential: Arc::new(credential),
            renew: ends - (lasts / 5).min(RENEW_BEFORE),
            ends,
        })
    }
}

fn as_system_time(timestamp: &Timestamp) -> Option<SystemTime> {
    let mut text = Vec::new();
    timestamp
        .format(TimestampFormat::EpochSeconds, &mut text)
        .ok()?;
    let seconds: f64 = std::str::from_utf8(&text).ok()?.parse().ok()?;
    SystemTime::UNIX_EPOCH.checked_add(Duration::try_from_secs_f64(seconds).ok()?)
}

const RENEW_BEFORE: Duration = Duration::from_mins(5);
const ATTEMPTS: u32 = 4;
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const MOST_DEPTH: usize = 5;
