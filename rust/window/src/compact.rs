//! Which keys and windows are left of those that had numbers, once most are gone.

/// The numbers, in order, of keys and of windows that there are still.
///
/// Keys and windows keep their numbers for as long as they are, and others keep what belongs to them
/// in arrays. Numbers of what is gone are not used again: when they are most of all, the others get
/// new ones, and all arrays are made anew. So each costs no more than what made it necessary.
#[derive(Debug)]
pub struct Live {
    pub keys: Vec<usize>,
    pub windows: Vec<usize>,
}

impl Live {
    /// By its number of before, the place of each window among those left; `NONE` of the others.
    pub(crate) fn places(&self, windows: usize) -> Vec<u32> {
        let mut places = vec![NONE; windows];
        for (place, number) in (0..).zip(&self.windows) {
            places[*number] = place;
        }
        places
    }
}

/// Whether those that are left are few among all that had numbers, so that the others are worth
/// forgetting.
pub(crate) fn is_worth_it(alive: usize, all: usize) -> bool {
    all - alive > alive + FEWEST_GONE
}

/// Those left; `last` is by the number of a key, and `NONE` where it is gone.
pub(crate) fn live(are_alive: impl Iterator<Item = bool>, last: &[u32]) -> Live {
    let numbers = |are: &mut dyn Iterator<Item = bool>| {
        let numbered = are.enumerate().filter(|(_, is)| *is);
        numbered.map(|(number, _)| number).collect()
    };
    Live {
        keys: numbers(&mut last.iter().map(|number| *number != NONE)),
        windows: numbers(&mut { are_alive }),
    }
}

/// Says which window of a key is its last.
pub(crate) fn set_last(last: &mut Vec<u32>, key: usize, number: u32) {
    if last.len() <= key {
        last.resize(key + 1, NONE);
    }
    last[key] = number;
}

/// No number.
pub(crate) const NONE: u32 = u32::MAX;

const FEWEST_GONE: usize = 1024;
