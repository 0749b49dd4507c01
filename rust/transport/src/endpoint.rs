use std::path::PathBuf;

use crate::InvalidEndpoint;

/// How the bytes of an endpoint travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EndpointKind {
    /// Shared memory, between tasks on one machine.
    Shm,
    /// Unix socket, between tasks on one machine; mostly to measure against.
    Ipc,
    /// TCP, between machines.
    Tcp,
}

impl EndpointKind {
    /// The kind of an endpoint, from its scheme.
    pub fn of(endpoint: &str) -> Result<Self, InvalidEndpoint> {
        let invalid = |reason: &str| InvalidEndpoint {
            endpoint: endpoint.to_owned(),
            reason: reason.to_owned(),
        };
        let (scheme, rest) = endpoint
            .split_once("://")
            .ok_or_else(|| invalid("it has no scheme"))?;
        let kind = match scheme {
            "shm" => Self::Shm,
            "ipc" => Self::Ipc,
            "tcp" => Self::Tcp,
            _ => return Err(invalid("its scheme is unknown")),
        };
        match kind {
            Self::Shm | Self::Ipc if !rest.starts_with('/') => {
                Err(invalid("its path is not absolute"))
            }
            Self::Tcp if !rest.contains(':') => Err(invalid("it has no port")),
            _ => Ok(kind),
        }
    }
}

/// The file through which local peers meet at an endpoint; none for TCP.
pub(crate) fn rendezvous_file(endpoint: &str) -> Option<PathBuf> {
    let path = endpoint
        .strip_prefix("shm://")
        .or_else(|| endpoint.strip_prefix("ipc://"))?;
    Some(PathBuf::from(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_come_from_schemes() {
        assert_eq!(EndpointKind::of("shm:///tmp/a").unwrap(), EndpointKind::Shm);
        assert_eq!(EndpointKind::of("ipc:///tmp/a").unwrap(), EndpointKind::Ipc);
        assert_eq!(
            EndpointKind::of("tcp://127.0.0.1:0").unwrap(),
            EndpointKind::Tcp
        );
    }

    #[test]
    fn anything_else_is_refused_with_a_hint() {
        for text in [
            "",
            "udp://1:2",
            "shm://relative",
            "ipc://@name",
            "tcp://host",
        ] {
            let error = EndpointKind::of(text).unwrap_err();
            assert!(error.to_string().contains("hint: "), "{error}");
        }
    }
}
