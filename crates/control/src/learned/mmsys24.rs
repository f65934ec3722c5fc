//! Models in the format of the bandwidth estimation challenge of MMSys 2024, as estimators at the receiver.
//!
//! Every 60 ms such a model gets 150 numbers. A recurrent model also gets a hidden state and a cell state. It returns a
//! bit rate, then the new states. The numbers are fifteen features over the five most recent intervals of 60 ms and of
//! 600 ms. Each feature has ten numbers: short intervals first, each group newest first. The format follows the
//! challenge's descriptions of its data and its sample model.
//!
//! | feature | here |
//! |---|---|
//! | receiving rate (bit/s), packets, bytes | of the packets that arrived in the interval, with headers |
//! | queueing delay (ms) | mean delay minus the minimum of the call |
//! | delay (ms) | mean delay less 200 ms |
//! | least delay (ms) | minimum of the call so far |
//! | delay ratio, delay above the least (ms) | mean delay over, and less, the least |
//! | inter-arrival time, jitter (ms) | mean and standard deviation of the times between arrivals |
//! | loss ratio, losses in a row | share of the expected packets that did not arrive; mean length of the gaps |
//! | video, audio, probes | shares of the packets: here all are video |
//!
//! Delays are differences of two clocks. If the clocks differ, the ratio uses a minimum delay of at least 1 ms.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use lockstep_nn::{Model, ModelError};
use lockstep_transport::{Arrival, Estimate};
use lockstep_units::{Bitrate, Timestamp};

use super::arrived::DecisionTimer;
use super::purpose::check_controller;
use crate::{Estimator, RateBounds};

const FEATURES: usize = 15;
/// Number of intervals of each length.
const INTERVALS: usize = 5;
const SHORT: Duration = Duration::from_millis(60);
const LONG: Duration = Duration::from_millis(600);
/// Length of an observation.
const OBSERVED: usize = FEATURES * 2 * INTERVALS;
const FIXED_DELAY_MS: f64 = 200.0;
const MIN_RATIO_DELAY_MS: f64 = 1.0;
/// Maximum number of remembered packets: three seconds at 60 Mb/s in full fragments.
const MAX_PACKETS: usize = 16_384;

/// A packet that arrived.
#[derive(Debug, Clone, Copy)]
struct Packet {
    arrived_at: Timestamp,
    size: u64,
    delay_ms: f64,
    sequence: u64,
    /// Highest sequence number that arrived before.
    highest_before: Option<u64>,
}

/// Computes the 150 numbers.
#[derive(Debug, Default)]
struct Monitor {
    packets: VecDeque<Packet>,
    min_delay_ms: Option<f64>,
    highest: Option<u64>,
}

fn milliseconds(from: Timestamp, to: Timestamp) -> f64 {
    (to.as_nanos() as f64 - from.as_nanos() as f64) * 1e-6
}

impl Monitor {
    fn on_arrival(&mut self, arrival: &Arrival) {
        let delay_ms = milliseconds(arrival.sent_at, arrival.arrived_at);
        self.min_delay_ms = Some(self.min_delay_ms.map_or(delay_ms, |least| least.min(delay_ms)));
        let highest_before = self.highest;
        self.highest = Some(highest_before.map_or(arrival.sequence, |highest| highest.max(arrival.sequence)));
        let (arrived_at, size) = (arrival.arrived_at, arrival.size.get());
        self.packets.push_back(Packet { arrived_at, size, delay_ms, sequence: arrival.sequence, highest_before });
        let oldest = arrived_at.saturating_since(Timestamp::ZERO).saturating_sub(LONG * (INTERVALS as u32 + 1));
        while self.packets.len() > MAX_PACKETS
            || self.packets.front().is_some_and(|packet| packet.arrived_at < Timestamp::ZERO + oldest)
        {
            self.packets.pop_front();
        }
    }

    fn observe(&mut self, now: Timestamp) -> Vec<f32> {
        let mut observed = vec![0.0; OBSERVED];
        let least = self.min_delay_ms.unwrap_or(0.0);
        let packets = self.packets.make_contiguous();
        for (of_length, length) in [SHORT, LONG].into_iter().enumerate() {
            for place in 0..INTERVALS {
                let ago = |count: usize| length * count as u32;
                let before =
                    |age: Duration| packets.partition_point(|packet| now.saturating_since(packet.arrived_at) > age);
                let members = &packets[before(ago(place + 1))..before(ago(place))];
                for (feature, value) in features(members, length, least).into_iter().enumerate() {
                    observed[feature * 2 * INTERVALS + of_length * INTERVALS + place] = value as f32;
                }
            }
        }
        observed
    }
}

/// Features of an interval with the arrivals `packets`, oldest first.
fn features(packets: &[Packet], length: Duration, min_ms: f64) -> [f64; FEATURES] {
    let count = packets.len() as f64;
    let (Some(first), Some(last)) = (packets.first(), packets.last()) else {
        let mut none = [0.0; FEATURES];
        none[5] = min_ms;
        return none;
    };
    let bytes = packets.iter().map(|packet| packet.size).sum::<u64>() as f64;
    let delay = packets.iter().map(|packet| packet.delay_ms).sum::<f64>() / count;
    let gaps = (count - 1.0).max(1.0);
    let between = milliseconds(first.arrived_at, last.arrived_at) / gaps;
    let variance = packets
        .windows(2)
        .map(|pair| {
            let off = milliseconds(pair[0].arrived_at, pair[1].arrived_at) - between;
            off * off
        })
        .sum::<f64>()
        / gaps;
    // A jump of the sequence number counts the skipped packets as missing. Late packets reduce that number.
    let jumped = |packet: &Packet| match packet.highest_before {
        Some(highest) => packet.sequence.saturating_sub(highest).saturating_sub(1),
        None => 0,
    };
    let missing: u64 = packets.iter().map(jumped).fold(0, u64::saturating_add);
    let late = packets.iter().filter(|packet| packet.highest_before.is_some_and(|highest| packet.sequence < highest));
    let lost = missing.saturating_sub(late.count() as u64) as f64;
    let events = packets.iter().filter(|packet| jumped(packet) > 0).count() as f64;
    [
        bytes * 8.0 / length.as_secs_f64(),
        count,
        bytes,
        delay - min_ms,
        delay - FIXED_DELAY_MS,
        min_ms,
        delay.max(MIN_RATIO_DELAY_MS) / min_ms.max(MIN_RATIO_DELAY_MS),
        delay - min_ms,
        between,
        variance.sqrt(),
        lost / (lost + count),
        if events > 0.0 { lost / events } else { 0.0 },
        1.0,
        0.0,
        0.0,
    ]
}

/// A model of the challenge as an estimator.
struct Mmsys24 {
    model: Arc<Model>,
    /// Index of the observation among the inputs. The other inputs are states, in their order.
    observation: usize,
    /// Next value of each input; empty for the observation.
    states: Vec<Vec<f32>>,
    monitor: Monitor,
    rhythm: DecisionTimer,
    bounds: RateBounds,
    estimate: Bitrate,
}

impl Mmsys24 {
    fn decide(&mut self, now: Timestamp) {
        while let Some(due) = self.rhythm.next(now, SHORT) {
            let observed = self.monitor.observe(due);
            let mut inputs: Vec<&[f32]> = self.states.iter().map(Vec::as_slice).collect();
            inputs[self.observation] = &observed;
            let Ok(outputs) = self.model.run(&inputs) else { return };
            let mut outputs = outputs.into_iter();
            let rate = outputs.next().and_then(|output| output.first().copied());
            // A state with NaN would never recover.
            let fresh: Vec<Vec<f32>> = outputs.collect();
            if fresh.iter().flatten().all(|number| number.is_finite()) {
                let places = (0..self.states.len()).filter(|&place| place != self.observation);
                for (place, state) in places.collect::<Vec<_>>().into_iter().zip(fresh) {
                    self.states[place] = state;
                }
            }
            if let Some(rate) = rate.filter(|rate| rate.is_finite() && *rate >= 0.0) {
                self.estimate = Bitrate::from_bps(rate as u64).clamp(self.bounds.min, self.bounds.max);
            }
        }
    }
}

impl Estimator for Mmsys24 {
    fn on_arrival(&mut self, arrival: &Arrival) {
        self.rhythm.begin(arrival.arrived_at, SHORT);
        self.decide(arrival.arrived_at);
        self.monitor.on_arrival(arrival);
    }

    fn estimate(&mut self, now: Timestamp) -> Estimate {
        self.decide(now);
        Estimate { inter_arrival: None, capacity: Some(self.estimate) }
    }
}

/// The estimator that runs `model`.
///
/// # Errors
/// [`ModelError::Unfit`] if not exactly one input has 150 numbers, or if there are more than two others. The same if
/// the outputs are not a rate and one state of the same length for each of them.
pub fn mmsys24(model: Arc<Model>, bounds: RateBounds) -> Result<Box<dyn Estimator>, ModelError> {
    check_controller(&model, "mmsys24")?;
    let unfit = |text: String| {
        ModelError::Unfit(format!(
            "{text}; models of the MMSys'24 challenge have inputs `obs` of {OBSERVED} numbers, `hidden_states` and `cell_states`"
        ))
    };
    let lengths: Vec<usize> = model.inputs().iter().map(|port| port.shape.iter().product()).collect();
    let named = model.inputs().iter().position(|port| port.name == "obs");
    let observation = named.or_else(|| lengths.iter().position(|&length| length == OBSERVED));
    let observation = observation
        .filter(|&place| lengths[place] == OBSERVED && lengths.len() <= 3)
        .ok_or_else(|| unfit(format!("inputs of {lengths:?} numbers")))?;
    let returned: Vec<usize> = model.outputs().iter().map(|port| port.shape.iter().product()).collect();
    let remembered = lengths.iter().enumerate().filter(|&(place, _)| place != observation).map(|(_, length)| length);
    if returned.is_empty() || !returned.iter().skip(1).eq(remembered) {
        return Err(unfit(format!("outputs of {returned:?} numbers for inputs of {lengths:?}")));
    }
    let states = lengths.iter().enumerate().map(
        |(place, &length)| {
            if place == observation { Vec::new() } else { vec![0.0; length] }
        },
    );
    let states = states.collect();
    let (monitor, rhythm) = (Monitor::default(), DecisionTimer::default());
    Ok(Box::new(Mmsys24 { model, observation, states, monitor, rhythm, bounds, estimate: bounds.initial }))
}

#[cfg(test)]
mod tests {
    use super::super::arrived::arrival;
    use super::*;

    #[test]
    fn features_of_the_newest_interval_match_manual_results() {
        let mut monitor = Monitor::default();
        monitor.on_arrival(&arrival(899, 939, 1));
        for packet in [arrival(910, 960, 2), arrival(930, 970, 5), arrival(940, 990, 6)] {
            monitor.on_arrival(&packet);
        }
        let seen = monitor.observe(Timestamp::from_millis(1_000));
        assert_eq!(seen.len(), 150);
        // The arrival at 939 ms belongs to the previous interval.
        let newest: Vec<f32> = (0..FEATURES).map(|feature| seen[10 * feature]).collect();
        let mean = 140.0 / 3.0;
        let wanted = [
            400_000.0,
            3.0,
            3_000.0,
            mean - 40.0,
            mean - 200.0,
            40.0,
            mean / 40.0,
            mean - 40.0,
            15.0,
            5.0,
            0.4,
            2.0,
            1.0,
            0.0,
            0.0,
        ];
        for (feature, (ours, wanted)) in newest.iter().zip(wanted).enumerate() {
            assert!((ours - wanted as f32).abs() < 1e-3, "feature {feature}: {ours} for {wanted}");
        }
        assert_eq!(
            (seen[11], seen[15]),
            (1.0, 4.0),
            "one packet in the previous interval, four in the newest long one"
        );
    }
}
