//! Keys of a bucket, in their order, page by page.

use crate::folder::{Folder, FolderError, ObjectInfo};
use std::io;
use std::path::Path;

/// What a listing asks for.
#[derive(Default)]
pub(crate) struct Query {
    pub prefix: String,
    pub delimiter: String,
    /// Only what comes after this key, or after this common prefix and all that it stands for.
    pub after: String,
    pub most: usize,
}

/// One page of a listing.
#[derive(Default)]
pub(crate) struct Page {
    pub objects: Vec<(String, ObjectInfo)>,
    pub prefixes: Vec<String>,
    /// What the next page has to come after; None at the end.
    pub next: Option<String>,
}

impl Folder {
    /// One page of the keys that begin with the prefix, in the order of their bytes.
    pub fn list(&self, bucket: &str, query: &Query) -> Result<Page, FolderError> {
        let bucket = self.bucket(bucket)?;
        let mut found = Vec::new();
        walk(&bucket, "", &query.prefix, &mut found)?;
        found.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        Ok(page(found, query))
    }
}

fn page(found: Vec<(String, ObjectInfo)>, query: &Query) -> Page {
    let mut page = Page::default();
    let mut last = String::new();
    for (key, about) in found {
        let common = if query.delimiter.is_empty() {
            None
        } else {
            key[query.prefix.len()..]
                .find(&query.delimiter)
                .map(|at| key[..query.prefix.len() + at + query.delimiter.len()].to_owned())
        };
        let name = common.as_ref().unwrap_or(&key);
        if *name <= query.after || page.prefixes.last() == Some(name) {
            continue;
        }
        if page.objects.len() + page.prefixes.len() >= query.most {
            page.next = (query.most > 0).then_some(last);
            break;
        }
        last.clone_from(name);
        match common {
            Some(common) => page.prefixes.push(common),
            None => page.objects.push((key, about)),
        }
    }
    page
}

fn walk(
    folder: &Path,
    name: &str,
    prefix: &str,
    found: &mut Vec<(String, ObjectInfo)>,
) -> io::Result<()> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        // Never there, or removed while the walk went on.
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            ) =>
        {
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    for entry in entries {
        let entry = entry?;
        let Ok(file) = entry.file_name().into_string() else {
            continue; // no key: S3's are UTF-8
        };
        let key = format!("{name}{file}");
        let kind = entry.file_type()?;
        if kind.is_dir() {
            let folder = format!("{key}/");
            if folder.starts_with(prefix) || prefix.starts_with(&folder) {
                walk(&entry.path(), &folder, prefix, found)?;
            }
        } else if kind.is_file() && key.starts_with(prefix) {
            match entry.metadata() {
                Ok(about) => found.push((key, ObjectInfo::of_metadata(&about))),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about() -> ObjectInfo {
        ObjectInfo {
            size: 1,
            written: std::time::UNIX_EPOCH,
            tag: String::new(),
        }
    }

    fn found(keys: &[&str]) -> Vec<(String, ObjectInfo)> {
        keys.iter()
            .map(|key| ((*key).to_owned(), about()))
            .collect()
    }

    #[test]
    fn pages_cover_every_key_once() {
        let keys = ["a", "b/1", "b/2", "c", "d/1"];
        for most in 1..=6 {
            for (delimiter, expected) in [("", keys.to_vec()), ("/", vec!["a", "b/", "c", "d/"])] {
                let mut query = Query {
                    delimiter: delimiter.to_owned(),
                    most,
                    ..Query::default()
                };
                let mut seen = Vec::new();
                loop {
                    let page = page(found(&keys), &query);
                    assert!(page.objects.len() + page.prefixes.len() <= most);
                    let mut names: Vec<_> = page.objects.into_iter().map(|each| each.0).collect();
                    names.extend(page.prefixes);
                    names.sort();
                    seen.extend(names);
                    let Some(next) = page.next else { break };
                    query.after = next;
                }
                assert_eq!(seen, expected, "pages of {most}");
            }
        }
    }
}
