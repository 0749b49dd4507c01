//! What goes to a client, in pieces that tell how far it has read.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::mpsc;

use crate::budget::{BudgetShare, SMALL_BYTES};
use crate::connection::{ActivityGuard, Progress};
use crate::gateway::{BrokenAnswer, Piece};

/// All of an answer, or what comes of it piece by piece.
pub(crate) struct Content {
    source: Source,
    /// None where the socket alone tells enough: all of it goes there at once.
    progress: Option<Arc<Progress>>,
    asked: ActivityGuard,
}

enum Source {
    Whole(Bytes),
    Rest(PieceStream),
}

/// What comes of an answer, and what ends with it.
pub(crate) struct PieceStream {
    pub(crate) pieces: mpsc::Receiver<Piece>,
    pub(crate) _open: crate::answer::OpenRequest,
}

impl Content {
    /// All of it. Over HTTP/2 clients say how much they read, which no socket tells.
    pub(crate) fn whole(
        bytes: Bytes,
        kept: Option<BudgetShare>,
        asked: ActivityGuard,
        is_http2: bool,
    ) -> Self {
        let is_watched = !bytes.is_empty() && (is_http2 || bytes.len() > SMALL_BYTES);
        let progress = is_watched.then(|| asked.answer());
        let bytes = match (&progress, kept) {
            (None, None) => bytes,
            (progress, kept) => together(bytes, (progress.clone(), kept)),
        };
        Self {
            source: Source::Whole(bytes),
            progress,
            asked,
        }
    }

    /// What comes of it.
    pub(crate) fn rest(rest: PieceStream, asked: ActivityGuard) -> Self {
        Self {
            source: Source::Rest(rest),
            progress: Some(asked.answer()),
            asked,
        }
    }

    fn next(&mut self, context: &mut Context<'_>) -> Poll<Option<Piece>> {
        match &mut self.source {
            Source::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Source::Whole(bytes) => {
                let piece = bytes.split_to(bytes.len().min(PIECE_BYTES));
                Poll::Ready(Some(Ok(piece)))
            }
            Source::Rest(rest) => {
                let piece = std::task::ready!(rest.pieces.poll_recv(context));
                let told = |bytes| together(bytes, self.progress.clone());
                Poll::Ready(piece.map(|piece| piece.map(told)))
            }
        }
    }
}

impl Body for Content {
    type Data = Bytes;
    type Error = BrokenAnswer;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BrokenAnswer>>> {
        let next = self.next(context);
        if let Some(progress) = &self.progress {
            self.asked.go_on(progress, next.is_ready());
        }
        next.map(|piece| piece.map(|piece| piece.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        matches!(&self.source, Source::Whole(bytes) if bytes.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            Source::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Source::Rest(_) => SizeHint::default(),
        }
    }
}

/// The bytes, and what lives as long as anything of them.
pub(crate) fn together<T: Send + 'static>(bytes: Bytes, with: T) -> Bytes {
    Bytes::from_owner(OwnedBytes { bytes, _with: with })
}

struct OwnedBytes<T> {
    bytes: Bytes,
    _with: T,
}

impl<T> AsRef<[u8]> for OwnedBytes<T> {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Of an answer, so much is handed on at a time.
const PIECE_BYTES: usize = 32 * 1024;
