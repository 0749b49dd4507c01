//! Credentials that a program prints: `credential_process` of a profile.

use crate::client::credentials::CredentialError;
use crate::client::credentials::renewed::{Source, TemporaryCredentials, moment};
use object_store::aws::AwsCredential;
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;

/// A command of the shell, as AWS's tools run it.
#[derive(Debug)]
pub(super) struct Process {
    pub command: String,
    pub profile: String,
}

#[async_trait::async_trait]
impl Source for Process {
    async fn fetch(&self) -> object_store::Result<TemporaryCredentials> {
        let wrong = |problem: String| CredentialError::Process {
            profile: self.profile.clone(),
            problem,
        };
        let run = tokio::time::timeout(LONGEST, self.run());
        let run = run.await.unwrap_or_else(|_| {
            let after = format!("is not done after {} seconds", LONGEST.as_secs());
            Err(io::Error::new(io::ErrorKind::TimedOut, after))
        });
        let (status, printed) = run.map_err(|error| wrong(error.to_string()))?;
        if !status.success() {
            return Err(wrong(format!("ended with {status}")).into());
        }
        Ok(read(&printed).map_err(wrong)?)
    }
}

impl Process {
    /// What it prints, once it has ended. What it says on standard error is for whoever started us.
    async fn run(&self) -> io::Result<(ExitStatus, Vec<u8>)> {
        let mut child = Command::new("/bin/sh")
            .args(["-c", &self.command])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .map(RunningProgram)?;
        let mut printed = Vec::new();
        if let Some(output) = child.0.stdout.take() {
            let mut output = Receiver::from_owned_fd(OwnedFd::from(output))?;
            output.read_to_end(&mut printed).await?;
        }
        // What has printed all has ended, or is about to: that is not worth a call of Linux alone.
        loop {
            if let Some(status) = child.0.try_wait()? {
                return Ok((status, printed));
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}

/// A program and what it has started, which end when nobody waits for it any more.
struct RunningProgram(Child);

impl Drop for RunningProgram {
    fn drop(&mut self) {
        if let Ok(None) = self.0.try_wait() {
            let _ = kill_process_group(Pid::from_child(&self.0), Signal::KILL);
            let _ = self.0.wait();
        }
    }
}

/// The credentials in what was printed. No problem says any of it.
fn read(printed: &[u8]) -> Result<TemporaryCredentials, String> {
    let printed: Value =
        serde_json::from_slice(printed).map_err(|_| "printed no JSON".to_owned())?;
    if printed["Version"] != 1 {
        return Err("printed no credentials of version 1".to_owned());
    }
    let field = |name: &str| printed[name].as_str().map(str::to_owned);
    let needed = |name: &str| field(name).ok_or_else(|| format!("printed no {name}"));
    let ends = match field("Expiration") {
        Some(text) => Some(moment(&text).ok_or("printed an Expiration that is no time")?),
        None => None,
    };
    Ok(TemporaryCredentials {
        credential: AwsCredential {
            key_id: needed("AccessKeyId")?,
            secret_key: needed("SecretAccessKey")?,
            token: field("SessionToken"),
        },
        ends,
    })
}

const LONGEST: Duration = Duration::from_mins(1);

/// Between two looks whether a program has ended.
const LOOK: Duration = Duration::from_millis(2);
