//! Events of one kind as columns: those of numbers, and behind them those of texts.

use std::io::{self, Write};

use nexmark::event::Event;

/// Rows of one kind. `pipelines/nexmark/events.py` names the columns, in this order.
#[derive(Default)]
pub struct Block {
    rows: u64,
    numbers: Vec<Vec<i64>>,
    texts: Vec<Texts>,
}

/// A column of texts: where each ends, and all of them.
#[derive(Default)]
struct Texts {
    ends: Vec<i32>,
    bytes: Vec<u8>,
}

impl Block {
    /// Add an event, of the same kind as those before.
    pub fn push(&mut self, event: Event) {
        self.rows += 1;
        match event {
            Event::Person(it) => {
                self.numbers([it.id as u64, it.date_time]);
                let address = [&it.email_address, &it.credit_card, &it.city, &it.state];
                self.texts([&it.name].into_iter().chain(address).chain([&it.extra]));
            }
            Event::Auction(it) => {
                let (id, seller, category) = (it.id as u64, it.seller as u64, it.category as u64);
                let prices = [it.initial_bid as u64, it.reserve as u64];
                let times = [it.date_time, it.expires];
                let numbers = [id].into_iter().chain(prices).chain(times);
                self.numbers(numbers.chain([seller, category]));
                self.texts([&it.item_name, &it.description, &it.extra]);
            }
            Event::Bid(it) => {
                let bid = [it.auction as u64, it.bidder as u64, it.price as u64];
                self.numbers(bid.into_iter().chain([it.date_time]));
                self.texts([&it.channel, &it.url, &it.extra]);
            }
        }
    }

    /// Write it: the number of rows in 8 bytes; of each column of numbers 8 bytes a row; of each of
    /// texts 4 for where the first begins and each ends, then the texts. All little-endian.
    pub fn write(&self, output: &mut impl Write) -> io::Result<()> {
        output.write_all(&self.rows.to_le_bytes())?;
        for number in self.numbers.iter().flatten() {
            output.write_all(&number.to_le_bytes())?;
        }
        for column in &self.texts {
            output.write_all(&0_i32.to_le_bytes())?;
            for end in &column.ends {
                output.write_all(&end.to_le_bytes())?;
            }
            output.write_all(&column.bytes)?;
        }
        Ok(())
    }

    fn numbers(&mut self, values: impl IntoIterator<Item = u64>) {
        for (at, value) in values.into_iter().enumerate() {
            if at == self.numbers.len() {
                self.numbers.push(Vec::new());
            }
            self.numbers[at].push(value as i64);
        }
    }

    fn texts<'a>(&mut self, values: impl IntoIterator<Item = &'a String>) {
        for (at, value) in values.into_iter().enumerate() {
            if at == self.texts.len() {
                self.texts.push(Texts::default());
            }
            let column = &mut self.texts[at];
            column.bytes.extend_from_slice(value.as_bytes());
            column.ends.push(column.bytes.len() as i32);
        }
    }
}
