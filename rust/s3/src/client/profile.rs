//! The files ~/.aws/config and ~/.aws/credentials: profiles and what they set.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// All profiles of both files; where both set the same, the one of the credentials file counts.
#[derive(Default)]
pub(crate) struct Profiles(HashMap<String, Profile>);

pub(crate) type Profile = HashMap<String, String>;

impl Profiles {
    /// Reads both files, from where the environment says or from ~/.aws. Missing files are empty.
    pub fn read() -> Self {
        let mut profiles = Self::default();
        profiles.add(file("AWS_CONFIG_FILE", "config").as_deref(), true);
        profiles.add(
            file("AWS_SHARED_CREDENTIALS_FILE", "credentials").as_deref(),
            false,
        );
        profiles
    }

    pub fn get(&self, name: &str) -> Option<&Profile> {
        self.0.get(name)
    }

    fn add(&mut self, path: Option<&Path>, is_config: bool) {
        let text = path.and_then(|path| std::fs::read_to_string(path).ok());
        self.parse(&text.unwrap_or_default(), is_config);
    }

    fn parse(&mut self, text: &str, is_config: bool) {
        let mut section = None;
        for line in text.lines() {
            let is_nested = line.starts_with([' ', '\t']);
            let line = line.trim();
            if line.is_empty() || line.starts_with(['#', ';']) || is_nested {
                continue; // nested settings, such as those of `s3 =`, are none of ours
            }
            if let Some(name) = line
                .strip_prefix('[')
                .and_then(|rest| rest.split(']').next())
            {
                let name = name.trim();
                section = match name.strip_prefix("profile ") {
                    Some(name) if is_config => Some(name.trim().to_owned()),
                    // Others in the config file, such as [sso-session x], are no profiles.
                    _ if is_config && name != DEFAULT => None,
                    _ => Some(name.to_owned()),
                };
                if let Some(section) = &section {
                    self.0.entry(section.clone()).or_default();
                }
            } else if let (Some(section), Some((name, value))) = (&section, line.split_once('=')) {
                let value = value.split(" #").next().unwrap_or(value).trim();
                let profile = self.0.entry(section.clone()).or_default();
                profile.insert(name.trim().to_lowercase(), value.to_owned());
            }
        }
    }
}

/// The name of the profile in use, and whether it was asked for by name.
pub(crate) fn chosen() -> (String, bool) {
    ["AWS_PROFILE", "AWS_DEFAULT_PROFILE"]
        .into_iter()
        .find_map(variable)
        .map_or_else(|| (DEFAULT.to_owned(), false), |name| (name, true))
}

/// An environment variable that is set and not empty.
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn file(setting: &str, name: &str) -> Option<PathBuf> {
    let home = || variable("HOME").map(|home| Path::new(&home).join(".aws").join(name));
    variable(setting).map(PathBuf::from).or_else(home)
}

const DEFAULT: &str = "default";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_files_make_one_profile() {
        let mut profiles = Profiles::default();
        profiles.parse(
            "[default]\nregion = eu-west-1\n[profile work]\nrole_arn=arn:aws:iam::1:role/a # mine\n\
             source_profile = default\ns3 =\n  addressing_style = path\n[sso-session x]\nregion=no\n",
            true,
        );
        profiles.parse(
            "# keys\n[default]\naws_access_key_id = AKIA\naws_secret_access_key = a=b#c\n",
            false,
        );
        let default = profiles.get("default").unwrap();
        assert_eq!(default["region"], "eu-west-1");
        assert_eq!(default["aws_secret_access_key"], "a=b#c");
        let work = profiles.get("work").unwrap();
        assert_eq!(work["role_arn"], "arn:aws:iam::1:role/a");
        assert!(!work.contains_key("addressing_style"));
        assert!(profiles.get("sso-session x").is_none() && profiles.get("x").is_none());
    }
}
