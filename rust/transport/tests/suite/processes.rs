//! Channels between processes: ends, sudden deaths, and the cost of waiting.

use std::env;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::{
    Directory, Kind, NOTICED, ReceiveBatch as _, channel, connect, emit, receive_all,
};
use oka_transport::{ChannelSpec, EmitError, Network, NetworkConfig, ReceiveError};

#[cfg(all(target_os = "linux", not(feature = "portable")))]
const KINDS: &[Kind] = &[Kind::Shm, Kind::Ipc, Kind::Tcp, Kind::Curve];
#[cfg(any(not(target_os = "linux"), feature = "portable"))]
const KINDS: &[Kind] = &[Kind::Ipc, Kind::Tcp, Kind::Curve];
const PEER: &str = "OKA_TEST_PEER";
const ENDPOINT: &str = "OKA_TEST_ENDPOINT";
const RECORDS: u64 = 5_000;

/// Not a test of its own: the other process of the tests here.
#[test]
#[ignore = "run by the other tests"]
fn peer_process() {
    let Ok(peer) = env::var(PEER) else { return };
    let config = NetworkConfig {
        encryption: peer.contains('@'), // the key in front of the host
        ..NetworkConfig::default()
    };
    let network = Network::bind(config, &[env::var(ENDPOINT).unwrap()]).unwrap();
    eprintln!("{}", network.endpoints()[0]);
    let spec = [ChannelSpec::new(1, peer)];
    if env::var("OKA_TEST_ROLE").unwrap() == "source" {
        network.connect(&spec, &[]).unwrap();
        for number in 0..RECORDS {
            emit(&network.output(1).unwrap(), number, 100).unwrap();
        }
        network.finish(None).unwrap();
    } else {
        network.connect(&[], &spec).unwrap();
        assert_eq!(receive_all(&network, 100, 1).unwrap(), [RECORDS]);
    }
    // The process ends at once: nothing may depend on a farewell beyond this.
    network.close();
    std::process::exit(0);
}

#[test]
fn a_source_process_delivers_everything_before_it_exits() {
    for &kind in KINDS {
        for _ in 0..5 {
            let directory = Directory::new();
            let sink = directory.bind(kind, "sink", &NetworkConfig::default());
            let (mut source, peer) = start(&directory, kind, "source", &sink);
            sink.connect(&[], &[ChannelSpec::new(1, peer)]).unwrap();
            assert_eq!(receive_all(&sink, 100, 1).unwrap(), [RECORDS]);
            assert!(source.wait().unwrap().success());
        }
    }
}

#[test]
fn a_sink_process_acknowledges_everything_before_it_exits() {
    for &kind in KINDS {
        for _ in 0..5 {
            let directory = Directory::new();
            let source = directory.bind(kind, "source", &NetworkConfig::default());
            let (mut sink, peer) = start(&directory, kind, "sink", &source);
            source.connect(&[ChannelSpec::new(1, peer)], &[]).unwrap();
            for number in 0..RECORDS {
                emit(&source.output(1).unwrap(), number, 100).unwrap();
            }
            source.finish(None).unwrap();
            assert!(sink.wait().unwrap().success());
        }
    }
}

#[test]
fn a_killed_process_is_noticed() {
    let config = NetworkConfig {
        reconnect_timeout: Duration::from_millis(200),
        ..NetworkConfig::default()
    };
    for &kind in KINDS {
        let directory = Directory::new();
        let source = directory.bind(kind, "source", &config);
        let (mut sink, peer) = start(&directory, kind, "sink", &source);
        source.connect(&[ChannelSpec::new(1, peer)], &[]).unwrap();
        let output = source.output(1).unwrap();
        emit(&output, 0, 100).unwrap();
        sink.kill().unwrap();
        sink.wait().unwrap();
        let killed = Instant::now();
        let error = (1..)
            .find_map(|number| emit(&output, number, 100).err())
            .unwrap();
        assert!(matches!(error, EmitError::Lost(_)), "{error}");
        assert!(killed.elapsed() < NOTICED, "{kind:?}");

        let directory = Directory::new();
        let middle = directory.bind(kind, "middle", &config);
        let (mut sink, peer) = start(&directory, kind, "sink", &middle);
        let idle = directory.bind(kind, "idle", &config);
        let output = [ChannelSpec::new(1, peer)];
        connect(&[
            (&middle, &output, &[channel(2, &idle)]),
            (&idle, &[channel(2, &middle)], &[]),
        ]);
        sink.kill().unwrap();
        sink.wait().unwrap();
        let killed = Instant::now();
        assert!(matches!(middle.receive_batch(), Err(ReceiveError::Lost(_))));
        assert!(killed.elapsed() < NOTICED, "{kind:?}");
    }
}

#[test]
fn waiting_costs_no_cpu() {
    for &kind in KINDS {
        let directory = Directory::new();
        let source = directory.bind(kind, "source", &NetworkConfig::default());
        let (mut sink, peer) = start(&directory, kind, "sink", &source);
        source.connect(&[ChannelSpec::new(1, peer)], &[]).unwrap();
        emit(&source.output(1).unwrap(), 0, 100).unwrap();
        thread::sleep(Duration::from_millis(100));
        let before = cpu_ticks(&sink);
        thread::sleep(Duration::from_millis(500));
        let used = cpu_ticks(&sink) - before;
        assert!(
            used <= 1,
            "{kind:?} used {used} ticks of 10 ms in half a second"
        );
        sink.kill().unwrap();
        sink.wait().unwrap();
    }
}

/// Starts the peer of `network` as a process; gives it and its endpoint.
fn start(directory: &Directory, kind: Kind, role: &str, network: &Network) -> (Child, String) {
    let mut child = Command::new(env::current_exe().unwrap())
        .args([
            "--exact",
            "processes::peer_process",
            "--ignored",
            "--nocapture",
        ])
        .env(PEER, &network.endpoints()[0])
        .env(ENDPOINT, directory.endpoint(kind, "peer"))
        .env("OKA_TEST_ROLE", role)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let endpoint = lines
        .find_map(|line| line.ok().filter(|line| line.contains("://")))
        .unwrap();
    thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            eprintln!("peer: {line}");
        }
    });
    (child, endpoint)
}

fn cpu_ticks(process: &Child) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{}/stat", process.id())).unwrap();
    let fields = stat.rsplit(')').next().unwrap().split_whitespace();
    fields
        .skip(11)
        .take(2)
        .map(|field| field.parse::<u64>().unwrap())
        .sum()
}
