//! The tuned constants of control, overridable for research: one configuration an algorithm.

use std::time::Duration;

use lockstep_units::{Bitrate, ByteCount};

use crate::learned::RuleTuning;

lockstep_units::tuning! {
    /// The tuned constants of the path observer, the limits and the default controller, one configuration an algorithm.
    pub struct Tuning {
        /// What the observer measures of the path.
        path: PathConfig,
        /// Cross traffic that keeps the queue filled.
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
        /// Paths on which sound goes first.
        narrow_path: NarrowPathConfig,
        /// The limit by what the path delivered.
        delivered: DeliveredConfig,
        /// The limit by bit rate.
        ceiling: CeilingConfig,
        /// Sprout, on which the default controller builds.
        sprout: SproutConfig,
        /// Its filter over the rate.
        rate_filter: RateFilterConfig,
        /// Its view of jitter.
        jitter: JitterConfig,
        /// The share that it claims beside flows that keep the queue filled.
        claim: ClaimConfig,
        /// When Sprout decides in the default controller.
        lockstep: LockstepConfig,
        /// The rule of the default controller.
        rule: RuleTuning,
    }
}

lockstep_units::config! {
    /// What the observer measures of the path.
    pub struct PathConfig = "path" {
        /// Deliveries are counted in sliding windows of this length: a larger frame arrives half a second late in any case.
        window: Duration = 0.5, "s", 0.05..=5.0, "2026-11-control-ablation";
        /// How long the most delivered in a window is remembered: a second or two of quiet must not forget the path.
        memory: Duration = 5.0, "s", 0.5..=60.0, "2026-11-control-ablation";
        /// How long base delays and base round trips are remembered. Cross traffic hides them for as long; clocks drift by 3 ms meanwhile.
        base_memory: Duration = 60.0, "s", 1.0..=600.0, "2026-11-control-ablation";
        /// Time constant of the average rate inside bursts.
        burst_fade: f64 = 0.3, "s", 0.01..=10.0, "2026-11-control-ablation";
        /// That rate is valid for this long after a burst.
        burst_memory: Duration = 2.0, "s", 0.1..=60.0, "2026-11-control-ablation";
        /// Longest time without a try where trying may show that the path carries more again: between probes, hellos and pairs
        /// of packets, between fragments on a narrow path, and before a narrow path is asked for more.
        retry: Duration = 1.0, "s", 0.02..=60.0, "2026-11-control-ablation";
        /// A burst limits nothing if its first fragment was queued for longer: behind a pause of the link it shows the rate of the last hop.
        idle_wait: Duration = 0.01, "s", 0.0..=1.0, "2026-11-control-ablation";
        /// Weight of feedback that waited longer than the mean; a tenth of it if it waited less.
        feedback_weight: f64 = 0.2, "", 0.0..=1.0, "2026-11-control-ablation";
    }
}

lockstep_units::config! {
    /// Cross traffic that keeps the queue filled.
    pub struct CrossTrafficConfig = "cross_traffic" {
        /// Cross traffic keeps the queue filled if every packet of a window (`path.window`) waited this long for it.
        wait: f64 = 0.02, "s", 0.001..=10.0, "2026-11-control-ablation";
        /// Less than this share of the path's rate is next to nothing.
        next_to_nothing: f64 = 0.15, "", 0.0..=1.0, "2026-11-control-ablation";
        /// The rate of a burst describes packets for this many round trips at least: the effect of an acknowledgement shows a
        /// round trip later.
        round_trips: f64 = 1.5, "", 0.0..=10.0, "2026-11-control-ablation";
    }
}

lockstep_units::config! {
    /// Paths that become longer, as told from queues.
    pub struct PathDelayConfig = "path_delay" {
        /// A longer path is noticed from this step of the delay on.
        least_step: Duration = 0.02, "s", 0.001..=1.0, "2026-11-control-ablation";
        /// Frames that have to be equally late.
        frames: u32 = 4, "frames", 2..=64, "2026-11-control-ablation";
        /// A standing queue would contradict its own rate by this factor: rates change, too.
        margin: f64 = 1.5, "", 1.0..=16.0, "2026-11-control-ablation";
    }
}

lockstep_units::config! {
    /// Silence of a path: packets were sent, and no feedback came.
    pub struct SilenceConfig = "silence" {
        /// Feedback may take this much longer than the smoothed round trip: pauses of cellular links are rarely longer. Bytes
        /// in flight that take no longer than this beyond the base round trip do not delay a probe, and a frame that has been
        /// whole for no longer than this is not late to be decoded.
        margin: Duration = 0.15, "s", 0.0..=5.0, "2026-11-control-ablation";
        /// Where feedback was delayed on its way back, it may be late by as much again, up to this: acknowledgements behind
        /// the other end's pictures are no silence. After this and three round trips without a decoded frame the receiver is
        /// stuck.
        latest_feedback: Duration = 0.5, "s", 0.0..=10.0, "2026-11-control-ablation";
        /// Round trip that is assumed before the first sample. On a path that may be narrow the first picture is enough for this
        /// time.
        first_round_trip: Duration = 0.5, "s", 0.001..=10.0, "2026-11-control-ablation";
    }
}

lockstep_units::config! {
    /// Probes: small frames that no budget holds, and hellos into silence.
    pub struct ProbingConfig = "probing" {
        /// Least pause between two probes.
        pause: Duration = 0.1, "s", 0.0..=10.0, "2026-11-control-ablation";
        /// Share of a window's deliveries that may go into silence before probes become rare: if those bytes are only
        /// queued, they are through 100 ms after the path works again.
        silent_share: f64 = 0.2, "", 0.0..=4.0, "2026-11-control-ablation";
        /// Share of the delivery rate that probes may use while a silence lasts.
        rate_share: f64 = 0.02, "", 0.0..=1.0, "2026-11-control-ablation";
        /// Least pause between two hellos into silence.
        hello_pause: Duration = 0.02, "s", 0.001..=0.02, "2026-11-control-ablation";
        /// Share of the delivery rate that hellos may use.
        hello_share: f64 = 0.0625, "", 0.0001..=1.0, "2026-11-control-ablation";
        /// A pause between hellos lasts one part in this many of the silence: a path that loses packets in bursts works
        /// again after a number of packets, not after a time.
        hello_fade: u32 = 40, "", 1..=10_000, "2026-11-control-ablation";
    }
}

lockstep_units::config! {
    /// Loss, parity, and frames that do not build on the one before.
    pub struct LossConfig = "loss" {
        /// Weight of a fragment in the share of fragments lost: the last few hundred count.
        weight: f64 = 0.0025, "", 0.0001..=1.0, "2026-11-control-ablation";
        /// Weight of a frame in the share of frames lost.
        frame_weight: f64 = 0.0625, "", 0.001..=1.0, "2026-11-control-ablation";
        /// Worth of a frame that is shown, in frames' bits: more buys more parity.
        worth: f64 = 4.0, "frames", 0.0..=64.0, "2026-11-control-ablation";
        /// Cost of coding each frame from an acknowledged state, in frames' bits.
        cost_of_held: f64 = 0.4, "frames", 0.0..=64.0, "2026-11-control-ablation";
        /// Where more frames than this share are lost, all are coded from acknowledged states: a loss then costs one frame
        /// rather than those of a round trip.
        most_chained: f64 = 0.05, "", 0.0..=1.0, "2026-11-control-ablation";
    }
}

lockstep_units::config! {
    /// Bottleneck queues that are shorter than a frame.
    pub struct ShortQueueConfig = "short_queue" {
        /// Share of the queue that is used: rates and sizes are estimates.
        used: f64 = 0.75, "", 0.05..=1.0, "2026-11-control-ablation";
        /// A packet that left this long before one with a known outcome has no news: of a frame that parity completes
        /// nobody reports which fragments were lost.
        overtaken_by: Duration = 0.25, "s", 0.0..=2.0, "2026-11-control-ablation";
        /// The pacer holds at most the bytes of this time before more is coded: two frame intervals of most videos.
        most_paced: Duration = 0.066, "s", 0.001..=2.0, "2026-11-control-ablation";
        /// Weight of a frame in the rate at which the path empties the queue.
        rate_weight: f64 = 0.5, "", 0.01..=1.0, "2026-11-control-ablation";
        /// Fragments that took this many times as long to arrive as to leave were slowed down on the way.
        slowed: f64 = 1.2, "", 1.0..=10.0, "2026-11-control-ablation";
        /// Fragments lost that are evidence: two are lost together by chance.
        least_lost: f64 = 3.0, "packets", 1.0..=100.0, "2026-11-control-ablation";
        /// A packet that arrived counts as this share of one that was lost: a burst at twice the path's rate loses half of
        /// what exceeds the queue.
        worth_of_arrived: f64 = 0.5, "", 0.0..=10.0, "2026-11-control-ablation";
        /// Standard deviations by which losses behind a full queue exceed the others: random loss has no place in a burst.
        significance: f64 = 5.0, "", 0.0..=20.0, "2026-11-control-ablation";
    }
}

lockstep_units::config! {
    /// Paths on which sound goes first.
    pub struct NarrowPathConfig = "narrow_path" {
        /// A path that carries more is not narrow: above, sound as it usually goes leaves something for pictures.
        rate: Bitrate = 100_000, "bit/s", 1_000..=10_000_000, "2026-11-control-ablation";
        /// A queue stands after this many periods (`reverse_path.period`) in a row; the rate is measured over them.
        standing_periods: u32 = 3, "periods", 1..=50, "2026-11-control-ablation";
    }
}

lockstep_units::config! {
    /// The limit by what the path delivered.
    pub struct DeliveredConfig = "delivered" {
        /// Bytes that may be in flight before the first feedback: a slow link's first second is its worst.
        first_flight: ByteCount = 8_000, "bytes", 0..=10_000_000, "2026-11-control-ablation";
    }
}

lockstep_units::config! {
    /// The limit by bit rate.
    pub struct CeilingConfig = "ceiling" {
        /// Beyond this VP8 gains nothing that is seen: its quantizer index is below 8 or so.
        bits_per_pixel: f64 = 0.5, "bits", 0.001..=24.0, "2026-11-control-ablation";
        /// The least ceiling: small pictures need more bits a pixel.
        least: Bitrate = 500_000, "bit/s", 1_000..=1_000_000_000, "2026-11-control-ablation";
        /// Share of a frame interval's bytes that a frame may have in any case: after larger frames the next ones are not
        /// coarse while the path is fast.
        least_share: f64 = 0.5, "", 0.0..=4.0, "2026-11-control-ablation";
    }
}

lockstep_units::config! {
    /// Sprout.
    pub struct SproutConfig = "sprout" {
        /// Rate that is expected at first: ten packets in 100 ms, TCP's initial window (RFC 6928).
        first_rate: f64 = 150_000.0, "bytes/s", 1000.0..=100_000_000.0, "2026-11-control-ablation";
        /// How much a rate drifts in a second, natural logarithm.
        volatility: f64 = 0.55, "", 0.01..=5.0, "2026-11-control-ablation";
        /// Probability that a forecast is missed.
        risk: f64 = 0.35, "", 0.001..=0.5, "2026-11-control-ablation";
        /// However much deliveries scatter, no longer delay in the queue is tolerated: on a slow link all do.
        most_tolerated: f64 = 0.15, "s", 0.0..=5.0, "2026-11-control-ablation";
        /// Pacing rate over the mean rate.
        pacing: f64 = 4.0, "", 1.0..=64.0, "2026-11-control-ablation";
        /// Tolerated delay in the queue.
        tolerated: f64 = 0.01, "s", 0.0..=1.0, "2026-11-control-ablation";
        /// That delay, as a share of a frame interval, if that is longer.
        interval_share: f64 = 0.85, "", 0.0..=5.0, "2026-11-control-ablation";
        /// The tolerated delay grows by this many times the time over which deliveries scatter.
        scatter: f64 = 2.2, "", 0.0..=10.0, "2026-11-control-ablation";
        /// Most that a frame may have, as a share of what the own rate carries in a frame interval.
        own_share: f64 = 1.3, "", 0.0..=10.0, "2026-11-control-ablation";
        /// It may have this share of what the rate of bursts carries, too.
        path_share: f64 = 0.45, "", 0.0..=10.0, "2026-11-control-ablation";
    }
}

lockstep_units::config! {
    /// The filter over the rate.
    pub struct RateFilterConfig = "rate_filter" {
        /// Dispersion of deliveries at first: variance over mean.
        first_dispersion: f64 = 0.6, "", 0.05..=8.0, "2026-11-control-ablation";
        /// Comparisons that it counts for. A slow link gives one a second, so that the first belief decides for a minute there.
        first_weight: f64 = 50.0, "", 1.0..=10_000.0, "2026-11-control-ablation";
        /// Variance of the packets in a tick of a perfectly even link that carries more than this in a tick.
        granularity: f64 = 0.25, "packets", 0.01..=10.0, "2026-11-control-ablation";
    }
}

lockstep_units::config! {
    /// Jitter: waits that no queue makes.
    pub struct JitterConfig = "jitter" {
        /// Weight of each wait in the averages: some two seconds of frames.
        weight: f64 = 0.02, "", 0.001..=1.0, "2026-11-control-ablation";
        /// Successive waits differ this many times as much as each does from the mean if all of it is jitter; as much if none is.
        independent: f64 = 1.2, "", 1.001..=2.0, "2026-11-control-ablation";
    }
}

lockstep_units::config! {
    /// The share claimed beside cross traffic.
    pub struct ClaimConfig = "claim" {
        /// Share of the path's rate that is claimed.
        share: f64 = 0.4, "", 0.0..=0.5, "2026-11-control-ablation";
        /// An unused claim is kept for this long; a picture may be larger than its part.
        kept: f64 = 0.25, "s", 0.0..=10.0, "2026-11-control-ablation";
        /// The claim is at most this many times the rate of arrivals: a path that was taken for a faster one is not filled.
        growth: f64 = 1.5, "", 1.0..=100.0, "2026-11-control-ablation";
        /// Pacing rate over the mean rate: right behind each other, so that bursts show the path's rate.
        pacing: f64 = 32.0, "", 1.0..=1000.0, "2026-11-control-ablation";
        /// Packets that a frame may have that should be two at least: a codec fills three quarters of a budget.
        pair: f64 = 3.0, "packets", 1.0..=64.0, "2026-11-control-ablation";
    }
}

lockstep_units::config! {
    /// When Sprout decides in place of the model, and what the rule leaves open.
    pub struct LockstepConfig = "lockstep" {
        /// A frame may be later by this many frame intervals behind a picture that was skipped.
        skipped: f64 = 0.5, "frame intervals", 0.0..=4.0, "2026-11-control-ablation";
        /// Inputs beyond those of training by this share of their range are unlike those; two fifths of it end that.
        unlike: f64 = 0.25, "", 0.0..=100.0, "2026-11-control-ablation";
        /// Feedback is late if it waits this long; half of it ends that.
        late: f64 = 0.05, "s", 0.0..=10.0, "2026-11-control-ablation";
        /// A path that takes this long there and back is longer than the lessons' paths.
        far: f64 = 0.35, "s", 0.0..=60.0, "2026-11-retraining";
        /// Pictures over which these are averaged.
        averaged: f64 = 30.0, "pictures", 1.0..=1000.0, "2026-11-control-ablation";
        /// Least rate for a codec that follows one, as a share of the mean rate.
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
