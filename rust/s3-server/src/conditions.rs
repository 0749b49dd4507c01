//! Conditions of requests on what is there already: If-Match and If-None-Match.

use crate::failure::blocking;
use crate::folder::{Draft, Folder, ObjectInfo};
use s3s::dto::ETagCondition;
use s3s::{S3Result, s3_error};
use std::sync::Arc;

/// The file becomes the object, if what is there allows it.
pub(crate) async fn publish(
    folder: Arc<Folder>,
    partial: Draft,
    bucket: String,
    key: String,
    (if_match, if_none_match): (Option<ETagCondition>, Option<ETagCondition>),
) -> S3Result<ObjectInfo> {
    if if_none_match.is_some() {
        return blocking(move || folder.create(partial, &bucket, &key)).await;
    }
    if let Some(if_match) = if_match {
        let (folder, bucket, key) = (folder.clone(), bucket.clone(), key.clone());
        let now = blocking(move || Ok(folder.open_object(&bucket, &key)?.1)).await?;
        check_conditions(&now, Some(&if_match), None)?;
    }
    blocking(move || folder.publish(partial, &bucket, &key)).await
}

/// An error if the object is not one that the request may have.
pub(crate) fn check_conditions(
    about: &ObjectInfo,
    if_match: Option<&ETagCondition>,
    if_none_match: Option<&ETagCondition>,
) -> S3Result<()> {
    let is = |condition: &ETagCondition| match condition {
        ETagCondition::Any => true,
        ETagCondition::ETag(tag) => tag.value() == about.tag,
    };
    if if_match.is_some_and(|condition| !is(condition)) {
        return Err(s3_error!(
            PreconditionFailed,
            "The object is not the one that If-Match names: it was replaced."
        ));
    }
    if if_none_match.is_some_and(is) {
        return Err(s3_error!(NotModified));
    }
    Ok(())
}
