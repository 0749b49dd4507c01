//! How the inputs of one task come together: event time, barriers, holds and ends.

use crate::Control;

/// All input channels of a task, by their places, and what they have told so far.
///
/// Tells the least watermark of the inputs when it rises, and a barrier when every input has come to
/// it; neither ever goes back. It is given the elements of each input in their order, and none of one
/// that [is held](Self::is_held).
///
/// ```
/// use oka_protocol::{Alignment, Control};
///
/// let mut alignment = Alignment::new(2);
/// alignment.on_control(0, Control::Watermark(7));
/// assert_eq!(alignment.due(), None);
/// alignment.on_control(1, Control::Watermark(5));
/// assert_eq!(alignment.due(), Some(Control::Watermark(5)));
///
/// alignment.on_control(0, Control::Barrier(1));
/// assert!(alignment.is_held(0));
/// alignment.on_end(1);
/// assert_eq!(alignment.due(), Some(Control::Watermark(7)));
/// assert_eq!(alignment.due(), Some(Control::Barrier(1)));
/// assert!(!alignment.is_held(0));
/// ```
#[derive(Debug, Clone)]
pub struct Alignment {
    inputs: Vec<Input>,
    /// The watermark that was told last.
    watermark: i64,
    /// Whether idleness was told last.
    idle: bool,
    /// The newest epoch that a barrier came of; 0 before any.
    epoch: u64,
    /// Whether its barrier was not told yet.
    aligning: bool,
    /// Whether anything may be due.
    changed: bool,
}

#[derive(Debug, Clone)]
struct Input {
    watermark: i64,
    phase: Phase,
    /// Whether it waits at the barrier of the epoch.
    at_barrier: bool,
    side: bool,
    /// Why it is held, but for barriers.
    reasons: Vec<String>,
}

/// What an input has to do with time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Its watermark counts.
    Active,
    /// It does not count until it wakes.
    Idle,
    /// No record of it follows.
    Ended,
}

impl Input {
    fn has_ended(&self) -> bool {
        self.phase == Phase::Ended
    }
}

impl Alignment {
    /// So many inputs that have told nothing yet.
    pub fn new(inputs: usize) -> Self {
        let input = Input {
            watermark: START_OF_TIME,
            phase: Phase::Active,
            at_barrier: false,
            side: false,
            reasons: Vec::new(),
        };
        Self {
            inputs: vec![input; inputs],
            watermark: START_OF_TIME,
            idle: false,
            epoch: 0,
            aligning: false,
            changed: false,
        }
    }

    /// Takes in what came between the records of an input. A barrier that is over, or that another
    /// input has gone past, changes nothing.
    pub fn on_control(&mut self, input: usize, control: Control) {
        self.changed = true;
        match control {
            Control::Watermark(time) => {
                let input = &mut self.inputs[input];
                input.watermark = input.watermark.max(time);
                input.phase = Phase::Active;
            }
            Control::Idle => self.inputs[input].phase = Phase::Idle,
            Control::Barrier(epoch) => self.on_barrier(input, epoch),
        }
    }

    /// Takes in that records came of an input: it is not idle.
    #[inline]
    pub fn on_records(&mut self, input: usize) {
        let input = &mut self.inputs[input];
        self.changed |= input.phase == Phase::Idle;
        input.phase = Phase::Active;
    }

    /// Takes in that nothing follows on an input: its watermark is the last there is, and barriers
    /// do not wait for it.
    pub fn on_end(&mut self, input: usize) {
        self.inputs[input].phase = Phase::Ended;
        self.changed = true;
    }

    /// What is to be told next, if anything is; counts it as told. A watermark comes before a barrier
    /// that was complete by then; inputs wait until their barrier is told.
    ///
    /// The watermark is told when it rises, and once more when inputs are idle no longer.
    #[inline]
    pub fn due(&mut self) -> Option<Control> {
        if !self.changed {
            return None;
        }
        let due = self.next();
        self.changed = due.is_some();
        due
    }

    /// Whether anything was taken in since nothing was due.
    #[inline]
    pub fn has_changed(&self) -> bool {
        self.changed
    }

    /// Makes an input a side input: it tells no time, and nobody waits for its end.
    pub fn set_side(&mut self, input: usize) {
        self.inputs[input].side = true;
    }

    /// Makes all inputs alike again.
    pub fn include_side_inputs(&mut self) {
        for input in &mut self.inputs {
            input.side = false;
        }
    }

    /// Holds an input for this reason, until it is released for the same.
    pub fn hold(&mut self, input: usize, reason: &str) {
        let reasons = &mut self.inputs[input].reasons;
        if !reasons.iter().any(|each| each == reason) {
            reasons.push(reason.to_owned());
        }
    }

    /// Lets an input go on, unless it is held for another reason or waits at a barrier.
    pub fn release(&mut self, input: usize, reason: &str) {
        let reasons = &mut self.inputs[input].reasons;
        reasons.retain(|each| each != reason);
    }

    /// The epoch whose barrier inputs wait at, which was not told yet; `None` if they wait at none.
    #[inline]
    pub fn awaited(&self) -> Option<u64> {
        self.aligning.then_some(self.epoch)
    }

    /// Whether nothing is to be taken of an input for now.
    #[inline]
    pub fn is_held(&self, input: usize) -> bool {
        let input = &self.inputs[input];
        input.at_barrier || !input.reasons.is_empty()
    }

    /// Whether the end of an input counts when nothing else is left of it: also while it is held,
    /// except at a barrier, which its end is behind.
    pub fn may_end(&self, input: usize) -> bool {
        !self.inputs[input].at_barrier
    }

    /// Whether an input has ended.
    pub fn is_ended(&self, input: usize) -> bool {
        self.inputs[input].has_ended()
    }

    /// Whether every input has ended that is no side input.
    pub fn main_ended(&self) -> bool {
        self.inputs
            .iter()
            .all(|input| input.side || input.has_ended())
    }

    /// Whether inputs are held for a reason, and all others have ended. Barriers do not count: they
    /// release by themselves.
    pub fn others_ended(&self) -> bool {
        let held = |input: &Input| !input.reasons.is_empty();
        let ended = |input: &Input| held(input) || input.has_ended();
        self.inputs.iter().any(held) && self.inputs.iter().all(ended)
    }

    fn on_barrier(&mut self, input: usize, epoch: u64) {
        if epoch > self.epoch {
            // Channels are in order: of the older epoch this one will send no barrier any more.
            self.release_from_barrier();
            self.epoch = epoch;
            self.aligning = true;
        }
        self.inputs[input].at_barrier = self.aligning && epoch == self.epoch;
    }

    fn release_from_barrier(&mut self) {
        self.aligning = false;
        for input in &mut self.inputs {
            input.at_barrier = false;
        }
    }

    fn next(&mut self) -> Option<Control> {
        let idle = self.all_idle();
        let woken = self.idle && !idle;
        let watermark = self.least_watermark(idle).max(self.watermark);
        if watermark > self.watermark || woken {
            self.watermark = watermark;
            // It wakes who hears it.
            self.idle = false;
            return Some(Control::Watermark(watermark));
        }
        if idle && !self.idle {
            self.idle = true;
            return Some(Control::Idle);
        }
        let aligned = |input: &Input| input.at_barrier || input.has_ended();
        if self.aligning && self.inputs.iter().all(aligned) {
            self.release_from_barrier();
            return Some(Control::Barrier(self.epoch));
        }
        None
    }

    /// Whether inputs are left, and all of them idle.
    fn all_idle(&self) -> bool {
        let mut left = self.left().peekable();
        left.peek().is_some() && left.all(|input| input.phase == Phase::Idle)
    }

    /// The inputs that may tell time.
    fn left(&self) -> impl Iterator<Item = &Input> {
        let left = |input: &&Input| !input.side && !input.has_ended();
        self.inputs.iter().filter(left)
    }

    /// The least watermark of the inputs that tell time. If all that are left are idle, the greatest
    /// of theirs: then windows close that wait for nobody. Inputs that have ended do not count there,
    /// or time would be over although records may follow.
    fn least_watermark(&self, idle: bool) -> i64 {
        let left = self.left();
        if idle {
            let watermarks = left.map(|input| input.watermark);
            return watermarks.max().unwrap_or(START_OF_TIME);
        }
        let telling = left.filter(|input| input.phase == Phase::Active);
        let watermarks = telling.map(|input| input.watermark);
        watermarks.min().unwrap_or(END_OF_TIME)
    }
}

/// The watermark of an input that has told none.
pub const START_OF_TIME: i64 = i64::MIN;

/// The watermark of inputs that have ended: no record is behind it.
pub const END_OF_TIME: i64 = i64::MAX;

#[cfg(test)]
mod tests {
    use super::*;
    use Control::{Barrier, Idle, Watermark};

    fn told(alignment: &mut Alignment) -> Vec<Control> {
        std::iter::from_fn(|| alignment.due()).collect()
    }

    /// What is told after each of these, which come of the inputs in turn.
    fn after(alignment: &mut Alignment, came: &[(usize, Control)]) -> Vec<Control> {
        for (input, control) in came {
            alignment.on_control(*input, *control);
        }
        told(alignment)
    }

    #[test]
    fn the_least_watermark_is_told_when_it_rises() {
        let mut two = Alignment::new(2);
        assert_eq!(after(&mut two, &[(0, Watermark(7))]), []);
        assert_eq!(after(&mut two, &[(1, Watermark(3))]), [Watermark(3)]);
        assert_eq!(after(&mut two, &[(1, Watermark(2))]), [], "it went back");
        assert_eq!(after(&mut two, &[(1, Watermark(9))]), [Watermark(7)]);
        assert_eq!(after(&mut two, &[(1, Watermark(11))]), []);
    }

    #[test]
    fn an_input_that_ended_holds_nothing_up() {
        let mut two = Alignment::new(2);
        after(&mut two, &[(0, Watermark(7)), (1, Barrier(1))]);
        two.on_end(1);
        assert_eq!(told(&mut two), [Watermark(7)]);
        assert_eq!(after(&mut two, &[(0, Barrier(1))]), [Barrier(1)]);
        assert!(!two.main_ended());
        two.on_end(0);
        assert_eq!(told(&mut two), [Watermark(END_OF_TIME)]);
        assert!(two.main_ended());
    }

    #[test]
    fn idle_inputs_are_left_out_until_they_wake() {
        let mut two = Alignment::new(2);
        after(&mut two, &[(0, Watermark(7)), (1, Watermark(3))]);
        assert_eq!(after(&mut two, &[(1, Idle)]), [Watermark(7)]);
        two.on_records(1);
        assert_eq!(told(&mut two), [], "3 again, but 7 was told");
        assert_eq!(after(&mut two, &[(0, Watermark(9))]), [], "1 is at 3");
        assert_eq!(after(&mut two, &[(1, Watermark(8))]), [Watermark(8)]);
    }

    #[test]
    fn when_all_are_idle_time_goes_on_to_the_last_of_them() {
        let mut three = Alignment::new(3);
        three.on_end(2);
        after(&mut three, &[(0, Watermark(7)), (1, Watermark(3))]);
        assert_eq!(
            after(&mut three, &[(0, Idle), (1, Idle)]),
            [Watermark(7), Idle],
            "not the end of time, though one has ended"
        );
        three.on_records(1);
        assert_eq!(told(&mut three), [Watermark(7)], "who waits hears of it");
        assert_eq!(after(&mut three, &[(1, Idle)]), [Idle]);
        assert_eq!(after(&mut three, &[(0, Watermark(8))]), [Watermark(8)]);
        assert_eq!(after(&mut three, &[(0, Idle)]), [Idle]);
        three.on_end(0);
        assert_eq!(told(&mut three), [], "the other is still idle");
        three.on_end(1);
        assert_eq!(told(&mut three), [Watermark(END_OF_TIME)]);
    }

    #[test]
    fn inputs_without_a_watermark_wake_too() {
        let mut one = Alignment::new(1);
        assert_eq!(after(&mut one, &[(0, Idle)]), [Idle]);
        one.on_records(0);
        assert_eq!(told(&mut one), [Watermark(START_OF_TIME)]);
    }

    #[test]
    fn inputs_wait_at_a_barrier_until_it_is_told() {
        let mut two = Alignment::new(2);
        assert_eq!(after(&mut two, &[(1, Barrier(4))]), []);
        assert!(two.is_held(1) && !two.may_end(1) && !two.is_held(0));
        assert_eq!(two.awaited(), Some(4));
        two.on_control(0, Watermark(5));
        two.on_control(0, Barrier(4));
        assert!(two.is_held(0) && two.is_held(1));
        assert_eq!(two.due(), Some(Barrier(4)));
        assert!(!two.is_held(0) && !two.is_held(1));
        assert_eq!(two.awaited(), None);
        assert_eq!(after(&mut two, &[(0, Barrier(4))]), [], "it is over");
        assert!(!two.is_held(0));
    }

    #[test]
    fn a_newer_barrier_takes_the_place_of_one_that_was_given_up() {
        let mut two = Alignment::new(2);
        after(&mut two, &[(0, Barrier(1))]);
        assert_eq!(after(&mut two, &[(1, Barrier(2))]), []);
        assert!(!two.is_held(0) && two.is_held(1), "0 has to bring the 2");
        assert_eq!(after(&mut two, &[(0, Barrier(2))]), [Barrier(2)]);
    }

    #[test]
    fn holds_for_different_reasons_do_not_free_each_other() {
        let mut two = Alignment::new(2);
        two.hold(0, "model");
        two.hold(0, "model");
        two.hold(0, "memory");
        two.on_control(0, Barrier(1));
        two.release(0, "memory");
        assert!(two.is_held(0));
        two.on_control(1, Barrier(1));
        assert_eq!(two.due(), Some(Barrier(1)));
        assert!(two.is_held(0), "the model is not there");
        two.release(0, "model");
        assert!(!two.is_held(0));
    }

    #[test]
    fn a_barrier_is_no_reason_to_think_that_all_others_ended() {
        let mut two = Alignment::new(2);
        two.on_end(1);
        assert!(!two.others_ended());
        two.on_control(0, Barrier(1));
        assert!(!two.others_ended());
        two.due();
        two.hold(0, "model");
        assert!(two.others_ended() && !two.main_ended());
    }

    #[test]
    fn a_side_input_tells_no_time_and_nobody_waits_for_its_end() {
        let mut two = Alignment::new(2);
        two.set_side(1);
        assert_eq!(after(&mut two, &[(0, Watermark(5))]), [Watermark(5)]);
        assert_eq!(after(&mut two, &[(0, Barrier(1))]), []);
        assert_eq!(after(&mut two, &[(1, Barrier(1))]), [Barrier(1)]);
        two.on_end(0);
        assert!(two.main_ended());
        assert_eq!(told(&mut two), [Watermark(END_OF_TIME)]);
        two.include_side_inputs();
        assert!(!two.main_ended());
        two.on_end(1);
        assert!(two.main_ended());
    }
}
