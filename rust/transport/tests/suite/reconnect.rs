//! Connections that are cut come back, and every record arrives once.

use std::thread;
use std::time::Duration;

use crate::support::{Directory, Kind, ReceiveBatch as _, emit, receive_all};
use oka_ipc::{Endpoint, proxy::Proxy};
use oka_transport::{ChannelSpec, EmitError, LostReason, Network, NetworkConfig, ReceiveError};

const RECORDS: u64 = 20_000;
const SIZE: usize = 4_000;

/// A source and a sink, and the proxies in front of them.
fn proxied_pair(kind: Kind, config: &NetworkConfig) -> (Network, Network, [Proxy; 2]) {
    let directory = Directory::new();
    let source = directory.bind(kind, "source", config);
    let sink = directory.bind(kind, "sink", config);
    let through = |network: &Network| Proxy::to(&network.endpoints()[0], Duration::from_millis(1));
    let proxies = [through(&sink), through(&source)];
    let [to_sink, to_source] = [0, 1].map(|at| ChannelSpec::new(1, proxies[at].endpoint.clone()));
    thread::scope(|scope| {
        scope.spawn(|| source.connect(&[to_sink], &[]).unwrap());
        sink.connect(&[], &[to_source]).unwrap();
    });
    (source, sink, proxies)
}

#[test]
fn every_record_arrives_once_over_tcp_that_is_cut_again_and_again() {
    cut_again_and_again(Kind::Tcp);
}

#[test]
fn every_record_arrives_once_over_encrypted_tcp_that_is_cut_again_and_again() {
    cut_again_and_again(Kind::Curve);
}

fn cut_again_and_again(kind: Kind) {
    let (source, sink, proxies) = proxied_pair(kind, &NetworkConfig::default());
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let output = source.output(1).unwrap();
            for number in 0..RECORDS {
                emit(&output, number, SIZE).unwrap();
            }
            source.finish(None).unwrap();
        });
        let reader = scope.spawn(|| count_in_order(&sink));
        let mut cuts = 0;
        while !writer.is_finished() {
            cuts += 1;
            thread::sleep(Duration::from_millis(20 + cuts * 37 % 150));
            match cuts % 4 {
                0 => proxies[1].cut(),
                1 => proxies.iter().for_each(Proxy::cut),
                _ => proxies[0].cut(),
            }
        }
        assert_eq!(reader.join().unwrap(), RECORDS);
    });
    let statistics = source.statistics();
    let output = &statistics.outputs[0];
    assert_eq!(output.records, RECORDS, "counted once each");
    assert!(output.reconnects > 0 && output.longest_interruption_ns > 0);
    assert!(output.retransmitted_frames > 0, "the cuts hit nothing");
    assert_eq!(sink.statistics().inputs[0].records, RECORDS);
    sink.close();
}

/// Receives until the end; the link is the bottleneck.
fn count_in_order(sink: &Network) -> u64 {
    let mut next = 0_u64;
    while let Some(batch) = sink.receive_batch().unwrap() {
        for record in batch.bodies().flat_map(|(_, body)| body.chunks(SIZE)) {
            assert_eq!(record[..8], next.to_le_bytes());
            next += 1;
        }
    }
    next
}

#[test]
fn a_channel_goes_on_after_an_outage() {
    let (source, sink, proxies) = proxied_pair(Kind::Curve, &NetworkConfig::default());
    let output = source.output(1).unwrap();
    emit(&output, 0, SIZE).unwrap();
    assert_eq!(sink.receive_batch().unwrap().unwrap().records, 1);
    proxies.iter().for_each(Proxy::close);
    emit(&output, 1, SIZE).unwrap();
    thread::sleep(Duration::from_millis(300));
    emit(&output, 2, SIZE).unwrap();
    proxies.iter().for_each(Proxy::open);
    let finishing = thread::spawn(move || source.finish(None).map(|()| source));
    let mut records = 1;
    while let Some(batch) = sink.receive_batch().unwrap() {
        records += batch.records;
    }
    assert_eq!(records, 3);
    let source = finishing.join().unwrap().unwrap();
    let output = &source.statistics().outputs[0];
    assert_eq!(output.reconnects, 1);
    assert!(output.longest_interruption_ns >= 300_000_000);
}

#[test]
fn the_end_survives_a_cut() {
    for round in 0..10 {
        let (source, sink, proxies) = proxied_pair(Kind::Curve, &NetworkConfig::default());
        emit(&source.output(1).unwrap(), 0, SIZE).unwrap();
        let finishing = thread::spawn(move || source.finish(None).map(|()| source));
        if round % 2 == 0 {
            thread::sleep(Duration::from_millis(round));
        }
        proxies.iter().for_each(Proxy::cut);
        assert_eq!(receive_all(&sink, SIZE, 1).unwrap(), [1]);
        proxies.iter().for_each(Proxy::cut);
        drop(finishing.join().unwrap().unwrap());
    }
}

#[test]
fn a_connection_that_stays_away_is_a_lost_channel() {
    let config = NetworkConfig {
        reconnect_timeout: Duration::from_millis(300),
        ..NetworkConfig::default()
    };
    let (source, sink, proxies) = proxied_pair(Kind::Curve, &config);
    let output = source.output(1).unwrap();
    emit(&output, 0, SIZE).unwrap();
    proxies.iter().for_each(Proxy::close);
    let lost = loop {
        match emit(&output, 1, SIZE) {
            Ok(()) => thread::sleep(Duration::from_millis(1)),
            Err(EmitError::Lost(lost)) => break lost,
            Err(error) => panic!("{error}"),
        }
    };
    assert_eq!(lost.channel, 1);
    let peer = Endpoint::parse(&proxies[0].endpoint).unwrap();
    assert_eq!(lost.peer, peer.with_key(None).to_string());
    let text = lost.to_string();
    assert!(text.contains("hint: ") && text.contains("reconnect_timeout"));
    while let Ok(batch) = sink.receive_batch() {
        assert!(batch.is_some(), "the channel did not end");
    }
    let Err(ReceiveError::Lost(lost)) = sink.receive_batch() else {
        panic!("the sink should have lost its source");
    };
    assert!(matches!(lost.reason, LostReason::CutOff { .. }), "{lost}");
}
