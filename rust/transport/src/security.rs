//! Who may talk to a network over TCP, and how it proves that it is itself.
//!
//! Every network makes its own key pair when it is bound; the secret key never leaves it. The
//! public key is part of the endpoint that peers are given, so that both ends of a channel know
//! whom to expect: the listening end admits the keys of its channels' peers and no others, the
//! connecting end accepts no other listener. Handshake and encryption are those of CURVE (X25519,
//! XSalsa20-Poly1305), with fresh session keys per connection.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use omq_tokio::{
    AuthenticationResult, AuthenticationStatus, Authenticator, CurveKeypair, CurvePublicKey,
    CurveServerOptions, Options,
};

use oka_ipc::Endpoint;

use crate::{BindError, ChannelSpec, ConnectError};

/// The key pair of one network, and the public keys of its peers.
pub(crate) struct Security {
    keys: CurveKeypair,
    peers: Arc<Peers>,
}

#[derive(Default)]
struct Peers {
    by_channel: OnceLock<HashMap<u32, CurvePublicKey>>,
    /// Handshakes before any key was known, which fail without being refusals.
    early: AtomicU64,
}

impl Security {
    /// With a fresh key pair, and without peers: none is admitted yet.
    pub(crate) fn generate() -> Self {
        Self {
            keys: CurveKeypair::generate(),
            peers: Arc::default(),
        }
    }

    /// From now on the peers of these channels are admitted. Once per network.
    pub(crate) fn admit<'a>(
        &self,
        channels: impl IntoIterator<Item = &'a ChannelSpec>,
    ) -> Result<(), ConnectError> {
        let mut peers = HashMap::new();
        for spec in channels {
            if let Some(key) = Endpoint::parse(&spec.peer)?.key {
                peers.insert(spec.id, CurvePublicKey::from_bytes(key));
            }
        }
        self.peers
            .by_channel
            .set(peers)
            .map_err(|_| ConnectError::AlreadyConnected)
    }

    /// The endpoint as peers have to know it: with this network's key.
    pub(crate) fn announce(&self, address: &str) -> Result<String, BindError> {
        let key = Some(*self.keys.public.as_bytes());
        Ok(Endpoint::parse(address)?.with_key(key).to_string())
    }

    /// Options of the listening socket: only peers are let in.
    pub(crate) fn server(&self, options: Options) -> Options {
        let peers = Arc::clone(&self.peers);
        let mut server = CurveServerOptions::new();
        server.authenticator = Some(Authenticator::new_with_result(move |stranger| {
            let key = CurvePublicKey::from_bytes(stranger.public_key);
            let Some(known) = peers.by_channel.get() else {
                // Peers connect in any order: one that comes too early tries again.
                peers.early.fetch_add(1, Ordering::Relaxed);
                return AuthenticationResult {
                    status: AuthenticationStatus::TemporaryFailure,
                    user_id: None,
                    metadata: Vec::new(),
                };
            };
            if known.values().any(|peer| *peer == key) {
                AuthenticationResult::allow()
            } else {
                AuthenticationResult::deny()
            }
        }));
        options.curve_server_with_options(self.keys.clone(), server)
    }

    /// Options of the socket that connects this channel; as they were if its peer has no key.
    pub(crate) fn client(&self, options: Options, channel: u32) -> Options {
        let peers = self.peers.by_channel.get();
        match peers.and_then(|peers| peers.get(&channel)) {
            Some(peer) => options.curve_client(self.keys.clone(), *peer),
            None => options,
        }
    }

    /// Whether a failed handshake was one that came too early; each counts once.
    pub(crate) fn take_early(&self) -> bool {
        let early = &self.peers.early;
        let less = |count: u64| count.checked_sub(1);
        early
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less)
            .is_ok()
    }
}
