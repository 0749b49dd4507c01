//! What requests say about their bodies, and whether that is so.

use s3s::checksum::ChecksumHasher;
use s3s::crypto::Checksum as _;
use s3s::crypto::{Crc32, Crc32c, Crc64Nvme, Sha1, Sha256};
use s3s::dto::Checksum;
use s3s::{S3Result, TrailingHeaders, s3_error};

/// What a request says about its body.
pub(crate) struct ExpectedBody {
    pub(crate) checksum: Checksum,
    pub(crate) length: Option<i64>,
    /// The name of the checksum that follows the body.
    pub(crate) trailer: Option<String>,
    pub(crate) trailers: Option<TrailingHeaders>,
}

/// The same of an object and of a part, whose requests are types of their own.
macro_rules! expected {
    ($input:ident, $request:ident) => {
        $crate::expected::ExpectedBody {
            checksum: s3s::dto::Checksum {
                checksum_crc32: $input.checksum_crc32,
                checksum_crc32c: $input.checksum_crc32c,
                checksum_crc64nvme: $input.checksum_crc64nvme,
                checksum_sha1: $input.checksum_sha1,
                checksum_sha256: $input.checksum_sha256,
                ..s3s::dto::Checksum::default()
            },
            length: $input.content_length,
            trailer: $crate::expected::trailer(&$request.headers),
            trailers: $request.trailing_headers,
        }
    };
}

pub(crate) use expected;

impl ExpectedBody {
    /// Computes the checksums that the request names.
    pub(crate) fn hasher(&self) -> ChecksumHasher {
        let wanted = &self.checksum;
        let asked = |name: &str, value: &Option<String>| {
            value.is_some() || self.trailer.as_deref() == Some(name)
        };
        ChecksumHasher {
            crc32: asked(CRC32, &wanted.checksum_crc32).then(Crc32::new),
            crc32c: asked(CRC32C, &wanted.checksum_crc32c).then(Crc32c::new),
            crc64nvme: asked(CRC64NVME, &wanted.checksum_crc64nvme).then(Crc64Nvme::new),
            sha1: asked(SHA1, &wanted.checksum_sha1).then(Sha1::new),
            sha256: asked(SHA256, &wanted.checksum_sha256).then(Sha256::new),
        }
    }

    /// An error if a body of this length, with these checksums, is another one.
    pub(crate) fn check(&self, length: u64, found: &Checksum) -> S3Result<()> {
        let wanted = &self.checksum;
        if self.length.is_some_and(|wanted| wanted as u64 != length) {
            return Err(s3_error!(
                IncompleteBody,
                "The body ended before it was whole."
            ));
        }
        let after = |name| {
            self.trailers.as_ref().and_then(|trailers| {
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
            Ok(())
        } else {
            Err(s3_error!(
                BadDigest,
                "The checksum is not that of the body."
            ))
        }
    }
}

/// The name of the checksum that follows the body.
pub(crate) fn trailer(headers: &hyper::HeaderMap) -> Option<String> {
    headers
        .get("x-amz-trailer")?
        .to_str()
        .ok()
        .map(str::to_lowercase)
}

const CRC32: &str = "x-amz-checksum-crc32";
const CRC32C: &str = "x-amz-checksum-crc32c";
const CRC64NVME: &str = "x-amz-checksum-crc64nvme";
const SHA1: &str = "x-amz-checksum-sha1";
const SHA256: &str = "x-amz-checksum-sha256";
