//! One object written: at once, or in parts where it is large.

use crate::client::failure::Failure;
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use object_store::aws::AmazonS3;
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path;
use object_store::{MultipartId, ObjectStore, PutMode, PutOptions, PutPayload};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Where the bytes come from.
pub(crate) enum Source {
    Memory(Bytes),
    File {
        file: Arc<File>,
        size: u64,
        path: String,
    },
}

/// The upload in parts that is under way: parts of one that is not ended cost money.
#[derive(Default)]
pub(crate) struct UnfinishedUpload(Mutex<Option<MultipartId>>);

/// Writes the object; it is there once this ends well, and not before.
pub(crate) async fn object(
    store: &AmazonS3,
    path: &Path,
    source: Source,
    part_bytes: usize,
    parallel: usize,
    unfinished: &UnfinishedUpload,
) -> Result<(), Failure> {
    let size = source.size();
    let part_bytes = source.part_bytes(part_bytes);
    if size <= 2 * part_bytes {
        let data = source.read(0..size).await?;
        let done = store
            .put_opts(path, PutPayload::from(data), PutOptions::default())
            .await;
        return done.map(drop).map_err(Failure::of);
    }
    let id = store.create_multipart(path).await.map_err(Failure::of)?;
    unfinished.set(Some(id.clone()));
    let parts = parts(store, path, &id, &source, part_bytes, parallel).await?;
    store
        .complete_multipart(path, &id, parts)
        .await
        .map_err(Failure::of)?;
    unfinished.set(None);
    Ok(())
}

/// Sends all bytes as parts of an upload that has begun.
pub(crate) async fn parts(
    store: &AmazonS3,
    path: &Path,
    id: &MultipartId,
    source: &Source,
    part_bytes: u64,
    parallel: usize,
) -> Result<Vec<PartId>, Failure> {
    let size = source.size();
    let ranges = (0..size)
        .step_by(part_bytes as usize)
        .map(|at| at..(at + part_bytes).min(size));
    futures::stream::iter(ranges.enumerate())
        .map(|(number, range)| async move {
            let data = source.read(range).await?;
            let payload = PutPayload::from(data);
            let done = store.put_part(path, id, number, payload).await;
            done.map_err(Failure::of)
        })
        .buffered(parallel)
        .try_collect()
        .await
}

/// Writes the object in one request unless there is one, and says whether it did.
pub(crate) async fn if_absent(store: &AmazonS3, path: &Path, data: Bytes) -> Result<bool, Failure> {
    let payload = PutPayload::from(data);
    for _ in 0..CONFLICTS {
        let options = PutOptions::from(PutMode::Create);
        match store.put_opts(path, payload.clone(), options).await {
            Ok(_) => return Ok(true),
            // The condition was not met; a conflict, which looks alike, says nothing of the object.
            Err(object_store::Error::AlreadyExists { source, .. })
                if source.is::<object_store::Error>() =>
            {
                return Ok(false);
            }
            // Another request for the key was under way.
            Err(error) if error.to_string().contains("ConditionalRequestConflict") => {}
            Err(error) => return Err(Failure::of(error)),
        }
        tokio::time::sleep(CONFLICT_PAUSE).await;
    }
    Err(Failure::Answered {
        code: "ConditionalRequestConflict".to_owned(),
        message: "other requests for the key are under way all the time".to_owned(),
    })
}

impl UnfinishedUpload {
    /// Tells S3 to forget the parts, if there are any; for a few seconds at most.
    pub async fn abort(&self, store: &AmazonS3, path: &Path) {
        let id = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(id) = id {
            let _ = tokio::time::timeout(PATIENCE, store.abort_multipart(path, &id)).await;
        }
    }

    fn set(&self, id: Option<MultipartId>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = id;
    }
}

impl Source {
    fn size(&self) -> u64 {
        match self {
            Self::Memory(data) => data.len() as u64,
            Self::File { size, .. } => *size,
        }
    }

    /// Bytes of a part, as S3's limits have it.
    pub fn part_bytes(&self, wanted: usize) -> u64 {
        (wanted as u64)
            .max(LEAST_PART)
            .max(self.size().div_ceil(MOST_PARTS))
    }

    /// The content of a file, as long as it is now.
    pub fn of_file(path: &std::path::Path) -> Result<Self, Failure> {
        let failed = |error| Failure::File {
            path: path.display().to_string(),
            error,
        };
        let file = File::open(path).map_err(failed)?;
        let about = file.metadata().map_err(failed)?;
        if !about.is_file() {
            return Err(failed(io::Error::other("it is not a file")));
        }
        Ok(Self::File {
            file: Arc::new(file),
            size: about.len(),
            path: path.display().to_string(),
        })
    }

    async fn read(&self, range: Range<u64>) -> Result<Bytes, Failure> {
        match self {
            Self::Memory(data) => Ok(data.slice(range.start as usize..range.end as usize)),
            Self::File { file, path, .. } => {
                let file = file.clone();
                let read = tokio::task::spawn_blocking(move || read_range(&file, &range)).await;
                read.unwrap_or_else(|error| Err(io::Error::other(error)))
                    .map_err(|error| Failure::File {
                        path: path.clone(),
                        error,
                    })
            }
        }
    }
}

fn read_range(file: &File, range: &Range<u64>) -> io::Result<Bytes> {
    let length = (range.end - range.start) as usize;
    let mut data = Vec::with_capacity(length);
    while data.len() < length {
        let at = range.start + data.len() as u64;
        if rustix::io::pread(file, rustix::buffer::spare_capacity(&mut data), at)? == 0 {
            return Err(io::Error::other("it became shorter while it was sent"));
        }
    }
    data.truncate(length);
    Ok(data.into())
}

/// S3's limits: all parts but the last have 5 MiB or more, and there are at most 10,000.
const LEAST_PART: u64 = 5 << 20;
const MOST_PARTS: u64 = 10_000;
const PATIENCE: Duration = Duration::from_secs(5);
const CONFLICTS: usize = 20;
const CONFLICT_PAUSE: Duration = Duration::from_millis(100);
