//! The cases of Flink's `StatusWatermarkValveTest` (apache/flink, 160caf705bc4, Apache-2.0), as data.
//!
//! An input of ours is active again with its next record; what Flink tells as `ACTIVE` is then the
//! last watermark once more. Of its 17 cases 14 are alike; the other 3 say why they are not.

use oka_protocol::{Alignment, Control, START_OF_TIME};

type Step = (usize, Event, &'static [Control]);

/// What comes of an input.
#[derive(Debug, Clone, Copy)]
enum Event {
    At(i64),
    BecomesIdle,
    BecomesActive,
}

use Control::{Idle, Watermark as W};
use Event::{At, BecomesActive, BecomesIdle};

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
        match *event {
            At(time) => alignment.on_control(*input, W(time)),
            BecomesIdle => alignment.on_control(*input, Idle),
            BecomesActive => alignment.on_records(*input),
        }
        let told: Vec<Control> = std::iter::from_fn(|| alignment.due()).collect();
        assert_eq!(told, *expected, "step {number}: {event:?} of input {input}");
    }
}

cases! {
    single_input_increasing_watermarks(1) [
        0 At(0) => [W(0)];
        0 At(25) => [W(25)];
    ]

    single_input_decreasing_watermarks_yields_no_output(1) [
        0 At(25) => [W(25)];
        0 At(18) => [];
        0 At(42) => [W(42)];
    ]

    single_input_watermark_status_toggling(1) [
        0 BecomesActive => [];
        0 BecomesIdle => [Idle];
        0 BecomesIdle => [];
        0 BecomesActive => [W(START_OF_TIME)];
    ]

    // Flink ignores the watermark of an idle input. Here it ends idleness: an input that has none to
    // follow sends none.
    single_input_watermarks_intact_during_idleness(1) [
        0 At(25) => [W(25)];
        0 BecomesIdle => [Idle];
        0 At(50) => [W(50)];
        0 BecomesActive => [];
        0 At(50) => [];
    ]

    multiple_input_yields_watermark_only_when_all_channels_receive_watermarks(3) [
        0 At(0) => [];
        1 At(0) => [];
        2 At(0) => [W(0)];
    ]

    multiple_input_increasing_watermarks(3) [
        0 At(0) => [];
        1 At(0) => [];
        2 At(0) => [W(0)];
        0 At(12) => [];
        2 At(8) => [];
        2 At(10) => [];
        1 At(15) => [W(10)];
        2 At(17) => [W(12)];
        0 At(20) => [W(15)];
    ]

    multiple_input_decreasing_watermarks_yields_no_output(3) [
        0 At(25) => [];
        1 At(10) => [];
        2 At(17) => [W(10)];
        0 At(12) => [];
        1 At(8) => [];
        2 At(15) => [];
    ]

    multiple_input_watermark_status_toggling(2) [
        0 BecomesActive => [];
        1 BecomesActive => [];
        1 BecomesIdle => [];
        0 BecomesIdle => [Idle];
        0 BecomesIdle => [];
        1 BecomesIdle => [];
        1 BecomesActive => [W(START_OF_TIME)];
        0 BecomesActive => [];
    ]

    multiple_input_watermark_advancing_with_partially_idle_channels(3) [
        0 At(15) => [];
        1 At(10) => [];
        2 BecomesIdle => [W(10)];
        1 At(18) => [W(15)];
        0 At(20) => [W(18)];
    ]

    multiple_input_watermark_advancing_as_channels_individually_become_idle(3) [
        0 At(25) => [];
        1 At(10) => [];
        2 At(17) => [W(10)];
        1 BecomesIdle => [W(17)];
        2 BecomesIdle => [W(25)];
    ]

    multiple_input_flush_max_watermark_and_status_once_all_inputs_become_idle(3) [
        0 At(10) => [];
        1 At(5) => [];
        2 At(3) => [W(3)];
        0 BecomesIdle => [];
        1 BecomesIdle => [];
        2 BecomesIdle => [W(10), Idle];
    ]

    multiple_input_flush_max_watermark_with_unaligned_last_channel(3) [
        0 At(100) => [];
        1 At(50) => [];
        2 At(70) => [W(50)];
        1 BecomesIdle => [W(70)];
        1 BecomesActive => [];
        1 At(60) => [];
        0 BecomesIdle => [];
        2 BecomesIdle => [];
        1 BecomesIdle => [W(100), Idle];
    ]

    multiple_input_watermark_realignment_after_resume_active(3) [
        0 At(10) => [];
        1 At(7) => [];
        2 At(3) => [W(3)];
        2 BecomesIdle => [W(7)];
        2 BecomesActive => [];
        2 At(5) => [];
        2 At(9) => [];
        1 At(12) => [W(9)];
    ]

    no_output_when_all_active_channels_are_unaligned(3) [
        0 At(10) => [];
        1 At(7) => [];
        2 BecomesIdle => [W(7)];
        2 BecomesActive => [];
        0 BecomesIdle => [];
        1 BecomesIdle => [];
    ]

    unaligned_active_channel_becomes_idle(2) [
        0 At(7) => [];
        1 At(10) => [W(7)];
        0 BecomesIdle => [W(10)];
        0 BecomesActive => [];
        0 At(9) => [];
        0 BecomesIdle => [];
    ]

    // Flink goes on to 10 without input 2, which is active and behind, as 0 becomes active. Here an
    // input that is active again is waited for: what it brings next should not be later than it is.
    watermark_advances_when_reactivated_channel_becomes_only_aligned_channel(3) [
        0 At(10) => [];
        1 At(7) => [];
        2 BecomesIdle => [W(7)];
        2 BecomesActive => [];
        0 BecomesIdle => [];
        1 BecomesIdle => [];
        0 BecomesActive => [];
        2 BecomesIdle => [W(10)];
    ]

    // As above: Flink goes on to 30 without input 0, which is at 10, as 2 becomes active.
    realignment_after_resume_active_emits_new_min_watermark(3) [
        0 At(10) => [];
        1 At(20) => [];
        2 At(30) => [W(10)];
        2 BecomesIdle => [];
        0 BecomesIdle => [W(20)];
        0 BecomesActive => [];
        1 BecomesIdle => [];
        2 BecomesActive => [];
        0 BecomesIdle => [W(30)];
        2 BecomesIdle => [Idle];
    ]
}
