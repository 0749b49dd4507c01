//! What the tests share: networks in a private directory, numbered records, and their reader.

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use oka_transport::{
    ChannelSpec, Element, EmitError, Network, NetworkConfig, OpenFrame, OutputChannel,
    ReceiveError, ReceivedFrames,
};

/// Runs each of these tests over every kind of endpoint that there is here.
macro_rules! over_every_kind {
    ($($test:ident),* $(,)?) => {
        #[cfg(all(target_os = "linux", not(feature = "portable")))]
        mod shm { $(#[test] fn $test() { super::$test(super::Kind::Shm); })* }
        mod ipc { $(#[test] fn $test() { super::$test(super::Kind::Ipc); })* }
        mod tcp { $(#[test] fn $test() { super::$test(super::Kind::Tcp); })* }
        mod curve { $(#[test] fn $test() { super::$test(super::Kind::Curve); })* }
    };
}

/// The endpoint kinds every test runs over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Shm,
    Ipc,
    /// TCP as it is.
    Tcp,
    /// TCP, encrypted and authenticated.
    Curve,
}

/// A directory for rendezvous files, removed at the end.
pub struct Directory {
    pub path: PathBuf,
}

impl Directory {
    pub fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("oka-test-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::DirBuilder::new().mode(0o700).create(&path).unwrap();
        Self { path }
    }

    pub fn endpoint(&self, kind: Kind, name: &str) -> String {
        let path = self.path.display();
        match kind {
            Kind::Shm => format!("shm://{path}/{name}"),
            Kind::Ipc => format!("ipc://{path}/{name}"),
            Kind::Tcp | Kind::Curve => "tcp://127.0.0.1:0".to_owned(),
        }
    }

    pub fn bind(&self, kind: Kind, name: &str, config: &NetworkConfig) -> Network {
        let config = NetworkConfig {
            encryption: kind == Kind::Curve,
            ..config.clone()
        };
        Network::bind(config, &[self.endpoint(kind, name)]).unwrap()
    }

    pub fn files(&self) -> usize {
        fs::read_dir(&self.path).unwrap().count()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

pub fn channel(id: u32, peer: &Network) -> ChannelSpec {
    ChannelSpec::new(id, &peer.endpoints()[0])
}

/// A source and a sink joined by channel 1.
pub fn pair(directory: &Directory, kind: Kind, config: &NetworkConfig) -> (Network, Network) {
    let source = directory.bind(kind, "source", config);
    let sink = directory.bind(kind, "sink", config);
    connect(&[
        (&source, &[channel(1, &sink)], &[]),
        (&sink, &[], &[channel(1, &source)]),
    ]);
    (source, sink)
}

/// Connects networks with their outputs and inputs at the same time, as a job does: an encrypted
/// one is not connected before its peers know it.
pub fn connect(networks: &[(&Network, &[ChannelSpec], &[ChannelSpec])]) {
    thread::scope(|scope| {
        for (network, outputs, inputs) in networks {
            scope.spawn(|| network.connect(outputs, inputs).unwrap());
        }
    });
}

/// Emits one record: its number, then padding up to `size` bytes.
pub fn emit(channel: &OutputChannel, number: u64, size: usize) -> Result<(), EmitError> {
    let mut frame = OpenFrame::new();
    let end = frame.body.len() + size;
    frame.body.extend_from_slice(&number.to_le_bytes());
    frame.body.resize(end, 0x5a);
    frame.records += 1;
    channel.push(&mut frame);
    if channel.is_writable() {
        return Ok(());
    }
    channel.wait_writable()
}

/// For tests without controls.
pub trait ReceiveBatch {
    /// Blocks for the next batch; `None` at the end.
    fn receive_batch(&self) -> Result<Option<ReceivedFrames>, ReceiveError>;
}

impl ReceiveBatch for Network {
    fn receive_batch(&self) -> Result<Option<ReceivedFrames>, ReceiveError> {
        match self.receive(None)? {
            Element::Batch(batch) => Ok(Some(batch)),
            Element::Ended => Ok(None),
            other => panic!("{other:?} was not expected"),
        }
    }
}

/// Receives until the end, checking that numbers on each channel run from 0; gives their counts.
pub fn receive_all(
    network: &Network,
    size: usize,
    channels: usize,
) -> Result<Vec<u64>, ReceiveError> {
    let mut next = vec![0; channels];
    while let Some(batch) = network.receive_batch()? {
        let mut records = 0;
        let frames = batch.frames();
        for (channel, record) in
            frames.flat_map(|(header, body)| body.chunks(size).map(move |r| (header.channel, r)))
        {
            records += 1;
            let expected = &mut next[channel as usize - 1];
            let number = u64::from_le_bytes(record[..8].try_into().unwrap());
            assert_eq!(number, *expected, "channel {channel}");
            assert!(record[8..].iter().all(|byte| *byte == 0x5a));
            *expected += 1;
        }
        assert_eq!(records, batch.records);
    }
    Ok(next)
}

/// Within which a peer that is gone is noticed, on a machine with much to do besides.
pub const NOTICED: Duration = Duration::from_secs(20);

/// Waits for what another thread brings about.
pub fn wait_until(mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_mins(1);
    while !condition() {
        assert!(Instant::now() < deadline, "it did not happen in a minute");
        thread::sleep(Duration::from_millis(1));
    }
}
