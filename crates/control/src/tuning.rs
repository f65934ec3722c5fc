//! Tuned constants of control, overridable for research: one configuration per algorithm.

use std::time::Duration;

use lockstep_units::{Bitrate, ByteCount};

use crate::learned::RuleTuning;

lockstep_units::tuning! {
    /// Tuned constants of the path observer, the limits and the default controller: one configuration per algorithm.
    pub struct Tuning {
        /// Measurements of the path observer.
        path: PathConfig,
        /// Cross traffic that keeps the queue full.
        cross_traffic: CrossTrafficConfig,
        /// Paths that become longer.
        path_delay: PathDelayConfig,
        /// Silence of the path.
        silence: SilenceConfig,
        /// Probes and hellos.
        probing: ProbingConfig,
        /// Loss and parity.
        loss: LossConfig,
        /// Bottleneck queues that are shorter than a frame.
        short_queue: ShortQueueConfig,
        /// Paths on which sound has priority.
        narrow_path: NarrowPathConfig,
        /// Limit by the bytes that the path delivered.
        delivered: DeliveredConfig,
        /// Limit by bit rate.
        ceiling: CeilingConfig,
        /// Sprout, on which the default controller builds.
        sprout: SproutConfig,
        /// Sprout's filter over the rate.
        rate_filter: RateFilterConfig,
        /// Sprout's detection of jitter.
        jitter: JitterConfig,
        /// Share of the path that Sprout claims beside cross traffic.
        claim: ClaimConfig,
        /// Fallback of the default controller to Sprout.
        lockstep: LockstepConfig,
        /// The rule of the default controller.
        rule: RuleTuning,
    }
}

lockstep_units::config! {
    /// Measurements of the path observer.
    pub struct PathConfig = "path" {
        /// Length of the sliding windows of deliveries. A frame larger than a window arrives half a second late in any
        /// case.
        window: Duration = 0.5, "s", 0.05..=5.0, "2026-11-control-ablation";
        /// Memory of the maximum delivered in a window. A second or two of quiet must not erase it.
        memory: Duration = 5.0, "s", 0.5..=60.0, "2026-11-control-ablation";
        /// Memory of base delays and base round-trip times. Cross traffic hides them for this time; clocks drift by 3
        /// ms in it.
        base_memory: Duration = 60.0, "s", 1.0..=600.0, "2026-11-control-ablation";
        /// Time constant of the average rate inside bursts.
        burst_fade: f64 = 0.3, "s", 0.01..=10.0, "2026-11-control-ablation";
        /// Age of a burst after which its rate is invalid.
        burst_memory: Duration = 2.0, "s", 0.1..=60.0, "2026-11-control-ablation";
        /// Longest time between two trials that may show a higher capacity: probes, hellos and pairs of packets. On a
        /// narrow path it also bounds pauses between fragments and before growth.
        retry: Duration = 1.0, "s", 0.02..=60.0, "2026-11-control-ablation";
        /// Queueing delay of its first fragment beyond which a burst is no evidence: behind a pause of the link it
        /// shows the rate of the last hop.
        idle_wait: Duration = 0.01, "s", 0.0..=1.0, "2026-11-control-ablation";
        /// Weight of feedback that was delayed more than the mean; feedback with less delay has a tenth of it.
        feedback_weight: f64 = 0.2, "", 0.0..=1.0, "2026-11-control-ablation";
    }
}

lockstep_units::config! {
    /// Cross traffic that keeps the queue full.
    pub struct CrossTrafficConfig = "cross_traffic" {
        /// Minimum foreign delay of every packet in a window (`path.window`) that shows cross traffic.
        wait: f64 = 0.02, "s", 0.001..=10.0, "2026-11-control-ablation";
        /// Share of the path's rate below which arrivals are negligible.
        next_to_nothing: f64 = 0.15, "", 0.0..=1.0, "2026-11-control-ablation";
        /// Round trips for which the rate of a burst is valid at least. The effect of an acknowledgement shows a round
        /// trip later.
        round_trips: f64 = 1.5, "", 0.0..=10.0, "2026-11-control-ablation";
    }
}

lockstep_units::config! {
    /// Paths that become longer, in contrast to queues.
    pub struct PathDelayConfig = "path_delay" {
        /// Smallest step of the delay that can be a longer path.
        least_step: Duration = 0.02, "s", 0.001..=1.0, "2026-11-control-ablation";
        /// Number of frames that must be equally late.
        frames: u32 = 4, "frames", 2..=64, "2026-11-control-ablation";
        /// Factor by which a standing queue would contradict its own rate, since rates also change.
        margin: f64 = 1.5, "", 1.0..=16.0, "2026-11-control-ablation";
    }
}

lockstep_units::config! {
    /// Silence of a path: packets were sent, but no feedback arrived.
    pub struct SilenceConfig = "silence" {
        /// Tolerated excess of feedback over the smoothed round-trip time; pauses of cellular links are rarely longer.
        /// Bytes in flight that add at most this to the base round-trip time do not delay a probe. A frame that has
        /// been complete for at most this time is not late to be decoded.
        margin: Duration = 0.15, "s", 0.0..=5.0, "2026-11-control-ablation";
        /// Tolerated excess on a path that dropped what was sent into its last silence: it does not pause.
        drop_margin: Duration = 0.05, "s", 0.0..=5.0, "2026-12-bursts";
        /// Upper bound of the tolerance for feedback that was delayed on the reverse path. Acknowledgements behind the
        /// other end's pictures are not silence. After this time and three round trips without a decoded frame, the
        /// receiver is stuck.
        latest_feedback: Duration = 0.5, "s", 0.0..=10.0, "2026-11-control-ablation";
        /// Round-trip time before the first sample. On a path that may be narrow, one picture is enough for this time.
        first_round_trip: Duration = 0.5, "s", 0.001..=10.0, "2026-11-control-ablation";
    }
}

lockstep_units::config! {
    /// Probes: small frames without a budget, and hellos during silence.
    pub struct ProbingConfig = "probing" {
        /// Minimum pause between two probes.
        pause: Duration = 0.1, "s", 0.0..=10.0, "2026-11-control-ablation";
        /// Share of a window's deliveries that may be sent into silence before probes become rare. If those bytes are
        /// only queued, the restored path delivers them in 100 ms.
        silent_share: f64 = 0.2, "", 0.0..=4.0, "2026-11-control-ablation";
        /// Share of the delivery rate that probes may use during silence.
        rate_share: f64 = 0.02, "", 0.0..=1.0, "2026-11-control-ablation";
        /// Minimum pause between two hellos during silence.
        hello_pause: Duration = 0.02, "s", 0.001..=0.02, "2026-11-control-ablation";
        /// Share of the delivery rate that hellos may use.
        hello_share: f64 = 0.0625, "", 0.0001..=1.0, "2026-11-control-ablation";
        /// Ratio of the silence to the pause between hellos. A path with loss in bursts recovers after a number of
        /// packets, not after a time.
        hello_fade: u32 = 40, "", 1..=10_000, "2026-11-control-ablation";
        /// Hellos on a path that dropped what was sent into its last silence, for each hello on others.
        dropped_hellos: u32 = 4, "", 1..=16, "2026-12-bursts";
    }
}

lockstep_units::config! {
    /// Loss, parity, and frames that do not depend on the previous one.
    pub struct LossConfig = "loss" {
        /// Weight of a fragment in the loss share: the last few hundred count.
        weight: f64 = 0.0025, "", 0.0001..=1.0, "2026-11-control-ablation";
        /// Weight of a frame in the loss share of frames.
        frame_weight: f64 = 0.0625, "", 0.001..=1.0, "2026-11-control-ablation";
        /// Value of a shown frame in bits of a frame. A higher value adds more parity.
        worth: f64 = 4.0, "frames", 0.0..=64.0, "2026-11-control-ablation";
        /// Cost of coding each frame from an acknowledged state, in bits of a frame.
        cost_of_held: f64 = 0.4, "frames", 0.0..=64.0, "2026-11-control-ablation";
        /// Share of lost frames above which all frames are coded from acknowledged states. Then a loss costs one frame
        /// instead of those of a round trip.
        most_chained: f64 = 0.05, "", 0.0..=1.0, "2026-11-control-ablation";
    }
}

lockstep_units::config! {
    /// Bottleneck queues that are shorter than a frame.
    pub struct ShortQueueConfig = "short_queue" {
        /// Used share of the queue, since rates and sizes are estimates.
        used: f64 = 0.75, "", 0.05..=1.0, "2026-11-control-ablation";
        /// Time after which a packet without outcome no longer delays the count, if a later one has an outcome. If
        /// parity completes a frame, its lost fragments are never reported.
        overtaken_by: Duration = 0.25, "s", 0.0..=2.0, "2026-11-control-ablation";
        /// Maximum time of bytes in the pacer before more is coded: two frame intervals of most videos.
        most_paced: Duration = 0.066, "s", 0.001..=2.0, "2026-11-control-ablation";
        /// Weight of a frame in the rate at which the path drains the queue.
        rate_weight: f64 = 0.5, "", 0.01..=1.0, "2026-11-control-ablation";
        /// Ratio of arrival time to sending time above which fragments were slowed down on the path.
        slowed: f64 = 1.2, "", 1.0..=10.0, "2026-11-control-ablation";
        /// Number of lost fragments that are evidence: two may be lost by chance.
        least_lost: f64 = 3.0, "packets", 1.0..=100.0, "2026-11-control-ablation";
        /// Weight of an arrived packet compared with a lost one. A burst at twice the path's rate loses half of the
        /// excess over the queue.
        worth_of_arrived: f64 = 0.5, "", 0.0..=10.0, "2026-11-control-ablation";
        /// Standard deviations by which losses at a full queue exceed the others. Random loss does not depend on the
        /// place in a burst.
        significance: f64 = 5.0, "", 0.0..=20.0, "2026-11-control-ablation";
    }
}

lockstep_units::config! {
    /// Paths on which sound has priority.
    pub struct NarrowPathConfig = "narrow_path" {
        /// Rate above which a path is not narrow: there normal sound leaves room for pictures.
        rate: Bitrate = 100_000, "bit/s", 1_000..=10_000_000, "2026-11-control-ablation";
        /// Number of consecutive periods (`reverse_path.period`) that show a standing queue. The rate is measured over
        /// them.
        standing_periods: u32 = 3, "periods", 1..=50, "2026-11-control-ablation";
    }
}

lockstep_units::config! {
    /// Limit by the bytes that the path delivered.
    pub struct DeliveredConfig = "delivered" {
        /// Bytes that may be in flight before the first feedback. The first second of a slow link is its worst.
        first_flight: ByteCount = 8_000, "bytes", 0..=10_000_000, "2026-11-control-ablation";
    }
}

lockstep_units::config! {
    /// Limit by bit rate.
    pub struct CeilingConfig = "ceiling" {
        /// Bit rate per pixel beyond which VP8 pictures gain nothing visible: its quantizer index is below about 8.
        bits_per_pixel: f64 = 0.5, "bits", 0.001..=24.0, "2026-11-control-ablation";
        /// Lower bound of the ceiling, since small pictures need more bits per pixel.
        least: Bitrate = 500_000, "bit/s", 1_000..=1_000_000_000, "2026-11-control-ablation";
        /// Minimum budget of a frame, as a share of the bytes of a frame interval. So the frames after a large one are
        /// not coarse on a fast path.
        least_share: f64 = 0.5, "", 0.0..=4.0, "2026-11-control-ablation";
    }
}

lockstep_units::config! {
    /// Sprout.
    pub struct SproutConfig = "sprout" {
        /// Initial rate: ten packets in 100 ms, TCP's initial window (RFC 6928).
        first_rate: f64 = 150_000.0, "bytes/s", 1000.0..=100_000_000.0, "2026-11-control-ablation";
        /// Drift of the rate per second, natural logarithm.
        volatility: f64 = 0.55, "", 0.01..=5.0, "2026-11-control-ablation";
        /// Probability that a forecast is not met.
        risk: f64 = 0.35, "", 0.001..=0.5, "2026-11-control-ablation";
        /// Upper bound of the tolerated queueing delay at any variation of deliveries. On a slow link the variation is
        /// always large.
        most_tolerated: f64 = 0.15, "s", 0.0..=5.0, "2026-11-control-ablation";
        /// Pacing rate over the mean rate.
        pacing: f64 = 4.0, "", 1.0..=64.0, "2026-11-control-ablation";
        /// Tolerated queueing delay.
        tolerated: f64 = 0.01, "s", 0.0..=1.0, "2026-11-control-ablation";
        /// Tolerated queueing delay as a share of a frame interval, if that is longer.
        interval_share: f64 = 0.85, "", 0.0..=5.0, "2026-11-control-ablation";
        /// Growth of the tolerated delay, as a multiple of the variation of delivery times.
        scatter: f64 = 2.2, "", 0.0..=10.0, "2026-11-control-ablation";
        /// Upper bound of a frame, as a share of the bytes that the own rate delivers in a frame interval.
        own_share: f64 = 1.3, "", 0.0..=10.0, "2026-11-control-ablation";
        /// Additional share of the bytes that the rate of bursts delivers in a frame interval.
        path_share: f64 = 0.45, "", 0.0..=10.0, "2026-11-control-ablation";
    }
}

lockstep_units::config! {
    /// The filter over the rate.
    pub struct RateFilterConfig = "rate_filter" {
        /// Initial dispersion of deliveries: variance over mean.
        first_dispersion: f64 = 0.6, "", 0.05..=8.0, "2026-11-control-ablation";
        /// Number of comparisons that the initial dispersion counts for. A slow link gives one per second, so there the
        /// initial value dominates for a minute.
        first_weight: f64 = 50.0, "", 1.0..=10_000.0, "2026-11-control-ablation";
        /// Variance of the packets in a tick, for a perfectly regular link that delivers more packets than this per
        /// tick.
        granularity: f64 = 0.25, "packets", 0.01..=10.0, "2026-11-control-ablation";
    }
}

lockstep_units::config! {
    /// Jitter: delays that no queue causes.
    pub struct JitterConfig = "jitter" {
        /// Weight of each delay in the averages: about two seconds of frames.
        weight: f64 = 0.02, "", 0.001..=1.0, "2026-11-control-ablation";
        /// Ratio of successive differences to deviations from the mean if all delay is jitter. The ratio is 1 without
        /// jitter.
        independent: f64 = 1.2, "", 1.001..=2.0, "2026-11-control-ablation";
    }
}

lockstep_units::config! {
    /// Claimed share beside cross traffic.
    pub struct ClaimConfig = "claim" {
        /// Claimed share of the path's rate.
        share: f64 = 0.4, "", 0.0..=0.5, "2026-11-control-ablation";
        /// Time that an unused claim is kept, since a picture may be larger than its part.
        kept: f64 = 0.25, "s", 0.0..=10.0, "2026-11-control-ablation";
        /// Upper bound of the claim as a multiple of the arrival rate. A wrong path rate then does not fill a slow
        /// path.
        growth: f64 = 1.5, "", 1.0..=100.0, "2026-11-control-ablation";
        /// Pacing rate over the mean rate: back to back, so that bursts show the path's rate.
        pacing: f64 = 32.0, "", 1.0..=1000.0, "2026-11-control-ablation";
        /// Budget of a frame that should have at least two packets: a codec fills three quarters of a budget.
        pair: f64 = 3.0, "packets", 1.0..=64.0, "2026-11-control-ablation";
    }
}

lockstep_units::config! {
    /// Fallback from the model to Sprout, and constants that the rule does not contain.
    pub struct LockstepConfig = "lockstep" {
        /// Additional delay of a frame after a skipped picture.
        skipped: f64 = 0.5, "frame intervals", 0.0..=4.0, "2026-11-control-ablation";
        /// Excess of an input over its range in training, as a share of the range, that starts the fallback. Two fifths
        /// of it end the fallback.
        unlike: f64 = 0.25, "", 0.0..=100.0, "2026-11-control-ablation";
        /// Delay of feedback that starts the fallback; half of it ends the fallback.
        late: f64 = 0.05, "s", 0.0..=10.0, "2026-11-control-ablation";
        /// Round-trip time above which a path is longer than the training paths.
        far: f64 = 0.35, "s", 0.0..=60.0, "2026-11-retraining";
        /// Number of pictures in these averages.
        averaged: f64 = 30.0, "pictures", 1.0..=1000.0, "2026-11-control-ablation";
        /// Minimum rate for a codec that follows a rate, as a share of the mean rate.
        least_target: f64 = 0.1, "", 0.0..=1.0, "2026-11-control-ablation";
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declared_constants_have_ranges_and_meanings() {
        lockstep_units::tuning::assert_well_declared(&Tuning::default());
    }
}
