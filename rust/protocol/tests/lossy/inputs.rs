//! A task with several inputs, over bad links and rings, and what its alignment tells.

use oka_protocol::{Alignment, Control, END_OF_TIME, START_OF_TIME};

use super::random::Random;
use super::ring::RingSimulation;
use super::simulation::{Element, Simulation};

/// One input: its channel, what is to come on it, and what came.
struct Input {
    channel: Channel,
    script: Vec<Element>,
    sent: usize,
    came: Vec<Element>,
    dead: bool,
}

enum Channel {
    Link(Box<Simulation>),
    Ring(Box<RingSimulation>),
}

pub struct Inputs {
    random: Random,
    channels: Vec<Input>,
    alignment: Alignment,
    /// What is told up to now.
    watermark: i64,
    idle: bool,
    epochs: Vec<u64>,
}

impl Inputs {
    pub fn new(random: &mut Random) -> Self {
        let count = 1 + random.below(5) as usize;
        let epochs = random.below(5);
        let inputs = (0..count).map(|_| Input {
            script: script(random, epochs),
            channel: if random.chance(500) {
                Channel::Link(Box::new(Simulation::new(random)))
            } else {
                Channel::Ring(Box::new(RingSimulation::new(random)))
            },
            sent: 0,
            came: Vec::new(),
            dead: false,
        });
        Self {
            channels: inputs.collect(),
            alignment: Alignment::new(count),
            random: random.split(),
            watermark: START_OF_TIME,
            idle: false,
            epochs: Vec::new(),
        }
    }

    /// Runs until everything came; or, if an input dies, until nothing comes any more.
    pub fn run(&mut self, mut deaths: u64) {
        let mut left = MOST_STEPS;
        while left > 0 {
            left -= 1;
            if self.channels.iter().all(Input::is_over) {
                return self.check_end();
            }
            if deaths > 0 && self.random.chance(20) {
                deaths -= 1;
                let count = self.channels.len() as u64;
                let chosen = self.random.below(count) as usize;
                self.channels[chosen].die();
                left = STEPS_AFTER_DEATH;
            }
            for input in &mut self.channels {
                input.step(&mut self.random);
            }
            let chosen = self.random.below(self.channels.len() as u64) as usize;
            if !self.alignment.is_held(chosen) {
                self.take(chosen);
            }
            if self.random.chance(700) {
                self.tell();
            }
        }
        self.tell();
        assert!(
            self.channels.iter().any(|input| input.dead),
            "standstill without a death: {:?}",
            self.channels
                .iter()
                .map(|input| input.came.len())
                .collect::<Vec<_>>()
        );
        assert!(!self.alignment.main_ended(), "one never ended");
        assert!(self.watermark < END_OF_TIME);
    }

    fn take(&mut self, chosen: usize) {
        let Some(element) = self.channels[chosen].consume() else {
            return;
        };
        self.channels[chosen].came.push(element);
        match element {
            Element::Records(_) => self.alignment.on_records(chosen),
            Element::Control(control) => self.alignment.on_control(chosen, control),
            Element::End => self.alignment.on_end(chosen),
        }
    }

    /// Takes what is due, and compares it with what came.
    fn tell(&mut self) {
        while let Some(control) = self.alignment.due() {
            match control {
                Control::Watermark(time) => {
                    assert!(time > self.watermark || (time == self.watermark && self.idle));
                    self.watermark = time;
                    self.idle = false;
                }
                Control::Idle => {
                    assert!(!self.idle);
                    self.idle = true;
                }
                Control::Barrier(epoch) => {
                    assert!(self.epochs.last().is_none_or(|last| *last < epoch));
                    self.epochs.push(epoch);
                    for input in &self.channels {
                        assert!(input.is_aligned(epoch), "{epoch} of {:?}", input.came);
                    }
                    assert!(
                        (0..self.channels.len()).all(|input| !self.alignment.is_held(input)),
                        "all go on"
                    );
                }
            }
        }
        let left = || self.channels.iter().filter(|input| !input.has_ended());
        let idle = left().count() > 0 && left().all(Input::is_idle);
        let expected = if idle {
            left().map(Input::watermark).max()
        } else {
            left().filter(|i| !i.is_idle()).map(Input::watermark).min()
        };
        assert!(self.watermark >= expected.unwrap_or(END_OF_TIME));
        assert_eq!(self.idle, idle);
        let newest = self.channels.iter().filter_map(Input::barrier).max();
        let complete = newest.is_some_and(|newest| {
            self.channels
                .iter()
                .all(|input| input.has_ended() || input.barrier() == Some(newest))
        });
        assert!(
            !complete || self.epochs.last() == newest.as_ref(),
            "{newest:?} is complete"
        );
    }

    fn check_end(&mut self) {
        self.tell();
        assert!(self.alignment.main_ended());
        assert_eq!((self.watermark, self.idle), (END_OF_TIME, false));
        for input in &self.channels {
            let (end, before) = input.came.split_last().expect("at least its end");
            assert_eq!((*end, before), (Element::End, &input.script[..]));
        }
        for epoch in 1..=MOST_EPOCHS {
            let barrier = Element::Control(Control::Barrier(epoch));
            if self
                .channels
                .iter()
                .all(|input| input.script.contains(&barrier))
            {
                assert!(self.epochs.contains(&epoch), "{epoch} came of all");
            }
        }
    }
}

impl Input {
    fn step(&mut self, random: &mut Random) {
        if self.sent < self.script.len() {
            if random.chance(300) {
                let element = self.script[self.sent];
                self.sent += 1;
                match (&mut self.channel, element) {
                    (Channel::Link(link), Element::Control(control)) => link.emit_control(control),
                    (Channel::Link(link), _) => link.emit(1 + random.below(2_000) as usize),
                    (Channel::Ring(ring), Element::Control(control)) => ring.emit_control(control),
                    (Channel::Ring(ring), _) => ring.emit(),
                }
            }
        } else {
            match &mut self.channel {
                Channel::Link(link) => link.finish(),
                Channel::Ring(ring) => ring.finish(),
            }
        }
        match &mut self.channel {
            Channel::Link(link) => link.step(),
            Channel::Ring(ring) => ring.step(),
        }
    }

    fn consume(&mut self) -> Option<Element> {
        match &mut self.channel {
            Channel::Link(link) => link.consume(),
            Channel::Ring(ring) => ring.consume().expect("a ring that nobody tampers with"),
        }
    }

    fn die(&mut self) {
        if self.has_ended() {
            return;
        }
        self.dead = true;
        match &mut self.channel {
            Channel::Link(link) => link.die(),
            Channel::Ring(ring) => ring.die(),
        }
    }

    fn is_over(&self) -> bool {
        self.has_ended()
    }

    fn has_ended(&self) -> bool {
        self.came.last() == Some(&Element::End)
    }

    fn controls(&self) -> impl DoubleEndedIterator<Item = Control> {
        self.came.iter().filter_map(|element| match element {
            Element::Control(control) => Some(*control),
            _ => None,
        })
    }

    fn watermark(&self) -> i64 {
        let times = self.controls().filter_map(|control| match control {
            Control::Watermark(time) => Some(time),
            _ => None,
        });
        times.max().unwrap_or(START_OF_TIME)
    }

    fn is_idle(&self) -> bool {
        let tells = |element: &&Element| !matches!(element, Element::Control(Control::Barrier(_)));
        self.came.iter().rfind(tells) == Some(&Element::Control(Control::Idle))
    }

    /// The epoch of the last barrier that came.
    fn barrier(&self) -> Option<u64> {
        self.controls().rev().find_map(|control| match control {
            Control::Barrier(epoch) => Some(epoch),
            _ => None,
        })
    }

    /// Whether what came is all before the barrier of this epoch, and nothing behind it.
    fn is_aligned(&self, epoch: u64) -> bool {
        self.has_ended() || self.came.last() == Some(&Element::Control(Control::Barrier(epoch)))
    }
}

/// Records, times that mostly rise, idleness, and the barriers of most epochs, in order.
fn script(random: &mut Random, epochs: u64) -> Vec<Element> {
    let mut script = Vec::new();
    let mut time = 0;
    for epoch in 1..=epochs + 1 {
        for _ in 0..random.below(6) {
            script.push(match random.below(10) {
                0 => Element::Control(Control::Idle),
                1..5 => {
                    time += random.below(50) as i64 - 5;
                    Element::Control(Control::Watermark(time))
                }
                _ => Element::Records(0),
            });
        }
        if epoch <= epochs && !random.chance(100) {
            script.push(Element::Control(Control::Barrier(epoch)));
        }
    }
    for (place, element) in script.iter_mut().enumerate() {
        if let Element::Records(number) = element {
            *number = place;
        }
    }
    script
}

/// More than the worst schedule without a death takes.
const MOST_STEPS: usize = 400_000;

/// What is on the way has come by then.
const STEPS_AFTER_DEATH: usize = 4_000;

const MOST_EPOCHS: u64 = 5;
