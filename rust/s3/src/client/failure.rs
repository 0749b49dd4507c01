//! What went wrong with a request, in words that hold no secret.

use crate::client::credentials::CredentialError;
use crate::stop::Interrupted;
use object_store::client::HttpError;
use std::error::Error;
use std::io;

/// Why a call of the client failed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// S3 answered with an error; `code` is its own word for it, such as `NoSuchBucket`.
    #[error("S3 answered {code}{}{message}", if message.is_empty() { "" } else { ": " })]
    Answered { code: String, message: String },
    /// Nobody answered, for as long as it was tried.
    #[error("no answer: {0}")]
    Unreachable(String),
    /// No credentials, or the token service refused to give temporary ones.
    #[error("{0}")]
    Credentials(CredentialError),
    /// The object was replaced while it was read.
    #[error("the object changed while it was read")]
    Changed,
    /// The object does not have the size that the buffer has.
    #[error("the object has {found} bytes, the buffer {expected}")]
    Size { expected: u64, found: u64 },
    /// The settings or the key cannot work.
    #[error("{0}")]
    Invalid(String),
    /// A file of this machine cannot be read.
    #[error("{path}: {error}")]
    File { path: String, error: io::Error },
    /// The caller stopped waiting.
    #[error("interrupted")]
    Interrupted,
}

impl Failure {
    /// The word for it: S3's own where it answered.
    pub fn code(&self) -> &str {
        match self {
            Self::Answered { code, .. } => code,
            Self::Unreachable(_) => "Unreachable",
            Self::Credentials(error) => error.code(),
            Self::Changed => "Changed",
            Self::Size { .. } => "Size",
            Self::Invalid(_) => "Invalid",
            Self::File { .. } => "File",
            Self::Interrupted => "Interrupted",
        }
    }

    /// From the first answer to a request that names no version of the object.
    pub(crate) fn of(error: object_store::Error) -> Self {
        if let Some(error) = find::<CredentialError>(&error) {
            return Self::Credentials(error.clone());
        }
        if let object_store::Error::InvalidPath { source } = &error {
            return Self::Invalid(source.to_string());
        }
        let text = error.to_string();
        if let (Some(code), message) = (text_of(&text, "Code"), text_of(&text, "Message")) {
            let message = message.unwrap_or_default();
            return Self::Answered { code, message };
        }
        match error {
            object_store::Error::Precondition { .. } => Self::Changed,
            object_store::Error::NotFound { .. } => Self::Answered {
                code: "NotFound".to_owned(),
                message: "there is no such bucket or key".to_owned(),
            },
            object_store::Error::PermissionDenied { .. }
            | object_store::Error::Unauthenticated { .. } => Self::Answered {
                code: "AccessDenied".to_owned(),
                message: "the credentials are wrong or do not allow it".to_owned(),
            },
            // The client's own check of a later range against the first one's ETag.
            _ if text.contains("ETag") && text.contains("changed") => Self::Changed,
            error => Self::Unreachable(innermost(&error)),
        }
    }

    /// From a request that named the version of the object by its `ETag`.
    pub(crate) fn of_pinned(error: object_store::Error) -> Self {
        match error {
            // Removed after the first range came: gone is changed, too.
            object_store::Error::Precondition { .. } | object_store::Error::NotFound { .. } => {
                Self::Changed
            }
            error => match Self::of(error) {
                Self::Answered { code, .. } if code == "InvalidRange" => Self::Changed,
                failure => failure,
            },
        }
    }
}

impl From<Interrupted> for Failure {
    fn from(_: Interrupted) -> Self {
        Self::Interrupted
    }
}

/// The content of an XML element, where the text has one.
pub(crate) fn text_of(text: &str, name: &str) -> Option<String> {
    let from = text.find(&format!("<{name}>"))? + name.len() + 2;
    let to = from + text[from..].find(&format!("</{name}>"))?;
    Some(
        text[from..to]
            .replace("&lt;", "<")
            .replace("&gt;", ">")
            .replace("&quot;", "\"")
            .replace("&#39;", "'")
            .replace("&apos;", "'")
            .replace("&amp;", "&"),
    )
}

/// What the system said: the chain above it only repeats URLs and retries.
pub(crate) fn innermost(error: &(dyn Error + 'static)) -> String {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    let text = last.to_string();
    if find::<HttpError>(error).is_none() && text.len() > MOST_TEXT {
        return text.chars().take(MOST_TEXT).collect();
    }
    text
}

fn find<'a, T: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a T> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        next = error.source();
    }
    None
}

const MOST_TEXT: usize = 500;

#[cfg(test)]
mod tests {
    use super::text_of;

    #[test]
    fn text_of_an_element() {
        let text = "<Error><Code>NoSuchKey</Code><Message>a &lt;b&gt; &amp;amp;</Message></Error>";
        assert_eq!(text_of(text, "Code").as_deref(), Some("NoSuchKey"));
        assert_eq!(text_of(text, "Message").as_deref(), Some("a <b> &amp;"));
        assert_eq!(text_of(text, "RequestId"), None);
        assert_eq!(text_of("<Code>cut off", "Code"), None);
    }
}
