//! The events of one kind, in blocks: which there are, and in what order.

use std::ops::Range;

use nexmark::EventGenerator;
use nexmark::config::NexmarkConfig;
use nexmark::event::EventType;

use crate::rows::Block;

/// Persons, auctions or bids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Person,
    Auction,
    Bid,
}

impl Kind {
    /// The kind of this name.
    pub fn of(name: &str) -> Option<Kind> {
        match name {
            "person" => Some(Kind::Person),
            "auction" => Some(Kind::Auction),
            "bid" => Some(Kind::Bid),
            _ => None,
        }
    }

    fn event_type(self) -> EventType {
        match self {
            Kind::Person => EventType::Person,
            Kind::Auction => EventType::Auction,
            Kind::Bid => EventType::Bid,
        }
    }

    /// Which of each `EVERY` events are of this kind.
    fn part(self) -> Range<u64> {
        match self {
            Kind::Person => 0..1,
            Kind::Auction => 1..4,
            Kind::Bid => 4..EVERY,
        }
    }
}

/// Those of the first so many events that are of one kind.
pub struct Events {
    count: u64,
    block: u64,
    /// So many that follow one another are out of order; 1 is none.
    disorder: u64,
    generator: EventGenerator,
}

impl Events {
    /// Blocks of `block` events out of the first `events` of all kinds; `rate` of these are a second.
    pub fn new(kind: Kind, events: u64, rate: usize, block: u64, disorder: u64) -> Events {
        let part = kind.part();
        let rest = (events % EVERY).clamp(part.start, part.end) - part.start;
        let config = NexmarkConfig {
            base_time: BASE_TIME,
            first_rate: rate,
            next_rate: rate,
            ..NexmarkConfig::default()
        };
        Events {
            count: events / EVERY * (part.end - part.start) + rest,
            block,
            disorder,
            generator: EventGenerator::new(config).with_type_filter(kind.event_type()),
        }
    }

    /// How many blocks there are.
    pub fn blocks(&self) -> u64 {
        self.count.div_ceil(self.block)
    }

    /// The events of a block.
    pub fn block(&self, number: u64) -> Block {
        let first = number * self.block;
        let numbers = first..(first + self.block).min(self.count);
        let mut generator = self.generator.clone();
        let mut block = Block::default();
        for number in numbers {
            generator = generator.with_offset(self.adjusted(number));
            block.push(generator.next().expect("a generator has no end"));
        }
        block
    }

    /// Which event comes as this one: the order of the generator's own `out_of_order_group_size`.
    fn adjusted(&self, number: u64) -> u64 {
        let group = number / self.disorder * self.disorder;
        if group + self.disorder > self.count {
            return number; // not all of the last group are there
        }
        group + number * PRIME % self.disorder
    }
}

/// Of so many events that follow one another, one is a person and three are auctions.
const EVERY: u64 = 50;
const PRIME: u64 = 953;
/// When the first event is, in milliseconds: ten seconds before eight o'clock, when `q14` has day. The
/// generator's own is the time of its start.
const BASE_TIME: u64 = 1_767_254_390_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(kind: Kind, events: u64, disorder: u64) -> Vec<u64> {
        let events = Events::new(kind, events, 100, 7, disorder);
        (0..events.count).map(|n| events.adjusted(n)).collect()
    }

    #[test]
    fn every_event_is_of_one_kind() {
        for events in [0, 1, 2, 4, 5, 49, 50, 51, 53, 1234] {
            let counts = [Kind::Person, Kind::Auction, Kind::Bid]
                .map(|kind| Events::new(kind, events, 100, 7, 1).count);
            assert_eq!(counts.iter().sum::<u64>(), events);
        }
        assert_eq!(Events::new(Kind::Bid, 100, 100, 7, 1).count, 92);
    }

    #[test]
    fn disorder_leaves_none_out() {
        for disorder in [1, 10, 64] {
            let mut found = numbers(Kind::Bid, 1234, disorder);
            assert_eq!(found.is_sorted(), disorder == 1);
            found.sort_unstable();
            assert!(found.into_iter().eq(0..1134));
        }
    }

    #[test]
    fn a_block_is_the_same_wherever_one_begins() {
        let written = |block: u64| {
            let events = Events::new(Kind::Auction, 1000, 100, block, 5);
            let mut written = Vec::new();
            for number in 0..events.blocks() {
                let mut bytes = Vec::new();
                events.block(number).write(&mut bytes).unwrap();
                written.push(bytes);
            }
            written
        };
        let (sixes, threes) = (written(6), written(3));
        assert_eq!((sixes.len(), threes.len()), (10, 20));
        // The number of rows, and the first column: 3 of the 6 numbers.
        assert_eq!(sixes[4][8..32], threes[8][8..32]);
        assert_eq!(sixes[4][32..56], threes[9][8..32]);
    }
}
