//! A sender and a receiver joined by a link that loses, repeats, reorders and delays messages, and
//! breaks; the same in a ring; and a task with several such inputs: thousands of schedules, each from
//! a seed, on a virtual clock.
//!
//! `OKA_SEED=17 cargo test -p oka-protocol --test lossy` runs one schedule again.

mod lossy {
    pub mod inputs;
    pub mod link;
    pub mod random;
    pub mod ring;
    pub mod simulation;
}

use lossy::inputs::Inputs;
use lossy::random::Random;
use lossy::ring::{RingSimulation, Tampering};
use lossy::simulation::{Element, Simulation, any_control};
use oka_protocol::{ChannelError, StreamError};

const SCHEDULES: u64 = 10_000;

#[test]
fn everything_arrives_once_and_in_order_over_any_link() {
    let seeds = seeds();
    let mut retransmitted = 0;
    let mut reconnects = 0;
    for seed in seeds.clone() {
        let _named = NameOnPanic(seed);
        let mut random = Random::new(seed);
        let mut simulation = Simulation::new(&mut random);
        simulation.run(random.below(60) as usize);
        assert_eq!(simulation.consumed(), simulation.emitted());
        simulation.assert_clock_is_known();
        retransmitted += simulation.sender.link().retransmitted;
        reconnects += simulation.sender.link().reconnects;
    }
    if seeds.end - seeds.start > 1 {
        assert!(
            retransmitted > SCHEDULES && reconnects > SCHEDULES / 10,
            "{retransmitted} frames were sent again, {reconnects} connections were new: too few \
             to mean anything"
        );
    }
}

#[test]
fn a_good_link_costs_nothing_extra() {
    for seed in 0..500 {
        let _named = NameOnPanic(seed);
        let mut random = Random::new(seed);
        let mut simulation = Simulation::new(&mut random);
        simulation.heal();
        simulation.run(40);
        assert_eq!(simulation.sender.link().retransmitted, 0);
        assert_eq!(simulation.sender.link().longest_interruption_ns, 0);
        assert_eq!(simulation.out_of_place, 0);
    }
}

#[test]
fn a_peer_that_falls_silent_is_lost() {
    const TIMEOUT_NS: u64 = 10_000_000_000;
    for seed in 0..200 {
        let _named = NameOnPanic(seed);
        let mut random = Random::new(seed);
        let mut simulation = Simulation::new(&mut random);
        simulation.open();
        simulation.emit(100);
        simulation.cut_for_good();
        let until = simulation.now_ns() + TIMEOUT_NS;
        simulation.run_until(until - 2_000_000);
        let answered = simulation
            .sender
            .check_answered(until - 1_000_000, TIMEOUT_NS);
        assert_eq!(answered, Ok(()));
        let lost = simulation.sender.check_answered(until, TIMEOUT_NS);
        let Err(error @ ChannelError::Unanswered { .. }) = lost else {
            panic!("the peer was silent for all of its time: {lost:?}");
        };
        assert_eq!(error.to_string(), "no answer for 10 s");
    }
}

#[test]
fn everything_arrives_once_and_in_order_over_a_ring() {
    for seed in seeds() {
        let _named = NameOnPanic(seed);
        let mut random = Random::new(seed);
        let mut ring = RingSimulation::new(&mut random);
        let frames = random.below(60);
        let dies = random.chance(200).then(|| random.below(frames.max(1)));
        let eagerness = 100 + random.below(900);
        run_ring(&mut ring, &mut random, frames, eagerness, dies).unwrap();
        let consumed = ring.consumed().len();
        assert_eq!(ring.consumed(), &ring.emitted()[..consumed]);
        if dies.is_none() {
            assert!(ring.is_over() && consumed == ring.emitted().len());
        } else {
            assert!(!ring.is_over(), "a writer that dies has not ended");
        }
    }
}

#[test]
fn a_ring_that_is_tampered_with_is_refused_at_that_place() {
    for seed in seeds() {
        let _named = NameOnPanic(seed);
        let mut random = Random::new(seed);
        let mut ring = RingSimulation::new(&mut random);
        let frames = 2 + random.below(60);
        let place = 1 + random.below(frames);
        let how = match random.below(4) {
            0 => Tampering::Lost,
            1 => Tampering::Repeated,
            2 => Tampering::Reordered,
            _ => Tampering::OfAnotherAttempt,
        };
        ring.tamper(place, how);
        let refused = run_ring(&mut ring, &mut random, frames, 700, None);
        assert_eq!(refused, Err(StreamError::OutOfPlace), "{how:?}");
        let good = place - u64::from(how != Tampering::Repeated);
        let expected = &ring.emitted()[..good as usize];
        assert_eq!(ring.consumed(), expected, "{how:?}");
    }
}

/// Emits so many elements at random moments, and consumes until the end, or for a while after the
/// writer has died behind so many of them.
fn run_ring(
    ring: &mut RingSimulation,
    random: &mut Random,
    frames: u64,
    eagerness: u64,
    dies: Option<u64>,
) -> Result<(), StreamError> {
    let mut emitted = 0;
    let mut since_death = 0;
    for _ in 0..200_000 {
        if dies == Some(emitted) {
            ring.die();
            since_death += 1;
        } else if emitted < frames && random.chance(300) {
            emitted += 1;
            if random.chance(300) {
                ring.emit_control(any_control(random));
            } else {
                ring.emit();
            }
        } else if emitted == frames {
            ring.finish();
        }
        ring.step();
        if random.chance(eagerness) && ring.consume()? == Some(Element::End) {
            return Ok(());
        }
        if since_death > 1_000 {
            return Ok(());
        }
    }
    panic!("standstill: {} of {frames} consumed", ring.consumed().len());
}

#[test]
fn inputs_are_aligned_over_links_and_rings() {
    for seed in seeds().take(SCHEDULES as usize / 4) {
        let _named = NameOnPanic(seed);
        let mut random = Random::new(seed);
        Inputs::new(&mut random).run(0);
    }
}

#[test]
fn an_input_that_dies_is_waited_for() {
    for seed in seeds().take(500) {
        let _named = NameOnPanic(seed);
        let mut random = Random::new(seed);
        Inputs::new(&mut random).run(1);
    }
}

fn seeds() -> std::ops::Range<u64> {
    let chosen = std::env::var("OKA_SEED").ok();
    match chosen.map(|seed| seed.parse().expect("OKA_SEED is a number")) {
        Some(seed) => seed..seed + 1,
        None => 0..SCHEDULES,
    }
}

/// Says which schedule failed.
struct NameOnPanic(u64);

impl Drop for NameOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the schedule of OKA_SEED={} failed", self.0);
        }
    }
}
