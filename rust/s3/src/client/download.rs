//! One object in parallel ranges, each streamed into its place of the caller's memory.

use crate::client::failure::Failure;
use futures::StreamExt;
use object_store::aws::AmazonS3;
use object_store::path::Path;
use object_store::{GetOptions, GetRange, GetResult, ObjectStore};
use std::ops::Range;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// The caller's memory, written by several threads, each in a part of its own.
#[derive(Clone)]
pub(crate) struct Target {
    start: *mut u8,
    length: usize,
    _held: mpsc::Sender<()>,
}

// SAFETY: the memory is the caller's exclusively, who waits for `WriterWatch::released` before it has it
// back; parts that are written at one time do not overlap (`place`'s callers see to that).
unsafe impl Send for Target {}
// SAFETY: as above; nothing can be read or written through a reference but by `place`.
unsafe impl Sync for Target {}

/// Tells when nobody can write any more.
pub(crate) struct WriterWatch(mpsc::Receiver<()>);

impl Target {
    /// The caller must wait for `released` before the borrow of the buffer ends.
    pub fn new(buffer: &mut [u8]) -> (Self, WriterWatch) {
        let (sender, receiver) = mpsc::channel(1);
        let target = Self {
            start: buffer.as_mut_ptr(),
            length: buffer.len(),
            _held: sender,
        };
        (target, WriterWatch(receiver))
    }

    /// Copies the bytes to their place; they must end before the buffer does.
    fn place(&self, at: usize, bytes: &[u8]) {
        assert!(
            at.checked_add(bytes.len())
                .is_some_and(|end| end <= self.length)
        );
        // SAFETY: inside the buffer, as just checked; nobody else writes this part, as every range is
        // fetched by one task.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.start.add(at), bytes.len());
        }
    }
}

impl WriterWatch {
    /// Waits until every clone of the target is dropped.
    pub async fn released(&mut self) {
        while self.0.recv().await.is_some() {}
    }
}

/// Fills the target with the object, of one version: the one that the first range is of.
pub(crate) async fn into(
    store: &Arc<AmazonS3>,
    path: Path,
    target: Target,
    part: usize,
    parallel: usize,
) -> Result<(), Failure> {
    let length = target.length;
    let mut ranges = (0..length)
        .step_by(part)
        .map(|at| at..(at + part).min(length));
    let first = ranges.next();
    let options = GetOptions {
        range: first.clone().map(bounded),
        ..GetOptions::default()
    };
    let answer = match store.get_opts(&path, options).await {
        Ok(answer) => answer,
        Err(error) => return Err(empty_or(store, &path, Failure::of(error), length).await),
    };
    if answer.meta.size != length as u64 {
        return Err(Failure::Size {
            expected: length as u64,
            found: answer.meta.size,
        });
    }
    let tag = answer.meta.e_tag.clone();
    let mut running = JoinSet::new();
    if let Some(first) = first {
        running.spawn(fill(answer, target.clone(), first));
    }
    rest(store, &path, target, ranges, 0, tag, running, parallel).await
}

/// Fills the target with the bytes from `start` on of the version of the object with this tag.
pub(crate) async fn part_into(
    store: &Arc<AmazonS3>,
    path: Path,
    target: Target,
    start: u64,
    tag: String,
    part: usize,
    parallel: usize,
) -> Result<(), Failure> {
    let length = target.length;
    let ranges = (0..length)
        .step_by(part)
        .map(|at| at..(at + part).min(length));
    let running = JoinSet::new();
    rest(
        store,
        &path,
        target,
        ranges,
        start,
        Some(tag),
        running,
        parallel,
    )
    .await
}

/// Fetches the ranges of the target, whose first byte is that at `start`, beside what is running.
#[allow(
    clippy::too_many_arguments,
    reason = "what both ways to begin have in common"
)]
async fn rest(
    store: &Arc<AmazonS3>,
    path: &Path,
    target: Target,
    mut ranges: impl Iterator<Item = Range<usize>>,
    start: u64,
    tag: Option<String>,
    mut running: JoinSet<Result<(), Failure>>,
    parallel: usize,
) -> Result<(), Failure> {
    loop {
        while running.len() < parallel
            && let Some(range) = ranges.next()
        {
            let (store, path, target) = (store.clone(), path.clone(), target.clone());
            let options = GetOptions {
                range: Some(bounded_from(start, &range)),
                if_match: tag.clone(),
                ..GetOptions::default()
            };
            running.spawn(async move {
                let answer = store.get_opts(&path, options).await;
                fill(answer.map_err(Failure::of_pinned)?, target, range).await
            });
        }
        match running.join_next().await {
            None => return Ok(()),
            Some(done) => {
                done.unwrap_or_else(|error| Err(Failure::Unreachable(error.to_string())))?;
            }
        }
    }
}

/// The size of an object, from its first byte's answer: unlike HEAD's, it says what is wrong.
pub(crate) async fn size(store: &Arc<AmazonS3>, path: &Path) -> Result<u64, Failure> {
    let options = GetOptions {
        range: Some(bounded(0..1)),
        ..GetOptions::default()
    };
    match store.get_opts(path, options).await {
        Ok(answer) => Ok(answer.meta.size),
        Err(error) => match Failure::of(error) {
            // An empty object has no first byte.
            Failure::Answered { code, .. } if code == "InvalidRange" => Ok(0),
            failure => Err(failure),
        },
    }
}

async fn fill(answer: GetResult, target: Target, range: Range<usize>) -> Result<(), Failure> {
    let mut at = range.start;
    let mut stream = answer.into_stream();
    while let Some(bytes) = stream.next().await {
        let bytes = bytes.map_err(Failure::of_pinned)?;
        if bytes.len() > range.end - at {
            return Err(Failure::Unreachable("more bytes than asked for".to_owned()));
        }
        target.place(at, &bytes);
        at += bytes.len();
    }
    if at < range.end {
        return Err(Failure::Unreachable(
            "fewer bytes than asked for".to_owned(),
        ));
    }
    Ok(())
}

/// What an error of the first range means: for an empty object, that its size is not the buffer's.
async fn empty_or(store: &Arc<AmazonS3>, path: &Path, failure: Failure, length: usize) -> Failure {
    match failure {
        Failure::Answered { code, message } if code == "InvalidRange" => {
            match size(store, path).await {
                Ok(found) => Failure::Size {
                    expected: length as u64,
                    found,
                },
                Err(_) => Failure::Answered { code, message },
            }
        }
        failure => failure,
    }
}

fn bounded(range: Range<usize>) -> GetRange {
    bounded_from(0, &range)
}

fn bounded_from(start: u64, range: &Range<usize>) -> GetRange {
    GetRange::Bounded(start + range.start as u64..start + range.end as u64)
}
