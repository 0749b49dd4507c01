use std::fmt;
use std::path::PathBuf;

use omq_tokio::CurvePublicKey;

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

/// An endpoint taken apart: where it is, and the public key of who listens there, if it encrypts.
///
/// As text, `tcp://KEY@host:port`; the key is 64 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) key: Option<CurvePublicKey>,
    pub(crate) address: String,
}

impl Address {
    pub(crate) fn parse(endpoint: &str) -> Result<Self, InvalidEndpoint> {
        EndpointKind::of(endpoint)?;
        let keyed = endpoint
            .strip_prefix(TCP)
            .and_then(|rest| rest.split_once('@'));
        let Some((digits, location)) = keyed else {
            return Ok(Self {
                key: None,
                address: endpoint.to_owned(),
            });
        };
        let address = format!("{TCP}{location}");
        let Some(key) = parse_key(digits) else {
            return Err(InvalidEndpoint {
                endpoint: address,
                reason: "its key is not 64 hexadecimal digits".to_owned(),
            });
        };
        Ok(Self {
            key: Some(key),
            address,
        })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.key, self.address.strip_prefix(TCP)) {
            (Some(key), Some(location)) => {
                formatter.write_str(TCP)?;
                for byte in key.as_bytes() {
                    write!(formatter, "{byte:02x}")?;
                }
                write!(formatter, "@{location}")
            }
            _ => formatter.write_str(&self.address),
        }
    }
}

fn parse_key(digits: &str) -> Option<CurvePublicKey> {
    let mut key = [0; 32];
    if digits.len() != 2 * key.len() {
        return None;
    }
    for (byte, pair) in key.iter_mut().zip(digits.as_bytes().chunks(2)) {
        let digit = |digit: u8| char::from(digit).to_digit(16);
        *byte = (digit(pair[0])? * 16 + digit(pair[1])?) as u8;
    }
    Some(CurvePublicKey::from_bytes(key))
}

const TCP: &str = "tcp://";

/// The file through which local peers meet at an endpoint; none for TCP.
pub(crate) fn rendezvous_file(endpoint: &str) -> Option<PathBuf> {
    let path = endpoint.strip_prefix("ipc://").map(PathBuf::from);
    path.or_else(|| shm_path(endpoint))
}

/// The path of an endpoint in shared memory.
pub(crate) fn shm_path(endpoint: &str) -> Option<PathBuf> {
    endpoint.strip_prefix("shm://").map(PathBuf::from)
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
    fn keys_are_part_of_tcp_endpoints() {
        let text = format!("tcp://{}@[::1]:80", "0f".repeat(32));
        let parsed = Address::parse(&text).unwrap();
        assert_eq!(parsed.key.unwrap().as_bytes(), &[0x0f; 32]);
        assert_eq!(parsed.address, "tcp://[::1]:80");
        assert_eq!(parsed.to_string(), text);
        for plain in ["tcp://host:1", "ipc:///tmp/a@b"] {
            let parsed = Address::parse(plain).unwrap();
            assert_eq!((parsed.key, parsed.address.as_str()), (None, plain));
            assert_eq!(parsed.to_string(), plain);
        }
        for digits in ["", "0f", &"0g".repeat(32), &"\u{e9}".repeat(32)] {
            let error = Address::parse(&format!("tcp://{digits}@host:1")).unwrap_err();
            assert_eq!(error.endpoint, "tcp://host:1");
        }
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
