use std::fmt;

use crate::error::InvalidEndpoint;

/// A public key of X25519.
pub(crate) type Key = [u8; 32];

/// An endpoint taken apart: as text, `tcp://KEY@host:port`, the key in 64 hexadecimal digits, and
/// none where nothing is encrypted. The form is that of a task's other endpoints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Endpoint {
    pub(crate) key: Option<Key>,
    /// `host:port`.
    pub(crate) address: String,
}

impl Endpoint {
    pub(crate) fn parse(text: &str) -> Result<Self, InvalidEndpoint> {
        let invalid = |reason: &str| InvalidEndpoint {
            endpoint: text.to_owned(),
            reason: reason.to_owned(),
        };
        let rest = text
            .strip_prefix("tcp://")
            .ok_or_else(|| invalid("it does not begin with tcp://"))?;
        let (key, address) = match rest.split_once('@') {
            Some((digits, address)) => {
                let key = parse_key(digits);
                let key = key.ok_or_else(|| invalid("its key is not 64 hexadecimal digits"))?;
                (Some(key), address)
            }
            None => (None, rest),
        };
        let port = address
            .rsplit_once(':')
            .map(|(_, port)| port.parse::<u16>());
        if !matches!(port, Some(Ok(_))) {
            return Err(invalid("it has no port"));
        }
        Ok(Self {
            key,
            address: address.to_owned(),
        })
    }

    /// As [`parse`](Self::parse), of a peer: with a key exactly if there is encryption.
    pub(crate) fn of_peer(text: &str, encryption: bool) -> Result<Self, InvalidEndpoint> {
        let endpoint = Self::parse(text)?;
        if endpoint.key.is_some() == encryption {
            return Ok(endpoint);
        }
        let reason = if encryption {
            "it has no key, and this node encrypts"
        } else {
            "it has a key, and this node does not encrypt"
        };
        Err(InvalidEndpoint {
            endpoint: text.to_owned(),
            reason: reason.to_owned(),
        })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("tcp://")?;
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
    fn endpoints_come_back() {
        let key = "0f".repeat(32);
        for text in ["tcp://host:1".to_owned(), format!("tcp://{key}@[::1]:80")] {
            assert_eq!(Endpoint::parse(&text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn anything_else_is_refused_with_a_hint() {
        let key = "0g".repeat(32);
        for text in [
            "",
            "ipc:///a",
            "tcp://host",
            "tcp://host:x",
            &format!("tcp://{key}@a:1"),
        ] {
            let error = Endpoint::parse(text).unwrap_err();
            assert!(error.to_string().contains("hint: "), "{error}");
        }
        let keyed = format!("tcp://{}@host:1", "0f".repeat(32));
        assert!(Endpoint::of_peer(&keyed, false).is_err());
        assert!(Endpoint::of_peer("tcp://host:1", true).is_err());
        assert!(Endpoint::of_peer(&keyed, true).is_ok());
    }
}
