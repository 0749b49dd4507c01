//! Where objects of Python's classes have their fields, which travel by order and not by name.
//!
//! This crate calls no Python: who does says which names a class has, once per process.

use std::cell::RefCell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The names of a class's fields, in the order in which its objects have them.
pub type Names = &'static [Box<[u8]>];

/// Gives the names of the class that an encoded reference stands for; `None` if there is none.
pub type Resolve = fn(reference: &[u8]) -> Option<Names>;

/// Says who knows; the first one counts.
pub fn resolve_by(resolve: Resolve) {
    RESOLVE.get_or_init(|| resolve);
}

/// Has all that was resolved be asked for again: a reference may stand for another class by now.
pub fn forget() {
    GENERATION.fetch_add(1, Ordering::Release);
}

/// The names of the class that an encoded reference stands for.
pub(crate) fn names_of(reference: &[u8]) -> Option<Names> {
    let generation = GENERATION.load(Ordering::Acquire);
    LAST.with_borrow_mut(|last| {
        if last.generation == generation && *last.reference == *reference {
            return Some(last.names);
        }
        let names = RESOLVE.get()?(reference)?;
        *last = Last {
            // Not later than the question.
            generation,
            reference: reference.into(),
            names,
        };
        Some(names)
    })
}

/// What a thread asked for last: most streams have records of one class.
struct Last {
    generation: usize,
    reference: Box<[u8]>,
    names: Names,
}

static RESOLVE: OnceLock<Resolve> = OnceLock::new();
static GENERATION: AtomicUsize = AtomicUsize::new(1);
thread_local! {
    static LAST: RefCell<Last> = RefCell::new(Last {
        generation: 0,
        reference: Box::default(),
        names: &[],
    });
}
