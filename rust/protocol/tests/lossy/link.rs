//! One direction of a bad link.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::random::Random;

/// Carries messages of type `T` from one end to the other, on the true time in ns.
pub struct Link<T> {
    random: Random,
    fault: Fault,
    delay_ns: u64,
    jitter_ns: u64,
    down: bool,
    order: u64,
    last_due_ns: u64,
    on_the_way: BinaryHeap<Reverse<(u64, u64, Held<T>)>>,
}

/// How often, in a thousand messages, what goes wrong.
#[derive(Clone, Copy, Default)]
pub struct Fault {
    pub loss: u64,
    pub repeat: u64,
    pub reorder: u64,
}

impl<T: Copy> Link<T> {
    pub fn new(random: &mut Random, fault: Fault) -> Self {
        Self {
            delay_ns: 10_000 + random.below(20_000_000),
            jitter_ns: random.below(2_000_000),
            random: random.split(),
            fault,
            down: false,
            order: 0,
            last_due_ns: 0,
            on_the_way: BinaryHeap::new(),
        }
    }

    pub fn heal(&mut self) {
        self.fault = Fault::default();
    }

    /// Everything on the way is gone, and what is sent until the repair.
    pub fn cut(&mut self) {
        self.down = true;
        self.on_the_way.clear();
    }

    /// Nothing that is sent from now on arrives.
    pub fn close(&mut self) {
        self.down = true;
    }

    pub fn repair(&mut self) {
        self.down = false;
    }

    pub fn send(&mut self, now_ns: u64, message: T) {
        if self.down || self.random.chance(self.fault.loss) {
            return;
        }
        let copies = 1 + u64::from(self.random.chance(self.fault.repeat));
        for _ in 0..copies {
            let due = now_ns + self.delay_ns + self.random.below(self.jitter_ns);
            let late = self.random.chance(self.fault.reorder);
            let due_ns = if late {
                due + self.random.below(3 * self.delay_ns)
            } else {
                self.last_due_ns = due.max(self.last_due_ns);
                self.last_due_ns
            };
            self.order += 1;
            self.on_the_way
                .push(Reverse((due_ns, self.order, Held(message))));
        }
    }

    pub fn due_ns(&self) -> Option<u64> {
        self.on_the_way.peek().map(|Reverse((due, _, _))| *due)
    }

    pub fn receive(&mut self, now_ns: u64) -> Option<T> {
        if self.due_ns()? > now_ns {
            return None;
        }
        let Reverse((_, _, Held(message))) = self.on_the_way.pop()?;
        Some(message)
    }
}

/// Keeps messages out of the order of the heap.
struct Held<T>(T);

impl<T> PartialEq for Held<T> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl<T> Eq for Held<T> {}

impl<T> PartialOrd for Held<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Held<T> {
    fn cmp(&self, _: &Self) -> std::cmp::Ordering {
        std::cmp::Ordering::Equal
    }
}
