//! Which values are one key, and which are none.

use super::*;

const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;

fn key(write: impl Fn(&mut Vec<u8>)) -> Result<Vec<u8>, KeyError> {
    let mut encoded = Vec::new();
    write(&mut encoded);
    canonical(&encoded, &mut Vec::new()).map(<[u8]>::to_vec)
}

fn float(number: f64) -> Vec<u8> {
    key(|out| encode::float(out, number)).expect("floats are keys")
}

fn int(number: i64) -> Vec<u8> {
    key(|out| encode::int(out, number)).expect("integers are keys")
}

fn big(number: u128) -> Vec<u8> {
    let payload = [&[0][..], &number.to_le_bytes()].concat();
    key(|out| encode::extension(out, extension::BIG_INT, &payload)).expect("a key")
}

#[test]
fn numbers_that_are_equal_in_python_are_one_key() {
    for number in [0_i64, 1, -1, 127, 128, 1 << 40, -(1 << 52), i64::MIN] {
        assert_eq!(int(number), float(number as f64), "{number}");
    }
    assert_eq!(float(0.0), float(-0.0));
    assert_eq!(Ok(int(1)), key(|out| encode::boolean(out, true)));
    assert_eq!(float(f64::NAN), float(-f64::NAN));
    assert_eq!(big(1 << 64), float((1_u128 << 64) as f64));
    assert_eq!(big(10_u128.pow(20)), float(1e20));
    assert_eq!(big(7), int(7));
    assert_eq!(
        Ok(float(TWO_TO_63)),
        key(|out| encode::unsigned(out, 1 << 63))
    );
    assert_ne!(big(10_u128.pow(20) + 1), float(1e20));
    assert_ne!(float(1e300), float(-1e300));
    assert_ne!(float(f64::INFINITY), float(f64::MAX));
    assert_ne!(float(1.5), int(1));
}

#[test]
fn text_and_bytes_are_two_keys() {
    assert_ne!(
        key(|out| encode::text(out, b"a")),
        key(|out| encode::bytes(out, b"a"))
    );
}

#[test]
fn what_is_not_in_the_shortest_form_is_brought_into_it() {
    for (long, short) in [
        (&[0xcc, 0x7f][..], &[0x7f][..]),
        (&[0xcd, 0, 0x80], &[0xcc, 0x80]),
        (&[0xce, 0, 0, 1, 0], &[0xcd, 1, 0]),
        (&[0xcf, 0, 0, 0, 0, 0, 1, 0, 0], &[0xce, 0, 1, 0, 0]),
        (&[0xd9, 1, b'a'], &[0xa1, b'a']),
        (&[0xda, 0, 1, b'a'], &[0xa1, b'a']),
    ] {
        assert_eq!(canonical(long, &mut Vec::new()), Ok(short));
    }
}

#[test]
fn what_follows_a_value_says_nothing_of_its_form() {
    for (long, short) in [
        (&[0xcc, 9][..], &[9][..]),
        (&[0xcd, 0, 9], &[9]),
        (&[0xce, 0, 0, 0, 9], &[9]),
        (&[0xce, 0, 0, 9, 9], &[0xcd, 9, 9]),
        (&[0xcf, 0, 0, 0, 0, 0, 0, 0, 9], &[9]),
        (&[0xcf, 0, 0, 0, 0, 9, 9, 9, 9], &[0xce, 9, 9, 9, 9]),
        (&[0xd0, 9], &[9]),
        (&[0xd3, 0, 0, 0, 0, 0, 0, 0, 9], &[9]),
        (&[0xd9, 1, b'a'], &[0xa1, b'a']),
        (&[0xda, 0, 1, b'a'], &[0xa1, b'a']),
        (&[0xdb, 0, 0, 0, 1, b'a'], &[0xa1, b'a']),
        (&[0xc5, 0, 1, b'a'], &[0xc4, 1, b'a']),
        (&[0xdc, 0, 1, 0xcc, 9], &[0x91, 9]),
        (&[0xca, 0x41, 0x10, 0, 0], &[9]),
        (&[0xcb, 0x40, 0x22, 0, 0, 0, 0, 0, 0], &[9]),
        (&[0xc7, 1, 17, 9], &[0xd4, 17, 9]),
    ] {
        for behind in 0..12 {
            let bytes = [long, &vec![0xff; behind]].concat();
            let mut scratch = Vec::new();
            let found = canonical(&bytes, &mut scratch).map(|found| &found[..short.len()]);
            assert_eq!(found, Ok(short), "{long:x?} and {behind} bytes");
        }
    }
    // The bytes by which this was found.
    let bytes = [0xce, 0, 0, 0, 9, 0x0a, 0x0a];
    assert_eq!(canonical(&bytes, &mut Vec::new()), Ok(&[9][..]));
}

#[test]
fn words_and_numbers_are_not_copied() {
    let word = |length| key(|out| encode::text(out, &vec![b'a'; length]));
    let words = [0, 31, 32, 255, 256, 65_535].map(word);
    let numbers = [0, 127, 128, 255, 256, 65_535, 65_536, 1 << 32, i64::MAX].map(int);
    for encoded in words.into_iter().flatten().chain(numbers) {
        let mut scratch = Vec::new();
        assert_eq!(canonical(&encoded, &mut scratch), Ok(&encoded[..]));
        assert!(scratch.is_empty(), "{:x}", encoded[0]);
    }
}

#[test]
fn tuples_compare_item_by_item() {
    let left = key(|out| {
        encode::array(out, 2);
        encode::float(out, 2.0);
        encode::text(out, b"a");
    });
    let right = key(|out| {
        encode::array(out, 2);
        encode::int(out, 2);
        encode::text(out, b"a");
    });
    assert!(left.is_ok());
    assert_eq!(left, right);
}

fn object(code: i8, parts: impl Fn(&mut Vec<u8>)) -> impl Fn(&mut Vec<u8>) {
    move |out| {
        let start = encode::open_extension(out, code);
        parts(out);
        assert!(encode::close_extension(out, start));
    }
}

#[test]
fn a_named_tuple_is_the_key_that_its_tuple_is() {
    let tuple = key(|out| {
        encode::array(out, 2);
        encode::int(out, 1);
        encode::text(out, b"a");
    });
    let named = object(extension::NAMED_TUPLE, |out| {
        encode::array(out, 3);
        encode::text(out, b"points:Point");
        encode::float(out, 1.0);
        encode::text(out, b"a");
    });
    assert!(tuple.is_ok());
    assert_eq!(key(named), tuple);
}

#[test]
fn a_member_that_equals_its_value_is_the_key_that_the_value_is() {
    let member = object(extension::VALUE_ENUM, |out| {
        encode::array(out, 3);
        encode::int(out, 7);
        encode::text(out, b"RED");
        encode::int(out, 1);
    });
    assert_eq!(key(member), Ok(int(1)));
}

#[test]
fn objects_of_one_class_compare_part_by_part() {
    let point = |class, x: f64| {
        key(object(extension::EQUAL_BY_PARTS, move |out| {
            encode::array(out, 2);
            encode::int(out, class);
            if x.fract() == 0.0 {
                encode::int(out, x as i64);
            } else {
                encode::float(out, x);
            }
        }))
    };
    let float = key(object(extension::EQUAL_BY_PARTS, |out| {
        encode::array(out, 2);
        encode::int(out, 1);
        encode::float(out, 2.0);
    }));
    assert!(float.is_ok());
    assert_eq!(point(1, 2.0), float);
    assert_ne!(point(2, 2.0), float);
    assert_ne!(point(1, 2.5), float);
}

#[test]
fn sets_are_one_key_in_any_order() {
    let set = |elements: &[f64]| {
        key(object(extension::FROZENSET, |out| {
            encode::array(out, elements.len());
            for element in elements {
                encode::float(out, *element);
            }
        }))
    };
    assert!(set(&[]).is_ok());
    assert_eq!(set(&[1.0, 2.5, -3.0]), set(&[-3.0, 1.0, 2.5]));
    assert_eq!(set(&[f64::NAN, f64::NAN]), set(&[f64::NAN]));
    assert_ne!(set(&[1.0]), set(&[1.0, 2.0]));
    let canonical = set(&[1.0, 2.5]).expect("a key");
    assert_eq!(
        key(|out| out.extend_from_slice(&canonical)),
        Ok(canonical.clone())
    );
    let list = object(extension::FROZENSET, |out| {
        encode::array(out, 1);
        encode::extension(out, extension::LIST, &[0x90]);
    });
    assert_eq!(key(list), Err(KeyError::Unhashable("list")));
    let longer = object(extension::FROZENSET, |out| {
        out.extend_from_slice(&[0x90, 1]);
    });
    assert_eq!(key(longer), Err(KeyError::Unsupported));
}

#[test]
fn objects_without_parts_to_compare_are_refused() {
    let empty = object(extension::EQUAL_BY_PARTS, |out| encode::array(out, 0));
    assert_eq!(key(empty), Err(KeyError::Unsupported));
    let longer = object(extension::NAMED_TUPLE, |out| {
        encode::array(out, 1);
        encode::int(out, 1);
        encode::int(out, 2);
    });
    assert_eq!(key(longer), Err(KeyError::Unsupported));
    let other = object(extension::OBJECT, |out| {
        encode::array(out, 1);
        encode::int(out, 1);
    });
    assert_eq!(key(other), Err(KeyError::Unsupported));
    let mut nested = vec![0xc0];
    for _ in 0..100 {
        let inner = std::mem::take(&mut nested);
        object(extension::NAMED_TUPLE, |out| {
            encode::array(out, 2);
            encode::int(out, 1);
            out.extend_from_slice(&inner);
        })(&mut nested);
    }
    let deep = key(|out| out.extend_from_slice(&nested));
    assert_eq!(deep, Err(KeyError::TooDeep));
}

#[test]
fn what_python_cannot_hash_is_refused() {
    assert_eq!(
        key(|out| encode::map(out, 0)),
        Err(KeyError::Unhashable("dict"))
    );
    let list = |out: &mut Vec<u8>| encode::extension(out, extension::LIST, &[0x90]);
    assert_eq!(key(list), Err(KeyError::Unhashable("list")));
    let inside = key(|out| {
        encode::array(out, 1);
        list(out);
    });
    assert_eq!(inside, Err(KeyError::Unhashable("list")));
    assert_eq!(
        key(|out| encode::extension(out, 40, b"1.0")),
        Err(KeyError::Unsupported)
    );
    assert_eq!(
        key(|out| {
            out.extend_from_slice(&[0x91; 100]);
            encode::nil(out);
        }),
        Err(KeyError::TooDeep)
    );
}
