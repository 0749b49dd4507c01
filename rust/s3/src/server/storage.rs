//! The operations of S3 on the folder.

use crate::server::body::{FileBlocks, receive};
use crate::server::failure::{Failed, blocking};
use crate::server::folder::{About, Folder, Partial};
use crate::server::listing::{Page, Query};
use crate::server::uploads::UploadError;
use crate::server::{Counters, Region};
use s3s::checksum::ChecksumHasher;
use s3s::crypto::Checksum as _;
use s3s::crypto::{Crc32, Crc32c, Crc64Nvme, Sha1, Sha256};
use s3s::dto::{
    AbortMultipartUploadInput, AbortMultipartUploadOutput, Bucket, BucketLocationConstraint,
    Checksum, CommonPrefix, CompleteMultipartUploadInput, CompleteMultipartUploadOutput,
    CopyObjectInput, CopyObjectOutput, CopyObjectResult, CopySource, CreateBucketInput,
    CreateBucketOutput, CreateMultipartUploadInput, CreateMultipartUploadOutput, DeleteBucketInput,
    DeleteBucketOutput, DeleteObjectInput, DeleteObjectOutput, DeleteObjectsInput,
    DeleteObjectsOutput, DeletedObject, ETag, ETagCondition, Error, GetBucketLocationInput,
    GetBucketLocationOutput, GetObjectInput, GetObjectOutput, HeadBucketInput, HeadBucketOutput,
    HeadObjectInput, HeadObjectOutput, ListBucketsInput, ListBucketsOutput, ListObjectsV2Input,
    ListObjectsV2Output, ListPartsInput, ListPartsOutput, Object, Part, PutObjectInput,
    PutObjectOutput, StreamingBlob, UploadPartInput, UploadPartOutput,
};
use s3s::{S3, S3Error, S3Request, S3Response, S3Result, TrailingHeaders, s3_error};
use std::sync::Arc;

/// S3 on a folder.
pub(crate) struct Storage {
    pub folder: Arc<Folder>,
    pub region: Region,
    pub counters: Arc<Counters>,
}

type Answer<T> = S3Result<S3Response<T>>;

/// What the request says about its body.
struct Given {
    checksum: Checksum,
    length: Option<i64>,
    /// The name of the checksum that follows the body.
    trailer: Option<String>,
    trailers: Option<TrailingHeaders>,
}

/// The same of an object and of a part, whose requests are types of their own.
macro_rules! given {
    ($input:ident, $request:ident) => {
        Given {
            checksum: Checksum {
                checksum_crc32: $input.checksum_crc32,
                checksum_crc32c: $input.checksum_crc32c,
                checksum_crc64nvme: $input.checksum_crc64nvme,
                checksum_sha1: $input.checksum_sha1,
                checksum_sha256: $input.checksum_sha256,
                ..Checksum::default()
            },
            length: $input.content_length,
            trailer: trailer(&$request.headers),
            trailers: $request.trailing_headers,
        }
    };
}

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
        let object = |(key, about): (String, About)| Object {
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
        let given = given!(input, request);
        let partial = self.receive(input.body, given).await?;
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
            std::io::copy(&mut file, &mut partial.file).map_err(crate::server::folder::no_room)?;
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
                        let error = S3Error::from(Failed(error));
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
        let given = given!(input, request);
        let partial = self.receive(input.body, given).await?;
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
        let part = |(number, about): (i32, About)| Part {
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
    async fn receive(&self, body: Option<StreamingBlob>, given: Given) -> S3Result<Partial> {
        let folder = self.folder.clone();
        let partial =
            blocking(move || folder.partial().map_err(crate::server::folder::no_room)).await?;
        let Some(body) = body else {
            return Ok(partial);
        };
        let wanted = &given.checksum;
        let asked = |name: &str, value: &Option<String>| {
            value.is_some() || given.trailer.as_deref() == Some(name)
        };
        let hasher = ChecksumHasher {
            crc32: asked(CRC32, &wanted.checksum_crc32).then(Crc32::new),
            crc32c: asked(CRC32C, &wanted.checksum_crc32c).then(Crc32c::new),
            crc64nvme: asked(CRC64NVME, &wanted.checksum_crc64nvme).then(Crc64Nvme::new),
            sha1: asked(SHA1, &wanted.checksum_sha1).then(Sha1::new),
            sha256: asked(SHA256, &wanted.checksum_sha256).then(Sha256::new),
        };
        let file = partial
            .file
            .try_clone()
            .map_err(|error| S3Error::from(Failed::from(error)))?;
        let (_, length, found) = receive(body, file, hasher).await?;
        Counters::add(&self.counters.bytes_received, length);
        if given.length.is_some_and(|wanted| wanted as u64 != length) {
            return Err(s3_error!(
                IncompleteBody,
                "The body ended before it was whole."
            ));
        }
        let after = |name| {
            given.trailers.as_ref().and_then(|trailers| {
                trailers.read(|headers| headers.get(name)?.to_str().ok().map(str::to_owned))?
            })
        };
        let matches = |name, wanted: &Option<String>, found: &Option<String>| {
            let wanted = wanted.clone().or_else(|| after(name));
            found.is_none() || wanted.is_none() || wanted == *found
        };
        let right = matches(CRC32, &wanted.checksum_crc32, &found.checksum_crc32)
            && matches(CRC32C, &wanted.checksum_crc32c, &found.checksum_crc32c)
            && matches(
                CRC64NVME,
                &wanted.checksum_crc64nvme,
                &found.checksum_crc64nvme,
            )
            && matches(SHA1, &wanted.checksum_sha1, &found.checksum_sha1)
            && matches(SHA256, &wanted.checksum_sha256, &found.checksum_sha256);
        if right {
            Ok(partial)
        } else {
            Err(s3_error!(
                BadDigest,
                "The checksum is not that of the body."
            ))
        }
    }
}

async fn publish(
    folder: Arc<Folder>,
    partial: Partial,
    bucket: String,
    key: String,
    (if_match, if_none_match): (Option<ETagCondition>, Option<ETagCondition>),
) -> S3Result<About> {
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

fn check_conditions(
    about: &About,
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
                UploadError::Folder(error) => Failed(error).into(),
            }
        })
}

fn trailer(headers: &hyper::HeaderMap) -> Option<String> {
    headers
        .get("x-amz-trailer")?
        .to_str()
        .ok()
        .map(str::to_lowercase)
}

#[allow(clippy::unnecessary_wraps, reason = "what every operation gives back")]
fn answer<T>(output: T) -> Answer<T> {
    Ok(S3Response::new(output))
}

const CRC32: &str = "x-amz-checksum-crc32";
const CRC32C: &str = "x-amz-checksum-crc32c";
const CRC64NVME: &str = "x-amz-checksum-crc64nvme";
const SHA1: &str = "x-amz-checksum-sha1";
const SHA256: &str = "x-amz-checksum-sha256";
const BYTES: &str = "application/octet-stream";
const MOST_KEYS: usize = 1000;
