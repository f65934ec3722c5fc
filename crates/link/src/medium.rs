//! A medium whose airtime several links share in either direction: a Wi-Fi channel, or the radio of a cell.
//!
//! Each link is the queue of a station ([`LinkConfig::medium`](crate::LinkConfig::medium)). The medium decides which
//! station sends next, and how long that takes.
//!
//! **Wi-Fi** is the distributed coordination function of IEEE 802.11-2012, section 9.3. The model follows G. Bianchi
//! ("Performance analysis of the IEEE 802.11 distributed coordination function", IEEE JSAC 18(3), 2000):
//!
//! - Each station with data draws a number of slots. The smallest number sends first; the others keep the remainder of
//!   theirs.
//! - Stations with equal numbers collide, double their range and draw again.
//! - So each station with data has the same chance: the access point with all downlink traffic as much as one sender.
//! - Acknowledgements and feedback in the reverse direction take airtime as well.
//! - Each frame has a fixed cost besides its bits. There is no aggregation. This gives about the 20 Mb/s of goodput
//!   that RFC 8869, section 3.2.3, expects at 52 Mb/s.
//!
//! The model has no frames lost to noise, no hidden stations and no classes of 802.11e.
//!
//! **Cell** is proportional fair scheduling (A. Jalali, R. Padovani, R. Pankaj, "Data throughput of CDMA-HDR", IEEE VTC
//! 2000). Each millisecond goes to the user with the best ratio of its radio to its recent share. So all users have
//! about equal time, each at its best moments. Each user has a separate queue.

use std::time::Duration;

use lockstep_units::quantity::milliseconds;
use lockstep_units::{Bitrate, ByteCount, Timestamp};
use rand::Rng;
use rand_pcg::Pcg64;
use serde::{Deserialize, Serialize};

use crate::link::Link;
use crate::random::{Purpose, generator};

/// Slot time, and shortest interframe space (IEEE 802.11-2012, table 18-17: OFDM, channels of 20 MHz).
const SLOT: Duration = Duration::from_micros(9);
const SHORT_SPACE: Duration = Duration::from_micros(16);
/// Idle time before slots are counted: SIFS and two slots (section 9.3.7).
const DISTRIBUTED_SPACE: Duration = Duration::from_micros(34);
/// Initial and largest contention window, slots (table 18-17).
const WINDOWS: (u32, u32) = (15, 1_023);
/// Largest number of transmissions of a frame (dot11ShortRetryLimit).
const ATTEMPTS: u32 = 7;
/// Preamble and header of an 802.11n frame with two spatial streams in mixed format (section 20.3.9). The legacy part
/// has 8 + 8 + 4 microseconds, the rest 8 + 4 + 2 x 4.
const PREAMBLE: Duration = Duration::from_micros(40);
/// Duration of an OFDM symbol.
const SYMBOL: Duration = Duration::from_micros(4);
/// Service and tail bits of a frame (section 18.3.5).
const SERVICE_BITS: u64 = 22;
/// Overhead of a frame over its IP packet, bytes: MAC header with QoS (26), check sequence (4), LLC and SNAP (8).
const FRAME_OVERHEAD: u64 = 38;
/// Acknowledgement of 14 bytes at 24 Mb/s: 20 microseconds of preamble, two symbols.
const ACKNOWLEDGEMENT: Duration = Duration::from_micros(28);

/// Scheduling interval of a cell (LTE subframe).
const SUBFRAME: Duration = Duration::from_millis(1);
/// Averaging window of the share of a user, subframes.
const SUBFRAMES_REMEMBERED: f64 = 100.0;

/// Kind of a medium.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum MediumConfig {
    /// A Wi-Fi channel.
    #[serde(rename = "wifi")]
    WiFi,
    /// One direction of the radio of a cell.
    Cell,
}

/// Counters of a medium.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct MediumStatistics {
    /// Packets that the medium carried.
    pub packets: u64,
    /// Number of collisions.
    pub collisions: u64,
    /// Time in use, including spaces, slots, collisions and acknowledgements.
    #[serde(rename = "busy_ms", with = "milliseconds")]
    pub busy: Duration,
}

/// A link on a medium.
#[derive(Debug, Clone, Copy)]
struct Station {
    link: usize,
    /// Remaining slots, once drawn.
    slots: Option<u32>,
    /// Upper bound of the slots that it draws.
    window: u32,
    attempts: u32,
    /// Bytes of the head of the queue that a cell has already sent.
    credit: f64,
    /// Recent share in a cell, bit/s.
    share: f64,
}

/// A medium that links share, without a clock.
#[derive(Debug, Clone)]
pub struct Medium {
    config: MediumConfig,
    stations: Vec<Station>,
    random: Pcg64,
    free_at: Timestamp,
    idle: bool,
    statistics: MediumStatistics,
}

impl Medium {
    /// A medium for `links`: their indices in the argument of [`Medium::transmit`].
    #[must_use]
    pub fn new(config: MediumConfig, links: impl IntoIterator<Item = usize>, seed: u64) -> Self {
        let station = |link| Station { link, slots: None, window: WINDOWS.0, attempts: 0, credit: 0.0, share: 0.0 };
        Self {
            config,
            stations: links.into_iter().map(station).collect(),
            random: generator(seed, Purpose::Medium),
            free_at: Timestamp::ZERO,
            idle: true,
            statistics: MediumStatistics::default(),
        }
    }

    /// Links on the medium.
    pub fn links(&self) -> impl Iterator<Item = usize> + '_ {
        self.stations.iter().map(|station| station.link)
    }

    /// Notifies the medium that a link has a packet at `now`.
    pub fn wake(&mut self, now: Timestamp) {
        if self.idle {
            self.idle = false;
            self.free_at = self.free_at.max(now);
        }
    }

    /// Time at which to call [`Medium::transmit`]; `None` if no packet waits.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        (!self.idle).then_some(self.free_at)
    }

    /// Counters of the medium.
    #[must_use]
    pub fn statistics(&self) -> &MediumStatistics {
        &self.statistics
    }

    /// Lets one link send at `now`, the time of [`Medium::poll_timeout`]. Returns the link, or `None` after a collision
    /// or if no packet waits.
    pub fn transmit<T: Clone>(&mut self, now: Timestamp, links: &mut [Link<T>]) -> Option<usize> {
        if !self.stations.iter().any(|station| waiting(station, links).is_some()) {
            self.idle = true;
            return None;
        }
        let began = now.max(self.free_at);
        let sent = match self.config {
            MediumConfig::WiFi => self.contend(now, links),
            MediumConfig::Cell => self.schedule(now, links),
        };
        self.statistics.busy += self.free_at.saturating_since(began);
        sent
    }

    /// Wi-Fi: the station with the fewest slots sends.
    fn contend<T: Clone>(&mut self, now: Timestamp, links: &mut [Link<T>]) -> Option<usize> {
        let random = &mut self.random;
        let mut least = u32::MAX;
        for station in &mut self.stations {
            if waiting(station, links).is_some() {
                let window = station.window;
                least = least.min(*station.slots.get_or_insert_with(|| random.random_range(0..=window)));
            }
        }
        let (mut first, mut others, mut longest) = (None, false, Duration::ZERO);
        for (index, station) in self.stations.iter_mut().enumerate() {
            let Some(size) = waiting(station, links) else { continue };
            station.slots = station.slots.map(|slots| slots - least);
            if station.slots == Some(0) {
                longest = longest.max(frame_time(size, links[station.link].capacity_at(now)));
                others |= first.is_some();
                first = first.or(Some(index));
            }
        }
        let before = DISTRIBUTED_SPACE + SLOT * least;
        let station = self.stations.get_mut(first?)?;
        if others {
            self.statistics.collisions += 1;
            for station in &mut self.stations {
                if station.slots == Some(0) && waiting(station, links).is_some() {
                    station.slots = None;
                    station.window = (2 * station.window + 1).min(WINDOWS.1);
                    station.attempts += 1;
                    if station.attempts >= ATTEMPTS {
                        (station.window, station.attempts) = (WINDOWS.0, 0);
                        links[station.link].give_up(now);
                    }
                }
            }
            self.free_at = now + before + longest + SHORT_SPACE + ACKNOWLEDGEMENT;
            return None;
        }
        (station.slots, station.window, station.attempts) = (None, WINDOWS.0, 0);
        let link = &mut links[station.link];
        let rate = link.capacity_at(now);
        let left = link.transmit(now, |size| before + frame_time(size, rate));
        self.free_at = left.map_or(now + before, |left| left + SHORT_SPACE + ACKNOWLEDGEMENT);
        self.statistics.packets += u64::from(left.is_some());
        left.map(|_| station.link)
    }

    /// Cell: the user with the best ratio of radio to recent share has the next subframe.
    fn schedule<T: Clone>(&mut self, now: Timestamp, links: &mut [Link<T>]) -> Option<usize> {
        self.free_at = now + SUBFRAME;
        let mut best: Option<(f64, usize, f64)> = None;
        for (index, station) in self.stations.iter().enumerate() {
            let Some(link) = links.get(station.link).filter(|link| link.head_size().is_some()) else { continue };
            let rate = link.capacity_at(now).as_bps() as f64;
            let worth = rate / station.share.max(1.0);
            if rate > 0.0 && best.is_none_or(|(most, ..)| worth > most) {
                best = Some((worth, index, rate));
            }
        }
        for station in &mut self.stations {
            station.share -= station.share / SUBFRAMES_REMEMBERED;
        }
        let (_, index, rate) = best?;
        let station = &mut self.stations[index];
        station.share += rate / SUBFRAMES_REMEMBERED;
        station.credit += rate * SUBFRAME.as_secs_f64() / 8.0;
        let link = &mut links[station.link];
        let mut sent = None;
        while let Some(size) = link.head_size()
            && size.as_f64() <= station.credit
        {
            station.credit -= size.as_f64();
            if link.transmit(now, |_| SUBFRAME).is_some() {
                self.statistics.packets += 1;
                sent = Some(station.link);
            }
        }
        if link.head_size().is_none() {
            station.credit = 0.0;
        }
        sent
    }
}

/// Size of the next packet of `station`.
fn waiting<T: Clone>(station: &Station, links: &[Link<T>]) -> Option<ByteCount> {
    links.get(station.link).and_then(Link::head_size)
}

/// Airtime of a frame with a packet of `size` at `rate`.
fn frame_time(size: ByteCount, rate: Bitrate) -> Duration {
    let bits = SERVICE_BITS + 8 * (size.get().saturating_add(FRAME_OVERHEAD));
    let bits_of_symbol = (rate.as_bps() as f64 * SYMBOL.as_secs_f64()).max(1.0);
    let symbols = (bits as f64 / bits_of_symbol).ceil().min(1e6) as u32;
    PREAMBLE + SYMBOL * symbols
}
