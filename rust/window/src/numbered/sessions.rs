//! Sessions whose values others keep.

use super::{Given, Intake, Numbers, Part, Trial};
use crate::compact::Live;
use crate::sessions::Placement;
use crate::slices::Miss;
use crate::spans::Spans;
use crate::windows::Window;

#[derive(Debug)]
pub(super) struct Sessions {
    spans: crate::sessions::Sessions,
    /// By the number of the session.
    forms: Vec<u32>,
    tells_changes: bool,
    /// Whether a record may change a session that was given.
    gives_again: bool,
    gone: Vec<u32>,
}

impl Sessions {
    pub(super) fn new(
        spans: crate::sessions::Sessions,
        lateness: u64,
        tells_changes: bool,
    ) -> Self {
        Self {
            spans,
            forms: Vec::new(),
            tells_changes,
            gives_again: lateness > 0 && !tells_changes,
            gone: Vec::new(),
        }
    }

    #[inline]
    pub(super) fn add(
        &mut self,
        key: u32,
        time: i64,
        form: u32,
        taken: &mut Intake,
    ) -> Result<(), Miss> {
        let number = match self.spans.add(key as usize, time)? {
            Placement::Grown(number) => number,
            Placement::Begun(number) => {
                self.forms.push(form);
                number
            }
            Placement::Joined { into, from } => {
                taken.numbers.push(into as u32);
                let joined = Some((into as u32, from as u32));
                let given = self.again(into).into_iter().collect();
                taken.stop(joined, given);
                return Ok(());
            }
        };
        taken.numbers.push(number as u32);
        if self.gives_again
            && let Some(given) = self.again(number)
        {
            taken.stop(None, vec![given]);
        }
        Ok(())
    }

    pub(super) fn trial(&self, key: u32, time: i64) -> Result<Trial, Miss> {
        let met: Vec<_> = self.spans.met(key as usize, time).collect();
        match met[..] {
            [] => {
                self.spans.check(time)?;
                let numbers = vec![self.forms.len() as u32];
                Ok(Trial {
                    numbers,
                    joined: None,
                })
            }
            [number] => Ok(Trial {
                numbers: vec![number as u32],
                joined: None,
            }),
            [last, before, ..] => Ok(Trial {
                numbers: vec![before as u32],
                joined: Some(last as u32),
            }),
        }
    }

    pub(super) fn advance(&mut self, watermark: i64) {
        self.spans.advance(watermark);
    }

    pub(super) fn complete(&mut self, most: usize) -> Vec<Given> {
        let mut given = Vec::new();
        while given.len() < most
            && let Some(ended) = self.spans.next_ended()
        {
            if ended.is_gone {
                self.gone.push(ended.number as u32);
            }
            if ended.is_given {
                given.push(self.given(ended.number));
            }
        }
        given
    }

    pub(super) fn changed(&mut self) -> Vec<Given> {
        let changed = self.spans.take_changed().into_iter();
        changed.map(|number| self.given(number)).collect()
    }

    pub(super) fn has_changed(&self) -> bool {
        self.spans.has_changed()
    }

    pub(super) fn take_gone(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.gone)
    }

    pub(super) fn alive(&self) -> usize {
        self.spans.len()
    }

    pub(super) fn all(&self) -> usize {
        self.forms.len()
    }

    pub(super) fn compact(&mut self, _: usize) -> Live {
        let live = self.spans.live();
        let keys: Vec<_> = (0..live.keys.len()).collect();
        self.spans.renumber(&live, &keys);
        self.forms = (live.windows.iter())
            .map(|number| self.forms[*number])
            .collect();
        live
    }

    pub(super) fn parts(&self) -> Vec<Part> {
        let numbers = self.spans.numbers();
        numbers.map(|number| self.part(number)).collect()
    }

    pub(super) fn restore(
        &mut self,
        key: u32,
        span: Window,
        form: u32,
        watermark: Option<i64>,
    ) -> u32 {
        self.forms.push(form);
        self.spans.restore(key as usize, span, watermark) as u32
    }

    /// What is to be given of a session that a record has changed.
    fn again(&mut self, number: usize) -> Option<Given> {
        if self.tells_changes || !self.spans.is_complete(number) {
            return None;
        }
        self.spans.take_changed();
        Some(self.given(number))
    }

    fn given(&self, number: usize) -> Given {
        let Part {
            key,
            window,
            form,
            number,
        } = self.part(number);
        Given {
            key,
            window,
            form,
            numbers: Numbers::One(number),
        }
    }

    fn part(&self, number: usize) -> Part {
        Part {
            key: self.spans.key(number) as u32,
            window: self.spans.window(number),
            form: self.forms[number],
            number: number as u32,
        }
    }
}
