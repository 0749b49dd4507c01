//! All input channels of one task in shared memory.

use oka_protocol::{Alignment, FRAME_BYTES};
use oka_ring::{MARKS, TakenMarks};

use super::RingInput;
use crate::{ChannelLost, InputStatistics, ReceivedFrames};

/// All input channels of a task in shared memory.
///
/// Looks only into those that may have something: senders leave a mark when they ring.
#[derive(Default)]
pub(crate) struct RingInputs {
    slots: Vec<Slot>,
    /// Which of them may have something.
    ready: Vec<bool>,
    /// The input of the task that each belongs to: batches hold records of one.
    input_of: Vec<usize>,
    /// For each mark, the channels whose senders leave it.
    of_mark: Vec<Vec<usize>>,
    /// The channel to look at first, so that every one has its turn.
    next: usize,
}

/// A channel: its sender comes when it is ready.
enum Slot {
    Expected(u32),
    Attached(Box<RingInput>),
    /// Everything was consumed; the ring is gone.
    Ended(InputStatistics),
}

impl RingInputs {
    /// Channels by their ids, with the inputs that they belong to.
    pub(crate) fn new(channels: &[(u32, usize)]) -> Self {
        let slots = channels.iter().map(|(id, _)| Slot::Expected(*id));
        Self {
            slots: slots.collect(),
            ready: vec![false; channels.len()],
            input_of: channels.iter().map(|(_, input)| *input).collect(),
            of_mark: vec![Vec::new(); MARKS],
            next: 0,
        }
    }

    /// The sender of a channel is there; it leaves this mark.
    pub(crate) fn attach(&mut self, input: usize, ring: RingInput, mark: usize) {
        self.slots[input] = Slot::Attached(Box::new(ring));
        self.of_mark[mark].push(input);
        // What it wrote and marked before is not known yet.
        self.ready[input] = true;
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// The place of a channel among these.
    pub(crate) fn position(&self, channel: u32) -> Option<usize> {
        self.slots.iter().position(|slot| slot.channel() == channel)
    }

    /// Takes in the marks that senders have left.
    pub(crate) fn mark(&mut self, marked: TakenMarks) {
        for input in marked.filter_map(|mark| self.of_mark.get(mark)).flatten() {
            self.ready[*input] = true;
        }
    }

    /// What has arrived of an input, as one batch: what comes in many small pieces, from many senders,
    /// would cost the task a turn of its loop for each. These channels are the first of `alignment`,
    /// which takes in what comes between the records.
    pub(crate) fn take(
        &mut self,
        alignment: &mut Alignment,
    ) -> Result<Option<ReceivedFrames>, ChannelLost> {
        let mut batch: Option<ReceivedFrames> = None;
        let first = self.next;
        self.next = (first + 1) % self.slots.len().max(1);
        for place in (first..self.slots.len()).chain(0..first) {
            if !self.ready[place] {
                continue;
            }
            let Slot::Attached(ring) = &mut self.slots[place] else {
                continue;
            };
            if alignment.is_held(place) {
                if alignment.may_end(place) && ring.take_end()? {
                    self.end(place, alignment);
                }
                continue;
            }
            let room = FRAME_BYTES.saturating_sub(batch.as_ref().map_or(0, ReceivedFrames::size));
            if room == 0 {
                break;
            }
            let taken = match &batch {
                None => ring.take()?,
                Some(batch) if batch.input != self.input_of[place] => continue,
                Some(batch) => ring.take_small(batch.encoding, room)?,
            };
            if taken.is_some() {
                alignment.on_records(place);
            }
            for control in ring.take_trailer().iter() {
                alignment.on_control(place, control);
            }
            if ring.is_idle() {
                self.ready[place] = false;
                if ring.is_ended() {
                    self.end(place, alignment);
                }
            }
            match (&mut batch, taken) {
                (Some(batch), Some(taken)) => batch.absorb(taken),
                (None, Some(mut taken)) => {
                    taken.input = self.input_of[place];
                    batch = Some(taken);
                }
                (_, None) => {}
            }
        }
        Ok(batch)
    }

    fn end(&mut self, place: usize, alignment: &mut Alignment) {
        if let Slot::Attached(ring) = &self.slots[place] {
            self.slots[place] = Slot::Ended(ring.statistics());
            alignment.on_end(place);
        }
    }

    /// Bytes of records that were taken of each.
    pub(crate) fn consumed_bytes(&self) -> impl Iterator<Item = u64> {
        self.slots.iter().map(|slot| match slot {
            Slot::Expected(_) => 0,
            Slot::Attached(ring) => ring.consumed_bytes(),
            Slot::Ended(statistics) => statistics.bytes,
        })
    }

    /// Has the writer of a channel wait while more than so many bytes are here.
    pub(crate) fn set_window(&mut self, input: usize, bytes: u64) {
        if let Slot::Attached(ring) = &mut self.slots[input] {
            ring.set_window(bytes);
        }
    }

    pub(crate) fn statistics(&self) -> impl Iterator<Item = InputStatistics> {
        self.slots.iter().map(|slot| match slot {
            Slot::Expected(channel) => InputStatistics {
                channel: *channel,
                ..InputStatistics::default()
            },
            Slot::Attached(ring) => ring.statistics(),
            Slot::Ended(statistics) => statistics.clone(),
        })
    }
}

impl Slot {
    fn channel(&self) -> u32 {
        match self {
            Self::Expected(channel) => *channel,
            Self::Attached(ring) => ring.channel(),
            Self::Ended(statistics) => statistics.channel,
        }
    }
}

#[cfg(all(test, target_os = "linux", not(feature = "portable")))]
mod tests {
    use std::sync::Arc;

    use oka_protocol::{FrameHeader, FrameKind};
    use oka_ring::{Doorbell, Ring, SharedBell, SharedRing, Writer};

    use super::*;

    #[test]
    fn a_channel_that_rings_late_ends_once() {
        let doorbell = Arc::new(Doorbell::new(SharedBell::create().unwrap().0));
        let (ring, descriptor) = SharedRing::create(65_536).unwrap();
        // SAFETY: the only writer.
        let mut writer =
            unsafe { Writer::new(Arc::new(Ring::new(SharedRing::open(&descriptor).unwrap()))) };
        let mut inputs = RingInputs::new(&[(7, 0), (8, 0)]);
        let mut alignment = Alignment::new(2);
        let input = RingInput::new(
            7,
            "peer".to_owned(),
            ring,
            Arc::clone(&doorbell),
            Arc::default(),
            0,
            1_000,
        );
        inputs.attach(0, input, 3);
        let end = FrameHeader::new(FrameKind::End, 7, 0, 1);
        writer.write(&end.encode());
        writer.publish();
        assert_eq!(inputs.take(&mut alignment).unwrap(), None);
        assert!(matches!(inputs.slots[0], Slot::Ended(_)));
        doorbell.ring_with(3);
        inputs.mark(doorbell.take_marks());
        assert_eq!(inputs.take(&mut alignment).unwrap(), None);
        assert!(matches!(inputs.slots[0], Slot::Ended(_)));
        assert!(alignment.is_ended(0) && !alignment.main_ended());
    }
}
