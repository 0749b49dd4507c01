//! Numbers within a span, in their order.

use crate::accumulator::quantile::quantile;

/// Numbers in blocks, of which each has those behind the block before it. Taking one in or out costs a block, and
/// finding one by its place a look at the length of each block.
#[derive(Debug, Default)]
pub(super) struct Sorted {
    blocks: Vec<Vec<f64>>,
    len: usize,
    /// How many NaN there are beside them.
    nan: usize,
}

impl Sorted {
    pub(super) fn add(&mut self, number: f64) {
        if number.is_nan() {
            self.nan += 1;
            return;
        }
        self.len += 1;
        let at = self.block(number).min(self.blocks.len().saturating_sub(1));
        let Some(block) = self.blocks.get_mut(at) else {
            self.blocks.push(vec![number]);
            return;
        };
        block.insert(
            block.partition_point(|other| other.total_cmp(&number).is_lt()),
            number,
        );
        if block.len() > MOST {
            let behind = block.split_off(MOST / 2);
            self.blocks.insert(at + 1, behind);
        }
    }

    /// Takes out a number that is here.
    pub(super) fn remove(&mut self, number: f64) {
        if number.is_nan() {
            self.nan -= 1;
            return;
        }
        self.len -= 1;
        let at = self.block(number);
        let block = &mut self.blocks[at];
        block.remove(block.partition_point(|other| other.total_cmp(&number).is_lt()));
        if block.is_empty() {
            self.blocks.remove(at);
        }
    }

    /// The quantile at this share, as [`crate::quantiles`] has it.
    pub(super) fn quantile(&self, share: f64) -> f64 {
        let count = if self.nan > 0 { 0 } else { self.len };
        quantile(count, share, |place| self.get(place))
    }

    fn get(&self, mut place: usize) -> f64 {
        for block in &self.blocks {
            match block.get(place) {
                Some(number) => return *number,
                None => place -= block.len(),
            }
        }
        f64::NAN
    }

    /// The first block that ends with this number or one behind it.
    fn block(&self, number: f64) -> usize {
        let is_before = |block: &Vec<f64>| {
            let last = block.last();
            last.is_some_and(|last| last.total_cmp(&number).is_lt())
        };
        self.blocks.partition_point(is_before)
    }
}

/// Numbers in a block.
const MOST: usize = 512;
