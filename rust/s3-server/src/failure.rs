//! What an error of the folder is called in S3.

use crate::folder::FolderError;
use hyper::StatusCode;
use s3s::{S3Error, S3ErrorCode};

/// An error of the folder, on its way into an answer.
pub(crate) struct FailedRequest(pub FolderError);

impl From<FolderError> for FailedRequest {
    fn from(error: FolderError) -> Self {
        Self(error)
    }
}

impl From<std::io::Error> for FailedRequest {
    fn from(error: std::io::Error) -> Self {
        Self(error.into())
    }
}

impl From<FailedRequest> for S3Error {
    fn from(FailedRequest(error): FailedRequest) -> Self {
        let message = error.to_string();
        let (code, status) = match error {
            FolderError::NoSuchBucket => (S3ErrorCode::NoSuchBucket, None),
            FolderError::NoSuchKey => (S3ErrorCode::NoSuchKey, None),
            FolderError::BucketExists => (S3ErrorCode::BucketAlreadyOwnedByYou, None),
            FolderError::BucketNotEmpty => (S3ErrorCode::BucketNotEmpty, None),
            FolderError::KeyUnfit => (S3ErrorCode::InvalidArgument, None),
            FolderError::KeyTaken => (
                S3ErrorCode::Custom("KeyConflict".into()),
                Some(StatusCode::CONFLICT),
            ),
            FolderError::KeyExists => (S3ErrorCode::PreconditionFailed, None),
            FolderError::KeyOutside => (S3ErrorCode::AccessDenied, None),
            FolderError::NoRoom(_) => (
                S3ErrorCode::Custom("InsufficientStorage".into()),
                Some(StatusCode::INSUFFICIENT_STORAGE),
            ),
            FolderError::Io(_) => (S3ErrorCode::InternalError, None),
        };
        let mut answer = S3Error::with_message(code, message);
        if let Some(status) = status {
            answer.set_status_code(status);
        }
        answer
    }
}

/// Runs what blocks where it may.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, FolderError> + Send + 'static,
) -> Result<T, S3Error> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done.map_err(|error| FailedRequest(error).into()),
        Err(_) => Err(S3ErrorCode::InternalError.into()),
    }
}
