//! What comes from outside the job is dropped and counted; what breaks a channel is reported.

use std::io::Write;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

use crate::support::{Directory, Kind, channel, emit, pair, receive_all, wait_until};
use oka_protocol::{Credit, Encoding, FrameHeader, FrameKind, HEADER_BYTES};
use oka_transport::{ChannelSpec, EmitError, Network, NetworkConfig, ReceiveError};
use omq_tokio::{Message, Options, Socket, SocketType};

#[test]
fn garbage_is_dropped_and_counted_while_the_job_goes_on() {
    for kind in [Kind::Ipc, Kind::Tcp] {
        let config = NetworkConfig {
            max_frame_bytes: 1_000_000,
            attempt: ATTEMPT,
            ..NetworkConfig::default()
        };
        let directory = Directory::new();
        let (source, sink) = pair(&directory, kind, &config);
        let output = source.output(1).unwrap();
        emit(&output, 0, 32).unwrap();

        let mut unknown_version = frame(1, 2, 0);
        unknown_version[0] = 9;
        let mut of_an_earlier_attempt = frame(1, 2, 0);
        of_an_earlier_attempt[3] = 0;
        let mut two_channels = frame(1, 2, 0);
        two_channels.extend_from_slice(&frame(2, 2, 0));
        let credit = Credit {
            acknowledged: 1,
            limit: 1 << 40,
        };
        let garbage = [
            Message::from_slice(b""),
            Message::from_slice(b"\x01"),
            Message::from_slice(&[0xff; 100]),
            Message::from(vec![1; 100_000]),
            Message::multipart([frame(1, 2, 0), frame(1, 3, 0)]),
            Message::from(frame(77, 2, 0)),
            Message::from(frame(1, 0, 0)),
            Message::from(frame(1, 2, 500)),
            Message::from(unknown_version),
            Message::from(of_an_earlier_attempt),
            Message::from(two_channels),
            Message::from_slice(&credit.encode(1, ATTEMPT)),
            Message::from_slice(&credit.encode(78, ATTEMPT)),
        ];
        let expected = garbage.len() as u64;
        send_from_a_stranger(&sink, garbage.into());
        wait_for_drops(&sink, expected);
        // Far over the limit: its connection is dropped, and nothing arrives.
        send_from_a_stranger(&sink, vec![Message::from(vec![1; 2_000_000])]);

        emit(&output, 1, 32).unwrap();
        let finishing = thread::spawn(move || source.finish(None).unwrap());
        assert_eq!(receive_all(&sink, 32, 1).unwrap(), [2], "{kind:?}");
        finishing.join().unwrap();
        assert_eq!(sink.statistics().dropped_messages, expected, "{kind:?}");
    }
}

#[test]
#[cfg_attr(
    any(not(target_os = "linux"), feature = "portable"),
    ignore = "no shared memory"
)]
fn strangers_at_shared_memory_are_dropped_and_counted() {
    let directory = Directory::new();
    let (source, sink) = pair(&directory, Kind::Shm, &config());
    let path = sink.endpoints()[0].strip_prefix("shm://").unwrap();
    let without_ring = [b'O', b'K', b'A', b'2', 1, 0, 0, 0, 0];
    for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], &without_ring, &[]] {
        let mut stream = UnixStream::connect(path).unwrap();
        stream.write_all(bytes).unwrap();
    }
    // One comes for a channel that is taken, the other for one that does not exist.
    let strangers = [1, 77].map(|id| {
        let name = format!("stranger{id}");
        let stranger = directory.bind(Kind::Shm, &name, &config());
        let to = ChannelSpec::new(id, &sink.endpoints()[0]);
        stranger.connect(&[to], &[]).unwrap();
        let output = stranger.output(id).unwrap();
        let error = (0..).find_map(|number| emit(&output, number, 32).err());
        assert!(matches!(error, Some(EmitError::Lost(_))), "{error:?}");
        stranger
    });
    wait_for_drops(&sink, 5);

    emit(&source.output(1).unwrap(), 0, 32).unwrap();
    let finishing = thread::spawn(move || source.finish(None).unwrap());
    assert_eq!(receive_all(&sink, 32, 1).unwrap(), [1]);
    finishing.join().unwrap();
    assert_eq!(sink.statistics().dropped_messages, 5);
    drop(strangers);
}

#[test]
fn bytes_that_are_no_zeromq_do_no_harm() {
    let directory = Directory::new();
    let (source, sink) = pair(&directory, Kind::Tcp, &NetworkConfig::default());
    let address = sink.endpoints()[0].strip_prefix("tcp://").unwrap();
    for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0xff; 1_000], &[]] {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(bytes).unwrap();
    }
    emit(&source.output(1).unwrap(), 0, 32).unwrap();
    let finishing = thread::spawn(move || source.finish(None).unwrap());
    assert_eq!(receive_all(&sink, 32, 1).unwrap(), [1]);
    finishing.join().unwrap();
}

#[test]
fn a_frame_from_nowhere_is_dropped() {
    let directory = Directory::new();
    let (source, sink) = pair(&directory, Kind::Ipc, &config());
    send_from_a_stranger(&sink, vec![Message::from(frame(1, 5, 0))]);
    wait_for_drops(&sink, 1);
    emit(&source.output(1).unwrap(), 0, 32).unwrap();
    let finishing = thread::spawn(move || source.finish(None).map(|()| source));
    assert_eq!(receive_all(&sink, 32, 1).unwrap(), [1]);
    let source = finishing.join().unwrap().unwrap();
    assert_eq!(source.statistics().outputs[0].retransmitted_frames, 0);
}

#[test]
fn more_than_was_granted_is_a_lost_channel() {
    let directory = Directory::new();
    let config = config();
    let (_source, sink) = pair(&directory, Kind::Ipc, &config);
    let body = config.window_bytes;
    let frames = (1..=2).map(|sequence| {
        let mut message = frame(1, sequence, body as u32);
        message.resize(HEADER_BYTES + body, 0);
        Message::from(message)
    });
    send_from_a_stranger(&sink, frames.collect());
    wait_for_drops(&sink, 1);
    let Err(ReceiveError::Lost(lost)) = sink.try_receive() else {
        panic!("the channel should be lost");
    };
    assert_eq!(lost.channel, 1);
    assert!(lost.to_string().contains("were granted"), "{lost}");
}

/// A task that should be gone, and comes for a channel that its heir has not come for yet.
#[test]
#[cfg_attr(
    any(not(target_os = "linux"), feature = "portable"),
    ignore = "no shared memory"
)]
fn a_sender_of_an_earlier_attempt_is_turned_away() {
    let directory = Directory::new();
    let of = |attempt| NetworkConfig {
        attempt,
        connect_timeout: Duration::from_millis(500),
        ..NetworkConfig::default()
    };
    let zombie = directory.bind(Kind::Shm, "zombie", &of(ATTEMPT - 1));
    let heir = directory.bind(Kind::Shm, "heir", &of(ATTEMPT));
    let sink = directory.bind(Kind::Shm, "sink", &of(ATTEMPT));
    sink.connect(&[], &[channel(1, &heir)]).unwrap();
    zombie.connect(&[channel(1, &sink)], &[]).unwrap_err();
    wait_for_drops(&sink, 1);
    heir.connect(&[channel(1, &sink)], &[]).unwrap();
    emit(&heir.output(1).unwrap(), 0, 32).unwrap();
    let finishing = thread::spawn(move || heir.finish(None).unwrap());
    assert_eq!(receive_all(&sink, 32, 1).unwrap(), [1]);
    finishing.join().unwrap();
}

fn config() -> NetworkConfig {
    NetworkConfig {
        attempt: ATTEMPT,
        ..NetworkConfig::default()
    }
}

const ATTEMPT: u8 = 3;

/// A data frame without body whose header announces `length` bytes.
fn frame(channel: u32, sequence: u64, length: u32) -> Vec<u8> {
    let header = FrameHeader {
        kind: FrameKind::Data,
        encoding: Encoding::Msgpack,
        attempt: ATTEMPT,
        channel,
        sequence,
        count: 1,
        length,
    };
    let bytes = header.encode();
    assert_eq!(bytes.len(), HEADER_BYTES);
    bytes.to_vec()
}

fn send_from_a_stranger(network: &Network, messages: Vec<Message>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let second = Duration::from_secs(1);
        let stranger = Socket::new(SocketType::Push, Options::default());
        stranger
            .connect(network.endpoints()[0].as_str())
            .await
            .unwrap();
        stranger.wait_connected(1, second).await.unwrap();
        for message in messages {
            stranger.send(message).await.unwrap();
        }
        stranger.close_with_linger(Some(second)).await.unwrap();
    });
}

fn wait_for_drops(network: &Network, count: u64) {
    wait_until(|| network.statistics().dropped_messages >= count);
}
