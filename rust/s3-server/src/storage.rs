//! The operations of S3 on the folder.

use crate::body::{FileBlocks, receive};
use crate::conditions::{check_conditions, publish};
use crate::expected::{ExpectedBody, expected};
use crate::failure::{FailedRequest, blocking};
use crate::folder::{Draft, Folder, ObjectInfo};
use crate::listing::{Page, Query};
use crate::server::{Counters, Region};
use crate::uploads::UploadError;
use s3s::dto::{
    AbortMultipartUploadInput, AbortMultipartUploadOutput, Bucket, BucketLocationConstraint,
    CommonPrefix, CompleteMultipartUploadInput, CompleteMultipartUploadOutput, CopyObjectInput,
    CopyObjectOutput, CopyObjectResult, CopySource, CreateBucketInput, CreateBucketOutput,
    CreateMultipartUploadInput, CreateMultipartUploadOutput, DeleteBucketInput, DeleteBucketOutput,
    DeleteObjectInput, DeleteObjectOutput, DeleteObjectsInput, DeleteObjectsOutput, DeletedObject,
    ETag, Error, GetBucketLocationInput, GetBucketLocationOutput, GetObjectInput, GetObjectOutput,
    HeadBucketInput, HeadBucketOutput, HeadObjectInput, HeadObjectOutput, ListBucketsInput,
    ListBucketsOutput, ListObjectsV2Input, ListObjectsV2Output, ListPartsInput, ListPartsOutput,
    Object, Part, PutObjectInput, PutObjectOutput, StreamingBlob, UploadPartInput,
    UploadPartOutput,
};
use s3s::{S3, S3Error, S3Request, S3Response, S3Result, s3_error};
use std::sync::Arc;

/// S3 on a folder.
pub(crate) struct Storage {
    pub folder: Arc<Folder>,
    pub region: Region,
    pub counters: Arc<Counters>,
}

type Answer<T> = S3Result<S3Response<T>>;

#[async_trait::async_trait]
impl S3 for Storage {
    async fn list_buckets(&self, _: S3Request<ListBucketsInput>) -> Answer<ListBucketsOutput> {
        let folder = self.folder.clone();
        let buckets = blocking(move || Ok(folder.buckets()?)).await?;
        let bucket = |(name, made): (String, std::time::SystemTime)| Bucket {
            name: Some(name),
            creation_date: Some(made.into()),
            ..Bucket::default()
        };
        answer(ListBucketsOutput {
            buckets: Some(buckets.into_iter().map(bucket).collect()),
            ..ListBucketsOutput::default()
        })
    }

    async fn create_bucket(
        &self,
        request: S3Request<CreateBucketInput>,
    ) -> Answer<CreateBucketOutput> {
        let (folder, bucket) = (self.folder.clone(), request.input.bucket);
        let location = format!("/{bucket}");
        blocking(move || folder.create_bucket(&bucket)).await?;
        answer(CreateBucketOutput {
            location: Some(location),
        })
    }

    async fn head_bucket(&self, request: S3Request<HeadBucketInput>) -> Answer<HeadBucketOutput> {
        self.check_bucket(request.input.bucket).await?;
        answer(HeadBucketOutput {
            bucket_region: Some(self.region.clone()),
            ..HeadBucketOutput::default()
        })
    }

    async fn get_bucket_location(
        &self,
        request: S3Request<GetBucketLocationInput>,
    ) -> Answer<GetBucketLocationOutput> {
        self.check_bucket(request.input.bucket).await?;
        let named = self.region != "us-east-1"; // which S3 does not name
        answer(GetBucketLocationOutput {
            location_constraint: named.then(|| BucketLocationConstraint::from(self.region.clone())),
        })
    }

    async fn delete_bucket(
        &self,
        request: S3Request<DeleteBucketInput>,
    ) -> Answer<DeleteBucketOutput> {
        let (folder, bucket) = (self.folder.clone(), request.input.bucket);
        blocking(move || folder.delete_bucket(&bucket)).await?;
        answer(DeleteBucketOutput::default())
    }

    async fn list_objects_v2(
        &self,
        request: S3Request<ListObjectsV2Input>,
    ) -> Answer<ListObjectsV2Output> {
        let input = request.input;
        let after = input
            .continuation_token
            .clone()
            .or(input.start_after.clone());
        let query = Query {
            prefix: input.prefix.clone().unwrap_or_default(),
            delimiter: input.delimiter.clone().unwrap_or_default(),
            after: after.unwrap_or_default(),
            most: input
                .max_keys
                .map_or(MOST_KEYS, |most| (most.max(0) as usize).min(MOST_KEYS)),
        };
        let (folder, bucket) = (self.folder.clone(), input.bucket.clone());
        let most = query.most;
        let page: Page = blocking(move || folder.list(&bucket, &query)).await?;
        let count = page.objects.len() + page.prefixes.len();
        let object = |(key, about): (String, ObjectInfo)| Object {
            key: Some(key),
            size: Some(about.size as i64),
            e_tag: Some(ETag::Strong(about.tag)),
            last_modified: Some(about.written.into()),
            ..Object::default()
        };
        let common = |prefix| CommonPrefix {
            prefix: Some(prefix),
        };
        answer(ListObjectsV2Output {
            name: Some(input.bucket),
            prefix: Some(input.prefix.unwrap_or_default()),
            delimiter: input.delimiter,
            continuation_token: input.continuation_token,
            start_after: input.start_after,
            max_keys: Some(most as i32),
            key_count: Some(count as i32),
            is_truncated: Some(page.next.is_some()),
            next_continuation_token: page.next,
            contents: Some(page.objects.into_iter().map(object).collect()),
            common_prefixes: Some(page.prefixes.into_iter().map(common).collect()),
            ..ListObjectsV2Output::default()
        })
    }

    async fn get_object(&self, request: S3Request<GetObjectInput>) -> Answer<GetObjectOutput> {
        let input = request.input;
        let (folder, bucket, key) = (self.folder.clone(), input.bucket, input.key);
        let (file, about) = blocking(move || folder.open_object(&bucket, &key)).await?;
        let whole = 0..about.size;
        check_conditions(
            &about,
            input.if_match.as_ref(),
            input.if_none_match.as_ref(),
        )?;
        let range = match &input.range {
            Some(range) => range
                .check(about.size)
                .map_err(|_| s3_error!(InvalidRange))?,
            None => whole,
        };
        let content_range = input
            .range
            .is_some()
            .then(|| format!("bytes {}-{}/{}", range.start, range.end - 1, about.size));
        let length = range.end - range.start;
        Counters::add(&self.counters.bytes_sent, length);
        let output = GetObjectOutput {
            accept_ranges: Some("bytes".to_owned()),
            body: Some(StreamingBlob::new(FileBlocks::new(file, range))),
            content_length: Some(length as i64),
            content_range: content_range.clone(),
            content_type: Some(BYTES.to_owned()),
            e_tag: Some(ETag::Strong(about.tag)),
            last_modified: Some(about.written.into()),
            ..GetObjectOutput::default()
        };
        let mut response = S3Response::new(output);
        if content_range.is_some() {
            response.status = Some(hyper::StatusCode::PARTIAL_CONTENT);
        }
        Ok(response)
    }

    async fn head_object(&self, request: S3Request<HeadObjectInput>) -> Answer<HeadObjectOutput> {
        let input = request.input;
        let (folder, bucket, key) = (self.folder.clone(), input.bucket, input.key);
        let (_, about) = blocking(move || folder.open_object(&bucket, &key)).await?;
        check_conditions(
            &about,
            input.if_match.as_ref(),
            input.if_none_match.as_ref(),
        )?;
        answer(HeadObjectOutput {
            accept_ranges: Some("bytes".to_owned()),
            content_length: Some(about.size as i64),
            content_type: Some(BYTES.to_owned()),
            e_tag: Some(ETag::Strong(about.tag)),
            last_modified: Some(about.written.into()),
            ..HeadObjectOutput::default()
        })
    }

    async fn put_object(&self, request: S3Request<PutObjectInput>) -> Answer<PutObjectOutput> {
        let input = request.input;
        self.check_bucket(input.bucket.clone()).await?;
        let expected = expected!(input, request);
        let partial = self.receive(input.body, expected).await?;
        let condition = (input.if_match, input.if_none_match);
        let (folder, bucket, key) = (self.folder.clone(), input.bucket, input.key);
        let about = publish(folder, partial, bucket, key, condition).await?;
        answer(PutObjectOutput {
            e_tag: Some(ETag::Strong(about.tag)),
            ..PutObjectOutput::default()
        })
    }

    async fn copy_object(&self, request: S3Request<CopyObjectInput>) -> Answer<CopyObjectOutput> {
        let input = request.input;
        let CopySource::Bucket {
            bucket: from,
            key: source,
            ..
        } = input.copy_source
        else {
            return Err(s3_error!(
                NotImplemented,
                "Only keys of buckets can be copied."
            ));
        };
        let (folder, bucket, key) = (self.folder.clone(), input.bucket, input.key);
        let about = blocking(move || {
            let (mut file, _) = folder.open_object(&from, &source)?;
            let mut partial = folder.partial()?;
            std::io::copy(&mut file, &mut partial.file).map_err(crate::folder::no_room)?;
            folder.publish(partial, &bucket, &key)
        })
        .await?;
        answer(CopyObjectOutput {
            copy_object_result: Some(CopyObjectResult {
                e_tag: Some(ETag::Strong(about.tag)),
                last_modified: Some(about.written.into()),
                ..CopyObjectResult::default()
            }),
            ..CopyObjectOutput::default()
        })
    }

    async fn delete_object(
        &self,
        request: S3Request<DeleteObjectInput>,
    ) -> Answer<DeleteObjectOutput> {
        let input = request.input;
        let folder = self.folder.clone();
        blocking(move || folder.delete_object(&input.bucket, &input.key)).await?;
        answer(DeleteObjectOutput::default())
    }

    async fn delete_objects(
        &self,
        request: S3Request<DeleteObjectsInput>,
    ) -> Answer<DeleteObjectsOutput> {
        let input = request.input;
        self.check_bucket(input.bucket.clone()).await?;
        let folder = self.folder.clone();
        let quiet = input.delete.quiet.unwrap_or(false);
        let output = blocking(move || {
            let (mut deleted, mut errors) = (Vec::new(), Vec::new());
            for object in input.delete.objects {
                match folder.delete_object(&input.bucket, &object.key) {
                    Ok(()) if quiet => {}
                    Ok(()) => deleted.push(DeletedObject {
                        key: Some(object.key),
                        ..DeletedObject::default()
                    }),
                    Err(error) => {
                        let error = S3Error::from(FailedRequest(error));
                        errors.push(Error {
                            key: Some(object.key),
                            code: Some(error.code().as_str().to_owned()),
                            message: error.message().map(str::to_owned),
                            version_id: None,
                        });
                    }
                }
            }
            Ok((deleted, errors))
        })
        .await?;
        answer(DeleteObjectsOutput {
            deleted: Some(output.0),
            errors: (!output.1.is_empty()).then_some(output.1),
            ..DeleteObjectsOutput::default()
        })
    }

    async fn create_multipart_upload(
        &self,
        request: S3Request<CreateMultipartUploadInput>,
    ) -> Answer<CreateMultipartUploadOutput> {
        let input = request.input;
        let (folder, bucket, key) = (self.folder.clone(), input.bucket.clone(), input.key.clone());
        let id = upload(move || folder.begin_upload(&bucket, &key)).await?;
        answer(CreateMultipartUploadOutput {
            bucket: Some(input.bucket),
            key: Some(input.key),
            upload_id: Some(id),
            ..CreateMultipartUploadOutput::default()
        })
    }

    async fn upload_part(&self, request: S3Request<UploadPartInput>) -> Answer<UploadPartOutput> {
        let input = request.input;
        if !(1..=10_000).contains(&input.part_number) {
            return Err(s3_error!(
                InvalidArgument,
                "The part number is not in 1 to 10000."
            ));
        }
        let expected = expected!(input, request);
        let partial = self.receive(input.body, expected).await?;
        let (folder, bucket, key) = (self.folder.clone(), input.bucket, input.key);
        let (id, number) = (input.upload_id, input.part_number);
        let about = upload(move || folder.add_part(&bucket, &key, &id, number, partial)).await?;
        answer(UploadPartOutput {
            e_tag: Some(ETag::Strong(about.tag)),
            ..UploadPartOutput::default()
        })
    }

    async fn list_parts(&self, request: S3Request<ListPartsInput>) -> Answer<ListPartsOutput> {
        let input = request.input;
        let (folder, bucket, key) = (self.folder.clone(), input.bucket.clone(), input.key.clone());
        let id = input.upload_id.clone();
        let parts = upload(move || folder.parts(&bucket, &key, &id)).await?;
        let part = |(number, about): (i32, ObjectInfo)| Part {
            part_number: Some(number),
            size: Some(about.size as i64),
            e_tag: Some(ETag::Strong(about.tag)),
            last_modified: Some(about.written.into()),
            ..Part::default()
        };
        answer(ListPartsOutput {
            bucket: Some(input.bucket),
            key: Some(input.key),
            upload_id: Some(input.upload_id),
            parts: Some(parts.into_iter().map(part).collect()),
            is_truncated: Some(false),
            ..ListPartsOutput::default()
        })
    }

    async fn complete_multipart_upload(
        &self,
        request: S3Request<CompleteMultipartUploadInput>,
    ) -> Answer<CompleteMultipartUploadOutput> {
        let input = request.input;
        let parts = input
            .multipart_upload
            .and_then(|upload| upload.parts)
            .unwrap_or_default();
        let parts: Vec<_> = parts
            .into_iter()
            .map(|part| {
                (
                    part.part_number.unwrap_or(0),
                    part.e_tag.map(ETag::into_value),
                )
            })
            .collect();
        let (folder, bucket, key) = (self.folder.clone(), input.bucket.clone(), input.key.clone());
        let id = input.upload_id;
        let about = upload(move || folder.complete_upload(&bucket, &key, &id, &parts)).await?;
        answer(CompleteMultipartUploadOutput {
            location: Some(format!("/{}/{}", input.bucket, input.key)),
            bucket: Some(input.bucket),
            key: Some(input.key),
            e_tag: Some(ETag::Strong(about.tag)),
            ..CompleteMultipartUploadOutput::default()
        })
    }

    async fn abort_multipart_upload(
        &self,
        request: S3Request<AbortMultipartUploadInput>,
    ) -> Answer<AbortMultipartUploadOutput> {
        let input = request.input;
        let folder = self.folder.clone();
        upload(move || folder.abort_upload(&input.bucket, &input.key, &input.upload_id)).await?;
        answer(AbortMultipartUploadOutput::default())
    }
}

impl Storage {
    async fn check_bucket(&self, bucket: String) -> S3Result<()> {
        let folder = self.folder.clone();
        blocking(move || folder.bucket(&bucket).map(drop)).await
    }

    /// The body in a file aside, its length and checksums checked.
    async fn receive(
        &self,
        body: Option<StreamingBlob>,
        expected: ExpectedBody,
    ) -> S3Result<Draft> {
        let folder = self.folder.clone();
        let partial = blocking(move || folder.partial().map_err(crate::folder::no_room)).await?;
        let Some(body) = body else {
            return Ok(partial);
        };
        let file = partial
            .file
            .try_clone()
            .map_err(|error| S3Error::from(FailedRequest::from(error)))?;
        let (_, length, found) = receive(body, file, expected.hasher()).await?;
        Counters::add(&self.counters.bytes_received, length);
        expected.check(length, &found)?;
        Ok(partial)
    }
}

async fn upload<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, UploadError> + Send + 'static,
) -> S3Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| s3_error!(InternalError))?
        .map_err(|error| {
            let message = error.to_string();
            match error {
                UploadError::NoSuchUpload => {
                    S3Error::with_message(s3s::S3ErrorCode::NoSuchUpload, message)
                }
                UploadError::InvalidPart => {
                    S3Error::with_message(s3s::S3ErrorCode::InvalidPart, message)
                }
                UploadError::InvalidPartOrder => {
                    S3Error::with_message(s3s::S3ErrorCode::InvalidPartOrder, message)
                }
                UploadError::Folder(error) => FailedRequest(error).into(),
            }
        })
}

#[allow(clippy::unnecessary_wraps, reason = "what every operation gives back")]
fn answer<T>(output: T) -> Answer<T> {
    Ok(S3Response::new(output))
}

const BYTES: &str = "application/octet-stream";
const MOST_KEYS: usize = 1000;
