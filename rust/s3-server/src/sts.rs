//! The token service on the same endpoint: `AssumeRole`, `AssumeRoleWithWebIdentity`.

use crate::identity::{Identities, IssuedCredentials, TOKEN, random_text};
use hyper::http::Extensions;
use hyper::{HeaderMap, Method, StatusCode, Uri, header};
use s3s::dto::{Timestamp, TimestampFormat};
use s3s::route::S3Route;
use s3s::{Body, S3Error, S3ErrorCode, S3Request, S3Response, S3Result, s3_error};
use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use subtle::ConstantTimeEq;

/// Hands out temporary credentials for the roles that it knows.
pub(crate) struct TokenService {
    pub identities: Arc<Identities>,
    /// ARNs of the roles that may be assumed.
    pub roles: HashSet<String>,
    /// The file with the one web identity token that is accepted; read anew for each request.
    pub web_identity: Option<PathBuf>,
}

type Fields = HashMap<String, String>;

#[async_trait::async_trait]
impl S3Route for TokenService {
    fn is_match(
        &self,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
        _extensions: &mut Extensions,
    ) -> bool {
        let content = headers.get(header::CONTENT_TYPE);
        let form = content.is_some_and(|kind| kind.as_bytes().starts_with(FORM));
        let asked = uri.query().is_some_and(|query| {
            form_urlencoded::parse(query.as_bytes()).any(|(name, _)| name == "Action")
        });
        uri.path() == "/" && ((method == Method::POST && form) || asked)
    }

    async fn check_access(&self, request: &mut S3Request<Body>) -> S3Result<()> {
        // Whether a request may be unsigned depends on its action, in the body: see `call`.
        let Some(credentials) = &request.credentials else {
            return Ok(());
        };
        let given = request
            .headers
            .get(TOKEN)
            .map(header::HeaderValue::as_bytes);
        self.identities.check_token(&credentials.access_key, given)
    }

    async fn call(&self, mut request: S3Request<Body>) -> S3Result<S3Response<Body>> {
        self.assume(&mut request)
            .await
            .or_else(|error| Ok(refusal(&error)))
    }
}

impl TokenService {
    async fn assume(&self, request: &mut S3Request<Body>) -> S3Result<S3Response<Body>> {
        let fields = fields(request).await?;
        let signed = request.credentials.is_some();
        let action = fields.get("Action").map_or("", String::as_str);
        match action {
            "AssumeRole" if signed => {}
            "AssumeRole" => return Err(s3_error!(AccessDenied, "The request is not signed.")),
            "AssumeRoleWithWebIdentity" => self.check_web_identity(&fields)?,
            _ => {
                return Err(error(
                    StatusCode::BAD_REQUEST,
                    "InvalidAction",
                    "The action is not AssumeRole or AssumeRoleWithWebIdentity.",
                ));
            }
        }
        let role = required(&fields, "RoleArn")?;
        let session = required(&fields, "RoleSessionName")?;
        if !self.roles.contains(role) {
            return Err(error(
                StatusCode::FORBIDDEN,
                "AccessDenied",
                "The role does not exist or may not be assumed.",
            ));
        }
        let wanted = fields
            .get("DurationSeconds")
            .map_or(Ok(3600), |text| text.parse());
        let Ok(wanted @ 1..=43_200) = wanted else {
            return Err(invalid("DurationSeconds is not in 1 to 43200."));
        };
        let issued = self
            .identities
            .issue(Duration::from_secs(wanted))
            .map_err(S3Error::internal_error)?;
        answer(action, role, session, &issued)
    }

    fn check_web_identity(&self, fields: &Fields) -> S3Result<()> {
        let given = required(fields, "WebIdentityToken")?;
        let right = self
            .web_identity
            .as_ref()
            .and_then(|file| std::fs::read_to_string(file).ok())
            .is_some_and(|token| {
                let token = token.trim();
                !token.is_empty() && bool::from(token.as_bytes().ct_eq(given.trim().as_bytes()))
            });
        if right {
            return Ok(());
        }
        Err(error(
            StatusCode::BAD_REQUEST,
            "InvalidIdentityToken",
            "The web identity token is not the one that this server accepts.",
        ))
    }
}

async fn fields(request: &mut S3Request<Body>) -> S3Result<Fields> {
    let body = request
        .input
        .store_all_limited(MOST_BODY)
        .await
        .map_err(|_| invalid("The body cannot be read or is too long."))?;
    let query = request.uri.query().unwrap_or("");
    Ok(form_urlencoded::parse(query.as_bytes())
        .chain(form_urlencoded::parse(&body))
        .map(|(name, value)| (name.into_owned(), value.into_owned()))
        .collect())
}

fn required<'a>(fields: &'a Fields, name: &'static str) -> S3Result<&'a str> {
    match fields.get(name) {
        Some(value) if !value.is_empty() => Ok(value),
        _ => Err(invalid(&format!("{name} is missing."))),
    }
}

fn answer(
    action: &str,
    role: &str,
    session: &str,
    issued: &IssuedCredentials,
) -> S3Result<S3Response<Body>> {
    let mut expires = Vec::new();
    Timestamp::from(issued.expires)
        .format(TimestampFormat::DateTime, &mut expires)
        .map_err(S3Error::internal_error)?;
    let assumed = role.replacen(":role/", ":assumed-role/", 1);
    let text = format!(
        concat!(
            r#"<{action}Response xmlns="https://sts.amazonaws.com/doc/2011-06-15/">"#,
            "<{action}Result><Credentials><AccessKeyId>{key}</AccessKeyId>",
            "<SecretAccessKey>{secret}</SecretAccessKey><SessionToken>{token}</SessionToken>",
            "<Expiration>{expires}</Expiration></Credentials><AssumedRoleUser>",
            "<Arn>{assumed}/{session}</Arn><AssumedRoleId>AROAOKA:{session}</AssumedRoleId>",
            "</AssumedRoleUser></{action}Result><ResponseMetadata><RequestId>{request}</RequestId>",
            "</ResponseMetadata></{action}Response>"
        ),
        action = action,
        key = issued.access_key,
        secret = issued.secret_key,
        token = issued.token,
        expires = String::from_utf8_lossy(&expires),
        assumed = escaped(&assumed),
        session = escaped(session),
        request = random_text(16).map_err(S3Error::internal_error)?,
    );
    Ok(xml(StatusCode::OK, text))
}

/// An error in the form of the token service, which is not that of S3.
fn refusal(error: &S3Error) -> S3Response<Body> {
    let status = error
        .status_code()
        .or_else(|| error.code().status_code())
        .unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let text = format!(
        concat!(
            r#"<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error>"#,
            "<Type>Sender</Type><Code>{}</Code><Message>{}</Message></Error></ErrorResponse>"
        ),
        escaped(error.code().as_str()),
        escaped(error.message().unwrap_or("")),
    );
    xml(status, text)
}

fn xml(status: StatusCode, text: String) -> S3Response<Body> {
    let mut response = S3Response::with_status(Body::from(text), status);
    let kind = header::HeaderValue::from_static("text/xml");
    response.headers.insert(header::CONTENT_TYPE, kind);
    response
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

fn invalid(message: &str) -> S3Error {
    error(StatusCode::BAD_REQUEST, "ValidationError", message)
}

fn error(status: StatusCode, code: &'static str, message: &str) -> S3Error {
    let mut error = S3Error::with_message(S3ErrorCode::Custom(code.into()), message.to_owned());
    error.set_status_code(status);
    error
}

const FORM: &[u8] = b"application/x-www-form-urlencoded";
const MOST_BODY: usize = 64 << 10;
