use oka_protocol::FRAME_BYTES;
use oka_ring::{MARKS, Marked};

use super::RingInput;
use crate::{ChannelLost, InputStatistics, Received};

/// All input channels of a task in shared memory.
///
/// Looks only into those that may have something: senders leave a mark when they ring.
#[derive(Default)]
pub(crate) struct RingInputs {
    slots: Vec<Slot>,
    /// Which of them may have something.
    ready: Vec<bool>,
    /// Which of them are left alone: what they have stays where it is, and so does `ready`.
    paused: Vec<bool>,
    /// Which of them are a side input, and share no batch with others.
    side: Vec<bool>,
    /// For each mark, the channels whose senders leave it.
    of_mark: Vec<Vec<usize>>,
    /// The channel to look at first, so that every one has its turn.
    next: usize,
}

/// A channel: its sender comes when it is ready.
enum Slot {
    Expected(u32),
    Attached(RingInput),
    /// Everything was consumed; the ring is gone.
    Ended(InputStatistics),
}

impl RingInputs {
    pub(crate) fn new(channels: &[u32]) -> Self {
        Self {
            slots: channels.iter().copied().map(Slot::Expected).collect(),
            ready: vec![false; channels.len()],
            paused: vec![false; channels.len()],
            side: vec![false; channels.len()],
            of_mark: vec![Vec::new(); MARKS],
            next: 0,
        }
    }

    /// The sender of a channel is there; it leaves this mark.
    pub(crate) fn attach(&mut self, input: usize, ring: RingInput, mark: usize) {
        self.slots[input] = Slot::Attached(ring);
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

    /// Leaves a channel alone from now on, or no longer.
    pub(crate) fn set_paused(&mut self, input: usize, paused: bool) {
        self.paused[input] = paused;
    }

    /// Makes a channel one of a side input, or no longer.
    pub(crate) fn set_side(&mut self, input: usize, side: bool) {
        self.side[input] = side;
    }

    /// Whether every channel that is not paused has ended.
    pub(crate) fn others_ended(&self) -> bool {
        self.ended_but_for(&self.paused)
    }

    /// Whether every channel that is of no side input has ended.
    pub(crate) fn main_ended(&self) -> bool {
        self.ended_but_for(&self.side)
    }

    fn ended_but_for(&self, excepted: &[bool]) -> bool {
        let mut slots = self.slots.iter().zip(excepted);
        slots.all(|(slot, excepted)| *excepted || matches!(slot, Slot::Ended(_)))
    }

    /// Takes in the marks that senders have left.
    pub(crate) fn mark(&mut self, marked: Marked) {
        for input in marked.filter_map(|mark| self.of_mark.get(mark)).flatten() {
            self.ready[*input] = true;
        }
    }

    /// What has arrived, as one batch: what comes in many small pieces, from many senders, would
    /// cost the task a turn of its loop for each.
    pub(crate) fn take(&mut self) -> Result<Option<Received>, ChannelLost> {
        let mut batch: Option<Received> = None;
        let first = self.next;
        self.next = (first + 1) % self.slots.len().max(1);
        for input in (first..self.slots.len()).chain(0..first) {
            if !self.ready[input] || (self.side[input] && batch.is_some()) {
                continue;
            }
            let Slot::Attached(ring) = &mut self.slots[input] else {
                continue;
            };
            if self.paused[input] {
                if ring.take_end()? {
                    self.slots[input] = Slot::Ended(ring.statistics());
                }
                continue;
            }
            let room = FRAME_BYTES.saturating_sub(batch.as_ref().map_or(0, Received::size));
            if room == 0 {
                break;
            }
            let taken = match &batch {
                None => ring.take()?,
                Some(batch) => ring.take_small(batch.encoding, room)?,
            };
            if ring.is_idle() {
                self.ready[input] = false;
                if ring.is_ended() {
                    self.slots[input] = Slot::Ended(ring.statistics());
                }
            }
            match (&mut batch, taken) {
                (Some(batch), Some(taken)) => batch.absorb(taken),
                (None, Some(taken)) => batch = Some(taken),
                (_, None) => {}
            }
            if self.side[input] && batch.is_some() {
                break;
            }
        }
        Ok(batch)
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

#[cfg(test)]
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
        let mut inputs = RingInputs::new(&[7, 8]);
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
        assert_eq!(inputs.take().unwrap(), None);
        assert!(matches!(inputs.slots[0], Slot::Ended(_)));
        doorbell.ring_with(3);
        inputs.mark(doorbell.take_marks());
        assert_eq!(inputs.take().unwrap(), None);
        assert!(matches!(inputs.slots[0], Slot::Ended(_)));
    }
}
