//! The open loop: arrivals on one side, connections on the other, requests that wait between them.

use std::collections::VecDeque;
use std::io;
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{Timespec, epoll};
use rustix::time::{ClockId, clock_gettime};

use crate::arguments::Arguments;
use crate::arrivals::Arrivals;
use crate::connection::{Connection, ReadOutcome};
use crate::report::{CLASSES, Class, Report};

/// Sends requests at the rate; raises what keeps the first connection from being made.
pub fn run(arguments: &Arguments) -> io::Result<Report> {
    let mut run = Run::new(arguments)?;
    run.until_done()?;
    Ok(run.report())
}

struct Run<'a> {
    arguments: &'a Arguments,
    epoll: OwnedFd,
    /// None is one that broke and could not be made again yet.
    connections: Vec<Option<Connection>>,
    free: VecDeque<usize>,
    broken: Vec<usize>,
    next_repair_ns: u64,
    /// When each should have been sent.
    waiting: VecDeque<u64>,
    arrivals: Arrivals,
    /// All times are nanoseconds since then.
    start: Instant,
    measured: std::ops::Range<u64>,
    cpu_at_start: Duration,
    sent: usize,
    arrived: u64,
    not_sent: u64,
    waited: u64,
    reconnects: u64,
    classes: [Class; CLASSES.len()],
}

impl<'a> Run<'a> {
    fn new(arguments: &'a Arguments) -> io::Result<Self> {
        // Waits end within microseconds of their time, not 50.
        rustix::thread::set_current_timer_slack(Some(NonZeroU64::MIN))?;
        let begin = nanoseconds(arguments.warmup);
        let mut run = Self {
            arguments,
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            connections: (0..arguments.connections).map(|_| None).collect(),
            free: VecDeque::new(),
            broken: Vec::new(),
            next_repair_ns: 0,
            waiting: VecDeque::new(),
            arrivals: Arrivals::new(arguments.rate, arguments.seed),
            start: Instant::now(),
            measured: begin..begin + nanoseconds(arguments.seconds),
            cpu_at_start: cpu(),
            sent: 0,
            arrived: 0,
            not_sent: 0,
            waited: 0,
            reconnects: 0,
            classes: std::array::from_fn(|_| Class::new()),
        };
        for at in 0..arguments.connections {
            run.connect(at)?;
        }
        run.start = Instant::now();
        Ok(run)
    }

    fn until_done(&mut self) -> io::Result<()> {
        let mut events = Vec::with_capacity(self.connections.len());
        let last = self.measured.end + nanoseconds(self.arguments.drain);
        loop {
            let now = self.now();
            self.take_arrivals(now);
            self.repair(now);
            self.send_waiting();
            let busy = self.free.len() + self.broken.len() < self.connections.len();
            let arrives = self.arrivals.next_ns() < self.measured.end;
            if now >= last || !(arrives || busy || !self.waiting.is_empty()) {
                return Ok(());
            }
            let mut until = if arrives {
                self.arrivals.next_ns()
            } else {
                last
            };
            if !self.broken.is_empty() {
                until = until.min(self.next_repair_ns);
            }
            let timeout = until.saturating_sub(self.now());
            let timeout = Timespec {
                tv_sec: (timeout / NS) as i64,
                tv_nsec: (timeout % NS) as _,
            };
            events.clear();
            match epoll::wait(
                &self.epoll,
                rustix::buffer::spare_capacity(&mut events),
                Some(&timeout),
            ) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            for event in &events {
                let data = event.data;
                self.read(data.u64() as usize);
            }
        }
    }

    /// Those that are due wait, but for those that are too many.
    fn take_arrivals(&mut self, now: u64) {
        while self.arrivals.next_ns() < self.measured.end.min(now + 1) {
            let due = self.arrivals.next_ns();
            self.arrivals.advance();
            let counts = self.measured.contains(&due);
            self.arrived += u64::from(counts);
            if self.waiting.len() >= self.free.len() {
                self.waited += u64::from(counts);
                if self.waiting.len() >= self.free.len() + self.arguments.waiting {
                    self.not_sent += u64::from(counts);
                    continue;
                }
            }
            self.waiting.push_back(due);
        }
    }

    fn send_waiting(&mut self) {
        while let Some(&due) = self.waiting.front()
            && let Some(at) = self.free.pop_front()
        {
            self.waiting.pop_front();
            let requests = &self.arguments.target.requests;
            let bytes = &requests[self.sent % requests.len()];
            self.sent += 1;
            let connection = self.connections[at].as_mut().expect("a free one is there");
            if connection.send(bytes, due).is_err() {
                self.ended(due, None);
                self.reconnect(at);
            }
        }
    }

    fn read(&mut self, at: usize) {
        let Some(connection) = self.connections[at].as_mut() else {
            return;
        };
        match connection.read() {
            ReadOutcome::Partial => {}
            ReadOutcome::Reply { status, closes } => {
                let due = connection.request.take().expect("it had a request");
                self.ended(due, Some(status));
                if closes {
                    self.reconnect(at);
                } else {
                    self.free.push_back(at);
                }
            }
            ReadOutcome::Broken => {
                match connection.request {
                    Some(due) => self.ended(due, None),
                    None => self.free.retain(|&each| each != at),
                }
                self.reconnect(at);
            }
        }
    }

    fn ended(&mut self, due: u64, status: Option<u16>) {
        let now = self.now();
        let class = &mut self.classes[Report::class_of(status)];
        class.ended_within += u64::from(self.measured.contains(&now));
        if self.measured.contains(&due) {
            class.latencies.saturating_record(now.saturating_sub(due));
        }
    }

    fn connect(&mut self, at: usize) -> io::Result<()> {
        let connection = Connection::open(self.arguments.target.address)?;
        let data = epoll::EventData::new_u64(at as u64);
        epoll::add(&self.epoll, &connection, data, epoll::EventFlags::IN)?;
        self.connections[at] = Some(connection);
        self.free.push_back(at);
        Ok(())
    }

    fn reconnect(&mut self, at: usize) {
        self.connections[at] = None;
        self.reconnects += 1;
        if self.connect(at).is_err() {
            self.broken.push(at);
            self.next_repair_ns = self.now() + REPAIR_EACH_NS;
        }
    }

    /// Connections that broke are made again, each tenth of a second.
    fn repair(&mut self, now: u64) {
        if self.broken.is_empty() || now < self.next_repair_ns {
            return;
        }
        self.next_repair_ns = now + REPAIR_EACH_NS;
        while let Some(&at) = self.broken.last()
            && self.connect(at).is_ok()
        {
            self.broken.pop();
        }
    }

    fn report(mut self) -> Report {
        let counts = |due: &u64| self.measured.contains(due);
        self.not_sent += self.waiting.iter().filter(|due| counts(due)).count() as u64;
        let unanswered: Vec<u64> = self
            .connections
            .iter()
            .filter_map(|each| each.as_ref()?.request)
            .collect();
        for due in unanswered {
            self.ended(due, None);
        }
        Report {
            seconds: self.arguments.seconds.as_secs_f64(),
            offered: self.arguments.rate,
            arrived: self.arrived,
            not_sent: self.not_sent,
            waited: self.waited,
            reconnects: self.reconnects,
            cpu_seconds: cpu().saturating_sub(self.cpu_at_start).as_secs_f64(),
            classes: self.classes,
        }
    }

    fn now(&self) -> u64 {
        nanoseconds(self.start.elapsed())
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    duration.as_nanos() as u64
}

/// User and system time of this process.
fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

const NS: u64 = 1_000_000_000;
const REPAIR_EACH_NS: u64 = 100_000_000;
