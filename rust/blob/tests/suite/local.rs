//! All processes of a machine map one copy.

use std::fs;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use oka_blob::{ConnectError, WaitError};

use crate::support::{LIMIT, Node, ORIGIN, bytes, config, until};

/// A leader that gets blobs of an origin, and its followers.
fn followed(followers: usize) -> (Node, Node, Vec<Node>) {
    let (origin, leader) = (Node::new(config(true)), Node::new(config(true)));
    let behind: Vec<_> = (0..followers).map(|_| Node::new(config(true))).collect();
    let path = leader.local();
    thread::scope(|scope| {
        for follower in &behind {
            let leaders = [(ORIGIN, path.clone())];
            scope.spawn(move || follower.connect(&[], &[], &leaders, 0, LIMIT).unwrap());
        }
        let peers = [origin.endpoint().to_owned()];
        leader.connect(&[], &peers, &[], followers, LIMIT).unwrap();
    });
    origin.join(&[leader.endpoint().to_owned()], &[]);
    leader.unlink();
    (origin, leader, behind)
}

#[test]
fn followers_map_the_copy_of_their_leader() {
    let (origin, leader, followers) = followed(3);
    for (number, size) in [0, 1, 1_000_000].into_iter().enumerate() {
        let model = bytes(size, 1);
        origin.publish(number as u64, &model, false);
        let blob = leader.take(number as u64).unwrap();
        for follower in &followers {
            let mapped = follower.take(number as u64).unwrap();
            assert!(mapped.bytes() == model);
            assert_eq!(mapped.landed_ns(), blob.landed_ns());
            assert_eq!(
                follower.statistics().held_bytes,
                0,
                "it has no copy of its own"
            );
        }
        origin.delivered(number as u64).unwrap();
    }
}

#[test]
fn an_origin_hands_its_blobs_to_the_followers_beside_it() {
    let (origin, follower) = (Node::new(config(true)), Node::new(config(true)));
    let leaders = [(ORIGIN, origin.local())];
    thread::scope(|scope| {
        scope.spawn(|| follower.connect(&[], &[], &leaders, 0, LIMIT).unwrap());
        // It may be whole before the followers came.
        let landing = origin.create(ORIGIN, 0, 5, false, false).unwrap();
        landing.write(b"model").unwrap();
        landing.finish().unwrap();
        origin.connect(&[], &[], &[], 1, LIMIT).unwrap();
    });
    assert_eq!(follower.take(0).unwrap().bytes(), b"model");
    origin.delivered(0).unwrap();
    until("it is let go of", || origin.statistics().blobs == 0);
    origin.begin(1, 5, false).abort("no reason");
    assert!(
        follower
            .take(1)
            .unwrap_err()
            .to_string()
            .contains("no reason")
    );
    let waiting = follower.get(ORIGIN, 2, Some(Duration::from_millis(20)));
    assert!(matches!(waiting, Err(WaitError::TimedOut { .. })));
    origin.close();
    let error = follower.take(2).unwrap_err();
    assert!(error.to_string().contains("leader"), "{error}");
}

#[test]
fn a_follower_that_dies_delays_nobody() {
    let (origin, leader, followers) = followed(2);
    followers[0].close();
    let model = bytes(500_000, 2);
    origin.publish(0, &model, false);
    assert!(leader.take(0).unwrap().bytes() == model);
    assert!(followers[1].take(0).unwrap().bytes() == model);
    origin.delivered(0).unwrap();
    until("it is let go of", || leader.statistics().held_bytes == 0);
}

#[test]
fn whoever_does_not_come_is_named() {
    let node = Node::new(config(true));
    let short = Duration::from_millis(50);
    let error = node.connect(&[], &[], &[], 2, short).unwrap_err();
    assert!(error.to_string().contains("0 of 2 followers"), "{error}");
    assert!(matches!(
        node.connect(&[], &[], &[], 0, short),
        Err(ConnectError::AlreadyConnected)
    ));
    let node = Node::new(config(true));
    let nowhere = [(ORIGIN, node.local().with_file_name("nowhere"))];
    let error = node.connect(&[], &[], &nowhere, 0, short).unwrap_err();
    assert!(error.to_string().contains("nowhere"), "{error}");
    assert!(matches!(error, ConnectError::TimedOut { .. }));
}

/// Descriptors and mappings of a blob in this process, with that many pages.
fn traces(pages: usize) -> usize {
    let is_blob = |text: &str| text.contains("oka-blob");
    let files = fs::read_dir("/proc/self/fd").unwrap();
    let files = files.filter_map(|file| {
        let path = file.ok()?.path();
        let size = fs::metadata(&path).ok()?.len();
        let link = fs::read_link(path).ok()?;
        (is_blob(link.to_str()?) && size == pages as u64 * 4096).then_some(())
    });
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let maps = maps.lines().filter(|line| {
        let (start, end) = line.split_once('-').unwrap();
        let end = end.split(' ').next().unwrap();
        let [start, end] = [start, end].map(|text| usize::from_str_radix(text, 16).unwrap());
        is_blob(line) && end - start == pages * 4096
    });
    files.count() + maps.count()
}

#[test]
fn the_memory_goes_with_the_last_one_who_has_it() {
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock();
    let pages = 1237; // a size that no other test has
    let (origin, leader, followers) = followed(2);
    let model = bytes(pages * 4096, 3);
    origin.publish(0, &model, false);
    let mut blobs: Vec<_> = followers.iter().map(|node| node.take(0).unwrap()).collect();
    blobs.push(leader.take(0).unwrap());
    origin.delivered(0).unwrap();
    until("only what was taken is left", || {
        origin.statistics().held_bytes == 0
    });
    assert_eq!(leader.statistics().held_bytes, model.len() as u64);
    drop(leader);
    assert!(blobs.iter().all(|blob| blob.bytes() == model));
    assert!(traces(pages) >= 3);
    drop(blobs);
    until("nothing of it is left", || traces(pages) == 0);
}
