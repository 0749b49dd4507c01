//! The cases of Flink's `StatusWatermarkValveTest` (apache/flink, 160caf705bc4, Apache-2.0), as data.
//!
//! An input of ours is active again with its next record; what Flink tells as `ACTIVE` is then the
//! last watermark once more. Of its 17 cases 14 are alike; the other 3 say why they are not.

use oka_protocol::{Alignment, Control, START_OF_TIME};

type Step = (usize, Option<Control>, &'static [Control]);

/// An input that is active again.
const ACTIVE: Option<Control> = None;
const IDLE: Option<Control> = Some(Control::Idle);

const fn at(time: i64) -> Option<Control> {
    Some(Control::Watermark(time))
}

macro_rules! cases {
    ($($name:ident($inputs:literal) [$($input:literal $event:expr => [$($told:expr),*];)*])*) => {
        $(#[test]
        fn $name() {
            check($inputs, &[$(($input, $event, const { &[$($told),*] })),*]);
        })*
    };
}

/// What is told after each step, and nothing else.
fn check(inputs: usize, steps: &[Step]) {
    let mut alignment = Alignment::new(inputs);
    for (number, (input, event, expected)) in steps.iter().enumerate() {
        match event {
            Some(control) => alignment.on_control(*input, *control),
            None => alignment.on_records(*input),
        }
        let told: Vec<Control> = std::iter::from_fn(|| alignment.due()).collect();
        assert_eq!(told, *expected, "step {number}: {event:?} of input {input}");
    }
}

use Control::{Idle, Watermark as W};

cases! {
    single_input_increasing_watermarks(1) [
        0 at(0) => [W(0)];
        0 at(25) => [W(25)];
    ]

    single_input_decreasing_watermarks_yields_no_output(1) [
        0 at(25) => [W(25)];
        0 at(18) => [];
        0 at(42) => [W(42)];
    ]

    single_input_watermark_status_toggling(1) [
        0 ACTIVE => [];
        0 IDLE => [Idle];
        0 IDLE => [];
        0 ACTIVE => [W(START_OF_TIME)];
    ]

    // Flink ignores the watermark of an idle input. Here it ends idleness: an input that has none to
    // follow sends none.
    single_input_watermarks_intact_during_idleness(1) [
        0 at(25) => [W(25)];
        0 IDLE => [Idle];
        0 at(50) => [W(50)];
        0 ACTIVE => [];
        0 at(50) => [];
    ]

    multiple_input_yields_watermark_only_when_all_channels_receive_watermarks(3) [
        0 at(0) => [];
        1 at(0) => [];
        2 at(0) => [W(0)];
    ]

    multiple_input_increasing_watermarks(3) [
        0 at(0) => [];
        1 at(0) => [];
        2 at(0) => [W(0)];
        0 at(12) => [];
        2 at(8) => [];
        2 at(10) => [];
        1 at(15) => [W(10)];
        2 at(17) => [W(12)];
        0 at(20) => [W(15)];
    ]

    multiple_input_decreasing_watermarks_yields_no_output(3) [
        0 at(25) => [];
        1 at(10) => [];
        2 at(17) => [W(10)];
        0 at(12) => [];
        1 at(8) => [];
        2 at(15) => [];
    ]

    multiple_input_watermark_status_toggling(2) [
        0 ACTIVE => [];
        1 ACTIVE => [];
        1 IDLE => [];
        0 IDLE => [Idle];
        0 IDLE => [];
        1 IDLE => [];
        1 ACTIVE => [W(START_OF_TIME)];
        0 ACTIVE => [];
    ]

    multiple_input_watermark_advancing_with_partially_idle_channels(3) [
        0 at(15) => [];
        1 at(10) => [];
        2 IDLE => [W(10)];
        1 at(18) => [W(15)];
        0 at(20) => [W(18)];
    ]

    multiple_input_watermark_advancing_as_channels_individually_become_idle(3) [
        0 at(25) => [];
        1 at(10) => [];
        2 at(17) => [W(10)];
        1 IDLE => [W(17)];
        2 IDLE => [W(25)];
    ]

    multiple_input_flush_max_watermark_and_status_once_all_inputs_become_idle(3) [
        0 at(10) => [];
        1 at(5) => [];
        2 at(3) => [W(3)];
        0 IDLE => [];
        1 IDLE => [];
        2 IDLE => [W(10), Idle];
    ]

    multiple_input_flush_max_watermark_with_unaligned_last_channel(3) [
        0 at(100) => [];
        1 at(50) => [];
        2 at(70) => [W(50)];
        1 IDLE => [W(70)];
        1 ACTIVE => [];
        1 at(60) => [];
        0 IDLE => [];
        2 IDLE => [];
        1 IDLE => [W(100), Idle];
    ]

    multiple_input_watermark_realignment_after_resume_active(3) [
        0 at(10) => [];
        1 at(7) => [];
        2 at(3) => [W(3)];
        2 IDLE => [W(7)];
        2 ACTIVE => [];
        2 at(5) => [];
        2 at(9) => [];
        1 at(12) => [W(9)];
    ]

    no_output_when_all_active_channels_are_unaligned(3) [
        0 at(10) => [];
        1 at(7) => [];
        2 IDLE => [W(7)];
        2 ACTIVE => [];
        0 IDLE => [];
        1 IDLE => [];
    ]

    unaligned_active_channel_becomes_idle(2) [
        0 at(7) => [];
        1 at(10) => [W(7)];
        0 IDLE => [W(10)];
        0 ACTIVE => [];
        0 at(9) => [];
        0 IDLE => [];
    ]

    // Flink goes on to 10 without input 2, which is active and behind, as 0 becomes active. Here an
    // input that is active again is waited for: what it brings next should not be later than it is.
    watermark_advances_when_reactivated_channel_becomes_only_aligned_channel(3) [
        0 at(10) => [];
        1 at(7) => [];
        2 IDLE => [W(7)];
        2 ACTIVE => [];
        0 IDLE => [];
        1 IDLE => [];
        0 ACTIVE => [];
        2 IDLE => [W(10)];
    ]

    // As above: Flink goes on to 30 without input 0, which is at 10, as 2 becomes active.
    realignment_after_resume_active_emits_new_min_watermark(3) [
        0 at(10) => [];
        1 at(20) => [];
        2 at(30) => [W(10)];
        2 IDLE => [];
        0 IDLE => [W(20)];
        0 ACTIVE => [];
        1 IDLE => [];
        2 ACTIVE => [];
        0 IDLE => [W(30)];
        2 IDLE => [Idle];
    ]
}
