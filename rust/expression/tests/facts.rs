//! Facts of Python that programs meet or leave to the function, and bytes that are no records.

use oka_compute::encode;
use oka_expression::program::Results;
use oka_expression::tree::{Block, Constant, End, Expression, Given, Step};
use oka_expression::{Program, Stage, Unusual};
use proptest::prelude::*;

/// A program of one operation, of the items of the record.
fn program(operation: &str, operands: usize, value: Constant) -> Program {
    let step = |operation: &str, operands: Vec<usize>, value| Step {
        operation: operation.to_owned(),
        operands,
        given: Given::Constant(value),
    };
    let mut steps = Vec::new();
    for index in 0..operands {
        steps.push(step("constant", vec![], Constant::Int(index as i64)));
        steps.push(step("item", vec![0, 2 * index + 1], Constant::None));
    }
    let items = (0..operands).map(|index| 2 * index + 2).collect();
    steps.push(step(operation, items, value));
    let end = End::Return(steps.len());
    let body = Block { steps, end };
    let expression = Expression { arguments: 1, body };
    Program::new(&[(Stage::Map, expression)]).expect("the operation is known")
}

/// Encodes an item of a record.
type Item = fn(&mut Vec<u8>);
type Items = [Item];

fn run(program: &mut Program, items: &Items) -> Result<Vec<u8>, Unusual> {
    let mut record = Vec::new();
    encode::array(&mut record, items.len());
    for item in items {
        item(&mut record);
    }
    let mut results = Results::default();
    program.run([(1, &record[..])].into_iter(), &mut results)?;
    let [(1, body)] = &results.into_frames()[..] else {
        panic!("there is one record");
    };
    Ok(body.clone())
}

#[expect(
    clippy::unnecessary_wraps,
    reason = "it is compared with what a run gives"
)]
fn encoded(append: impl FnOnce(&mut Vec<u8>)) -> Result<Vec<u8>, Unusual> {
    let mut out = Vec::new();
    append(&mut out);
    Ok(out)
}

fn of(operation: &str, items: &Items) -> Result<Vec<u8>, Unusual> {
    run(&mut program(operation, items.len(), Constant::None), items)
}

fn call(name: &str, items: &Items) -> Result<Vec<u8>, Unusual> {
    let name = Constant::Text(name.to_owned());
    run(&mut program("call", items.len(), name), items)
}

fn format(spec: &str, item: Item) -> Result<Vec<u8>, Unusual> {
    let spec = [
        Constant::Text(String::new()),
        Constant::Text(spec.to_owned()),
    ];
    run(
        &mut program("format", 1, Constant::Tuple(spec.into())),
        &[item],
    )
}

#[test]
fn division_takes_the_sign_of_the_divisor() {
    let both: &Items = &[|out| encode::int(out, -7), |out| encode::int(out, 2)];
    assert_eq!(of("//", both), encoded(|out| encode::int(out, -4)));
    assert_eq!(of("%", both), encoded(|out| encode::int(out, 1)));
    let both: &Items = &[
        |out| encode::float(out, -0.0),
        |out| encode::float(out, -2.0),
    ];
    assert_eq!(of("%", both), encoded(|out| encode::float(out, -0.0)));
    let both: &Items = &[|out| encode::int(out, i64::MIN), |out| encode::int(out, -1)];
    assert_eq!(of("//", both), Err(Unusual::BigInteger));
    assert_eq!(of("%", both), encoded(|out| encode::int(out, 0)));
    let both: &Items = &[|out| encode::float(out, 1.0), |out| encode::int(out, 0)];
    assert_eq!(of("/", both), Err(Unusual::ZeroDivision));
}

#[test]
fn integers_end_at_64_bits() {
    let both: &Items = &[
        |out| encode::int(out, i64::MAX),
        |out| encode::boolean(out, true),
    ];
    assert_eq!(of("+", both), Err(Unusual::BigInteger));
    assert_eq!(of("-", both), encoded(|out| encode::int(out, i64::MAX - 1)));
    assert_eq!(of("/", both), Err(Unusual::Inexact));
    let both: &Items = &[
        |out| encode::unsigned(out, u64::MAX),
        |out| encode::int(out, 1),
    ];
    assert_eq!(of("+", both), Err(Unusual::Opaque));
}

#[test]
fn comparison_of_integers_and_floats_is_exact() {
    let both: &Items = &[
        |out| encode::int(out, (1 << 53) + 1),
        |out| encode::float(out, 9_007_199_254_740_992.0),
    ];
    assert_eq!(of("==", both), encoded(|out| encode::boolean(out, false)));
    assert_eq!(of(">", both), encoded(|out| encode::boolean(out, true)));
    let both: &Items = &[
        |out| encode::int(out, i64::MAX),
        |out| encode::float(out, 9_223_372_036_854_775_808.0),
    ];
    assert_eq!(of("<", both), encoded(|out| encode::boolean(out, true)));
}

#[test]
fn floats_are_written_as_python_writes_them() {
    let cases: [(Item, &str); 8] = [
        (|out| encode::float(out, 1e16), "1e+16"),
        (
            |out| encode::float(out, 123_456_789_012_345.6),
            "123456789012345.6",
        ),
        (|out| encode::float(out, 1e-5), "1e-05"),
        (|out| encode::float(out, 0.0001), "0.0001"),
        (|out| encode::float(out, -0.0), "-0.0"),
        (|out| encode::float(out, 5e-324), "5e-324"),
        (|out| encode::float(out, f64::NEG_INFINITY), "-inf"),
        (|out| encode::float(out, f64::NAN), "nan"),
    ];
    for (item, text) in cases {
        assert_eq!(
            call("str", &[item]),
            encoded(|out| encode::text(out, text.as_bytes()))
        );
    }
}

#[test]
fn formats_round_half_to_even_of_the_exact_decimal() {
    let text = |text: &'static str| encoded(|out| encode::text(out, text.as_bytes()));
    assert_eq!(format(".0f", |out| encode::float(out, 2.5)), text("2"));
    assert_eq!(format(".2f", |out| encode::float(out, 1.005)), text("1.00"));
    assert_eq!(
        format(".2f", |out| encode::float(out, -0.001)),
        text("-0.00")
    );
    assert_eq!(
        format("8,.1f", |out| encode::float(out, 1234.56)),
        text(" 1,234.6")
    );
    assert_eq!(format("05", |out| encode::int(out, -42)), text("-0042"));
    assert_eq!(
        format("*^7", |out| encode::text(out, b"abc")),
        text("**abc**")
    );
    assert_eq!(
        format("d", |out| encode::float(out, 1.0)),
        Err(Unusual::Types)
    );
}

#[test]
fn a_nan_is_what_it_is_only_by_identity() {
    let both: &Items = &[
        |out| encode::float(out, f64::NAN),
        |out| {
            encode::array(out, 1);
            encode::float(out, f64::NAN);
        },
    ];
    assert_eq!(of("in", both), Err(Unusual::Nan));
    assert_eq!(of("dict", both), Err(Unusual::Nan));
}

proptest! {
    #[test]
    fn any_bytes_are_records_or_not(bytes in prop::collection::vec(any::<u8>(), 0..60), count in 0_usize..4) {
        for operation in ["+", "==", "in", "item", "merge", "tuple", "dict"] {
            let mut results = Results::default();
            let mut program = program(operation, 2, Constant::None);
            let _ = program.run([(count, &bytes[..])].into_iter(), &mut results);
        }
    }
}
