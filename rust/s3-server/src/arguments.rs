//! What the command line and the environment ask for.

use crate::server::ServerConfig;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// The server's settings, or what is wrong with them. `variable` reads the environment.
pub(crate) fn parse(
    words: impl Iterator<Item = OsString>,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<ServerConfig, String> {
    let key = |name| variable(name).filter(|key| !key.is_empty());
    let key = |name| key(name).ok_or_else(|| format!("{name} is not set in the environment"));
    let mut config = ServerConfig {
        folder: PathBuf::new(),
        host: "127.0.0.1".to_owned(),
        port: 0,
        access_key: key(ACCESS_KEY)?,
        secret_key: key(SECRET_KEY)?,
        region: "us-east-1".to_owned(),
        roles: Vec::new(),
        web_identity_token_file: None,
        session: Duration::from_hours(1),
    };
    let mut words = words;
    while let Some(name) = words.next() {
        let name = text(name)?;
        let value = words.next().ok_or_else(|| format!("{name} has no value"))?;
        match name.as_str() {
            "--folder" => config.folder = value.into(),
            "--host" => config.host = text(value)?,
            "--port" => config.port = number(&name, &text(value)?)?,
            "--region" => config.region = text(value)?,
            "--role" => config.roles.push(text(value)?),
            "--web-identity-token-file" => config.web_identity_token_file = Some(value.into()),
            "--session-seconds" => {
                let seconds = number(&name, &text(value)?)?;
                config.session = Duration::try_from_secs_f64(seconds)
                    .map_err(|_| format!("{name} is {seconds}, expected 0 or more"))?;
            }
            _ => return Err(format!("there is no option {name}")),
        }
    }
    if config.folder.as_os_str().is_empty() {
        return Err("there is no --folder".to_owned());
    }
    Ok(config)
}

fn text(word: OsString) -> Result<String, String> {
    word.into_string()
        .map_err(|word| format!("{} is no UTF-8", word.display()))
}

fn number<T: std::str::FromStr>(name: &str, text: &str) -> Result<T, String> {
    text.parse()
        .map_err(|_| format!("{name} is {text:?}, expected a number"))
}

pub(crate) const USAGE: &str = "\
usage: oka-s3-server --folder FOLDER [OPTIONS]

  --host ADDRESS                  address to listen on [127.0.0.1]
  --port NUMBER                   0 picks one [0]
  --region NAME                   region that the server says it is in [us-east-1]
  --role ARN                      role that may be assumed; may come several times
  --web-identity-token-file FILE  file whose content is the web identity token that is accepted
  --session-seconds NUMBER        longest that temporary credentials last [3600]

The environment has the keys: OKA_S3_ACCESS_KEY and OKA_S3_SECRET_KEY. `oka s3 serve` starts it.";

const ACCESS_KEY: &str = "OKA_S3_ACCESS_KEY";
const SECRET_KEY: &str = "OKA_S3_SECRET_KEY";

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> Result<ServerConfig, String> {
        parse(words.iter().map(OsString::from), |name| {
            Some(name.to_lowercase())
        })
    }

    #[test]
    fn settings_come_from_words_and_environment() {
        let words = ["--folder", "/buckets", "--port", "9000", "--role", "a"];
        let config = parsed(&[&words[..], &["--role", "b", "--session-seconds", "1.5"]].concat());
        let config = config.unwrap();
        assert_eq!(config.folder, PathBuf::from("/buckets"));
        assert_eq!((config.port, config.host.as_str()), (9000, "127.0.0.1"));
        assert_eq!(config.access_key, "oka_s3_access_key");
        assert_eq!(config.roles, ["a", "b"]);
        assert_eq!(config.session, Duration::from_millis(1500));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let refused = |words: &[&str]| parsed(words).err().unwrap();
        assert_eq!(refused(&[]), "there is no --folder");
        assert_eq!(refused(&["--folder"]), "--folder has no value");
        assert_eq!(refused(&["--buckets", "b"]), "there is no option --buckets");
        assert_eq!(
            refused(&["--port", "70000"]),
            "--port is \"70000\", expected a number"
        );
        assert_eq!(
            refused(&["--session-seconds", "-1"]),
            "--session-seconds is -1, expected 0 or more"
        );
        let no_keys = parse(std::iter::empty(), |_| None);
        assert_eq!(
            no_keys.err().unwrap(),
            "OKA_S3_ACCESS_KEY is not set in the environment"
        );
    }
}
