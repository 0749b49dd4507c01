//! How two ends of a connection prove their keys to each other, and encrypt what they say.
//!
//! The handshake is Noise IK (X25519, AES-256-GCM, SHA-256): whoever connects knows the key of the
//! other from its endpoint, and shows its own, encrypted. The two session keys that it ends with, one
//! per direction, encrypt every message and every chunk with AES-256-GCM, numbered from 0: what is
//! changed, left out or repeated does not decrypt. Noise's own messages would end at 64 KiB; a chunk
//! is one piece.

use std::{fmt, io};

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, Tag, UnboundKey};
use snow::{Builder, HandshakeState};

use crate::Key;

/// The key pair of one end; the private one never leaves it.
pub struct Identity {
    private: Vec<u8>,
    /// What others know it by.
    pub public: Key,
}

impl Identity {
    /// A fresh one.
    pub fn generate() -> io::Result<Self> {
        let keys = builder()?.generate_keypair().map_err(refused)?;
        Ok(Self {
            private: keys.private,
            public: keys
                .public
                .try_into()
                .map_err(|_| wrong("a key of another length"))?,
        })
    }

    /// The handshake of whoever connects, with the one who has that key; `prologue` is what both speak.
    pub fn initiate(&self, prologue: &[u8], peer: &Key) -> io::Result<Handshake> {
        let builder = builder()?
            .prologue(prologue)
            .and_then(|builder| builder.local_private_key(&self.private))
            .and_then(|builder| builder.remote_public_key(peer));
        Ok(Handshake(
            builder
                .and_then(Builder::build_initiator)
                .map_err(refused)?,
        ))
    }

    /// The handshake of whoever is connected to.
    pub fn respond(&self, prologue: &[u8]) -> io::Result<Handshake> {
        let builder = builder()?
            .prologue(prologue)
            .and_then(|builder| builder.local_private_key(&self.private));
        Ok(Handshake(
            builder
                .and_then(Builder::build_responder)
                .map_err(refused)?,
        ))
    }
}

impl fmt::Debug for Identity {
    /// Nothing of the private key.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("Identity");
        shown.field("public", &self.public).finish_non_exhaustive()
    }
}

/// A handshake in progress: the initiator writes `FIRST_BYTES`, the responder `SECOND_BYTES`.
pub struct Handshake(HandshakeState);

impl Handshake {
    /// The next message to send.
    pub fn write<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut message = [0; N];
        let length = self.0.write_message(&[], &mut message).map_err(refused)?;
        if length != N {
            return Err(wrong("a handshake of another length"));
        }
        Ok(message)
    }

    /// Takes the message of the other one in.
    pub fn read(&mut self, message: &[u8]) -> io::Result<()> {
        let length = self.0.read_message(message, &mut []).map_err(refused)?;
        if length != 0 {
            return Err(wrong("a handshake with something in it"));
        }
        Ok(())
    }

    /// Who the other one has shown to be.
    pub fn peer(&self) -> Option<Key> {
        self.0.get_remote_static()?.try_into().ok()
    }

    /// The ciphers to send and to receive with.
    pub fn finish(mut self) -> io::Result<(Cipher, Cipher)> {
        if !self.0.is_handshake_finished() {
            return Err(wrong("a handshake that is not finished"));
        }
        let (initiator, responder) = self.0.dangerously_get_raw_split();
        let (initiator, responder) = (Cipher::new(&initiator)?, Cipher::new(&responder)?);
        Ok(if self.0.is_initiator() {
            (initiator, responder)
        } else {
            (responder, initiator)
        })
    }
}

/// One direction of a connection.
pub struct Cipher {
    key: LessSafeKey,
    next: u64,
}

impl Cipher {
    fn new(key: &[u8; 32]) -> io::Result<Self> {
        let key =
            UnboundKey::new(&AES_256_GCM, key).map_err(|_| wrong("a key of another length"))?;
        Ok(Self {
            key: LessSafeKey::new(key),
            next: 0,
        })
    }

    /// Encrypts in place; the tag has to be sent behind it.
    pub fn seal(&mut self, bytes: &mut [u8]) -> io::Result<[u8; TAG_BYTES]> {
        let nonce = self.nonce()?;
        let tag = self
            .key
            .seal_in_place_separate_tag(nonce, Aad::empty(), bytes);
        let tag = tag.map_err(|_| wrong("it cannot be encrypted"))?;
        let mut out = [0; TAG_BYTES];
        out.copy_from_slice(tag.as_ref());
        Ok(out)
    }

    /// Decrypts in place, if not a bit was changed.
    pub fn open(&mut self, bytes: &mut [u8], tag: [u8; TAG_BYTES]) -> io::Result<()> {
        let nonce = self.nonce()?;
        let tag = Tag::from(tag);
        self.key
            .open_in_place_separate_tag(nonce, Aad::empty(), tag, bytes, 0..)
            .map_err(|_| wrong("it was changed on its way"))?;
        Ok(())
    }

    /// Each one once: a connection ends long before they do.
    fn nonce(&mut self) -> io::Result<Nonce> {
        let mut nonce = [0; NONCE_LEN];
        nonce[4..].copy_from_slice(&self.next.to_be_bytes());
        self.next = self
            .next
            .checked_add(1)
            .ok_or_else(|| wrong("a connection of too many messages"))?;
        Ok(Nonce::assume_unique_for_key(nonce))
    }
}

fn builder() -> io::Result<Builder<'static>> {
    let pattern = "Noise_IK_25519_AESGCM_SHA256";
    Ok(Builder::new(pattern.parse().map_err(refused)?))
}

#[allow(clippy::needless_pass_by_value, reason = "for map_err")]
fn refused(error: snow::Error) -> io::Error {
    wrong(&format!("the handshake failed: {error}"))
}

fn wrong(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// What comes behind each encrypted piece.
pub const TAG_BYTES: usize = 16;

/// An ephemeral key, the initiator's own key, and two tags.
pub const FIRST_BYTES: usize = 32 + 32 + 2 * TAG_BYTES;

/// An ephemeral key and a tag.
pub const SECOND_BYTES: usize = 32 + TAG_BYTES;

#[cfg(test)]
mod tests {
    use super::*;

    fn session() -> [(Cipher, Cipher); 2] {
        let [alice, bob] = [(); 2].map(|()| Identity::generate().unwrap());
        let mut here = alice.initiate(b"x", &bob.public).unwrap();
        let mut there = bob.respond(b"x").unwrap();
        there.read(&here.write::<FIRST_BYTES>().unwrap()).unwrap();
        assert_eq!(there.peer(), Some(alice.public));
        here.read(&there.write::<SECOND_BYTES>().unwrap()).unwrap();
        [here.finish().unwrap(), there.finish().unwrap()]
    }

    #[test]
    fn both_directions_decrypt_in_order_and_nothing_else() {
        let [mut here, mut there] = session();
        let mut first = *b"first";
        let tag = here.0.seal(&mut first).unwrap();
        assert_ne!(&first, b"first");
        let again = first;
        there.1.open(&mut first, tag).unwrap();
        assert_eq!(&first, b"first");
        assert!(there.1.open(&mut again.clone(), tag).is_err(), "repeated");
        let mut back = *b"back";
        let tag = there.0.seal(&mut back).unwrap();
        back[0] ^= 1;
        assert!(here.1.open(&mut back, tag).is_err(), "changed");
    }

    #[test]
    fn only_the_expected_one_can_answer() {
        let [alice, bob, eve] = [(); 3].map(|()| Identity::generate().unwrap());
        let mut here = alice.initiate(b"x", &bob.public).unwrap();
        let first = here.write::<FIRST_BYTES>().unwrap();
        assert!(eve.respond(b"x").unwrap().read(&first).is_err());
    }
}
