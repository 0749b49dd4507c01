//! Connections that break, bits that flip, nodes that die: the others get the blob all the same.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use oka_blob::{BlobConfig, CreateError, MemoryError, WaitError};
use oka_ipc::proxy::Proxy;

use crate::support::{Node, ORIGIN, bytes, chain, config, until};

const CHUNK: u64 = 64 << 10;

/// An origin, and a node that it reaches through a proxy.
fn proxied(config: &BlobConfig) -> (Node, Proxy, Node) {
    let (origin, node) = (Node::new(config.clone()), Node::new(config.clone()));
    let proxy = Proxy::to(node.endpoint(), Duration::ZERO);
    origin.join(std::slice::from_ref(&proxy.endpoint), &[]);
    node.join(&[], &[origin.endpoint().to_owned()]);
    (origin, proxy, node)
}

#[test]
fn an_interrupted_connection_resumes_at_the_missing_chunks() {
    for encryption in [false, true] {
        let (origin, proxy, node) = proxied(&config(encryption));
        let model = bytes(40 * CHUNK as usize + 5, 1);
        proxy.cut_at(30 * CHUNK);
        origin.publish(0, &model, false);
        assert!(node.take(0).unwrap().bytes() == model);
        origin.delivered(0).unwrap();
        assert_eq!(proxy.connections(), 2);
        assert_eq!(
            node.statistics().bytes_received,
            model.len() as u64,
            "nothing came twice"
        );
        assert_eq!(origin.statistics().nodes_bypassed, 0);
    }
}

#[test]
fn a_corrupted_chunk_is_sent_again() {
    for encryption in [false, true] {
        let (origin, proxy, node) = proxied(&config(encryption));
        let model = bytes(20 * CHUNK as usize, 2);
        proxy.flip_at(10 * CHUNK + 1000);
        origin.publish(0, &model, false);
        assert!(node.take(0).unwrap().bytes() == model);
        origin.delivered(0).unwrap();
        assert!(origin.statistics().chunks_resent > 0);
        // What is encrypted cannot be told apart from an attack: the connection ends.
        assert_eq!(proxy.connections(), if encryption { 2 } else { 1 });
    }
}

#[test]
fn any_flipped_bit_does_no_harm() {
    for encryption in [false, true] {
        for byte in [0, 3, 7, 20, 60, 90, 110, 130, 160, 180, 200, 240] {
            let (origin, proxy, node) = proxied(&config(encryption));
            let model = bytes(2 * CHUNK as usize, byte);
            proxy.flip_at(byte);
            origin.publish(0, &model, false);
            let got = node.take(0).unwrap();
            assert!(got.bytes() == model, "byte {byte}, encryption {encryption}");
        }
    }
}

#[test]
fn a_dead_middle_node_is_bypassed_and_named() {
    for encryption in [false, true] {
        let (origin, nodes) = chain(3, &config(encryption));
        let model = bytes(10 * CHUNK as usize, 3);
        let dead = nodes[1].endpoint().to_owned();
        nodes[1].close();
        origin.publish(0, &model, false);
        for node in [&nodes[0], &nodes[2]] {
            assert!(node.take(0).unwrap().bytes() == model);
        }
        let error = origin.delivered(0).unwrap_err();
        assert!(matches!(error, WaitError::Lost(_)));
        let error = error.to_string();
        assert!(error.contains(&dead) && error.contains("hint: "), "{error}");
        assert!(!error.contains(nodes[0].endpoint()) && !error.contains(nodes[2].endpoint()));
        assert_eq!(nodes[0].statistics().nodes_bypassed, 1);
    }
}

#[test]
fn a_node_that_dies_in_the_middle_is_bypassed() {
    let (origin, nodes) = chain(3, &config(true));
    let model = bytes(20 * CHUNK as usize, 4);
    let landing = origin.begin(0, model.len(), false);
    landing.write(&model[..10 * CHUNK as usize]).unwrap();
    until("all have the first half", || {
        nodes[2].statistics().bytes_received >= 10 * CHUNK
    });
    nodes[1].close();
    landing.write(&model[10 * CHUNK as usize..]).unwrap();
    landing.finish().unwrap();
    for node in [&nodes[0], &nodes[2]] {
        assert!(node.take(0).unwrap().bytes() == model);
    }
    assert_eq!(
        nodes[2].statistics().bytes_received,
        model.len() as u64,
        "it kept the first half"
    );
    assert!(
        origin
            .delivered(0)
            .unwrap_err()
            .to_string()
            .contains(nodes[1].endpoint())
    );
}

#[test]
fn a_node_that_comes_back_is_served_at_the_end() {
    let config = BlobConfig {
        patience: Duration::from_secs(15),
        ..config(true)
    };
    let (origin, [middle, last]) = (
        Node::new(config.clone()),
        [(); 2].map(|()| Node::new(config.clone())),
    );
    let proxy = Proxy::to(middle.endpoint(), Duration::ZERO);
    let peers: Vec<_> = [&origin, &middle, &last]
        .iter()
        .map(|node| node.endpoint().to_owned())
        .collect();
    origin.join(&[proxy.endpoint.clone(), last.endpoint().to_owned()], &[]);
    for node in [&middle, &last] {
        node.join(&[], &peers);
    }
    let model = bytes(20 * CHUNK as usize, 5);
    proxy.cut_at(10 * CHUNK);
    let landing = origin.begin(0, model.len(), false);
    landing.write(&model[..5 * CHUNK as usize]).unwrap();
    until("the first chunks are there", || {
        last.statistics().bytes_received >= 5 * CHUNK
    });
    proxy.close();
    landing.write(&model[5 * CHUNK as usize..]).unwrap();
    landing.finish().unwrap();
    assert!(last.take(0).unwrap().bytes() == model);
    proxy.open();
    assert!(middle.take(0).unwrap().bytes() == model);
    origin.delivered(0).unwrap();
    assert_eq!(origin.statistics().nodes_bypassed, 1);
    assert_eq!(last.statistics().bytes_received, model.len() as u64);
}

#[test]
fn a_silent_node_is_bypassed() {
    let (origin, last) = (Node::new(config(true)), Node::new(config(true)));
    // It is connected to by the system, and never accepts.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let (key, _) = last.endpoint().split_once('@').unwrap();
    let silent = format!("{key}@{}", silent.local_addr().unwrap());
    origin.join(&[silent.clone(), last.endpoint().to_owned()], &[]);
    last.join(&[], &[origin.endpoint().to_owned()]);
    origin.publish(0, b"model", false);
    assert_eq!(last.take(0).unwrap().bytes(), b"model");
    assert!(
        origin
            .delivered(0)
            .unwrap_err()
            .to_string()
            .contains(&silent)
    );
}

#[test]
fn a_blob_whose_origin_is_gone_is_lost_everywhere_at_about_the_same_time() {
    let (origin, nodes) = chain(3, &config(true));
    let landing = origin.begin(0, 10 * CHUNK as usize, false);
    landing.write(&bytes(5 * CHUNK as usize, 6)).unwrap();
    until("all have a part", || {
        nodes[2].statistics().bytes_received > 0
    });
    origin.close();
    let started = Instant::now();
    for node in &nodes {
        let error = node.take(0).unwrap_err();
        assert!(matches!(error, WaitError::Lost(_)), "{error}");
    }
    let (took, one) = (started.elapsed(), config(true).patience);
    assert!(took < 2 * one, "one after the other: {took:?}");
    for node in &nodes {
        until("nothing is held", || node.statistics().held_bytes == 0);
    }
}

#[test]
fn a_blob_that_does_not_fit_is_an_error_where_it_begins_and_named_where_it_goes() {
    let (origin, small) = (
        Node::new(config(true)),
        Node::new(BlobConfig {
            memory_limit: Some(1000),
            ..config(true)
        }),
    );
    origin.join(&[small.endpoint().to_owned()], &[]);
    small.join(&[], &[origin.endpoint().to_owned()]);
    let error = origin
        .create(ORIGIN, 0, 1 << 45, true, false)
        .map(drop)
        .unwrap_err();
    assert!(
        matches!(error, CreateError::Memory(MemoryError::Full { .. })),
        "{error}"
    );
    origin.publish(0, &[1; 1001], false);
    for error in [origin.delivered(0).unwrap_err(), small.take(0).unwrap_err()] {
        assert!(
            error.to_string().contains("1001 bytes does not fit"),
            "{error}"
        );
    }
    origin.publish(1, &[1; 1000], false);
    assert_eq!(small.take(1).unwrap().bytes(), [1; 1000]);
}
