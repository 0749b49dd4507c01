//! Any bytes are values, keys and aggregates of them, or are refused.
#![no_main]

use libfuzzer_sys::fuzz_target;
use oka_compute::value::extension;
use oka_compute::{Aggregate, Aggregation, KeyPath, Path, Reader, Step, encode, key};

fuzz_target!(
    init: oka_fuzz::write_seeds(&seeds()),
    |bytes: &[u8]| {
        let mut reader = Reader::new(bytes);
        let mut read = 0;
        while !reader.is_at_end() {
            let start = reader.position();
            if reader.read().is_err() {
                break;
            }
            assert!(reader.position() > start);
            read += 1;
        }
        let mut reader = Reader::new(bytes);
        let mut values = 0;
        while !reader.is_at_end() && reader.skip().is_ok() {
            values += 1;
        }
        assert!(values <= read, "{values} whole values, {read} values");
        find_and_canonicalize(bytes);
        aggregate(bytes, values);
    }
);

fn find_and_canonicalize(bytes: &[u8]) {
    let paths = [
        Path::default(),
        Path::from([Step::Item(0)]),
        Path::from([Step::Item(-1), Step::Item(1)]),
        Path::from([Step::Field("a".to_owned())]),
    ];
    for found in paths.iter().filter_map(|path| path.find(bytes).ok()) {
        let mut scratch = Vec::new();
        let whole = Reader::new(found).skip().is_ok();
        let Ok(canonical) = key::canonical(found, &mut scratch) else {
            continue;
        };
        if !whole {
            continue;
        }
        // What is canonical stays as it is.
        let once = first_value(canonical).to_vec();
        let again = key::canonical(&once, &mut scratch).map(first_value);
        assert_eq!(again, Ok(&once[..]));
    }
}

/// The first value of the bytes, where more may follow.
fn first_value(bytes: &[u8]) -> &[u8] {
    let mut reader = Reader::new(bytes);
    match reader.skip() {
        Ok(()) => reader.since(0),
        Err(_) => bytes,
    }
}

fn aggregate(body: &[u8], records: usize) {
    let item = |item| Path::from([Step::Item(item)]);
    let keys = [
        KeyPath::One(item(0)),
        KeyPath::Tuple(vec![item(1), item(0)]),
    ];
    let all = Aggregation::ALL.iter();
    for (aggregation, key) in all.flat_map(|each| keys.iter().map(move |key| (each, key))) {
        let mut aggregate = Aggregate::new((*aggregation, item(1)), key.clone());
        aggregate = aggregate.and((Aggregation::Mean, item(1)));
        // An announced record more than there are must be refused, too.
        for announced in [records, records + 1] {
            let updated = aggregate.update(body, announced);
            assert!(updated.is_err() || announced == records);
            let touched = aggregate.take_updates().count();
            assert!(touched <= aggregate.len());
        }
    }
}

/// Records as tasks send them.
fn seeds() -> Vec<Vec<u8>> {
    let mut pairs = Vec::new();
    for (word, number) in [("moon", 1), ("sun", 300), ("moon", -70_000)] {
        encode::array(&mut pairs, 2);
        encode::text(&mut pairs, word.as_bytes());
        encode::int(&mut pairs, number);
    }
    let mut rest = Vec::new();
    encode::map(&mut rest, 1);
    encode::text(&mut rest, b"a");
    encode::array(&mut rest, 2);
    encode::float(&mut rest, 1e20);
    let start = encode::open_extension(&mut rest, extension::LIST);
    encode::array(&mut rest, 2);
    encode::bytes(&mut rest, b"ab");
    encode::unsigned(&mut rest, u64::MAX);
    let closed = encode::close_extension(&mut rest, start);
    assert!(closed, "it is short");
    encode::extension(
        &mut rest,
        extension::BIG_INT,
        &[0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
    );
    encode::nil(&mut rest);
    encode::boolean(&mut rest, true);
    let mut objects = Vec::new();
    for code in [
        extension::FROZENSET,
        extension::NAMED_TUPLE,
        extension::VALUE_ENUM,
        extension::EQUAL_BY_PARTS,
        extension::OBJECT,
    ] {
        encode::array(&mut objects, 2);
        let start = encode::open_extension(&mut objects, code);
        encode::array(&mut objects, 3);
        encode::text(&mut objects, b"points:Point");
        encode::float(&mut objects, 1.0);
        encode::int(&mut objects, 1);
        let closed = encode::close_extension(&mut objects, start);
        assert!(closed, "it is short");
        encode::int(&mut objects, 1);
    }
    vec![pairs, rest, objects]
}
