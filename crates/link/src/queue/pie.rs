//! PIE, proportional integral controller enhanced (RFC 8033).
//!
//! PIE drops arriving packets at random. The probability grows while packets wait longer than a target, and while the
//! delay grows. Otherwise it falls.

use std::time::Duration;

use lockstep_units::{ByteCount, Timestamp};
use rand::Rng;
use rand_pcg::Pcg64;

use crate::queue::drop_tail::DropTail;
use crate::queue::{QueueDiscipline, Queued};
use crate::random::{Purpose, generator};

/// Target: 15 ms (RFC 8033, section 5.1, QDELAY_REF).
pub(crate) fn target() -> Duration {
    Duration::from_millis(15)
}

/// Interval of updates of the probability: 15 ms (T_UPDATE).
const UPDATE_INTERVAL: Duration = Duration::from_millis(15);
/// Gain of the deviation from the target, 1/s (alpha, 1/8).
const DEVIATION_GAIN: f64 = 0.125;
/// Gain of the change of the delay, 1/s (beta, 1 + 1/4).
const CHANGE_GAIN: f64 = 1.25;
/// Length of a burst that passes after idle time (MAX_BURST).
const BURST: Duration = Duration::from_millis(150);
/// Factor of the probability at each update of an idle queue (section 4.2).
const IDLE_DECAY: f64 = 0.98;
/// From this probability on, an update adds at most [`MAX_STEP`] (section 5.2).
const NOT_SMALL: f64 = 0.1;
const MAX_STEP: f64 = 0.02;
/// Below this probability, no packet is dropped while the delay is below half the target (section 4.1).
const PROTECTED_PROBABILITY: f64 = 0.2;
/// A queue of at most two packets (MEAN_PKTSIZE) has no drops.
const TWO_PACKETS: ByteCount = ByteCount::new(2 * 1_500);
/// Below this probability, ECN-capable packets are marked instead of dropped (section 5.1, `mark_ecnth`).
const MARKED_PROBABILITY: f64 = 0.1;
/// Bounds of the summed probability since the last drop: no drop below the first, a certain drop above the second
/// (section 5.4).
const SPREAD: (f64, f64) = (0.85, 8.5);
/// Auto-tuning: below the first number, changes of the probability are divided by the second (section 4.2).
const TUNING: [(f64, f64); 6] =
    [(0.000_001, 2_048.0), (0.000_01, 512.0), (0.000_1, 128.0), (0.001, 32.0), (0.01, 8.0), (0.1, 2.0)];

#[derive(Debug, Clone)]
pub(crate) struct Pie<T> {
    memory: DropTail<T>,
    target: Duration,
    /// Whether ECN-capable packets are marked instead of dropped.
    ecn: bool,
    random: Pcg64,
    next_update: Timestamp,
    probability: f64,
    /// Queueing delay at the last update.
    wait: Duration,
    /// Remaining length of a burst that passes.
    burst: Duration,
    /// Sum of the probabilities of the packets since the last drop.
    summed: f64,
}

impl<T> Pie<T> {
    pub(crate) fn new(memory: DropTail<T>, target: Duration, ecn: bool, seed: u64, origin: Timestamp) -> Self {
        Self {
            memory,
            target,
            ecn,
            random: generator(seed, Purpose::QueueDrops),
            next_update: origin + UPDATE_INTERVAL,
            probability: 0.0,
            wait: Duration::ZERO,
            burst: BURST,
            summed: 0.0,
        }
    }

    /// Head of the queue.
    pub(crate) fn front(&self) -> Option<&Queued<T>> {
        self.memory.front()
    }

    /// Makes all updates until `now`. The queue has not changed since the first of them, as each change calls this
    /// before.
    fn update(&mut self, now: Timestamp) {
        while self.next_update <= now {
            // RFC 8033, section 4.2, allows this measure: the waiting time of the head.
            let wait =
                self.memory.front().map_or(Duration::ZERO, |head| self.next_update.saturating_since(head.sent_at));
            if wait.is_zero() && self.wait.is_zero() && self.probability == 0.0 {
                // Updates of an idle link change nothing, so all until `now` are skipped.
                let missed = now.saturating_since(self.next_update).as_nanos() / UPDATE_INTERVAL.as_nanos();
                let missed = u32::try_from(missed).unwrap_or(u32::MAX);
                self.next_update += UPDATE_INTERVAL.saturating_mul(missed);
                self.burst = BURST;
            } else {
                self.change(wait);
            }
            self.next_update += UPDATE_INTERVAL;
        }
    }

    fn change(&mut self, wait: Duration) {
        let (now, before, target) = (wait.as_secs_f64(), self.wait.as_secs_f64(), self.target.as_secs_f64());
        let mut step = DEVIATION_GAIN * (now - target) + CHANGE_GAIN * (now - before);
        if let Some(&(_, divisor)) = TUNING.iter().find(|&&(below, _)| self.probability < below) {
            step /= divisor;
        }
        if self.probability >= NOT_SMALL {
            step = step.min(MAX_STEP);
        }
        self.probability += step;
        if wait.is_zero() && self.wait.is_zero() {
            self.probability *= IDLE_DECAY;
        }
        self.probability = self.probability.clamp(0.0, 1.0);
        let half = self.target / 2;
        self.burst = if self.probability == 0.0 && wait < half && self.wait < half {
            BURST
        } else {
            self.burst.saturating_sub(UPDATE_INTERVAL)
        };
        self.wait = wait;
    }

    /// Whether an arriving packet is dropped although the queue has room.
    fn drops_early(&mut self) -> bool {
        if !self.burst.is_zero() {
            return false;
        }
        if self.probability == 0.0 {
            self.summed = 0.0;
        }
        let protected = self.wait < self.target / 2 && self.probability < PROTECTED_PROBABILITY;
        if protected || self.memory.bytes() <= TWO_PACKETS {
            return false;
        }
        self.summed += self.probability;
        if self.summed < SPREAD.0 {
            return false;
        }
        let drops = self.summed >= SPREAD.1 || self.random.random::<f64>() < self.probability;
        if drops {
            self.summed = 0.0;
        }
        drops
    }
}

impl<T> QueueDiscipline<T> for Pie<T> {
    fn enqueue(&mut self, mut packet: Queued<T>) -> Result<(), Queued<T>> {
        self.update(packet.sent_at);
        if self.drops_early() {
            let marked = self.ecn && self.probability < MARKED_PROBABILITY && packet.mark();
            if !marked {
                return Err(packet);
            }
        }
        let result = self.memory.enqueue(packet);
        if result.is_err() {
            self.summed = 0.0;
        }
        result
    }

    fn dequeue(&mut self, now: Timestamp, _dropped: &mut dyn FnMut(Queued<T>)) -> Option<Queued<T>> {
        self.update(now);
        self.memory.pop()
    }

    fn packets(&self) -> usize {
        self.memory.packets()
    }

    fn bytes(&self) -> ByteCount {
        self.memory.bytes()
    }
}
