//! Whom a node relays a blob to next, and what it does when that goes wrong.
//!
//! No sockets and no clock: the time is an argument. A node owes the blob to a chain of others. It
//! sends it to the first, which relays it to the rest. One that cannot be reached, or not be reached
//! again, is bypassed: the next one is sent to instead, and relays it to those behind. At the end the
//! bypassed are tried alone, until the patience with them is over.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::message::FailedNode;

/// The chain behind one node, for one blob.
#[derive(Debug)]
pub(crate) struct Chain {
    /// Not tried yet, or being tried; the first one is being sent to.
    ahead: VecDeque<String>,
    bypassed: VecDeque<BypassedNode>,
    failed: Vec<FailedNode>,
    current: Attempts,
    limits: Limits,
}

/// How long the others are waited for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Until a node that cannot be reached is bypassed.
    pub(crate) bypass: Duration,
    /// Until a bypassed node is given up.
    pub(crate) patience: Duration,
}

/// What to do now.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Send the blob there, and let it relay it to the rest.
    Send { to: String, rest: Vec<String> },
    /// Nobody is left; these have not got it.
    Finished(Vec<FailedNode>),
}

/// What came of a sending.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The node has it, and so have all behind it but for these.
    Done(Vec<FailedNode>),
    /// Somebody else sends it to that node, and it relays it.
    Superseded,
    /// The connection could not be made, or broke.
    Lost(String),
}

#[derive(Debug)]
struct BypassedNode {
    endpoint: String,
    since: Instant,
    reason: String,
}

/// What is known about the node that is being sent to.
#[derive(Debug, Default)]
struct Attempts {
    landed: bool,
    best: Option<u64>,
    connected: Option<Instant>,
    lost: Option<Instant>,
}

impl Chain {
    pub(crate) fn new(chain: Vec<String>, limits: Limits) -> Self {
        Self {
            ahead: chain.into(),
            bypassed: VecDeque::new(),
            failed: Vec::new(),
            current: Attempts::default(),
            limits,
        }
    }

    pub(crate) fn next(&self) -> Step {
        if let Some(to) = self.ahead.front() {
            let (to, rest) = (to.clone(), self.ahead.range(1..).cloned().collect());
            return Step::Send { to, rest };
        }
        match self.bypassed.front() {
            Some(BypassedNode { endpoint, .. }) => Step::Send {
                to: endpoint.clone(),
                rest: Vec::new(),
            },
            None => Step::Finished(self.failed.clone()),
        }
    }

    /// The node has answered, and has that many chunks.
    pub(crate) fn connected(&mut self, have: u64, now: Instant) {
        self.current.connected = Some(now);
        if self.current.best.is_none_or(|best| have > best) {
            self.current.best = Some(have);
            self.current.lost = None;
        }
    }

    /// The node has the whole blob.
    pub(crate) fn landed(&mut self) {
        self.current.landed = true;
    }

    /// The sending ended. Returns whether a node was bypassed with it.
    pub(crate) fn ended(&mut self, outcome: Outcome, now: Instant) -> bool {
        let forward = !self.ahead.is_empty();
        match outcome {
            Outcome::Done(failed) => {
                self.failed.extend(failed);
                self.settle(forward);
                false
            }
            Outcome::Superseded => {
                self.settle(forward);
                false
            }
            Outcome::Lost(reason) if forward => self.lost_ahead(reason, now),
            Outcome::Lost(reason) => {
                self.lost_again(reason, now);
                false
            }
        }
    }

    /// The node has it, and what is behind it is its business.
    fn settle(&mut self, forward: bool) {
        if forward {
            self.ahead.clear();
        } else {
            self.bypassed.pop_front();
        }
        self.current = Attempts::default();
    }

    fn lost_ahead(&mut self, reason: String, now: Instant) -> bool {
        let current = &mut self.current;
        let stayed = current.connected.take();
        if stayed.is_some_and(|since| now.duration_since(since) >= self.limits.bypass) {
            current.lost = None;
        }
        let since = *current.lost.get_or_insert(now);
        if now.duration_since(since) < self.limits.bypass {
            return false;
        }
        let landed = std::mem::take(current).landed;
        let endpoint = self.ahead.pop_front().expect("it was sent to");
        if !landed {
            let bypassed = BypassedNode {
                endpoint,
                since,
                reason,
            };
            self.bypassed.push_back(bypassed);
        }
        true
    }

    fn lost_again(&mut self, reason: String, now: Instant) {
        let mut bypassed = self.bypassed.pop_front().expect("it was sent to");
        let landed = std::mem::take(&mut self.current).landed;
        bypassed.reason = reason;
        if landed {
            return;
        }
        if now.duration_since(bypassed.since) < self.limits.patience {
            self.bypassed.push_back(bypassed);
        } else {
            let BypassedNode {
                endpoint, reason, ..
            } = bypassed;
            self.failed.push(FailedNode { endpoint, reason });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn chain(length: usize) -> (Chain, Instant) {
        let limits = Limits {
            bypass: 2 * SECOND,
            patience: 10 * SECOND,
        };
        let chain = (1..=length).map(|node| node.to_string()).collect();
        (Chain::new(chain, limits), Instant::now())
    }

    fn send(to: &str, rest: &[&str]) -> Step {
        let rest = rest.iter().map(|endpoint| (*endpoint).to_owned()).collect();
        Step::Send {
            to: to.to_owned(),
            rest,
        }
    }

    fn lost() -> Outcome {
        Outcome::Lost("gone".to_owned())
    }

    fn failed(endpoint: &str) -> FailedNode {
        FailedNode {
            endpoint: endpoint.to_owned(),
            reason: "gone".to_owned(),
        }
    }

    #[test]
    fn an_empty_chain_is_finished() {
        assert_eq!(chain(0).0.next(), Step::Finished(Vec::new()));
    }

    #[test]
    fn the_first_one_relays_to_the_rest() {
        let (mut chain, now) = chain(3);
        assert_eq!(chain.next(), send("1", &["2", "3"]));
        chain.connected(0, now);
        chain.landed();
        chain.ended(Outcome::Done(vec![failed("3")]), now);
        assert_eq!(chain.next(), Step::Finished(vec![failed("3")]));
    }

    #[test]
    fn a_short_loss_is_no_bypass() {
        let (mut chain, now) = chain(2);
        assert!(!chain.ended(lost(), now));
        assert!(!chain.ended(lost(), now + SECOND));
        assert_eq!(chain.next(), send("1", &["2"]));
        chain.connected(5, now + SECOND);
        assert!(!chain.ended(lost(), now + 3 * SECOND));
        assert_eq!(chain.next(), send("1", &["2"]));
    }

    #[test]
    fn reconnecting_without_progress_does_not_go_on_for_ever() {
        let (mut chain, now) = chain(2);
        chain.connected(5, now);
        for tenth in 0..20 {
            let now = now + tenth * SECOND / 10;
            assert!(!chain.ended(lost(), now));
            chain.connected(5, now);
        }
        assert!(chain.ended(lost(), now + 2 * SECOND));
        assert_eq!(chain.next(), send("2", &[]));
    }

    #[test]
    fn a_connection_that_held_counts_as_progress() {
        let (mut chain, now) = chain(2);
        chain.connected(5, now);
        assert!(!chain.ended(lost(), now));
        chain.connected(5, now);
        assert!(!chain.ended(lost(), now + 3 * SECOND));
        assert_eq!(chain.next(), send("1", &["2"]));
    }

    #[test]
    fn the_bypassed_are_tried_at_the_end_and_given_up() {
        let (mut chain, now) = chain(3);
        chain.ended(lost(), now);
        assert!(chain.ended(lost(), now + 2 * SECOND));
        assert_eq!(chain.next(), send("2", &["3"]));
        chain.ended(lost(), now + 2 * SECOND);
        assert!(chain.ended(lost(), now + 4 * SECOND));
        assert_eq!(chain.next(), send("3", &[]));
        chain.ended(Outcome::Done(Vec::new()), now + 5 * SECOND);
        assert_eq!(chain.next(), send("1", &[]));
        chain.ended(lost(), now + 6 * SECOND);
        assert_eq!(chain.next(), send("2", &[]));
        chain.connected(0, now + 7 * SECOND);
        chain.ended(Outcome::Done(Vec::new()), now + 7 * SECOND);
        assert_eq!(chain.next(), send("1", &[]));
        chain.ended(lost(), now + 10 * SECOND);
        assert_eq!(chain.next(), Step::Finished(vec![failed("1")]));
    }

    #[test]
    fn the_bypassed_are_tried_at_least_once_more() {
        let (mut chain, now) = chain(2);
        chain.ended(lost(), now);
        chain.ended(lost(), now + 2 * SECOND);
        chain.ended(Outcome::Done(Vec::new()), now + 60 * SECOND);
        assert_eq!(chain.next(), send("1", &[]));
    }

    #[test]
    fn one_that_has_it_is_not_asked_again() {
        let (mut chain, now) = chain(2);
        chain.connected(0, now);
        chain.landed();
        chain.ended(lost(), now);
        assert!(chain.ended(lost(), now + 2 * SECOND));
        assert_eq!(chain.next(), send("2", &[]));
        chain.ended(Outcome::Done(Vec::new()), now + 2 * SECOND);
        assert_eq!(chain.next(), Step::Finished(Vec::new()));
    }

    #[test]
    fn another_sender_takes_over_all_that_is_ahead() {
        let (mut chain, now) = chain(3);
        chain.ended(lost(), now);
        chain.ended(lost(), now + 2 * SECOND);
        chain.ended(Outcome::Superseded, now + 2 * SECOND);
        assert_eq!(chain.next(), send("1", &[]));
        chain.ended(Outcome::Superseded, now + 2 * SECOND);
        assert_eq!(chain.next(), Step::Finished(Vec::new()));
    }
}
