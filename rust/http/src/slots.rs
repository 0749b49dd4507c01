//! Requests under way, each in a slot of its own, so that each ends exactly once.

use crate::board::Board;

/// A number that no other request of the job has: of its gateway, its slot, and how many requests
/// the slot had before.
pub type Id = u64;

/// What waits for the answer of each request under way.
#[derive(Debug)]
pub struct Slots<T> {
    gateway: u16,
    places: Vec<Slot<T>>,
    free: Vec<u32>,
    most: usize,
    board: Option<Board>,
}

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    waiting: Option<T>,
}

impl<T> Slots<T> {
    /// Of the gateway of this number, for so many requests at once, at most [`MOST`].
    pub fn new(gateway: u16, most: usize) -> Self {
        Self {
            gateway,
            places: Vec::new(),
            free: Vec::new(),
            most: most.min(MOST),
            board: None,
        }
    }

    /// With a board of as many slots, which shows what has ended from now on.
    #[must_use]
    pub(crate) fn shown_on(self, board: Option<Board>) -> Self {
        Self { board, ..self }
    }

    /// Begins a request; gives back what would wait where there are too many.
    pub fn begin(&mut self, waiting: T) -> Result<Id, T> {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None if self.places.len() < self.most => {
                self.places.push(Slot {
                    generation: 0,
                    waiting: None,
                });
                self.places.len() as u32 - 1
            }
            None => return Err(waiting),
        };
        self.places[slot as usize].waiting = Some(waiting);
        Ok(self.id(slot))
    }

    fn id(&self, slot: u32) -> Id {
        let generation = self.places[slot as usize].generation;
        u64::from(self.gateway) << GATEWAY_SHIFT
            | u64::from(slot) << SLOT_SHIFT
            | u64::from(generation)
    }

    /// Ends a request with its answer; `None` if it has ended, or never was.
    pub fn end(&mut self, id: Id) -> Option<T> {
        self.end_as(id, false)
    }

    /// Ends a request without an answer; as [`Self::end`].
    pub fn abandon(&mut self, id: Id) -> Option<T> {
        self.end_as(id, true)
    }

    fn end_as(&mut self, id: Id, is_abandoned: bool) -> Option<T> {
        if !self.has(id) {
            return None;
        }
        let slot = slot_of(id);
        let place = &mut self.places[slot as usize];
        place.generation = (place.generation + 1) & GENERATIONS;
        if let Some(board) = &self.board {
            board.end(slot, place.generation, is_abandoned);
        }
        self.free.push(slot);
        place.waiting.take()
    }

    /// What waits for a request under way.
    pub fn get_mut(&mut self, id: Id) -> Option<&mut T> {
        if !self.has(id) {
            return None;
        }
        self.places[slot_of(id) as usize].waiting.as_mut()
    }

    /// Whether a request is under way.
    pub fn has(&self, id: Id) -> bool {
        gateway_of(id) == self.gateway
            && self.places.get(slot_of(id) as usize).is_some_and(|slot| {
                u64::from(slot.generation) == id & u64::from(GENERATIONS) && slot.waiting.is_some()
            })
    }

    /// How many are under way.
    pub fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many can be under way.
    pub fn most(&self) -> usize {
        self.most
    }

    /// Ends all.
    pub fn end_all(&mut self) -> Vec<T> {
        let ids: Vec<_> = (0..self.places.len() as u32)
            .map(|slot| self.id(slot))
            .collect();
        ids.into_iter().filter_map(|id| self.abandon(id)).collect()
    }
}

/// The number of the gateway that a request came in by.
pub fn gateway_of(id: Id) -> u16 {
    (id >> GATEWAY_SHIFT) as u16
}

pub(crate) fn slot_of(id: Id) -> u32 {
    (id >> SLOT_SHIFT) as u32 & SLOTS
}

/// Most requests under way at once.
pub const MOST: usize = SLOTS as usize + 1;
// 15 bits of gateway leave the number positive where it is signed, 24 of slot, 24 of generation.
const GATEWAY_SHIFT: u32 = 48;
const SLOT_SHIFT: u32 = 24;
const SLOTS: u32 = (1 << 24) - 1;
pub(crate) const GENERATIONS: u32 = (1 << 24) - 1;

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Requests that begin and end in any order, some of them twice: each ends once, with what
        /// waited for it.
        #[test]
        fn each_ends_once(steps in prop::collection::vec((any::<bool>(), any::<prop::sample::Index>()), 0..200)) {
            let mut slots = Slots::new(7, 5);
            let (mut known, mut under_way) = (Vec::new(), HashMap::new());
            for (number, (begins, which)) in steps.into_iter().enumerate() {
                if begins {
                    match slots.begin(number) {
                        Ok(id) => {
                            prop_assert_eq!(gateway_of(id), 7);
                            prop_assert!(!known.contains(&id));
                            known.push(id);
                            under_way.insert(id, number);
                        }
                        Err(back) => {
                            prop_assert_eq!(back, number);
                            prop_assert_eq!(under_way.len(), 5);
                        }
                    }
                } else if !known.is_empty() {
                    let id = known[which.index(known.len())];
                    let ended = if number % 2 == 0 {
                        slots.end(id)
                    } else {
                        slots.abandon(id)
                    };
                    prop_assert_eq!(ended, under_way.remove(&id));
                }
                prop_assert_eq!(slots.len(), under_way.len());
                prop_assert!(known.iter().all(|id| slots.has(*id) == under_way.contains_key(id)));
            }
            let mut left = slots.end_all();
            left.sort_unstable();
            let mut expected: Vec<_> = under_way.into_values().collect();
            expected.sort_unstable();
            prop_assert_eq!(left, expected);
            prop_assert!(slots.is_empty());
        }

        #[test]
        fn no_number_is_believed(id in any::<u64>()) {
            let mut slots = Slots::new(0, 3);
            let begun = slots.begin(()).unwrap();
            prop_assert_eq!(slots.end(id).is_some(), id == begun);
        }
    }
}
