//! Windows without values: others keep the values, by the numbers that this gives them.

mod counted;
mod keys;
mod sessions;
mod sliced;

use self::counted::Counted;
use self::sessions::Sessions;
use self::sliced::Sliced;
use crate::assigner::Assigner;
use crate::compact::{Live, is_worth_it};
use crate::slices::Miss;
use crate::windows::{Window, is_near};

/// The windows of keys that have numbers.
///
/// The value of a key in a slice, a session or a count window has a number, too: the next one, when its
/// first record comes. Others keep values by these numbers. This says for each record to which values it
/// is added, which values merge, and which values make a result. Numbers are not used again until
/// [`Self::compact`] renumbers the values that are left.
///
/// Each record has the form of its time, whatever that is: a window has that of its first record.
///
/// ```
/// use oka_window::{Assigner, Numbered, Numbers, Intake};
///
/// let gap = Assigner::sessions(10).expect("a gap");
/// let (mut windows, mut taken) = (Numbered::new(gap, 0, false), Intake::default());
/// for time in [100, 115, 107] {
///     windows.add(0, time, 0, &mut taken).expect("in time");
/// }
/// assert_eq!(taken.numbers, [0, 1, 0]);
/// assert_eq!(taken.stops[0].joined, Some((0, 1)));
/// windows.advance(200);
/// assert_eq!(windows.complete(9)[0].numbers, Numbers::One(0));
/// ```
#[derive(Debug)]
pub struct Numbered {
    assigner: Assigner,
    lateness: u64,
    tells_changes: bool,
    /// What times of the windows are counted from: 0, unless the first time was too far from that.
    base: i128,
    watermark: Option<i128>,
    kind: Kind,
}

#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a task has one of them")]
enum Kind {
    Sliced(Sliced),
    Sessions(Sessions),
    Counted(Counted),
}

/// Does the same with whatever kind it is.
macro_rules! each {
    ($kind:expr, $windows:ident => $does:expr) => {
        match $kind {
            Kind::Sliced($windows) => $does,
            Kind::Sessions($windows) => $does,
            Kind::Counted($windows) => $does,
        }
    };
}

/// What is to be done with records, in their order.
#[derive(Debug, Default)]
pub struct Intake {
    /// To which values each is added: one, or those of all count windows that it is in. The next number
    /// begins one.
    pub numbers: Vec<u32>,
    /// What is to be done between records.
    pub stops: Vec<Stop>,
    /// Count windows that are full. No record is added to them any more.
    pub full: Vec<Given>,
}

impl Intake {
    pub fn clear(&mut self) {
        self.numbers.clear();
        self.stops.clear();
        self.full.clear();
    }

    fn stop(&mut self, joined: Option<(u32, u32)>, given: Vec<Given>) {
        let behind = self.numbers.len();
        self.stops.push(Stop {
            behind,
            joined,
            given,
        });
    }
}

/// What is to be done when so many of the numbers were added to.
#[derive(Debug)]
pub struct Stop {
    pub behind: usize,
    /// The first value becomes that of both, and the second is of no use any more.
    pub joined: Option<(u32, u32)>,
    /// Windows that were complete, and have changed.
    pub given: Vec<Given>,
}

/// A window whose value is to be given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    pub key: u32,
    /// Counted from [`Numbered::base`].
    pub window: Window,
    pub form: u32,
    pub numbers: Numbers,
}

/// The values that make that of a window, the earliest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Numbers {
    One(u32),
    Several(Vec<u32>),
}

impl Numbers {
    fn push(&mut self, number: u32) {
        match self {
            Self::One(first) => *self = Self::Several(vec![*first, number]),
            Self::Several(numbers) => numbers.push(number),
        }
    }
}

/// What a record that has not come would be added to, as [`Intake`] has it.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Trial {
    pub numbers: Vec<u32>,
    /// The number of a value that would become one with the first.
    pub joined: Option<u32>,
}

/// A value that is kept. Of a slice, the end says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    pub key: u32,
    /// Counted from [`Numbered::base`].
    pub window: Window,
    pub form: u32,
    pub number: u32,
}

impl Numbered {
    /// With `tells_changes`, windows that changed come by [`Self::changed`], and when they are complete
    /// or gone only if they changed since; else they come when they are complete, and with each late
    /// record again that still counts. `lateness` is for how long complete windows are kept.
    pub fn new(assigner: Assigner, lateness: u64, tells_changes: bool) -> Self {
        Self {
            assigner,
            lateness,
            tells_changes,
            base: 0,
            watermark: None,
            kind: Kind::new(assigner, lateness, tells_changes),
        }
    }

    /// Takes in a record of a key at a time, with the form of that.
    #[inline]
    pub fn add(&mut self, key: u32, time: i128, form: u32, taken: &mut Intake) -> Result<(), Miss> {
        let time = self.near(time)?;
        match &mut self.kind {
            Kind::Sliced(windows) => windows.add(key, time, form, taken),
            Kind::Sessions(windows) => windows.add(key, time, form, taken),
            Kind::Counted(windows) => {
                windows.add(key, taken);
                Ok(())
            }
        }
    }

    /// What [`Self::add`] would do with a record; it changes nothing.
    pub fn trial(&mut self, key: u32, time: i128) -> Result<Trial, Miss> {
        let time = self.near(time)?;
        match &self.kind {
            Kind::Sliced(windows) => windows.trial(key, time),
            Kind::Sessions(windows) => windows.trial(key, time),
            Kind::Counted(windows) => Ok(windows.trial(key)),
        }
    }

    /// Says that event time has come here; what is lower than before changes nothing. [`i64::MAX`] is
    /// the end of all records, at which count windows are complete.
    pub fn advance(&mut self, watermark: i128) {
        self.watermark = self.watermark.max(Some(watermark));
        let watermark = from_base(watermark, self.base);
        each!(&mut self.kind, windows => windows.advance(watermark));
    }

    /// How far event time has come; `None` before the first watermark.
    pub fn watermark(&self) -> Option<i128> {
        self.watermark
    }

    /// At most so many windows that are complete now and were not before, in the order of their ends;
    /// none if there is no other. Until then, no record may come.
    pub fn complete(&mut self, most: usize) -> Vec<Given> {
        each!(&mut self.kind, windows => windows.complete(most))
    }

    /// The windows that changed and were not given since, in the order of their ends.
    pub fn changed(&mut self) -> Vec<Given> {
        each!(&mut self.kind, windows => windows.changed())
    }

    /// Whether [`Self::changed`] may have some.
    pub fn has_changed(&self) -> bool {
        each!(&self.kind, windows => windows.has_changed())
    }

    /// The numbers of values that are of no use any more since this was called.
    pub fn take_gone(&mut self) -> Vec<u32> {
        each!(&mut self.kind, windows => windows.take_gone())
    }

    /// If the values that are left are few among those that had numbers, or so are the keys, of which
    /// so many have numbers: those left. Their places are their numbers from now on.
    pub fn compact(&mut self, keys: usize) -> Option<Live> {
        let (alive, all) = each!(&self.kind, windows => (windows.alive(), windows.all()));
        let keeps_keys = matches!(&self.kind, Kind::Counted(windows) if windows.keeps_keys());
        let keys_to_go = if keeps_keys { 0 } else { keys };
        let is_empty = alive == 0 && all + keys_to_go > 0;
        let is_worth_it = is_worth_it(alive, all) || keys_to_go > 2 * (alive + FEWEST_KEYS);
        (is_empty || is_worth_it).then(|| each!(&mut self.kind, windows => windows.compact(keys)))
    }

    /// Whether a window has this time; else it lies in a gap between two.
    pub fn has(&self, time: i128) -> bool {
        match (self.assigner, i64::try_from(time - self.base)) {
            (Assigner::Sliced(windows), Ok(near)) => windows.has(near),
            _ => true,
        }
    }

    /// What times in windows are counted from.
    pub fn base(&self) -> i128 {
        self.base
    }

    /// All values that are kept, in any order.
    pub fn parts(&self) -> Vec<Part> {
        each!(&self.kind, windows => windows.parts())
    }

    /// By its number, how many records each key had, where that is kept.
    pub fn counts(&self) -> Option<&[i64]> {
        match &self.kind {
            Kind::Counted(windows) => Some(windows.counts()),
            _ => None,
        }
    }

    /// Goes on with the count of a key, behind its windows.
    pub fn restore_count(&mut self, key: u32, count: i64) {
        if let Kind::Counted(windows) = &mut self.kind {
            windows.restore_count(key, count);
        }
    }

    /// Goes on with what was kept of a key from the start on, up to the end of a session: its number.
    /// The watermark is how far event time had come. Before the first record, and in the order of time;
    /// [`Self::restored`] is to be called behind the last.
    pub fn restore(
        &mut self,
        key: u32,
        (start, end): (i128, i128),
        form: u32,
        watermark: Option<i128>,
    ) -> Result<u32, Miss> {
        let start = self.near(start)?;
        let end = from_base(end, self.base);
        let base = self.base;
        let watermark = watermark.map(|watermark| from_base(watermark, base));
        match &mut self.kind {
            Kind::Sliced(windows) => windows.restore(key, start, form),
            Kind::Sessions(windows) => {
                Ok(windows.restore(key, Window { start, end }, form, watermark))
            }
            Kind::Counted(windows) => Ok(windows.restore(key, start)),
        }
    }

    /// All is restored, and event time had come here.
    pub fn restored(&mut self, watermark: Option<i128>) {
        let Some(watermark) = watermark else {
            return;
        };
        self.watermark = self.watermark.max(Some(watermark));
        let watermark = from_base(watermark, self.base);
        match &mut self.kind {
            Kind::Sliced(windows) => windows.go_on_from(watermark),
            Kind::Sessions(windows) => windows.advance(watermark),
            Kind::Counted(_) => {}
        }
    }

    /// A time, counted from the base.
    #[inline]
    fn near(&mut self, time: i128) -> Result<i64, Miss> {
        match i64::try_from(time - self.base) {
            Ok(near) if is_near(near) => Ok(near),
            _ => self.near_anew(time),
        }
    }

    /// As long as there is nothing yet, times may be counted from wherever records begin: the end of
    /// what 64 bits of milliseconds tell is far from 1970, and is a time.
    #[cold]
    fn near_anew(&mut self, time: i128) -> Result<i64, Miss> {
        let all = each!(&self.kind, windows => windows.all());
        let slide = match self.assigner {
            Assigner::Sliced(windows) => windows.slide().ok_or(Miss::Far)?,
            Assigner::Sessions { .. } => 1,
            Assigner::Counted { .. } => return Err(Miss::Far),
        };
        if all > 0 || time.checked_abs().is_none_or(|time| time > i128::MAX / 2) {
            return Err(Miss::Far);
        }
        self.base = time - time.rem_euclid(slide.into());
        self.kind = Kind::new(self.assigner, self.lateness, self.tells_changes);
        if let Some(watermark) = self.watermark {
            let watermark = from_base(watermark, self.base);
            each!(&mut self.kind, windows => windows.advance(watermark));
            self.complete(1);
        }
        Ok((time - self.base) as i64)
    }
}

impl Kind {
    fn new(assigner: Assigner, lateness: u64, tells_changes: bool) -> Self {
        match assigner {
            Assigner::Sliced(windows) => {
                Self::Sliced(Sliced::new(windows, lateness, tells_changes))
            }
            Assigner::Sessions { gap, inclusive } => {
                let spans = crate::sessions::Sessions::new(gap, lateness, tells_changes);
                Self::Sessions(Sessions::new(
                    spans.inclusive(inclusive),
                    lateness,
                    tells_changes,
                ))
            }
            Assigner::Counted { size, slide } => {
                Self::Counted(Counted::new(size, slide, tells_changes))
            }
        }
    }
}

/// Counted from a base; as near as that can be.
fn from_base(time: i128, base: i128) -> i64 {
    let near = time.saturating_sub(base);
    near.clamp(i64::MIN.into(), i64::MAX.into()) as i64
}

/// Fewer keys are kept, whatever is left of them.
const FEWEST_KEYS: usize = 1024;
