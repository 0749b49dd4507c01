//! Whoever is no peer gets nothing, and does no harm.

use std::io::{Read, Write};
use std::net::TcpStream;

use oka_blob::BindError;

use crate::support::{LIMIT, Node, bytes, chain, config, until};

fn address(node: &Node) -> &str {
    let endpoint = node.endpoint();
    endpoint.rsplit(['@', '/']).next().unwrap()
}

#[test]
fn a_key_that_is_no_peers_is_refused() {
    let (_, nodes) = chain(1, &config(true));
    let stranger = Node::new(config(true));
    stranger.join(&[nodes[0].endpoint().to_owned()], &[]);
    stranger.publish(0, b"evil", false);
    let error = stranger.delivered(0).unwrap_err();
    assert!(error.to_string().contains(nodes[0].endpoint()), "{error}");
    let statistics = nodes[0].statistics();
    assert!(statistics.refused_connections > 0);
    assert_eq!((statistics.blobs, statistics.held_bytes), (0, 0));
}

#[test]
fn an_encrypted_node_does_not_speak_in_the_clear_and_the_other_way_round() {
    for encryption in [false, true] {
        let node = Node::new(config(encryption));
        node.join(&[], &[]);
        let other = Node::new(config(!encryption));
        let endpoint = if encryption {
            format!("tcp://{}", address(&node))
        } else {
            format!(
                "{}@{}",
                other.endpoint().split('@').next().unwrap_or("tcp://"),
                address(&node)
            )
        };
        if encryption {
            other.join(&[endpoint], &[]);
            other.publish(0, b"evil", false);
            assert!(other.delivered(0).is_err());
            assert_eq!(node.statistics().blobs, 0);
        }
        let wrong = node.connect(&["tcp://".to_owned()], &[], &[], 0, LIMIT);
        assert!(wrong.unwrap_err().to_string().contains("hint: "));
    }
}

#[test]
fn garbage_is_turned_away_and_the_node_goes_on() {
    for encryption in [false, true] {
        let (origin, nodes) = chain(1, &config(encryption));
        for garbage in [
            &b"GET / HTTP/1.1\r\n\r\n"[..],
            b"OKAB1p\xff\xff\xff\xff",
            b"OKAB1p\0\0\0\0",
            &[0; 300],
        ] {
            let mut socket = TcpStream::connect(address(&nodes[0])).unwrap();
            socket.write_all(garbage).unwrap();
            socket.set_read_timeout(Some(LIMIT)).unwrap();
            // Closed, with or without something unread.
            assert!(matches!(socket.read(&mut [0; 100]), Ok(0) | Err(_)));
        }
        let model = bytes(300_000, 7);
        origin.publish(0, &model, false);
        assert!(nodes[0].take(0).unwrap().bytes() == model);
        until("they are counted", || {
            nodes[0].statistics().refused_connections >= 2
        });
    }
}

#[test]
fn endpoints_and_settings_that_cannot_work_are_refused() {
    let folder = std::env::temp_dir();
    let mut settings = config(true);
    settings.chunk_bytes = 1;
    let bind = |settings, listen| {
        let bound = oka_blob::BlobNode::bind(settings, listen, &folder.join("oka-blob-never"));
        bound.map(drop).unwrap_err()
    };
    assert!(matches!(
        bind(settings, "tcp://127.0.0.1:0"),
        BindError::Setting(_)
    ));
    for listen in ["ipc:///tmp/a", "tcp://127.0.0.1", "nonsense"] {
        let error = bind(config(true), listen);
        assert!(matches!(error, BindError::Invalid(_)), "{error}");
    }
    let error = bind(config(true), "tcp://203.0.113.1:1");
    assert!(matches!(error, BindError::Refused { .. }), "{error}");
}
