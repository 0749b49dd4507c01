//! Any bytes are rows or rejected, message by message, and cost nothing of the others.

use oka_formats::{AvroDecoder, JsonDecoder};
use proptest::prelude::*;

mod samples;

fn mutated(seed: &'static [u8]) -> impl Strategy<Value = Vec<u8>> {
    let changes = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4);
    (changes, 0..=seed.len()).prop_map(move |(changes, end)| {
        let mut bytes = seed.to_vec();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes.truncate(end.max(1));
        bytes
    })
}

fn any_message() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..64),
        mutated(samples::JSON),
        mutated(samples::AVRO),
        "[\\[\\]{}\",:0-9a-e. \\\\]{0,40}".prop_map(String::into_bytes),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn each_message_counts_once(messages in prop::collection::vec(any_message(), 0..8)) {
        let mut json = JsonDecoder::new(samples::schema()).unwrap();
        let mut avro = AvroDecoder::of_ids(Some(samples::AVRO_SCHEMA.to_owned())).unwrap();
        avro.add(samples::ID, Ok(samples::AVRO_SCHEMA.to_owned()));
        for good in [samples::JSON, samples::AVRO] {
            let mut all: Vec<_> = messages.iter().map(|each| Some(each.as_slice())).collect();
            all.push(Some(good));
            let rows = json.decode(&all).unwrap();
            prop_assert_eq!(rows.rows.num_rows() + rows.rejected.len(), all.len());
            prop_assert!(rows.rejected.is_sorted());
            let rows = avro.decode(&all).unwrap();
            prop_assert_eq!(rows.rows[0].num_rows() + rows.rejected.len(), all.len());
            prop_assert!(rows.rejected.is_sorted());
        }
    }
}
