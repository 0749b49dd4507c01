//! Multipart uploads: a folder each, with a file per part, until they become one object.

use crate::folder::{Draft, Folder, FolderError, ObjectInfo, check_key, no_room};
use crate::identity::random_text;
use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

/// Why an upload cannot go on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UploadError {
    #[error("The upload does not exist: it was completed, aborted, or untouched for too long.")]
    NoSuchUpload,
    #[error("A part does not exist or its ETag is not the one given.")]
    InvalidPart,
    #[error("The parts are not in ascending order.")]
    InvalidPartOrder,
    #[error(transparent)]
    Folder(#[from] FolderError),
}

impl From<io::Error> for UploadError {
    fn from(error: io::Error) -> Self {
        Self::Folder(no_room(error))
    }
}

impl Folder {
    /// Begins an upload and gives back its id.
    pub fn begin_upload(&self, bucket: &str, key: &str) -> Result<String, UploadError> {
        check_key(key)?;
        self.bucket(bucket)?;
        let id = random_text(32).map_err(FolderError::from)?;
        let folder = self.uploads().join(&id);
        std::fs::create_dir(&folder)?;
        std::fs::write(folder.join(TARGET), format!("{bucket}/{key}"))?;
        Ok(id)
    }

    /// The part's file becomes part `number`, instead of one that there was.
    pub fn add_part(
        &self,
        bucket: &str,
        key: &str,
        id: &str,
        number: i32,
        partial: Draft,
    ) -> Result<ObjectInfo, UploadError> {
        let folder = self.upload(bucket, key, id)?;
        // Removed or completed while the part came in: then its folder is gone.
        Ok(self.publish_part(partial, &folder.join(part_name(number)))?)
    }

    /// All parts so far: number, size and tag.
    pub fn parts(
        &self,
        bucket: &str,
        key: &str,
        id: &str,
    ) -> Result<Vec<(i32, ObjectInfo)>, UploadError> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(self.upload(bucket, key, id)?)? {
            let entry = entry?;
            let number = entry
                .file_name()
                .to_str()
                .and_then(|name| name.parse().ok());
            if let Some(number) = number {
                found.push((number, ObjectInfo::of_metadata(&entry.metadata()?)));
            }
        }
        found.sort_unstable_by_key(|part: &(i32, ObjectInfo)| part.0);
        Ok(found)
    }

    /// Joins the parts, given as number and tag, into the object.
    pub fn complete_upload(
        &self,
        bucket: &str,
        key: &str,
        id: &str,
        parts: &[(i32, Option<String>)],
    ) -> Result<ObjectInfo, UploadError> {
        let folder = self.upload(bucket, key, id)?;
        if parts.is_empty() {
            return Err(UploadError::InvalidPart);
        }
        if !parts.is_sorted_by(|a, b| a.0 < b.0) {
            return Err(UploadError::InvalidPartOrder);
        }
        let mut files = Vec::with_capacity(parts.len());
        for (number, tag) in parts {
            let file = match File::open(folder.join(part_name(*number))) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    return Err(UploadError::InvalidPart);
                }
                Err(error) => return Err(error.into()),
            };
            let about = ObjectInfo::of(&file)?.ok_or(UploadError::InvalidPart)?;
            if tag.as_ref().is_some_and(|tag| *tag != about.tag) {
                return Err(UploadError::InvalidPart);
            }
            files.push(file);
        }
        // From here on the upload is nobody else's: a second completion finds none.
        let taken = folder.with_extension("done");
        std::fs::rename(&folder, &taken).map_err(|_| UploadError::NoSuchUpload)?;
        let joined = self.join(&files, bucket, key);
        if joined.is_ok() {
            std::fs::remove_dir_all(&taken)?;
        } else {
            std::fs::rename(&taken, &folder)?; // can be tried again, or aborted
        }
        joined
    }

    /// Forgets an upload and its parts.
    pub fn abort_upload(&self, bucket: &str, key: &str, id: &str) -> Result<(), UploadError> {
        let folder = self.upload(bucket, key, id)?;
        Ok(std::fs::remove_dir_all(folder)?)
    }

    /// Removes uploads that nobody has touched for this long.
    pub fn remove_stale_uploads(&self, age: Duration) -> io::Result<()> {
        for entry in std::fs::read_dir(self.uploads())? {
            let entry = entry?;
            let touched = entry.metadata()?.modified()?;
            if SystemTime::now()
                .duration_since(touched)
                .is_ok_and(|since| since >= age)
            {
                std::fs::remove_dir_all(entry.path())?;
            }
        }
        Ok(())
    }

    /// The folder of an upload that was begun for this bucket and key.
    fn upload(&self, bucket: &str, key: &str, id: &str) -> Result<PathBuf, UploadError> {
        let named = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let folder = self.uploads().join(if named { id } else { "-" });
        match std::fs::read_to_string(folder.join(TARGET)) {
            Ok(target) if target == format!("{bucket}/{key}") => Ok(folder),
            _ => Err(UploadError::NoSuchUpload),
        }
    }

    fn join(&self, parts: &[File], bucket: &str, key: &str) -> Result<ObjectInfo, UploadError> {
        let joined = self.partial()?;
        for part in parts {
            // Within the kernel, without a copy where the file system can share blocks.
            append(part, &joined.file)?;
        }
        Ok(self.publish(joined, bucket, key)?)
    }
}

fn append(from: &File, mut to: &File) -> io::Result<()> {
    let mut from = from;
    to.seek(SeekFrom::End(0))?;
    io::copy(&mut from, &mut to).map(drop)
}

fn part_name(number: i32) -> String {
    format!("{number:05}")
}

const TARGET: &str = "target";
