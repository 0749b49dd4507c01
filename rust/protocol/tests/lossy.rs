//! A sender and a receiver joined by a link that loses, repeats, reorders and delays messages, and
//! breaks: thousands of schedules, each from a seed, on a virtual clock.
//!
//! `OKA_SEED=17 cargo test -p oka-protocol --test lossy` runs one schedule again.

mod lossy {
    pub mod link;
    pub mod random;
    pub mod simulation;
}

use lossy::random::Random;
use lossy::simulation::Simulation;
use oka_protocol::ChannelError;

const SCHEDULES: u64 = 10_000;

#[test]
fn everything_arrives_once_and_in_order_over_any_link() {
    let chosen = std::env::var("OKA_SEED").ok();
    let seeds = match chosen.map(|seed| seed.parse().expect("OKA_SEED is a number")) {
        Some(seed) => seed..seed + 1,
        None => 0..SCHEDULES,
    };
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

/// Says which schedule failed.
struct NameOnPanic(u64);

impl Drop for NameOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the schedule of OKA_SEED={} failed", self.0);
        }
    }
}
