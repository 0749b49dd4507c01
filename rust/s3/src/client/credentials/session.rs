//! Credentials of a role, by the token service.

use crate::client::credentials::renewed::{
    RenewedCredentials, Source, TemporaryCredentials, moment,
};
use crate::client::credentials::{CredentialError, Setting};
use crate::client::failure::{innermost, text_of};
use crate::client::http::Connector;
use crate::client::profile::variable;

use object_store::aws::{AwsAuthorizer, AwsCredential, AwsCredentialProvider};
use object_store::client::HttpRequest;
use reqwest::{Method, header};
use std::sync::Arc;
use std::time::Duration;

/// A role, assumed by a proof at the token service.
pub(super) fn session(
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
    Arc::new(RenewedCredentials::new(Session {
        fields,
        proof,
        endpoint: setting.endpoint.clone(),
        region: setting.region.clone(),
        connector: setting.connector.clone(),
    }))
}

/// A role, and what it is assumed by.
#[derive(Debug)]
struct Session {
    fields: Vec<(&'static str, String)>,
    proof: Proof,
    endpoint: String,
    region: String,
    connector: Connector,
}

/// By what the role may be assumed.
#[derive(Debug)]
pub(super) enum Proof {
    Signature(AwsCredentialProvider),
    /// The file of a web identity token, which is replaced from time to time.
    Token(String),
}

#[async_trait::async_trait]
impl Source for Session {
    async fn fetch(&self) -> object_store::Result<TemporaryCredentials> {
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
            return Ok(self.read(&String::from_utf8_lossy(&body))?);
        }
        Err(unreachable(fault).into())
    }
}

impl Session {
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

    /// The credentials in an answer.
    fn read(&self, answer: &str) -> Result<TemporaryCredentials, CredentialError> {
        let field = |name| text_of(answer, name);
        let credentials = || {
            let credential = AwsCredential {
                key_id: field("AccessKeyId")?,
                secret_key: field("SecretAccessKey")?,
                token: Some(field("SessionToken")?),
            };
            let ends = Some(moment(&field("Expiration")?)?);
            Some(TemporaryCredentials { credential, ends })
        };
        credentials().ok_or_else(|| {
            let what = self.fields.iter().take(2).map(|field| field.1.as_str());
            CredentialError::Refused {
                endpoint: self.endpoint.clone(),
                what: what.collect::<Vec<_>>().join(" of "),
                code: field("Code").unwrap_or_else(|| "Unknown".to_owned()),
                message: field("Message").unwrap_or_else(|| "no credentials".to_owned()),
            }
        })
    }
}

const ATTEMPTS: u32 = 4;
const FIRST_PAUSE: Duration = Duration::from_millis(100);
