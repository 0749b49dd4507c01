//! Bytes between sockets and files: a block is read ahead while the last one is sent.

use crate::failure::FailedRequest;
use crate::folder::no_room;
use bytes::Bytes;
use futures::{Stream, StreamExt};
use s3s::checksum::ChecksumHasher;
use s3s::dto::{Checksum, StreamingBlob};
use s3s::stream::{ByteStream, RemainingLength};
use s3s::{S3Error, S3ErrorCode, S3Result, StdError, s3_error};
use std::fs::File;
use std::future::Future;
use std::io::{self, Write};
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::task::{JoinHandle, spawn_blocking};

/// A part of a file, in blocks.
pub(crate) struct FileBlocks {
    file: Arc<File>,
    rest: Range<u64>,
    ahead: Option<JoinHandle<io::Result<Bytes>>>,
    sent: u64,
    end: u64,
}

impl FileBlocks {
    pub fn new(file: File, range: Range<u64>) -> Self {
        let mut blocks = Self {
            file: Arc::new(file),
            sent: range.start,
            end: range.end,
            rest: range,
            ahead: None,
        };
        blocks.read_ahead();
        blocks
    }

    fn read_ahead(&mut self) {
        self.ahead = None;
        let length = BLOCK.min(self.rest.end - self.rest.start);
        if length == 0 {
            return;
        }
        let (file, at) = (self.file.clone(), self.rest.start);
        self.rest.start += length;
        self.ahead = Some(spawn_blocking(move || {
            read_block(&file, at, length as usize)
        }));
    }
}

impl Stream for FileBlocks {
    type Item = Result<Bytes, StdError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(ahead) = &mut self.ahead else {
            return Poll::Ready(None);
        };
        let block = ready!(Pin::new(ahead).poll(context));
        let block = block
            .map_err(StdError::from)
            .and_then(|block| block.map_err(StdError::from));
        if let Ok(block) = &block {
            self.sent += block.len() as u64;
            self.read_ahead();
        } else {
            self.ahead = None;
        }
        Poll::Ready(Some(block))
    }
}

impl ByteStream for FileBlocks {
    fn remaining_length(&self) -> RemainingLength {
        RemainingLength::new_exact((self.end - self.sent) as usize)
    }
}

fn read_block(file: &File, at: u64, length: usize) -> io::Result<Bytes> {
    let mut block = Vec::with_capacity(length);
    while block.len() < length {
        let from = at + block.len() as u64;
        let read = rustix::io::pread(file, rustix::buffer::spare_capacity(&mut block), from)?;
        if read == 0 {
            return Err(io::Error::other(
                "the file became shorter while it was sent",
            ));
        }
    }
    block.truncate(length);
    Ok(block.into())
}

/// Writes a request's body at the end of a file, block after block, and gives back how many bytes.
///
/// The next block is received while the last one is written. `hasher` sees all bytes.
pub(crate) async fn receive(
    mut body: StreamingBlob,
    file: File,
    mut hasher: ChecksumHasher,
) -> S3Result<(File, u64, Checksum)> {
    let mut length = 0;
    let mut gathered: Vec<Bytes> = Vec::new();
    let mut size = 0;
    let mut file = Some(file);
    let mut writing: Option<JoinHandle<io::Result<File>>> = None;
    loop {
        let next = body.next().await;
        let ended = next.is_none();
        if let Some(bytes) = next {
            let bytes = bytes.map_err(|error| received(&error))?;
            hasher.update(&bytes);
            length += bytes.len() as u64;
            size += bytes.len() as u64;
            gathered.push(bytes);
        }
        if size >= BLOCK || ended {
            if let Some(writing) = writing.take() {
                file = Some(written(writing.await)?);
            }
            let (Some(mut out), blocks) = (file.take(), std::mem::take(&mut gathered)) else {
                return Err(s3_error!(InternalError));
            };
            size = 0;
            writing = Some(spawn_blocking(move || {
                for block in &blocks {
                    out.write_all(block)?;
                }
                Ok(out)
            }));
        }
        if ended && let Some(writing) = writing.take() {
            return Ok((written(writing.await)?, length, hasher.finalize()));
        }
    }
}

fn written(done: Result<io::Result<File>, tokio::task::JoinError>) -> S3Result<File> {
    let file = done.map_err(|_| s3_error!(InternalError))?;
    file.map_err(|error| FailedRequest(no_room(error)).into())
}

/// A body that cannot be received whole: cut off, or not what was signed.
fn received(error: &StdError) -> S3Error {
    let text = error.to_string().to_lowercase();
    if text.contains("checksum") || text.contains("sha256") {
        return S3Error::with_message(
            S3ErrorCode::Custom("XAmzContentSHA256Mismatch".into()),
            "The provided 'x-amz-content-sha256' header does not match what was computed.",
        );
    }
    if text.contains("signature") {
        return s3_error!(SignatureDoesNotMatch);
    }
    s3_error!(IncompleteBody, "The body ended before it was whole.")
}

const BLOCK: u64 = 1 << 20;
