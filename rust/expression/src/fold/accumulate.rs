//! A fold whose values are kept in pieces: what records change lies apart from what stays, and nothing else is read or
//! written for a record.
//!
//! A function is of this kind if it gives a tuple or a dict of its own, or `{**value, ...}`, with no branch, and reads
//! nothing of the value but items that have the same place in the result; or if it takes the value as a whole and gives
//! another, such as the sum of two numbers.

mod kept;
mod plan;
mod taking;
mod update;

use self::kept::{Held, Keys, Undo};
use self::plan::Plan;
use self::taking::Taking;
use super::Side;
use crate::build::{Builder, Unknown};
use crate::parts::Parts;
use crate::run::Machine;
use crate::tree::{Constant, Expression};
use crate::unusual::Unusual;
use bumpalo::Bump;
use oka_compute::{Path, Step, encode};

/// The function, and the values of keys since they were given back last.
#[derive(Debug)]
pub struct Accumulating {
    plan: Plan,
    constants: Vec<Constant>,
    registers: usize,
    record: Side,
    /// Finds the parts of a value that comes as a whole.
    value: Parts,
    keys: Keys,
    undo: Undo,
    arena: Bump,
    results: Vec<u8>,
}

/// Whose keys have numbers.
pub trait Numbers {
    /// The number of an encoded key.
    fn number(&mut self, key: &[u8]) -> Result<u32, Unusual>;

    /// What a key had before, encoded, if it had something.
    fn value(&mut self, number: u32) -> Result<Option<&[u8]>, Unusual>;
}

/// The number of the part of a record that is its key.
#[derive(Clone, Copy, Debug)]
pub struct KeyPart(usize);

impl Accumulating {
    /// None for a function of another kind.
    pub fn new(expression: &Expression) -> Result<Option<Self>, Unknown> {
        let mut builder = Builder::new([expression].into_iter(), 2);
        let arguments = [builder.argument(0), builder.argument(1)];
        let code = builder.function(expression, &arguments)?;
        let Some(plan) = Plan::of(code, &mut builder) else {
            return Ok(None);
        };
        let mut parts = builder.parts.into_iter();
        Ok(Some(Self {
            value: parts.next().unwrap_or_else(Parts::new),
            record: Side {
                parts: parts.next().unwrap_or_else(Parts::new),
                register: arguments[1],
                needs_value: plan.needs_record,
            },
            registers: builder.displays.len(),
            constants: builder.constants,
            plan,
            keys: Keys::default(),
            undo: Undo::default(),
            arena: Bump::new(),
            results: Vec::new(),
        }))
    }

    /// Whether the first item of a value is always that of the first record of its key.
    pub fn keeps_first(&self) -> bool {
        self.plan.keeps_first
    }

    /// Whether the value of a key is here.
    #[inline]
    pub fn holds(&self, number: u32) -> bool {
        self.keys.holds(number)
    }

    /// Has records be passed over for their keys, too: None of a key that is not one step into a record.
    pub fn key_part(&mut self, path: &Path) -> Option<KeyPart> {
        let parts = &mut self.record.parts;
        match path.steps() {
            [Step::Item(item)] => usize::try_from(*item).ok().map(|item| parts.item(item)),
            [Step::Field(name)] => {
                let mut encoded = Vec::new();
                encode::text(&mut encoded, name.as_bytes());
                Some(parts.named(&encoded))
            }
            _ => None,
        }
        .map(KeyPart)
    }

    /// Folds a batch: records with the numbers of their keys, which are below `keys`, each in front of whatever
    /// follows it. `value` gives what a key had before, if it had something and is not held here. If it fails, all is
    /// as before.
    ///
    /// There is a result for each record, or with `only_last` one for each key.
    pub fn run<'b>(
        &mut self,
        records: &[(u32, &'b [u8])],
        keys: usize,
        only_last: bool,
        value: impl Fn(u32) -> Option<&'b [u8]>,
    ) -> Result<usize, Unusual> {
        self.keys.resize(keys, self.plan.slots.len());
        self.attempt(only_last, |this| {
            for chunk in records.chunks(super::CHUNK) {
                let (side, mut taking) = this.taking(only_last);
                for (number, bytes) in chunk {
                    side.pass(bytes, &mut taking.machine)?;
                    taking.take(*number, bytes, side.parts.places(), || Ok(value(*number)))?;
                }
            }
            Ok(records.len())
        })
    }

    /// As `run`, where the keys are at a part of the records of these bodies.
    pub fn run_by_key<'b>(
        &mut self,
        bodies: impl Iterator<Item = (usize, &'b [u8])>,
        key: KeyPart,
        only_last: bool,
        numbers: &mut impl Numbers,
    ) -> Result<usize, Unusual> {
        self.attempt(only_last, |this| {
            let mut records = 0;
            for (count, mut rest) in bodies {
                records += count;
                let mut left = count;
                while left > 0 {
                    let chunk = left.min(super::CHUNK);
                    let (side, mut taking) = this.taking(only_last);
                    for _ in 0..chunk {
                        let end = side.pass(rest, &mut taking.machine)?;
                        let places = side.parts.places();
                        let key = places[key.0].of(rest).ok_or(Unusual::NoKey)?;
                        let number = numbers.number(key)?;
                        taking
                            .keys
                            .resize(number as usize + 1, taking.plan.slots.len());
                        taking.take(number, rest, places, || numbers.value(number))?;
                        rest = rest.get(end..).ok_or(Unusual::Malformed)?;
                    }
                    left -= chunk;
                }
                if !rest.is_empty() {
                    return Err(Unusual::Malformed);
                }
            }
            Ok(records)
        })
    }

    /// The results of the last batch, encoded one behind the other.
    pub fn results(&self) -> &[u8] {
        &self.results
    }

    /// Gives all values back, encoded, and holds none.
    pub fn give_back(&mut self, mut take: impl FnMut(u32, &[u8])) {
        let mut encoded = Vec::new();
        for number in std::mem::take(&mut self.keys.all) {
            encoded.clear();
            self.keys.append(number, &mut encoded);
            take(number, &encoded);
            self.keys.held[number as usize] = Held::Not;
            self.keys.fixed[number as usize] = Vec::new();
        }
    }

    /// Takes in a batch, and leaves nothing of it if that fails. The number of results.
    fn attempt(
        &mut self,
        only_last: bool,
        batch: impl FnOnce(&mut Self) -> Result<usize, Unusual>,
    ) -> Result<usize, Unusual> {
        self.undo.begin();
        self.results.clear();
        let held = self.keys.all.len();
        let done = batch(self).and_then(|records| {
            let fits = u32::try_from(self.results.len());
            fits.map(|_| records).map_err(|_| Unusual::TooLarge)
        });
        let records = done.inspect_err(|_| {
            self.keys.all.truncate(held);
            self.undo.apply(&mut self.keys, self.plan.slots.len());
        })?;
        if !only_last {
            return Ok(records);
        }
        for (number, ..) in &self.undo.keys {
            self.keys.append(*number, &mut self.results);
        }
        Ok(self.undo.keys.len())
    }

    /// What takes in the next records, of which `record` finds the parts.
    fn taking(&mut self, only_last: bool) -> (&mut Side, Taking<'_>) {
        self.arena.reset();
        let machine = Machine::new(&self.constants, self.registers, &self.arena);
        let taking = Taking {
            plan: &self.plan,
            value: &mut self.value,
            keys: &mut self.keys,
            undo: &mut self.undo,
            results: (!only_last).then_some(&mut self.results),
            machine,
        };
        (&mut self.record, taking)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::{self, Block, End, Given};

    fn step(operation: &str, operands: &[usize], constant: Constant) -> tree::Step {
        tree::Step {
            operation: operation.to_owned(),
            operands: operands.to_vec(),
            given: Given::Constant(constant),
        }
    }

    fn accumulating(steps: Vec<tree::Step>) -> Option<Accumulating> {
        let end = End::Return(steps.len() + 1);
        let body = Block { steps, end };
        Accumulating::new(&Expression { arguments: 2, body }).expect("known operations")
    }

    /// `lambda a, b: (a[0], a[1] + b[1])`, or with another item than the first in front
    fn adding(first: i64) -> Option<Accumulating> {
        accumulating(vec![
            step("constant", &[], Constant::Int(first)),
            step("item", &[0, 2], Constant::None),
            step("constant", &[], Constant::Int(1)),
            step("item", &[0, 4], Constant::None),
            step("item", &[1, 4], Constant::None),
            step("+", &[5, 6], Constant::None),
            step("tuple", &[3, 7], Constant::None),
        ])
    }

    const A: &[u8] = &[0x92, 0xa1, b'a', 1, 0xc0];
    const B: &[u8] = &[0x92, 0xa1, b'b', 1];

    #[test]
    fn values_go_from_batch_to_batch_and_are_given_back() {
        let mut adding = adding(0).expect("of this kind");
        assert!(adding.keeps_first());
        let records: Vec<_> = (0..200).map(|n| (n % 2, [A, B][n as usize % 2])).collect();
        let before = [0x92, 0xa1, b'b', 20];
        for (only_last, results) in [(false, 200), (true, 2)] {
            let value = |number| (number == 1).then_some(&before[..]);
            assert_eq!(adding.run(&records, 2, only_last, value), Ok(results));
            assert_eq!(adding.results().len(), [800, 10][usize::from(only_last)]);
        }
        let mut values = Vec::new();
        adding.give_back(|number, value| values.push((number, value.to_vec())));
        let expected = [
            (0, vec![0x92, 0xa1, b'a', 0xcc, 200]),
            (1, vec![0x92, 0xa1, b'b', 0xcc, 220]),
        ];
        assert_eq!(values, expected);
        adding.give_back(|_, _| panic!("nothing is held any more"));
    }

    #[test]
    fn a_batch_that_fails_changes_nothing() {
        let mut adding = adding(0).expect("of this kind");
        let text: &[u8] = &[0x92, 0xa1, b'b', 0xa0];
        assert_eq!(
            adding.run(&[(0, A), (0, A), (1, B)], 2, false, |_| None),
            Ok(3)
        );
        let failing = [(2, B), (0, A), (1, B), (1, text)];
        assert_eq!(
            adding.run(&failing, 3, false, |_| None),
            Err(Unusual::Types)
        );
        assert!(!adding.holds(2));
        let mut values = Vec::new();
        adding.give_back(|number, value| values.push((number, value.to_vec())));
        assert_eq!(values, [(0, vec![0x92, 0xa1, b'a', 2]), (1, B.to_vec())]);
    }

    /// Keys in the order in which they came, of which the first had a value.
    #[derive(Default)]
    struct Known(Vec<Vec<u8>>);

    impl Numbers for Known {
        fn number(&mut self, key: &[u8]) -> Result<u32, Unusual> {
            let known = self.0.iter().position(|known| known == key);
            Ok(known.unwrap_or_else(|| {
                self.0.push(key.to_vec());
                self.0.len() - 1
            }) as u32)
        }

        fn value(&mut self, number: u32) -> Result<Option<&[u8]>, Unusual> {
            Ok((number == 0).then_some(&[0x92, 0xa1, b'b', 20]))
        }
    }

    fn by_key(adding: &mut Accumulating, bodies: &[(usize, &[u8])]) -> Result<Vec<u8>, Unusual> {
        let key = adding.key_part(&Path::from([Step::Item(0)]));
        let key = key.expect("one step");
        let mut known = Known(vec![vec![0xa1, b'b']]);
        adding.run_by_key(bodies.iter().copied(), key, true, &mut known)?;
        Ok(adding.results().to_vec())
    }

    #[test]
    fn keys_are_found_in_the_same_pass() {
        let mut adding = adding(0).expect("of this kind");
        let twice = [&A[..4], B, &A[..4]].concat();
        let bodies = [(3, &twice[..]), (0, &[]), (1, B)];
        let results = [0x92, 0xa1, b'a', 2, 0x92, 0xa1, b'b', 22];
        assert_eq!(by_key(&mut adding, &bodies), Ok(results.to_vec()));
        for (bodies, reason) in [
            ([(2, &twice[..])], Unusual::Malformed), // bytes behind the records
            ([(1, &[1, 2][..])], Unusual::NoKey),    // no key in a number
            ([(1, &A[..3])], Unusual::Malformed),    // a record that has no end
            ([(1, &[0x92, 0xa1, b'b', 0xc0])], Unusual::Types),
        ] {
            assert_eq!(by_key(&mut adding, &bodies), Err(reason), "{bodies:?}");
        }
        assert_eq!(by_key(&mut adding, &[]), Ok(Vec::new()));
        let mut values = Vec::new();
        adding.give_back(|number, value| values.push((number, value.to_vec())));
        let expected = [(1, results[..4].to_vec()), (0, results[4..].to_vec())];
        assert_eq!(values, expected);
    }

    #[test]
    fn a_key_that_is_no_step_into_a_record_has_no_part() {
        let mut adding = adding(0).expect("of this kind");
        let two = Path::from([Step::Item(0), Step::Item(0)]);
        for path in [Path::default(), Path::from([Step::Item(-1)]), two] {
            assert!(adding.key_part(&path).is_none(), "{path:?}");
        }
    }

    #[test]
    fn functions_of_another_kind_are_told() {
        assert!(adding(1).is_none(), "the second item goes to two places");
        assert!(adding(2).is_none(), "the third item is not in the result");
        let text = |text: &str| step("constant", &[], Constant::Text(text.to_owned()));
        for (name, steps) in [
            ("(a, b)", vec![step("tuple", &[0, 1], Constant::None)]),
            ("(b, a)", vec![step("tuple", &[1, 0], Constant::None)]),
            (
                "{'x': a}",
                vec![text("x"), step("dict", &[2, 0], Constant::None)],
            ),
            (
                "{**a, 'x': a}",
                vec![
                    text("x"),
                    step("dict", &[2, 0], Constant::None),
                    step("merge", &[0, 3], Constant::None),
                ],
            ),
            (
                "{**{}, **a, 'x': {}}, of one empty dict",
                vec![
                    step("dict", &[], Constant::None),
                    step("merge", &[2, 0], Constant::None),
                    text("x"),
                    step("dict", &[4, 2], Constant::None),
                    step("merge", &[3, 5], Constant::None),
                ],
            ),
        ] {
            assert!(accumulating(steps).is_none(), "{name} has what is not made");
        }
        let sum = accumulating(vec![step("+", &[0, 1], Constant::None)]);
        assert!(sum.is_some_and(|sum| !sum.keeps_first()));
    }
}
