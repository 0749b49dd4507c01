//! Blobs get to every node of a chain, whatever their size and however they are filled.

use std::fs;
use std::thread;
use std::time::Duration;

use oka_blob::{BlobConfig, FillError, WaitError};

use crate::support::{Node, ORIGIN, bytes, chain, config, until};

#[test]
fn a_chain_of_four_gets_every_size() {
    for encryption in [false, true] {
        let (origin, nodes) = chain(4, &config(encryption));
        let chunk = 64 << 10;
        for (number, size) in [0, 1, chunk - 1, chunk, chunk + 1, 37 * chunk + 4321]
            .into_iter()
            .enumerate()
        {
            let number = number as u64;
            let model = bytes(size, number);
            origin.publish(number, &model, true);
            for node in &nodes {
                let blob = node.take(number).unwrap();
                assert!(blob.bytes() == model, "{size} bytes");
                assert!(blob.landed_ns() > 0);
            }
            assert!(origin.take(number).unwrap().bytes() == model);
            origin.delivered(number).unwrap();
            origin.delivered(number).unwrap();
        }
        for node in nodes.iter().chain([&origin]) {
            until("everything is let go of", || {
                let statistics = node.statistics();
                (statistics.blobs, statistics.held_bytes) == (0, 0)
            });
        }
        let statistics = nodes[0].statistics();
        assert_eq!(
            statistics.bytes_received, statistics.bytes_sent,
            "one copy in, one out"
        );
    }
}

#[test]
fn chunks_are_relayed_while_the_origin_is_still_filling() {
    let (origin, nodes) = chain(3, &config(true));
    let model = bytes(1 << 20, 1);
    let landing = origin.begin(0, model.len(), false);
    landing.write(&model[..900_000]).unwrap();
    until("the last one has the first chunks", || {
        nodes[2].statistics().bytes_received >= 13 << 16
    });
    landing.write(&model[900_000..]).unwrap();
    landing.finish().unwrap();
    assert!(nodes[2].take(0).unwrap().bytes() == model);
}

#[test]
fn a_blob_is_filled_in_any_order_through_its_view() {
    let (origin, nodes) = chain(2, &config(false));
    let model = bytes(300_001, 2);
    let landing = origin.begin(0, model.len(), true);
    let view = landing.view().unwrap();
    assert!(matches!(landing.write(b"x"), Err(FillError::Viewed)));
    let (first, second) = model.split_at(100_000);
    // SAFETY: inside the view, and only this thread writes to it.
    unsafe {
        view.start()
            .add(100_000)
            .copy_from_nonoverlapping(second.as_ptr(), second.len());
        view.start()
            .copy_from_nonoverlapping(first.as_ptr(), first.len());
    }
    landing.advance(150_000).unwrap();
    landing.advance(150_001).unwrap();
    assert!(matches!(landing.advance(1), Err(FillError::TooLong { .. })));
    landing.finish().unwrap();
    // SAFETY: as above; the blob is sealed, and what is written now stays here.
    unsafe { view.start().write_bytes(0, 300_001) };
    for node in nodes.iter().chain([&origin]) {
        assert!(node.take(0).unwrap().bytes() == model);
    }
}

#[test]
fn a_blob_is_filled_from_files() {
    let (origin, nodes) = chain(1, &config(false));
    let model = bytes(200_000, 3);
    let file = std::env::temp_dir().join(format!("oka-blob-file-{}", std::process::id()));
    fs::write(&file, &model).unwrap();
    let landing = origin.begin(0, 350_001, false);
    landing.write(b"x").unwrap();
    landing.write_file(&file, 0, None).unwrap();
    landing.write_file(&file, 50_000, Some(150_000)).unwrap();
    assert!(matches!(
        landing.write_file(&file, 0, None),
        Err(FillError::TooLong { .. })
    ));
    fs::remove_file(&file).unwrap();
    let missing = landing.write_file(&file, 0, None).unwrap_err();
    assert!(missing.to_string().contains("cannot read"), "{missing}");
    landing.finish().unwrap();
    let expected = [b"x", &model[..], &model[50_000..]].concat();
    assert!(nodes[0].take(0).unwrap().bytes() == expected);
}

#[test]
fn too_many_or_too_few_bytes_are_errors() {
    let node = Node::new(config(false));
    node.join(&[], &[]);
    let landing = node.begin(0, 10, true);
    landing.write(&[1; 9]).unwrap();
    assert!(matches!(
        landing.finish(),
        Err(FillError::TooShort {
            written: 9,
            size: 10
        })
    ));
    assert!(matches!(
        landing.write(&[1; 2]),
        Err(FillError::TooLong {
            written: 11,
            size: 10
        })
    ));
    assert!(matches!(landing.advance(1), Err(FillError::NotViewed)));
    landing.write(&[1]).unwrap();
    landing.finish().unwrap();
    assert!(matches!(landing.finish(), Err(FillError::Ended)));
    assert!(
        node.create(ORIGIN, 0, 10, true, true).is_err(),
        "the number was used"
    );
    assert_eq!(node.take(0).unwrap().bytes(), [1; 10]);
    let again = node.take(0).unwrap_err();
    assert!(again.to_string().contains("taken before"), "{again}");
}

#[test]
fn an_abort_gets_to_everyone_with_its_reason() {
    let (origin, nodes) = chain(3, &config(true));
    let landing = origin.begin(0, 1 << 20, true);
    landing.write(&vec![1; 1 << 19]).unwrap();
    landing.abort("the disk burns");
    for error in nodes
        .iter()
        .chain([&origin])
        .map(|node| node.take(0).unwrap_err())
    {
        assert!(error.to_string().contains("the disk burns"), "{error}");
    }
    let error = origin.delivered(0).unwrap_err();
    assert!(error.to_string().contains("the disk burns"), "{error}");
    drop((landing, origin.begin(1, 10, true)));
    assert!(nodes[2].take(1).is_err(), "a dropped one is aborted");
    for node in nodes.iter().chain([&origin]) {
        until("nothing is held", || node.statistics().held_bytes == 0);
    }
}

#[test]
fn waiting_ends_in_time_or_when_it_is_cancelled() {
    let (origin, nodes) = chain(1, &config(true));
    let _landing = origin.begin(0, 10, true);
    let short = Some(Duration::from_millis(20));
    assert!(matches!(
        nodes[0].get(ORIGIN, 0, short),
        Err(WaitError::TimedOut { .. })
    ));
    assert!(matches!(
        origin.wait_delivered(ORIGIN, 0, short),
        Err(WaitError::TimedOut { .. })
    ));
    thread::scope(|scope| {
        let waiting = [
            scope.spawn(|| nodes[0].take(0).map(drop)),
            scope.spawn(|| origin.take(0).map(drop)),
            scope.spawn(|| origin.delivered(0)),
        ];
        thread::sleep(Duration::from_millis(20));
        nodes[0].cancel();
        origin.cancel();
        for waiting in waiting {
            assert_eq!(waiting.join().unwrap(), Err(WaitError::Cancelled));
        }
    });
    assert!(matches!(origin.take(0), Err(WaitError::Cancelled)));
    nodes[0].close();
    nodes[0].close();
}

#[test]
fn a_blob_of_many_chunks_survives_its_node() {
    let defaults = BlobConfig::default();
    let (origin, nodes) = chain(1, &defaults);
    let model = bytes(5_000_000, 5);
    origin.publish(0, &model, false);
    let blob = nodes[0].take(0).unwrap();
    origin.delivered(0).unwrap();
    drop((origin, nodes));
    assert!(blob.bytes() == model);
}

#[test]
fn a_node_that_is_closed_at_once_has_answered() {
    for number in 0..20 {
        let (origin, nodes) = chain(1, &config(true));
        origin.publish(number, b"model", false);
        assert_eq!(nodes[0].take(number).unwrap().bytes(), b"model");
        drop(nodes);
        origin.delivered(number).unwrap();
    }
}
