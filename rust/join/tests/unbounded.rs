//! Joins without a bound: what each change of a row gives.

use Kind::{Delete, Insert, UpdateAfter, UpdateBefore};
use oka_join::{Changes, Gives, Join, Kind, NO_ROW, Rule, Step};

fn join(gives: Gives, outer: [bool; 2], keep: i64) -> Join {
    Join::new(Rule::Unbounded { keep, gives }, outer).aside([true, true])
}

/// One row that comes or goes, of key 7.
fn change(join: &mut Join, side: usize, kind: Kind, time: i64) -> (u32, Vec<(Kind, u32, u32)>) {
    let changes = Changes {
        kinds: &[kind],
        identities: &[time],
    };
    let step = join.change(side, &[7], &[time], changes);
    (step.rows[0], given(step))
}

fn given(step: &Step) -> Vec<(Kind, u32, u32)> {
    let pairs = step.kinds.iter().zip(&step.pairs);
    pairs.map(|(kind, pair)| (*kind, pair.0, pair.1)).collect()
}

#[test]
fn an_outer_row_is_taken_back_when_its_partner_comes_and_given_again_when_it_goes() {
    let mut join = join(Gives::Pairs, [true, false], i64::MAX);
    let (left, first) = change(&mut join, 0, Insert, 1);
    assert_eq!(first, [(Insert, left, NO_ROW)]);
    let (right, pairs) = change(&mut join, 1, Insert, 2);
    let taken_back = (UpdateBefore, left, NO_ROW);
    assert_eq!(pairs, [taken_back, (UpdateAfter, left, right)]);
    let (_, gone) = change(&mut join, 1, Delete, 2);
    assert_eq!(
        gone,
        [(UpdateBefore, left, right), (UpdateAfter, left, NO_ROW)]
    );
    assert_eq!(change(&mut join, 0, Delete, 1).1, [(Delete, left, NO_ROW)]);
    assert_eq!((join.keys().len(), join.size(0), join.size(1)), (0, 0, 0));
}

#[test]
fn an_update_is_one_step() {
    let mut join = join(Gives::Pairs, [false, true], i64::MAX);
    let left = join.add(0, &[7], &[0]).rows[0];
    let (old, _) = change(&mut join, 1, Insert, 5);
    let changes = Changes {
        kinds: &[UpdateBefore, UpdateAfter],
        identities: &[5, 6],
    };
    let step = join.change(1, &[7, 7], &[5, 6], changes);
    let new = step.rows[1];
    assert_eq!(step.rows[0], NO_ROW);
    assert_eq!(
        given(step),
        [(UpdateBefore, left, old), (UpdateAfter, left, new)]
    );
    assert_eq!(step.gone, [vec![], vec![old]]);
}

#[test]
fn what_an_expired_row_has_given_stays() {
    let mut join = join(Gives::Pairs, [true, true], 10);
    let left = join.add(0, &[7], &[9]).rows[0];
    join.add(1, &[7], &[0]);
    assert!(join.close(10, 100).pairs.is_empty(), "both had a partner");
    assert_eq!((join.size(0), join.size(1)), (1, 0));
    let right = join.add(1, &[7], &[8]).rows[0];
    assert_eq!(given(join.add(1, &[], &[])), []);
    let step = join.add(1, &[7], &[9]);
    assert_eq!(given(step), [(Insert, left, step.rows[0])]);
    assert_ne!(step.rows[0], right);
    assert_eq!(join.add(0, &[7], &[0]).late, [0]);
    assert_eq!(change(&mut join, 0, Delete, 0).1, []);
    assert!(join.close(i64::MAX, 100).pairs.is_empty());
    assert_eq!((join.keys().len(), join.size(0), join.size(1)), (0, 0, 0));
}

#[test]
fn rows_that_had_no_partner_are_told_of_at_the_end() {
    let mut join = join(Gives::Semi, [false, false], i64::MAX);
    let lone = join.add(0, &[8], &[0]).rows[0];
    let found = join.add(0, &[7], &[0]).rows[0];
    assert_eq!(given(join.add(1, &[7], &[0])), [(Insert, found, NO_ROW)]);
    assert_eq!(given(join.add(1, &[7, 7], &[1, 2])), []);
    assert_eq!(join.size(1), 1, "one is enough");
    assert_eq!(join.close(i64::MAX, 100).pairs, [(lone, NO_ROW)]);
    assert_eq!(join.keys().len(), 0);
}

#[test]
fn an_anti_join_gives_and_takes_back() {
    let mut join = join(Gives::Anti, [false, false], i64::MAX);
    let row = join.add(0, &[7], &[0]).rows[0];
    assert_eq!(change(&mut join, 1, Insert, 1).1, [(Delete, row, NO_ROW)]);
    assert_eq!(change(&mut join, 1, Insert, 2).1, []);
    assert_eq!(change(&mut join, 1, Delete, 1).1, []);
    assert_eq!(change(&mut join, 1, Delete, 2).1, [(Insert, row, NO_ROW)]);
    assert_eq!(change(&mut join, 1, Delete, 2).1, []);
}
