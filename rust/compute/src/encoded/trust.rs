//! What in encoded values only those may send who are trusted.

use std::collections::BTreeSet;

use crate::encoded::value::{ReadError, Reader, Value, extension};

/// What decoding would run or import.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs<'a> {
    /// Extension codes from [`extension::PICKLED`] on whose payloads are read by Python code that
    /// trusts them.
    pub codes: BTreeSet<i8>,
    /// The names of classes that are not referred to by a number, UTF-8 as it was encoded.
    pub names: BTreeSet<&'a [u8]>,
}

impl<'a> Needs<'a> {
    /// Takes in what these values need, which lie one behind the other.
    ///
    /// ```
    /// # use oka_compute::trust::Needs;
    /// let mut needs = Needs::default();
    /// needs.look(&[0x91, 0xd4, 41, 0x2e])?; // an array of one pickle
    /// assert!(needs.codes.contains(&41));
    /// # Ok::<_, oka_compute::ReadError>(())
    /// ```
    pub fn look(&mut self, values: &'a [u8]) -> Result<(), ReadError> {
        let mut waiting = vec![values];
        while let Some(values) = waiting.pop() {
            let mut reader = Reader::new(values);
            while !reader.is_at_end() {
                let Value::Extension(code, payload) = reader.read()? else {
                    continue; // elements come next
                };
                match code {
                    extension::LIST | extension::SET | extension::FROZENSET => {}
                    extension::NAMED_TUPLE
                    | extension::VALUE_ENUM
                    | extension::EQUAL_BY_PARTS
                    | extension::OBJECT
                    | extension::STATE => self.look_at_class(payload)?,
                    extension::PICKLED => {
                        self.codes.insert(code);
                        continue;
                    }
                    _ if code >= FIRST_REGISTERED => {
                        self.codes.insert(code);
                        continue;
                    }
                    _ => continue,
                }
                waiting.push(payload);
            }
        }
        Ok(())
    }

    /// The class of an object, and that of which a defaultdict makes its values.
    fn look_at_class(&mut self, payload: &'a [u8]) -> Result<(), ReadError> {
        let mut reader = Reader::new(payload);
        if !matches!(reader.read()?, Value::Array(1..)) || reader.is_at_end() {
            return Ok(());
        }
        match reader.read()? {
            Value::Str(name) => {
                self.names.insert(name);
            }
            Value::Int(DEFAULTDICT) if !reader.is_at_end() => {
                if reader.read()? == Value::Array(1)
                    && let Value::Str(name) = reader.read()?
                {
                    self.names.insert(name);
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// The reference to the class, as `engine/record/registry.py` numbers those of Python.
const DEFAULTDICT: i64 = -2;
/// Codes from here on are of packages above `engine/record/__init__.py`.
const FIRST_REGISTERED: i8 = 50;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoded::encode;

    fn extended(code: i8, payload: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        encode::extension(&mut out, code, payload);
        out
    }

    fn object(code: i8, reference: &[u8], parts: &[Vec<u8>]) -> Vec<u8> {
        let mut payload = Vec::new();
        encode::array(&mut payload, 1 + parts.len());
        payload.extend_from_slice(reference);
        payload.extend_from_slice(&parts.concat());
        extended(code, &payload)
    }

    fn text(of: &str) -> Vec<u8> {
        let mut out = Vec::new();
        encode::text(&mut out, of.as_bytes());
        out
    }

    #[test]
    fn a_pickle_is_found_wherever_it_is() {
        let pickle = extended(extension::PICKLED, b".");
        let mut inner = vec![0x91];
        inner.extend_from_slice(&pickle);
        for code in [extension::LIST, extension::SET, extension::FROZENSET] {
            let value = extended(code, &inner);
            let mut needs = Needs::default();
            needs.look(&value).expect("values");
            assert!(needs.codes.contains(&extension::PICKLED), "{code}");
        }
        for code in [
            extension::NAMED_TUPLE,
            extension::VALUE_ENUM,
            extension::EQUAL_BY_PARTS,
            extension::OBJECT,
            extension::STATE,
        ] {
            let nested = object(code, &text("a:B"), std::slice::from_ref(&pickle));
            let value = object(code, &[3], &[nested]);
            let mut needs = Needs::default();
            needs.look(&value).expect("values");
            assert!(needs.codes.contains(&extension::PICKLED), "{code}");
            assert_eq!(needs.names, BTreeSet::from([&b"a:B"[..]]));
        }
        let mut map = vec![0x81];
        map.extend_from_slice(&text("key"));
        map.extend_from_slice(&pickle);
        let mut needs = Needs::default();
        needs.look(&map).expect("values");
        assert!(needs.codes.contains(&extension::PICKLED));
    }

    #[test]
    fn the_factory_of_a_defaultdict_is_a_class() {
        let mut factory = vec![0x91];
        factory.extend_from_slice(&text("a:B"));
        let value = object(extension::OBJECT, &[0xfe], &[factory, vec![0x80]]);
        let mut needs = Needs::default();
        needs.look(&value).expect("values");
        assert_eq!(needs.names, BTreeSet::from([&b"a:B"[..]]));
    }

    #[test]
    fn plain_values_need_nothing() {
        let mut values = vec![0x93, 0x07, 0xc0];
        values.extend_from_slice(&text("a:B"));
        encode::bytes(&mut values, &extended(extension::PICKLED, b"."));
        let value = object(extension::OBJECT, &[3], &[text("a:B")]);
        let mut needs = Needs::default();
        needs.look(&values).expect("values");
        needs.look(&value).expect("values");
        assert_eq!(needs.codes, BTreeSet::new());
        assert_eq!(needs.names, BTreeSet::new());
    }
}
