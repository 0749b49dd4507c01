//! What a peer with the right key can do, and cannot: it belongs to the job, and is still not
//! believed.

use std::fmt::Write;
use std::thread;
use std::time::Duration;

use crate::support::{Directory, Kind, channel, connect, emit, receive_all, wait_until};
use oka_protocol::{Encoding, FrameHeader, FrameKind};
use oka_transport::{ChannelSpec, Network, NetworkConfig};
use omq_tokio::{CurveKeypair, CurvePublicKey, Message, Options, Socket, SocketType};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

#[test]
fn a_peer_with_the_right_key_is_held_to_the_protocol() {
    let config = NetworkConfig {
        max_frame_bytes: 1_000_000,
        ..NetworkConfig::default()
    };
    let directory = Directory::new();
    let source = directory.bind(Kind::Curve, "source", &config);
    let sink = directory.bind(Kind::Curve, "sink", &config);
    let traitor = Traitor::new();
    connect(&[
        (&source, &[channel(1, &sink)], &[]),
        (&sink, &[], &[channel(1, &source), traitor.channel(2)]),
    ]);
    let output = source.output(1).unwrap();
    emit(&output, 0, 32).unwrap();

    // Channels that do not exist, garbage, a frame that is cut.
    let mut nonsense: Vec<_> = (77..177).map(|id| frame(FrameKind::Data, id, 1)).collect();
    nonsense.push(vec![0xff; 10_000]);
    nonsense.push(frame(FrameKind::Data, 2, 1)[..20].to_vec());
    let expected = nonsense.len() as u64;
    traitor.send(&sink, nonsense);
    wait_until(|| sink.statistics().dropped_messages == expected);
    // Over the limit: the connection is dropped, and nothing of it arrives.
    traitor.send(&sink, vec![vec![0; 3_000_000]]);

    emit(&output, 1, 32).unwrap();
    let finishing = thread::spawn(move || source.finish(None).unwrap());
    traitor.send(&sink, vec![frame(FrameKind::End, 2, 1)]);
    assert_eq!(receive_all(&sink, 32, 2).unwrap(), [2, 0]);
    finishing.join().unwrap();
    assert_eq!(sink.statistics().dropped_messages, expected);
    assert_eq!(sink.statistics().inputs[1].bytes, 0);
}

#[test]
fn a_key_of_another_task_does_not_open_the_door() {
    let directory = Directory::new();
    let source = directory.bind(Kind::Curve, "source", &NetworkConfig::default());
    let sink = directory.bind(Kind::Curve, "sink", &NetworkConfig::default());
    connect(&[
        (&source, &[channel(1, &sink)], &[]),
        (&sink, &[], &[channel(1, &source)]),
    ]);
    // Of the job, perhaps, but no peer of this task.
    let traitor = Traitor::new();
    let socket = traitor.push(&sink);
    wait_until(|| sink.statistics().refused_connections >= 1);
    let connections = traitor.runtime.block_on(socket.connections()).unwrap();
    assert!(connections.iter().all(|one| one.peer_info.is_none()));
    assert_eq!(sink.statistics().dropped_messages, 0);
}

/// A peer whose key is known, made of bare sockets.
struct Traitor {
    runtime: Handle,
    _running: oneshot::Sender<()>,
    keys: CurveKeypair,
    _pull: Socket,
    endpoint: String,
}

impl Traitor {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let handle = runtime.handle().clone();
        let (running, stopped) = oneshot::channel();
        thread::spawn(move || runtime.block_on(stopped));
        let runtime = handle;
        let keys = CurveKeypair::generate();
        let (pull, bound) = runtime.block_on(async {
            let options = Options::default().curve_server(keys.clone());
            let pull = Socket::new(SocketType::Pull, options);
            let bound = pull.bind("tcp://127.0.0.1:0").await.unwrap();
            (pull, bound.to_string())
        });
        let mut key = String::new();
        for byte in keys.public.as_bytes() {
            write!(key, "{byte:02x}").unwrap();
        }
        Self {
            endpoint: bound.replace("tcp://", &format!("tcp://{key}@")),
            runtime,
            _running: running,
            keys,
            _pull: pull,
        }
    }

    fn channel(&self, id: u32) -> ChannelSpec {
        ChannelSpec::new(id, &self.endpoint)
    }

    /// A socket that knocks at the network's door with the traitor's key.
    fn push(&self, network: &Network) -> Socket {
        let endpoint = network.endpoints()[0].strip_prefix("tcp://").unwrap();
        let (key, address) = endpoint.split_once('@').unwrap();
        let mut server = [0; 32];
        for (at, byte) in server.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&key[2 * at..2 * at + 2], 16).unwrap();
        }
        let server = CurvePublicKey::from_bytes(server);
        let address = format!("tcp://{address}");
        self.runtime.block_on(async {
            let options = Options::default().curve_client(self.keys.clone(), server);
            let push = Socket::new(SocketType::Push, options);
            push.connect(address.as_str()).await.unwrap();
            push
        })
    }

    fn send(&self, network: &Network, messages: Vec<Vec<u8>>) {
        let push = self.push(network);
        self.runtime.block_on(async {
            let second = Duration::from_secs(1);
            push.wait_connected(1, 10 * second).await.unwrap();
            for message in messages {
                push.send(Message::from(message)).await.unwrap();
            }
            let _ = push.close_with_linger(Some(second)).await;
        });
    }
}

fn frame(kind: FrameKind, channel: u32, sequence: u64) -> Vec<u8> {
    let header = FrameHeader {
        kind,
        encoding: Encoding::Msgpack,
        attempt: 0,
        channel,
        sequence,
        count: u32::from(kind == FrameKind::Data),
        length: 0,
    };
    header.encode().to_vec()
}
