//! Nodes to test with, and what is in them.

use std::fs;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use oka_blob::{Blob, BlobConfig, BlobNode, Landing, WaitError};

/// Longer than anything here takes; a test that waits for it has failed.
pub const LIMIT: Duration = Duration::from_mins(1);

/// A node whose socket lies in a folder of its own, which is gone with it.
pub struct Node {
    node: Option<BlobNode>,
    folder: PathBuf,
}

impl Node {
    pub fn new(config: BlobConfig) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("oka-blob-{}-{number}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let node = BlobNode::bind(config, "tcp://127.0.0.1:0", &folder.join("local")).unwrap();
        Self {
            node: Some(node),
            folder,
        }
    }

    pub fn local(&self) -> PathBuf {
        self.folder.join("local")
    }

    pub fn join(&self, chain: &[String], peers: &[String]) {
        self.connect(chain, peers, &[], 0, LIMIT).unwrap();
    }

    /// A blob that is filled at once.
    pub fn publish(&self, number: u64, bytes: &[u8], consume: bool) {
        let landing = self.begin(number, bytes.len(), consume);
        landing.write(bytes).unwrap();
        landing.finish().unwrap();
    }

    pub fn begin(&self, number: u64, size: usize, consume: bool) -> Landing {
        self.create(ORIGIN, number, size as u64, true, consume)
            .unwrap()
    }

    pub fn take(&self, number: u64) -> Result<Arc<Blob>, WaitError> {
        self.get(ORIGIN, number, Some(LIMIT))
    }

    pub fn delivered(&self, number: u64) -> Result<(), WaitError> {
        self.wait_delivered(ORIGIN, number, Some(LIMIT))
    }
}

impl Deref for Node {
    type Target = BlobNode;

    fn deref(&self) -> &BlobNode {
        self.node.as_ref().unwrap()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        drop(self.node.take());
        let left = fs::remove_dir(&self.folder);
        if !thread::panicking() {
            left.expect("nothing is left in its folder");
        }
    }
}

pub const ORIGIN: u32 = 3;

/// Small chunks, and little patience.
pub fn config(encryption: bool) -> BlobConfig {
    BlobConfig {
        encryption,
        chunk_bytes: 64 << 10,
        patience: Duration::from_secs(3),
        bypass: Duration::from_secs(1),
        memory_limit: None,
    }
}

/// An origin and a chain of nodes behind it.
pub fn chain(length: usize, config: &BlobConfig) -> (Node, Vec<Node>) {
    let nodes: Vec<_> = (0..=length).map(|_| Node::new(config.clone())).collect();
    let endpoints: Vec<_> = nodes
        .iter()
        .map(|node| node.endpoint().to_owned())
        .collect();
    for (index, node) in nodes.iter().enumerate() {
        let chain = if index == 0 { &endpoints[1..] } else { &[] };
        node.join(chain, &endpoints);
    }
    let mut nodes = nodes.into_iter();
    (nodes.next().unwrap(), nodes.collect())
}

/// Bytes that differ everywhere.
pub fn bytes(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..length).map(|_| next()).collect()
}

/// Waits until something is so.
pub fn until(what: &str, is: impl Fn() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !is() {
        assert!(Instant::now() < deadline, "{what}");
        thread::sleep(Duration::from_millis(5));
    }
}
