//! Keys against a model of Python's equality: the same canonical bytes exactly for equal keys, and
//! the same hash, hence the same task, for those.

use oka_compute::value::extension;
use oka_compute::{encode, key};
use oka_protocol::partition::{
    combine, hash_big_int, hash_bytes, hash_float, hash_int, hash_none, hash_str, target,
};
use proptest::prelude::*;

/// A key as a Python program has it.
#[derive(Debug, Clone)]
enum Key {
    None,
    Bool(bool),
    Int(i128),
    Float(f64),
    Str(String),
    Bytes(Vec<u8>),
    Tuple(Vec<Key>),
}

impl Key {
    /// `==` of Python, with all NaN being one key.
    fn equals(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::None, Self::None) => true,
            (Self::Str(left), Self::Str(right)) => left == right,
            (Self::Bytes(left), Self::Bytes(right)) => left == right,
            (Self::Tuple(left), Self::Tuple(right)) => {
                left.len() == right.len() && left.iter().zip(right).all(|(l, r)| l.equals(r))
            }
            _ => match (self.number(), other.number()) {
                (Some(Number::Int(left)), Some(Number::Int(right))) => left == right,
                (Some(Number::Float(left)), Some(Number::Float(right))) => {
                    left.total_cmp(&right).is_eq() || left.is_nan() && right.is_nan()
                }
                _ => false,
            },
        }
    }

    fn number(&self) -> Option<Number> {
        match *self {
            Self::Bool(truth) => Some(Number::Int(i128::from(truth))),
            Self::Int(number) => Some(Number::Int(number)),
            // Exact; beyond it there is no integer of the model.
            Self::Float(number) if number.fract() == 0.0 && number.abs() < 1e38 => {
                Some(Number::Int(number as i128))
            }
            Self::Float(number) => Some(Number::Float(number)),
            _ => None,
        }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::None => encode::nil(out),
            Self::Bool(truth) => encode::boolean(out, *truth),
            Self::Int(number) => {
                if let Ok(number) = i64::try_from(*number) {
                    encode::int(out, number);
                } else if let Ok(number) = u64::try_from(*number) {
                    encode::unsigned(out, number);
                } else {
                    let mut payload = vec![u8::from(*number < 0)];
                    payload.extend_from_slice(&number.unsigned_abs().to_le_bytes());
                    encode::extension(out, extension::BIG_INT, &payload);
                }
            }
            Self::Float(number) => encode::float(out, *number),
            Self::Str(text) => encode::text(out, text.as_bytes()),
            Self::Bytes(data) => encode::bytes(out, data),
            Self::Tuple(items) => {
                encode::array(out, items.len());
                for item in items {
                    item.encode(out);
                }
            }
        }
    }

    fn canonical(&self) -> Vec<u8> {
        let mut encoded = Vec::new();
        self.encode(&mut encoded);
        let mut scratch = Vec::new();
        let canonical = key::canonical(&encoded, &mut scratch);
        canonical.expect("a key of these kinds").to_vec()
    }

    fn hash(&self) -> u64 {
        match self {
            Self::None => hash_none(),
            Self::Bool(truth) => hash_int(i64::from(*truth)),
            Self::Int(number) => hash_big_int(*number < 0, &number.unsigned_abs().to_le_bytes()),
            Self::Float(number) => hash_float(*number),
            Self::Str(text) => hash_str(text),
            Self::Bytes(data) => hash_bytes(data),
            Self::Tuple(items) => combine(items.iter().map(Self::hash)),
        }
    }
}

enum Number {
    Int(i128),
    Float(f64),
}

/// Keys of which many are equal or nearly so.
fn any_key() -> impl Strategy<Value = Key> {
    let near = prop::sample::select(vec![
        0,
        1,
        1 << 7,
        1 << 31,
        1 << 53,
        1 << 63,
        1 << 64,
        1 << 100,
    ]);
    let integer = (near, -2_i128..=2, any::<bool>())
        .prop_map(|(near, away, negative)| (near + away) * if negative { -1 } else { 1 });
    let float = prop::sample::select(vec![
        0.5,
        -0.0,
        1e300,
        -1e300,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        -f64::NAN,
        f64::MIN_POSITIVE,
    ]);
    let text = prop::sample::select(vec!["", "a", "b", "1", "\u{e9}"]);
    let leaf = prop_oneof![
        Just(Key::None),
        any::<bool>().prop_map(Key::Bool),
        integer.clone().prop_map(Key::Int),
        integer.prop_map(|number| Key::Float(number as f64)),
        float.prop_map(Key::Float),
        any::<f64>().prop_map(Key::Float),
        text.clone().prop_map(|text| Key::Str(text.to_owned())),
        text.prop_map(|text| Key::Bytes(text.as_bytes().to_vec())),
    ];
    leaf.prop_recursive(2, 6, 3, |inner| {
        prop::collection::vec(inner, 0..3).prop_map(Key::Tuple)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5_000))]

    #[test]
    fn canonical_bytes_are_equal_exactly_for_equal_keys(left in any_key(), right in any_key()) {
        let equal = left.equals(&right);
        prop_assert_eq!(left.canonical() == right.canonical(), equal);
        prop_assert_eq!(left.hash() == right.hash(), equal, "or XXH3 has a collision");
    }

    #[test]
    fn what_is_canonical_stays_as_it_is(key in any_key()) {
        let canonical = key.canonical();
        let mut scratch = Vec::new();
        let again = key::canonical(&canonical, &mut scratch).map(<[u8]>::to_vec);
        prop_assert_eq!(again, Ok(canonical));
    }

    #[test]
    fn equal_keys_have_one_task(key in any_key(), channels in 1..1_000_usize) {
        prop_assert!(target(key.hash(), channels) < channels);
        if let Some(Number::Int(number)) = key.number() {
            let same = Key::Int(number);
            prop_assert_eq!(target(same.hash(), channels), target(key.hash(), channels));
        }
    }
}

#[test]
fn the_model_is_of_pythons_mind() {
    let equal = |left: Key, right: Key| left.equals(&right);
    assert!(equal(Key::Int(1), Key::Bool(true)));
    assert!(equal(Key::Float(1.0), Key::Bool(true)));
    assert!(equal(Key::Float(1e20), Key::Int(10_i128.pow(20))));
    assert!(!equal(Key::Float(1e20), Key::Int(10_i128.pow(20) + 1)));
    assert!(equal(Key::Float(-0.0), Key::Int(0)));
    assert!(!equal(
        Key::Float(f64::INFINITY),
        Key::Float(f64::NEG_INFINITY)
    ));
    assert!(!equal(Key::Str("a".into()), Key::Bytes(b"a".to_vec())));
}
