//! Endpoints: where a peer listens, and its public key.

use std::fmt;

use thiserror::Error;

/// A public key of X25519.
pub type Key = [u8; 32];

/// An endpoint that nobody can listen on or connect to.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "endpoint {endpoint:?} is invalid: {reason}\n\nhint: expected tcp://host:port, or between tasks \
     of one machine shm:///directory/name or ipc:///directory/name; as a peer's, exactly what the \
     peer announced"
)]
pub struct InvalidEndpoint {
    /// The endpoint as it was given, without a key.
    pub endpoint: String,
    /// What is wrong with it.
    pub reason: String,
}

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
        Endpoint::parse(endpoint).map(|endpoint| endpoint.kind)
    }

    fn scheme(self) -> &'static str {
        match self {
            Self::Shm => "shm://",
            Self::Ipc => "ipc://",
            Self::Tcp => "tcp://",
        }
    }
}

/// An endpoint taken apart: where it is, and the public key of who listens there, if it encrypts.
///
/// As text, `tcp://KEY@host:port`; the key is 64 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// How its bytes travel.
    pub kind: EndpointKind,
    /// Of TCP, whose it is; None where nothing is encrypted.
    pub key: Option<Key>,
    /// An absolute path, or `host:port`.
    pub address: String,
}

impl Endpoint {
    /// Takes the text apart.
    pub fn parse(text: &str) -> Result<Self, InvalidEndpoint> {
        let invalid = |endpoint: &str, reason: &str| InvalidEndpoint {
            endpoint: endpoint.to_owned(),
            reason: reason.to_owned(),
        };
        let kinds = [EndpointKind::Shm, EndpointKind::Ipc, EndpointKind::Tcp];
        let mut found = kinds.iter().filter_map(|kind| {
            let rest = text.strip_prefix(kind.scheme())?;
            Some((*kind, rest))
        });
        let Some((kind, rest)) = found.next() else {
            return Err(invalid(text, "its scheme is unknown"));
        };
        if kind != EndpointKind::Tcp {
            if !rest.starts_with('/') {
                return Err(invalid(text, "its path is not absolute"));
            }
            let (key, address) = (None, rest.to_owned());
            return Ok(Self { kind, key, address });
        }
        let (digits, address) = match rest.split_once('@') {
            Some((digits, address)) => (Some(digits), address.to_owned()),
            None => (None, rest.to_owned()),
        };
        let key = digits.map(parse_key);
        let endpoint = Self {
            kind,
            key: key.flatten(),
            address,
        };
        if key == Some(None) {
            let reason = "its key is not 64 hexadecimal digits";
            return Err(invalid(&endpoint.to_string(), reason));
        }
        let port = endpoint.address.rsplit_once(':');
        if port.is_none_or(|(_, port)| port.parse::<u16>().is_err()) {
            return Err(invalid(&endpoint.to_string(), "it has no port"));
        }
        Ok(endpoint)
    }

    /// As [`parse`](Self::parse), of a peer: over TCP with a key exactly if there is encryption.
    pub fn of_peer(text: &str, encryption: bool) -> Result<Self, InvalidEndpoint> {
        let endpoint = Self::parse(text)?;
        if endpoint.kind != EndpointKind::Tcp || endpoint.key.is_some() == encryption {
            return Ok(endpoint);
        }
        let reason = if encryption {
            "it has no key, and this end encrypts"
        } else {
            "it has a key, and this end does not encrypt"
        };
        Err(InvalidEndpoint {
            endpoint: endpoint.with_key(None).to_string(),
            reason: reason.to_owned(),
        })
    }

    /// The same with that key.
    #[must_use]
    pub fn with_key(self, key: Option<Key>) -> Self {
        Self { key, ..self }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.kind.scheme())?;
        if let Some(key) = &self.key {
            for byte in key {
                write!(formatter, "{byte:02x}")?;
            }
            formatter.write_str("@")?;
        }
        formatter.write_str(&self.address)
    }
}

fn parse_key(digits: &str) -> Option<Key> {
    let mut key = [0; 32];
    if digits.len() != 2 * key.len() {
        return None;
    }
    for (byte, pair) in key.iter_mut().zip(digits.as_bytes().chunks(2)) {
        let digit = |digit: u8| char::from(digit).to_digit(16);
        *byte = (digit(pair[0])? * 16 + digit(pair[1])?) as u8;
    }
    Some(key)
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
        let parsed = Endpoint::parse(&text).unwrap();
        assert_eq!(parsed.key, Some([0x0f; 32]));
        assert_eq!(parsed.address, "[::1]:80");
        assert_eq!(parsed.to_string(), text);
        for plain in ["tcp://host:1", "ipc:///tmp/a@b"] {
            let parsed = Endpoint::parse(plain).unwrap();
            assert_eq!(parsed.key, None);
            assert_eq!(parsed.to_string(), plain);
        }
        for digits in ["", "0f", &"0g".repeat(32), &"\u{e9}".repeat(32)] {
            let error = Endpoint::parse(&format!("tcp://{digits}@host:1")).unwrap_err();
            assert_eq!(error.endpoint, "tcp://host:1");
        }
    }

    #[test]
    fn a_peer_has_a_key_exactly_if_there_is_encryption() {
        let keyed = format!("tcp://{}@host:1", "0f".repeat(32));
        for (text, encryption, is_fine) in [
            (&*keyed, true, true),
            (&keyed, false, false),
            ("tcp://host:1", true, false),
            ("tcp://host:1", false, true),
            ("shm:///a", true, true),
        ] {
            let peer = Endpoint::of_peer(text, encryption);
            assert_eq!(peer.is_ok(), is_fine, "{peer:?}");
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
            "tcp://host:x",
        ] {
            let error = EndpointKind::of(text).unwrap_err();
            assert!(error.to_string().contains("hint: "), "{error}");
        }
    }
}
