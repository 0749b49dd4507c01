//! The client: an object in parallel ranges, credentials where the AWS tools find them.

mod credentials;
mod download;
mod failure;
mod http;
mod profile;
mod upload;

pub use failure::Failure;

use crate::client::credentials::Setting;
use crate::client::download::Target;
use crate::client::http::Connector;
use crate::client::profile::{Profiles, chosen, variable};
use crate::client::upload::Source;
use crate::stop::unless;
use bytes::Bytes;
use futures::{StreamExt, TryFutureExt, TryStreamExt};
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path;
use object_store::{BackoffConfig, ObjectMeta, ObjectStore, RetryConfig};
use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;

/// Which bucket, where, and how it is read.
pub struct ClientConfig {
    pub bucket: String,
    /// What all keys begin with: whole parts between slashes, or empty.
    pub prefix: String,
    /// Such as `http://127.0.0.1:9000`; None for what the environment or the profile says, else AWS.
    pub endpoint: Option<String>,
    pub region: Option<String>,
    /// A role to assume, by its ARN.
    pub role_arn: Option<String>,
    /// Ranges or parts at one moment.
    pub parallel: usize,
    /// Bytes of one range or part.
    pub part_bytes: usize,
    /// How often a request is tried again after an error of the server or the network.
    pub retries: usize,
}

/// An object: its key after the client's prefix, its bytes, and the tag of its version.
pub type ListedObject = (String, u64, String);

/// The caller's way to end a call, asked about ten times a second.
type Interrupt<'a> = &'a mut dyn FnMut() -> bool;

/// A bucket and prefix of an S3 endpoint. Thread-safe; every call waits until all is done.
pub struct Client {
    store: Arc<AmazonS3>,
    prefix: Path,
    endpoint: String,
    parallel: usize,
    part_bytes: usize,
    runtime: Option<Runtime>,
}

impl Client {
    /// Finds endpoint, region and credentials; asks nobody yet.
    pub fn open(config: ClientConfig) -> Result<Self, Failure> {
        let profiles = Profiles::read();
        let of_profile = |key: &str| profiles.get(&chosen().0)?.get(key).cloned();
        let region = config
            .region
            .or_else(|| variable("AWS_REGION"))
            .or_else(|| variable("AWS_DEFAULT_REGION"))
            .or_else(|| of_profile("region"))
            .unwrap_or_else(|| "us-east-1".to_owned());
        let given = config.endpoint;
        let endpoint = given
            .clone()
            .or_else(|| variable("AWS_ENDPOINT_URL_S3"))
            .or_else(|| variable("AWS_ENDPOINT_URL"))
            .or_else(|| of_profile("endpoint_url"))
            .unwrap_or_else(|| format!("https://s3.{region}.amazonaws.com"));
        let endpoint = endpoint.trim_end_matches('/').to_owned();
        let authorities = variable("AWS_CA_BUNDLE").filter(|_| endpoint.starts_with("https:"));
        let connector = Connector::new(is_local(&endpoint), authorities.as_deref())
            .map_err(Failure::Invalid)?;
        let setting = Setting {
            endpoint: token_endpoint(given.as_deref(), &region),
            region: region.clone(),
            connector: connector.clone(),
            role_arn: config.role_arn,
        };
        let credentials = credentials::find(&profiles, &setting).map_err(Failure::Credentials)?;
        let store = AmazonS3Builder::new()
            .with_bucket_name(config.bucket)
            .with_region(region)
            .with_endpoint(&endpoint)
            .with_credentials(credentials)
            .with_http_connector(connector)
            .with_retry(retries(config.retries))
            .build()
            .map_err(Failure::of)?;
        let prefix =
            Path::parse(&config.prefix).map_err(|error| Failure::Invalid(error.to_string()))?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name("oka-s3-client")
            .enable_all()
            .build()
            .map_err(|error| Failure::Invalid(format!("threads cannot start: {error}")))?;
        Ok(Self {
            store: Arc::new(store),
            prefix,
            endpoint,
            parallel: config.parallel.max(1),
            part_bytes: config.part_bytes.max(1),
            runtime: Some(runtime),
        })
    }

    /// Where requests go.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// All objects below the prefix and `below`, by their keys relative to the prefix, in their
    /// order. An object that has the name itself counts, with what then remains of its key.
    pub fn list(
        &self,
        below: &str,
        interrupted: Interrupt<'_>,
    ) -> Result<Vec<ListedObject>, Failure> {
        let start = self.path(below)?;
        let work = async {
            let mut found: Vec<ObjectMeta> = self
                .store
                .list(Some(&start))
                .try_collect()
                .await
                .map_err(Failure::of)?;
            if found.is_empty() && !start.as_ref().is_empty() {
                let options = object_store::GetOptions {
                    head: true,
                    ..object_store::GetOptions::default()
                };
                match self.store.get_opts(&start, options).await {
                    Ok(object) => found.push(object.meta),
                    Err(object_store::Error::NotFound { .. }) => {}
                    Err(error) => return Err(Failure::of(error)),
                }
            }
            Ok(self.relative(found))
        };
        self.wait(work, interrupted)
    }

    /// Fills the buffer with the object, which must have its size: in parallel ranges, each straight
    /// into its place, all of the same version of the object.
    pub fn get_into(
        &self,
        key: &str,
        buffer: &mut [u8],
        interrupted: Interrupt<'_>,
    ) -> Result<(), Failure> {
        let path = self.path(key)?;
        let (target, mut done) = Target::new(buffer);
        let work = download::into(&self.store, path, target, self.part_bytes, self.parallel);
        let result = self.wait(work, interrupted);
        // Ranges that were dropped may still be at work on another thread for a moment.
        self.runtime().block_on(done.released());
        result
    }

    /// Fills the buffer with the bytes from `start` on of the version of the object with this tag.
    pub fn get_part_into(
        &self,
        key: &str,
        start: u64,
        tag: &str,
        buffer: &mut [u8],
        interrupted: Interrupt<'_>,
    ) -> Result<(), Failure> {
        let path = self.path(key)?;
        let (target, mut done) = Target::new(buffer);
        let (part, tag) = (self.part_bytes, tag.to_owned());
        let work = download::part_into(&self.store, path, target, start, tag, part, self.parallel);
        let result = self.wait(work, interrupted);
        self.runtime().block_on(done.released());
        result
    }

    /// How many bytes an object has.
    pub fn size(&self, key: &str, interrupted: Interrupt<'_>) -> Result<u64, Failure> {
        let path = self.path(key)?;
        self.wait(download::size(&self.store, &path), interrupted)
    }

    /// Writes an object, in parts where it is large; it is there whole or not at all.
    pub fn put(&self, key: &str, data: Bytes, interrupted: Interrupt<'_>) -> Result<(), Failure> {
        self.upload(key, Source::Memory(data), interrupted)
    }

    /// Writes a file's content as an object.
    pub fn put_file(
        &self,
        key: &str,
        path: &std::path::Path,
        interrupted: Interrupt<'_>,
    ) -> Result<(), Failure> {
        let source = Source::of_file(path)?;
        self.upload(key, source, interrupted)
    }

    /// Writes an object unless the key has one, and says whether it did. Of several at once, on any
    /// machines, one does. After an error nobody knows.
    pub fn create(
        &self,
        key: &str,
        data: Bytes,
        interrupted: Interrupt<'_>,
    ) -> Result<bool, Failure> {
        let path = self.path(key)?;
        let work = upload::if_absent(&self.store, &path, data);
        self.wait(work, interrupted)
    }

    /// Removes objects; missing ones are ignored.
    pub fn delete(&self, keys: &[String], interrupted: Interrupt<'_>) -> Result<(), Failure> {
        let paths: Result<Vec<_>, _> = keys.iter().map(|key| self.path(key)).collect();
        let paths = futures::stream::iter(paths?.into_iter().map(Ok)).boxed();
        let work = async {
            self.store
                .delete_stream(paths)
                .try_for_each(|_| std::future::ready(Ok(())))
                .await
                .or_else(|error| match error {
                    object_store::Error::NotFound { .. } if !is_bucket_missing(&error) => Ok(()),
                    error => Err(Failure::of(error)),
                })
        };
        self.wait(work, interrupted)
    }

    /// Begins an upload and gives its id. Nobody sees the object until the upload is completed.
    pub fn begin_upload(&self, key: &str, interrupted: Interrupt<'_>) -> Result<String, Failure> {
        let path = self.path(key)?;
        let work = async { self.store.create_multipart(&path).await };
        self.wait(work.map_err(Failure::of), interrupted)
    }

    /// Sends a file's content to an upload, and gives what completes it: a tag of each part.
    pub fn fill_upload(
        &self,
        key: &str,
        id: &str,
        file: &std::path::Path,
        interrupted: Interrupt<'_>,
    ) -> Result<Vec<String>, Failure> {
        let path = self.path(key)?;
        let source = Source::of_file(file)?;
        let part_bytes = source.part_bytes(self.part_bytes);
        let id = id.to_owned();
        let parts = upload::parts(&self.store, &path, &id, &source, part_bytes, self.parallel);
        let tags = parts.map_ok(|parts| parts.into_iter().map(|part| part.content_id).collect());
        self.wait(tags, interrupted)
    }

    /// Makes the object of an upload, in place of one that there was. After an error nobody knows.
    pub fn complete_upload(
        &self,
        key: &str,
        id: &str,
        tags: Vec<String>,
        interrupted: Interrupt<'_>,
    ) -> Result<(), Failure> {
        let path = self.path(key)?;
        let id = id.to_owned();
        let parts = tags.into_iter().map(|content_id| PartId { content_id });
        let work = self
            .store
            .complete_multipart(&path, &id, parts.collect())
            .map_ok(drop);
        self.wait(work.map_err(Failure::of), interrupted)
    }

    /// Forgets an upload and what was sent to it; a missing one is ignored.
    pub fn abort_upload(
        &self,
        key: &str,
        id: &str,
        interrupted: Interrupt<'_>,
    ) -> Result<(), Failure> {
        let path = self.path(key)?;
        let id = id.to_owned();
        let work = async {
            match self.store.abort_multipart(&path, &id).await {
                Err(error) if error.to_string().contains("NoSuchUpload") => Ok(()),
                done => done.map_err(Failure::of),
            }
        };
        self.wait(work, interrupted)
    }

    fn upload(&self, key: &str, source: Source, interrupted: Interrupt<'_>) -> Result<(), Failure> {
        let path = self.path(key)?;
        let unfinished = upload::UnfinishedUpload::default();
        let work = upload::object(
            &self.store,
            &path,
            source,
            self.part_bytes,
            self.parallel,
            &unfinished,
        );
        let result = self.wait(work, interrupted);
        if result.is_err() {
            self.runtime()
                .block_on(unfinished.abort(&self.store, &path));
        }
        result
    }

    fn wait<T>(
        &self,
        work: impl Future<Output = Result<T, Failure>>,
        interrupted: Interrupt<'_>,
    ) -> Result<T, Failure> {
        self.runtime().block_on(unless(work, interrupted))?
    }

    fn runtime(&self) -> &Runtime {
        self.runtime.as_ref().expect("is there until the drop")
    }

    /// The whole key.
    fn path(&self, key: &str) -> Result<Path, Failure> {
        let key = key.strip_suffix('/').unwrap_or(key);
        let below = Path::parse(key).map_err(|error| Failure::Invalid(error.to_string()))?;
        Ok(self.prefix.parts().chain(below.parts()).collect())
    }

    /// Keys after the prefix, without the empty objects that some tools make for folders.
    fn relative(&self, found: Vec<ObjectMeta>) -> Vec<ListedObject> {
        let prefix = self.prefix.as_ref();
        let mut keys: Vec<ListedObject> = found
            .into_iter()
            .map(|object| {
                let path = object.location.as_ref();
                let key = path.strip_prefix(prefix).unwrap_or(path);
                let tag = object.e_tag.unwrap_or_default();
                (key.trim_start_matches('/').to_owned(), object.size, tag)
            })
            .collect();
        keys.sort_unstable();
        let folders: BTreeSet<String> = keys
            .iter()
            .flat_map(|(key, ..)| key.match_indices('/').map(|(at, _)| key[..at].to_owned()))
            .collect();
        let several = keys.len() > 1;
        keys.retain(|(key, size, _)| {
            *size > 0 || !(folders.contains(key) || (key.is_empty() && several))
        });
        keys
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn is_bucket_missing(error: &object_store::Error) -> bool {
    error.to_string().contains("NoSuchBucket")
}

fn retries(most: usize) -> RetryConfig {
    RetryConfig {
        max_retries: most,
        retry_timeout: Duration::from_mins(2),
        backoff: BackoffConfig {
            init_backoff: Duration::from_millis(100),
            max_backoff: Duration::from_secs(5),
            base: 2.0,
        },
    }
}

/// Of the token service: named for it, for all services, or the S3 endpoint itself where the caller
/// gave one that is not of AWS.
fn token_endpoint(given: Option<&str>, region: &str) -> String {
    variable("AWS_ENDPOINT_URL_STS")
        .or_else(|| variable("AWS_ENDPOINT_URL"))
        .or_else(|| {
            let given = given.filter(|endpoint| !endpoint.contains(".amazonaws.com"));
            given.map(str::to_owned)
        })
        .unwrap_or_else(|| format!("https://sts.{region}.amazonaws.com"))
}

fn is_local(endpoint: &str) -> bool {
    let host = endpoint.split("://").nth(1).unwrap_or(endpoint);
    ["127.", "localhost", "[::1]"]
        .iter()
        .any(|local| host.starts_with(local))
}

const THREADS: usize = 4;
