//! HTTP over rustls, with bounded waits.

use object_store::ClientOptions;
use object_store::client::{HttpClient, HttpConnector};
use std::time::Duration;

/// Makes the HTTP clients of one S3 client: all alike, whatever the options say.
#[derive(Clone, Debug)]
pub(crate) struct Connector(reqwest::Client);

impl Connector {
    /// `direct`: not through a proxy that the environment names, for an endpoint on this machine.
    /// `authorities`: a file of certificates to trust besides those of the system.
    pub fn new(direct: bool, authorities: Option<&str>) -> Result<Self, String> {
        // The one provider of this process; an error says that somebody chose one already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = reqwest::Client::builder()
            .http1_only()
            .connect_timeout(CONNECT_TIMEOUT)
            .read_timeout(READ_TIMEOUT)
            .tcp_nodelay(true)
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("oka/", env!("CARGO_PKG_VERSION")));
        if direct {
            builder = builder.no_proxy();
        }
        if let Some(path) = authorities {
            let pem =
                std::fs::read(path).map_err(|error| format!("AWS_CA_BUNDLE {path}: {error}"))?;
            let trusted = reqwest::Certificate::from_pem_bundle(&pem)
                .map_err(|error| format!("AWS_CA_BUNDLE {path}: {error}"))?;
            builder = builder.tls_certs_merge(trusted);
        }
        let client = builder.build().map_err(|error| error.to_string())?;
        Ok(Self(client))
    }

    pub fn client(&self) -> HttpClient {
        HttpClient::new(self.0.clone())
    }
}

impl HttpConnector for Connector {
    fn connect(&self, _options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(self.client())
    }
}

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Without a byte of an answer; a part that is sent has to arrive in this time, too.
const READ_TIMEOUT: Duration = Duration::from_mins(1);
