//! Buckets as folders and objects as files: every path is resolved by the kernel beneath its bucket.
//!
//! An object appears whole or not at all: it is written to a file aside and renamed. Symbolic links
//! are no objects, and no path leads through one. Everything here blocks.

use rustix::fs::{
    AtFlags, CWD, FileType, FlockOperation, Mode, OFlags, RenameFlags, ResolveFlags, Timespec,
    Timestamps, UTIME_OMIT,
};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The root of all buckets, and of what is not yet an object. One server at a time has it.
pub(crate) struct Folder {
    root: PathBuf,
    aside: PathBuf,
    /// Holds the lock; the kernel lets go of it when the process ends, however it does.
    _lock: OwnedFd,
    next: AtomicU64,
    /// The last time that an object was given as its own: no two share one.
    last_written: AtomicI64,
}

/// Why a request for a bucket or key cannot be served.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FolderError {
    #[error("The specified bucket does not exist.")]
    NoSuchBucket,
    #[error("The specified key does not exist.")]
    NoSuchKey,
    #[error("The bucket exists already.")]
    BucketExists,
    #[error("The bucket you tried to delete is not empty.")]
    BucketNotEmpty,
    #[error(
        "The key cannot be the name of a file: its parts between slashes must not be empty, '.' or \
         '..', nor longer than 255 bytes."
    )]
    KeyUnfit,
    #[error("A part of the key is an object already, or the key is the beginning of others.")]
    KeyTaken,
    #[error("The key is that of an object already.")]
    KeyExists,
    #[error("The key leads out of the bucket or to something that is no file.")]
    KeyOutside,
    #[error("There is no room for the object: {0}.")]
    NoRoom(io::Error),
    #[error("The server cannot use its folder: {0}.")]
    Io(#[from] io::Error),
}

/// What is known of an object without its bytes.
#[derive(Clone, Debug)]
pub(crate) struct ObjectInfo {
    pub size: u64,
    pub written: SystemTime,
    /// Tells this content of the key from every other; never an MD5.
    pub tag: String,
}

/// A file that is not yet an object; removed unless it becomes one.
pub(crate) struct Draft {
    pub file: File,
    path: PathBuf,
    kept: bool,
}

impl Folder {
    /// Takes the folder, which is made where it is missing, and clears what an earlier server left.
    pub fn open(root: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(root)?;
        let root = root.canonicalize()?;
        let aside = root.join(ASIDE);
        std::fs::create_dir_all(aside.join(UPLOADS))?;
        let lock = rustix::fs::open(
            &aside,
            OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|error| {
            if error == Errno::WOULDBLOCK {
                io::Error::other("another server uses this folder")
            } else {
                error.into()
            }
        })?;
        let folder = Self {
            root,
            aside,
            _lock: lock,
            next: AtomicU64::new(0),
            last_written: AtomicI64::new(0),
        };
        for entry in std::fs::read_dir(&folder.aside)? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                std::fs::remove_file(entry.path())?;
            }
        }
        // Fails here, where it can be told, rather than at the first request.
        drop(folder.partial()?);
        Ok(folder)
    }

    /// Where multipart uploads are gathered, a folder each.
    pub fn uploads(&self) -> PathBuf {
        self.aside.join(UPLOADS)
    }

    /// Removes what this server keeps of its own: at the end.
    pub fn clear(&self) {
        let _ = std::fs::remove_dir(self.uploads());
        let _ = std::fs::remove_dir(&self.aside);
    }

    /// Names of all buckets and when each was made.
    pub fn buckets(&self) -> io::Result<Vec<(String, SystemTime)>> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(&self.root)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            if entry.file_type()?.is_dir() && s3s::path::check_bucket_name(&name) {
                found.push((name, entry.metadata()?.modified()?));
            }
        }
        found.sort();
        Ok(found)
    }

    /// Makes a bucket; an error where there is one.
    pub fn create_bucket(&self, bucket: &str) -> Result<(), FolderError> {
        std::fs::create_dir(self.root.join(bucket)).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => FolderError::BucketExists,
            _ => no_room(error),
        })
    }

    /// Removes an empty bucket; folders without files in them do not count.
    pub fn delete_bucket(&self, bucket: &str) -> Result<(), FolderError> {
        let path = self.bucket(bucket)?;
        remove_empty(&path)?;
        std::fs::remove_dir(path).map_err(|error| match error.kind() {
            io::ErrorKind::DirectoryNotEmpty => FolderError::BucketNotEmpty,
            _ => error.into(),
        })
    }

    /// The folder of a bucket that exists.
    pub fn bucket(&self, bucket: &str) -> Result<PathBuf, FolderError> {
        let path = self.root.join(bucket);
        // Not through a link: that would be a folder elsewhere.
        match std::fs::symlink_metadata(&path) {
            Ok(about) if about.is_dir() => Ok(path),
            Ok(_) => Err(FolderError::NoSuchBucket),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(FolderError::NoSuchBucket),
            Err(error) => Err(error.into()),
        }
    }

    /// An object, open for reading.
    pub fn open_object(&self, bucket: &str, key: &str) -> Result<(File, ObjectInfo), FolderError> {
        check_key(key)?;
        let bucket = self.open_bucket(bucket)?;
        // Without blocking: a named pipe would wait for its writer.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(beneath(&bucket, key, flags)?);
        let about = ObjectInfo::of(&file)?.ok_or(FolderError::NoSuchKey)?;
        Ok((file, about))
    }

    /// Removes an object and the folders that are empty without it. No error where there is none.
    pub fn delete_object(&self, bucket: &str, key: &str) -> Result<(), FolderError> {
        if check_key(key).is_err() {
            return Ok(()); // there can be none
        }
        let bucket = self.open_bucket(bucket)?;
        let mut key = key;
        let mut flags = AtFlags::empty();
        loop {
            let (parent, name) = key.rsplit_once('/').unwrap_or((".", key));
            let parent_folder = match beneath(&bucket, parent, DIRECTORY) {
                Ok(folder) => folder,
                Err(FolderError::NoSuchKey) => return Ok(()),
                Err(error) => return Err(error),
            };
            match rustix::fs::unlinkat(&parent_folder, name, flags) {
                Ok(()) => {}
                // A folder where a file was looked for, or one that is not empty.
                Err(Errno::NOENT | Errno::ISDIR | Errno::NOTEMPTY | Errno::EXIST) => return Ok(()),
                Err(error) => return Err(io::Error::from(error).into()),
            }
            if parent == "." {
                return Ok(());
            }
            key = parent;
            flags = AtFlags::REMOVEDIR;
        }
    }

    /// A new file aside.
    pub fn partial(&self) -> io::Result<Draft> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let path = self.aside.join(format!("{number}.partial"));
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&path)?;
        Ok(Draft {
            file,
            path,
            kept: false,
        })
    }

    /// The file becomes the object, instead of the one that the key named before.
    pub fn publish(
        &self,
        partial: Draft,
        bucket: &str,
        key: &str,
    ) -> Result<ObjectInfo, FolderError> {
        self.rename(partial, bucket, key, RenameFlags::empty())
    }

    /// The file becomes the object of a key that names none; of several at once, one does.
    pub fn create(
        &self,
        partial: Draft,
        bucket: &str,
        key: &str,
    ) -> Result<ObjectInfo, FolderError> {
        self.rename(partial, bucket, key, RenameFlags::NOREPLACE)
    }

    fn rename(
        &self,
        mut partial: Draft,
        bucket: &str,
        key: &str,
        flags: RenameFlags,
    ) -> Result<ObjectInfo, FolderError> {
        check_key(key)?;
        self.stamp(&partial.file)?;
        let about = ObjectInfo::of(&partial.file)?.ok_or(FolderError::KeyOutside)?;
        let folder = self.open_bucket(bucket)?;
        let (parent, name) = key.rsplit_once('/').unwrap_or((".", key));
        // A deletion beside this may take the new folders away again, as long as they are empty.
        for attempt in 1..=ATTEMPTS {
            match make_folders(&folder, parent) {
                Err(FolderError::KeyTaken) if attempt < ATTEMPTS => continue,
                other => other?,
            }
            let parent = match beneath(&folder, parent, DIRECTORY) {
                Err(FolderError::NoSuchKey) => continue,
                other => other?,
            };
            match rustix::fs::renameat_with(CWD, &partial.path, &parent, name, flags) {
                Ok(()) => {
                    partial.kept = true;
                    return Ok(about);
                }
                Err(Errno::NOENT) => {}
                Err(Errno::EXIST) if flags == RenameFlags::NOREPLACE => {
                    return Err(FolderError::KeyExists);
                }
                Err(Errno::ISDIR | Errno::NOTEMPTY | Errno::EXIST) => {
                    return Err(FolderError::KeyTaken);
                }
                Err(error) => return Err(no_room(error.into())),
            }
        }
        Err(FolderError::NoSuchBucket)
    }

    /// The file becomes a part of an upload at this path.
    pub fn publish_part(&self, mut partial: Draft, path: &Path) -> Result<ObjectInfo, FolderError> {
        self.stamp(&partial.file)?;
        let about = ObjectInfo::of(&partial.file)?.ok_or(FolderError::KeyOutside)?;
        std::fs::rename(&partial.path, path)?;
        partial.kept = true;
        Ok(about)
    }

    /// Gives the file a time of its own, in nanoseconds: two objects never share a tag, however fast
    /// one follows the other and whatever the clock's steps are.
    fn stamp(&self, file: &File) -> io::Result<()> {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or(Duration::ZERO);
        let now = now.as_nanos() as i64;
        let last = self
            .last_written
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| {
                Some(now.max(last + 1))
            })
            .unwrap_or(now);
        let time = now.max(last + 1);
        let time = Timespec {
            tv_sec: time / 1_000_000_000,
            tv_nsec: time % 1_000_000_000,
        };
        let omit = Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_OMIT,
        };
        let times = Timestamps {
            last_access: omit,
            last_modification: time,
        };
        Ok(rustix::fs::futimens(file, &times)?)
    }

    fn open_bucket(&self, bucket: &str) -> Result<OwnedFd, FolderError> {
        let path = self.bucket(bucket)?;
        Ok(rustix::fs::open(&path, DIRECTORY, Mode::empty()).map_err(io::Error::from)?)
    }
}

impl ObjectInfo {
    /// None for anything but a regular file.
    pub fn of(file: &File) -> io::Result<Option<Self>> {
        let about = rustix::fs::fstat(file)?;
        if FileType::from_raw_mode(about.st_mode) != FileType::RegularFile {
            return Ok(None);
        }
        Ok(Some(Self::from_parts(
            about.st_size as u64,
            about.st_mtime,
            about.st_mtime_nsec as u32,
            about.st_ino,
        )))
    }

    /// Of a file that a walk through a folder found.
    pub fn of_metadata(about: &std::fs::Metadata) -> Self {
        use std::os::unix::fs::MetadataExt;
        Self::from_parts(
            about.len(),
            about.mtime(),
            about.mtime_nsec() as u32,
            about.ino(),
        )
    }

    fn from_parts(size: u64, seconds: i64, nanoseconds: u32, node: u64) -> Self {
        // With the dash of a multipart upload's: clients take it for no MD5.
        let time = seconds
            .wrapping_mul(1_000_000_000)
            .wrapping_add(i64::from(nanoseconds));
        Self {
            size,
            written: UNIX_EPOCH + Duration::new(seconds.max(0) as u64, nanoseconds),
            tag: format!("{:016x}{:016x}-1", time, node.rotate_left(40) ^ size),
        }
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.kept {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// An error of writing: most often of a full disk, which the answer then says.
pub(crate) fn no_room(error: io::Error) -> FolderError {
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::NOSPC | Errno::DQUOT | Errno::FBIG) => FolderError::NoRoom(error),
        _ => FolderError::Io(error),
    }
}

pub(crate) fn check_key(key: &str) -> Result<(), FolderError> {
    let fit = |part: &str| !matches!(part, "" | "." | "..") && part.len() <= 255;
    if key.split('/').all(fit) && !key.contains('\0') {
        Ok(())
    } else {
        Err(FolderError::KeyUnfit)
    }
}

fn beneath(folder: impl AsFd, key: &str, flags: OFlags) -> Result<OwnedFd, FolderError> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    rustix::fs::openat2(folder, key, flags, Mode::empty(), resolve).map_err(|error| match error {
        Errno::NOENT | Errno::NOTDIR => FolderError::NoSuchKey,
        Errno::XDEV | Errno::LOOP | Errno::NXIO => FolderError::KeyOutside,
        error => io::Error::from(error).into(),
    })
}

fn make_folders(bucket: &OwnedFd, path: &str) -> Result<(), FolderError> {
    if path == "." {
        return Ok(());
    }
    for (end, _) in path.match_indices('/').chain([(path.len(), "")]) {
        let (parent, name) = path[..end].rsplit_once('/').unwrap_or((".", &path[..end]));
        let parent = match beneath(bucket, parent, DIRECTORY) {
            // A file where a folder has to be; or gone again, and then publishing tries anew.
            Err(FolderError::NoSuchKey) => return Err(FolderError::KeyTaken),
            other => other?,
        };
        match rustix::fs::mkdirat(&parent, name, Mode::from_raw_mode(0o777)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(no_room(error.into())),
        }
    }
    match beneath(bucket, path, DIRECTORY) {
        Err(FolderError::NoSuchKey) => Err(FolderError::KeyTaken),
        other => other.map(drop),
    }
}

/// Removes all folders below this one that have no file in or below them.
fn remove_empty(folder: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove_empty(&entry.path())?;
            match std::fs::remove_dir(entry.path()) {
                Err(error) if error.kind() != io::ErrorKind::DirectoryNotEmpty => {
                    return Err(error);
                }
                _ => {}
            }
        }
    }
    Ok(())
}

const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC);
/// No bucket can have this name.
const ASIDE: &str = ".oka-s3";
const UPLOADS: &str = "uploads";
const ATTEMPTS: usize = 8;
