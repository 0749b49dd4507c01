//! Credentials of the standard chain: environment, profile, web identity, container, instance.
//!
//! Nothing here prints a secret.
//!
//! Ours, as `aws-config` 1.13 adds 32 crates and 4.7 MB to a stripped library of `object_store` and `s3s` of 168 crates and
//! 5.2 MB (`cargo build --release` of a cdylib that uses each, 2026-11-26), and `reqsign-aws-v4` 3.3, at 22 crates and 1.5 MB,
//! ignores the role of a profile and knows no endpoint of the token service but AWS's.

mod process;
mod renewed;
mod session;

use crate::client::credentials::process::Process;
use crate::client::credentials::renewed::RenewedCredentials;
use crate::client::credentials::session::{Proof, session};
use crate::client::http::Connector;
use crate::client::profile::{Profile, Profiles, chosen, variable};
use object_store::RetryConfig;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey, AwsCredential, AwsCredentialProvider};
use object_store::client::{CredentialProvider, StaticCredentialProvider};
use std::sync::Arc;
use std::time::Duration;

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
    #[error("the credential_process of the profile {profile:?} {problem}")]
    Process { profile: String, problem: String },
}

impl CredentialError {
    pub(crate) fn code(&self) -> &str {
        match self {
            Self::Missing { .. } => "NoCredentials",
            Self::Profile { .. } => "Profile",
            Self::Refused { code, .. } => code,
            Self::Unreachable { .. } => "Unreachable",
            Self::Token { .. } => "WebIdentityToken",
            Self::Process { .. } => "CredentialProcess",
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
        let fixed = || {
            fixed(
                get("aws_access_key_id")?,
                get("aws_secret_access_key")?,
                get("aws_session_token"),
            )
        };
        fixed().or_else(|| {
            let command = get("credential_process")?;
            let profile = name.to_owned();
            let provider: AwsCredentialProvider =
                Arc::new(RenewedCredentials::new(Process { command, profile }));
            Some(provider)
        })
    };
    let Some(role) = get("role_arn") else {
        let other = profile.keys().find(|key| key.starts_with("sso_"));
        return match (keys(), other) {
            (None, Some(other)) => Err(wrong(&format!(
                "uses {other}, which is not supported: in another profile, `credential_process = \
                 aws configure export-credentials --profile {name}` has the AWS tools do it"
            ))),
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

const MOST_DEPTH: usize = 5;
