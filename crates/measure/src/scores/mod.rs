//! Scores of a call, computed from its frame log and its packets.
//!
//! - `video_delay_ms` follows the text of Salsify's paper (NSDI 2018, section 5.1). For every captured picture it is
//!   the time until this or a later one is shown. A skipped or lost frame counts with the wait for the next one.
//! - `displayed_delay_ms` follows Salsify's published analysis files and figures: the same time, of shown frames only.
//!   It is shorter and hardly shows outages.
//! - A stall is the time of freezes ([`FreezeDetector`](crate::FreezeDetector)), as defined by WebRTC's getStats.
//! - SSIM in dB is -10 log10(1 - SSIM) of the shown pictures.
//! - QoE is Concerto's (MobiCom 2019, Table 2): a linear function of the mean delay and the mean quality.
//!
//! Counting is incremental ([`FrameScores`], [`PacketLog`](crate::packets::PacketLog)), in memory that does not grow
//! with the call. Counts, sums and means are exact; quantiles are those of a [`Distribution`].

mod floor;
mod network;
mod smoothness;
mod target;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use lockstep_call::{DelayScores, Distribution, FrameRecord, Outcome};
use lockstep_control::LimitedBy;
use lockstep_media::ssim_db;
use lockstep_units::{Bitrate, ByteCount, Timestamp};

use crate::series::{Series, SeriesRecorder};

use floor::FloorScores;
pub use floor::{NEAR_FLOOR, SMALL_PACKET, VideoDelayFloor};
pub use network::{NetworkScores, TotalScores};
pub use smoothness::FreezeScores;
use smoothness::{Smoothness, SmoothnessScores};
use target::{TargetScores, TargetSteps};

/// Linear QoE model of Concerto, Table 2: `delay * milliseconds + quality * SSIM dB + constant`.
struct QualityOfExperience {
    delay: f64,
    quality: f64,
    constant: f64,
}

/// Concerto's model for quality-sensitive applications, QoE_p.
const QOE_P: QualityOfExperience = QualityOfExperience { delay: -6.39e-4, quality: 6.22e-2, constant: 3.30 };
/// Concerto's model for delay-sensitive applications, QoE_d.
const QOE_D: QualityOfExperience = QualityOfExperience { delay: -1e-3 * 1.92, quality: 1.01e-1, constant: 2.67 };

impl QualityOfExperience {
    fn score(&self, delay_ms: f64, ssim_db: f64) -> f64 {
        self.delay * delay_ms + self.quality * ssim_db + self.constant
    }
}

/// QoE_d (Concerto, MobiCom 2019, Table 2) of a mean video delay in ms and a mean SSIM in dB.
#[must_use]
pub fn qoe_d(delay_ms: f64, ssim_db: f64) -> f64 {
    QOE_D.score(delay_ms, ssim_db)
}

/// SSIM of the displayed frames, dB.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SsimScores {
    /// First quartile.
    pub p25: f64,
    /// Mean SSIM, converted to dB.
    pub mean: f64,
}

/// PSNR of the displayed frames, dB.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PsnrScores {
    /// Mean of the frames' PSNR.
    pub mean: f64,
}

/// Number of frames by outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrameCounts {
    /// Captured pictures.
    pub captured: u64,
    /// Sent frames.
    pub sent: u64,
    /// Pictures that were not sent.
    pub skipped: u64,
    /// Frames shown at the receiver.
    pub displayed: u64,
    /// Sent key frames.
    pub key: u64,
    /// Sent recovery frames.
    pub recovery: u64,
}

/// States that both ends hold: means over the coded pictures, without the empty state.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct StateScores {
    /// Number of states at the sender.
    pub sender: f64,
    /// Number of states at the receiver, by its acknowledgements.
    pub receiver: f64,
    /// Bytes that one state holds by itself. States share pictures, so several need less; none without pixels.
    pub bytes: Option<f64>,
}

/// Choices among the candidates of coded pictures, as shares (0-1) that sum to 1 (Salsify, section 5.2).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ChoiceScores {
    /// The largest candidate was sent: the better version.
    pub better: f64,
    /// A smaller candidate was sent.
    pub worse: f64,
    /// No candidate was sent.
    pub none: f64,
}

/// Scores of one call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Scores {
    /// Duration of the scored part, seconds. It is shorter than requested if the source ended earlier.
    #[serde(default)]
    pub scored_seconds: f64,
    /// Video delay of all captured pictures, ms; `None` if nothing was shown.
    pub video_delay_ms: Option<DelayScores>,
    /// Displayed delay of the shown frames, ms, as in Salsify's published figures; `None` if nothing was shown.
    pub displayed_delay_ms: Option<DelayScores>,
    /// Lower bound on the video delay ([`VideoDelayFloor`]), ms; `None` if the path is unknown. Coding time counts as
    /// zero in a live call.
    pub video_delay_floor_ms: Option<DelayScores>,
    /// Share (0-1) of captured pictures with a video delay of at most [`NEAR_FLOOR`] times their floor. `None` if
    /// nothing was shown or the path is unknown.
    pub near_floor: Option<f64>,
    /// SSIM of the shown frames.
    pub ssim_db: Option<SsimScores>,
    /// PSNR of the shown frames.
    pub psnr_db: Option<PsnrScores>,
    /// SSIM of the text in the shown frames of a screen, dB of the mean; `None` for other sources.
    pub text_ssim_db: Option<f64>,
    /// Rate of datagram bytes at the receiver over the scored part, bit/s.
    pub throughput_bps: u64,
    /// Received bytes over the capacity of the link.
    pub link_utilisation: f64,
    /// Number of frames by outcome.
    pub frames: FrameCounts,
    /// States that both ends hold; `None` if no picture was coded.
    #[serde(default)]
    pub states: Option<StateScores>,
    /// Choices among candidates; `None` if no picture was coded.
    #[serde(default)]
    pub choices: Option<ChoiceScores>,
    /// Share (0-1) of each binding limit ([`LimitedBy`]) in the captured pictures for which it is known.
    #[serde(default)]
    pub limited_by: BTreeMap<LimitedBy, f64>,
    /// Mean fill of the sent frames that are within their budget.
    pub fill: Option<f64>,
    /// Share of sent frames that exceed their budget.
    pub overshoot_ratio: Option<f64>,
    /// Shown frames per second over the scored part. getStats' `framesPerSecond` covers the last second.
    #[serde(default)]
    pub frames_per_second: f64,
    /// Sum of display durations over the sum of their squares, frames per second. Sources: W3C webrtc-stats
    /// (`totalInterFrameDelay` over `totalSquaredInterFrameDelay`), libwebrtc.
    ///
    /// It is the frame rate at a random time. It equals `frames_per_second` for regular displays and is much lower for
    /// irregular ones. `None` if nothing was shown, or one picture without a freeze.
    #[serde(default)]
    pub harmonic_frame_rate: Option<f64>,
    /// Freezes of the call.
    #[serde(default)]
    pub freezes: FreezeScores,
    /// Time of freezes ([`FreezeScores::total_seconds`]), minutes per hour of call.
    pub stall_minutes_per_hour: f64,
    /// Concerto's QoE_p.
    pub qoe_p: Option<f64>,
    /// Concerto's QoE_d.
    pub qoe_d: Option<f64>,
    /// Upper bound on QoE_d that no controller exceeds in this call, if requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qoe_d_bound: Option<f64>,
    /// QoE_d of a feasible schedule that knows the whole call. The optimum lies between it and the bound. `None`
    /// without a bound, or if packets are lost or delayed at random.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qoe_d_schedule: Option<f64>,
    /// One-way delay of the packets that arrived, ms.
    pub one_way_delay_ms: Option<DelayScores>,
    /// Queueing delay of the packets that arrived, ms.
    pub queueing_delay_ms: Option<DelayScores>,
    /// Share (0-1) of scored packets that did not arrive until the end of the call, [`DRAIN`](crate::DRAIN) after the
    /// scored part.
    pub packet_loss: Option<f64>,
    /// Mean change of the target between intervals of 100 ms, bit/s (eta = mean |a(n+1) - a(n)|).
    pub target_smoothness_bps: Option<f64>,
    /// Symmetric mean absolute percentage error of the estimate against the capacity, 0-200. It is the mean of 100 |e -
    /// c| / ((e + c) / 2) over the points of the series.
    pub estimate_smape_percent: Option<f64>,
    /// The same error in the range of BoB's paper (IEEE TMM 2022), 0-2.
    #[serde(default)]
    pub estimate_smape: Option<f64>,
    /// BoB's prediction accuracy (IEEE TMM 2022), 0-1: 1 - sMAPE / 2, with an sMAPE of 0 to 2.
    pub estimate_accuracy: Option<f64>,
    /// Network score of the MMSys'21 challenge.
    pub network: Option<NetworkScores>,
    /// VMAF of the shown pictures, 0-100; `None` if it was not measured.
    pub vmaf: Option<f64>,
    /// Reason why there is no VMAF.
    pub vmaf_missing: Option<String>,
    /// Combined scores of network and video; `None` without VMAF.
    pub total: Option<TotalScores>,
}

/// Reason in reports if VMAF was not requested.
pub const VMAF_NOT_ASKED_FOR: &str = "not asked for";

impl Scores {
    /// Adds the measured VMAF, 0-100, or the reason why there is none. A missing VMAF is never replaced by another
    /// value.
    #[must_use]
    pub fn with_vmaf(mut self, vmaf: Result<f64, String>) -> Self {
        match vmaf {
            Ok(vmaf) => {
                self.total = self.network.map(|network| network.with_video(vmaf));
                (self.vmaf, self.vmaf_missing) = (Some(vmaf), None);
            }
            Err(reason) => (self.vmaf, self.vmaf_missing, self.total) = (None, Some(reason), None),
        }
        self
    }
}

/// Video delay of each record, seconds. A frame without a later display counts until `end`.
#[must_use]
pub fn video_delays(records: &[FrameRecord], end: Timestamp) -> Vec<f64> {
    let mut delays = vec![0.0; records.len()];
    let mut first_display = end;
    for (record, delay) in records.iter().zip(&mut delays).rev() {
        if let Some(displayed) = record.displayed_at {
            first_display = first_display.min(displayed);
        }
        *delay = first_display.saturating_since(record.captured_at).as_secs_f64();
    }
    delays
}

/// Counters of final frames, in order of capture.
#[derive(Debug, Clone)]
pub(crate) struct FrameScores {
    start: Timestamp,
    end: Timestamp,
    counts: FrameCounts,
    delays_ms: Distribution,
    displayed_delays_ms: Distribution,
    floor: Option<FloorScores>,
    ssim: Sum,
    ssim_db: Distribution,
    psnr_db: Sum,
    text_ssim: Sum,
    limited_by: BTreeMap<LimitedBy, u64>,
    fill: Sum,
    states: [Sum; 3],
    /// Number of coded pictures of which the largest, a smaller, or no candidate was sent.
    choices: [u64; 3],
    over: u64,
    smoothness: Smoothness,
    steps: TargetSteps,
    shown: ByteCount,
}

/// Sum and count of a mean.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    sum: f64,
    count: u64,
}

impl Sum {
    fn add(&mut self, value: f64) {
        self.sum += value;
        self.count += 1;
    }

    fn mean(self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / self.count as f64)
    }
}

impl FrameScores {
    /// Counters of a call that starts at `start` and is scored for `length`.
    pub(crate) fn new(start: Timestamp, length: Duration, frame_interval: Duration) -> Self {
        Self {
            start,
            end: start + length,
            counts: FrameCounts::default(),
            delays_ms: Distribution::of_milliseconds(),
            displayed_delays_ms: Distribution::of_milliseconds(),
            floor: None,
            ssim: Sum::default(),
            ssim_db: Distribution::new(1e-6),
            psnr_db: Sum::default(),
            text_ssim: Sum::default(),
            limited_by: BTreeMap::new(),
            fill: Sum::default(),
            states: [Sum::default(); 3],
            choices: [0; 3],
            over: 0,
            smoothness: Smoothness::new(start, frame_interval),
            steps: TargetSteps::new(start),
            shown: ByteCount::ZERO,
        }
    }

    /// Compares every later frame with `floor`.
    pub(crate) fn compare_with(&mut self, floor: VideoDelayFloor) {
        self.floor = Some(FloorScores::new(floor));
    }

    /// Shortens the scored part. No frame captured from `end` on has been counted.
    pub(crate) fn end_at(&mut self, end: Timestamp) {
        self.end = self.end.min(end);
    }

    /// End of the scored part.
    pub(crate) fn end(&self) -> Timestamp {
        self.end
    }

    /// Duration of the scored part.
    pub(crate) fn length(&self) -> Duration {
        self.end.saturating_since(self.start)
    }

    /// Counts a final frame with its video delay.
    pub(crate) fn frame(&mut self, record: &FrameRecord, video_delay: Duration) {
        if record.displayed_at.is_some() {
            self.shown += record.size.unwrap_or_default();
        }
        // Capture continues after the scored part, so that later frames follow the last scored ones.
        if record.captured_at >= self.end {
            return;
        }
        self.counts.captured += 1;
        self.delays_ms.add(video_delay.as_secs_f64() * 1e3);
        if let Some(floor) = &mut self.floor {
            floor.frame(record.captured_at, video_delay);
        }
        if let Some(target) = record.target {
            self.steps.target(record.captured_at, target);
        }
        if let Some(limit) = record.limited_by {
            *self.limited_by.entry(limit).or_default() += 1;
        }
        let [sender, receiver] = [record.sender_states, record.receiver_states].map(|states| states.map(f64::from));
        for (sum, value) in self.states.iter_mut().zip([sender, receiver, record.state_size.map(ByteCount::as_f64)]) {
            value.into_iter().for_each(|value| sum.add(value));
        }
        if let Some(largest) = record.candidates.iter().max() {
            let choice = match record.size {
                Some(size) if size == *largest => 0,
                Some(_) => 1,
                None => 2,
            };
            self.choices[choice] += 1;
        }
        if record.outcome == Outcome::Sent {
            self.counts.sent += 1;
            self.counts.key += u64::from(record.key_frame);
            self.counts.recovery += u64::from(record.recovery);
            self.over += u64::from(record.size > record.budget);
            if let Some(fill) = record.fill().filter(|&fill| fill <= 1.0) {
                self.fill.add(fill);
            }
        }
        let Some(displayed_at) = record.displayed_at else { return };
        self.counts.displayed += 1;
        self.displayed_delays_ms.add(displayed_at.saturating_since(record.captured_at).as_secs_f64() * 1e3);
        if displayed_at < self.end {
            self.smoothness.shown(displayed_at);
        }
        if let Some(ssim) = record.ssim {
            self.ssim.add(ssim);
            self.ssim_db.add(ssim_db(ssim));
        }
        if let Some(psnr_db) = record.psnr_db {
            self.psnr_db.add(psnr_db);
        }
        if let Some(text_ssim) = record.text_ssim {
            self.text_ssim.add(text_ssim);
        }
    }

    /// Bytes of all shown frames, scored or not.
    pub(crate) fn shown(&self) -> ByteCount {
        self.shown
    }

    /// Scores of the call, with those of the packets in `recorder` and of the points of `series`. `capacity` is the
    /// link's capacity in the scored part.
    pub(crate) fn scores(mut self, recorder: &mut SeriesRecorder, capacity: ByteCount, series: &Series) -> Scores {
        let length = self.length();
        let delivered = recorder.received_within(length);
        let target = TargetScores::of(series);
        let frames = FrameCounts { skipped: self.counts.captured - self.counts.sent, ..self.counts };
        // If nothing is ever shown, the time until the end of the call is not a delay.
        let delays = (frames.displayed > 0).then_some(&mut self.delays_ms);
        let video_delay_ms = delays.and_then(DelayScores::of);
        let near_floor = self.floor.as_ref().and_then(FloorScores::near).filter(|_| frames.displayed > 0);
        let ssim_scores = self
            .ssim_db
            .quantile(0.25)
            .zip(self.ssim.mean())
            .map(|(p25, mean_ssim)| SsimScores { p25, mean: ssim_db(mean_ssim) });
        let qoe = |model: QualityOfExperience| Some(model.score(video_delay_ms?.mean, ssim_scores?.mean));
        let SmoothnessScores { frames_per_second, harmonic_frame_rate, freezes } = self.smoothness.scores(self.end);
        let packets = recorder.packets();
        let ([sender, receiver, bytes], coded) = (self.states, self.choices.iter().sum::<u64>());
        Scores {
            scored_seconds: length.as_secs_f64(),
            video_delay_ms,
            displayed_delay_ms: DelayScores::of(&mut self.displayed_delays_ms),
            video_delay_floor_ms: self.floor.as_mut().and_then(FloorScores::floor_ms),
            near_floor,
            ssim_db: ssim_scores,
            psnr_db: self.psnr_db.mean().map(|mean| PsnrScores { mean }),
            text_ssim_db: self.text_ssim.mean().map(ssim_db),
            throughput_bps: Bitrate::mean(delivered, length).as_bps(),
            link_utilisation: if capacity == ByteCount::ZERO { 0.0 } else { delivered.as_f64() / capacity.as_f64() },
            frames,
            states: sender.mean().zip(receiver.mean()).map(|(sender, receiver)| StateScores {
                sender,
                receiver,
                bytes: bytes.mean(),
            }),
            choices: (coded > 0).then(|| {
                let [better, worse, none] = self.choices.map(|count| count as f64 / coded as f64);
                ChoiceScores { better, worse, none }
            }),
            limited_by: shares(&self.limited_by),
            fill: self.fill.mean(),
            overshoot_ratio: (frames.sent > 0).then(|| self.over as f64 / frames.sent as f64),
            frames_per_second,
            harmonic_frame_rate,
            freezes,
            stall_minutes_per_hour: 60.0 * freezes.total_seconds / length.as_secs_f64().max(1e-9),
            qoe_p: qoe(QOE_P),
            qoe_d: qoe(QOE_D),
            qoe_d_bound: None,
            qoe_d_schedule: None,
            one_way_delay_ms: packets.one_way_delay_ms(),
            queueing_delay_ms: packets.queueing_delay_ms(),
            packet_loss: packets.loss(),
            target_smoothness_bps: self.steps.mean(length),
            estimate_smape_percent: target.smape.map(|error| 100.0 * error),
            estimate_smape: target.smape,
            estimate_accuracy: target.accuracy,
            network: NetworkScores::of(packets, length, capacity),
            vmaf: None,
            vmaf_missing: Some(VMAF_NOT_ASKED_FOR.to_owned()),
            total: None,
        }
    }
}

/// Shares of counts in their sum.
fn shares(counts: &BTreeMap<LimitedBy, u64>) -> BTreeMap<LimitedBy, f64> {
    let all: u64 = counts.values().sum();
    counts.iter().map(|(&limit, &count)| (limit, count as f64 / all.max(1) as f64)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call_log::CallLog;

    fn record(capture: u64, displayed_ms: Option<u64>) -> FrameRecord {
        let mut record = FrameRecord::captured(capture, Timestamp::from_millis(capture * 100));
        record.displayed_at = displayed_ms.map(Timestamp::from_millis);
        record.outcome = if displayed_ms.is_some() { Outcome::Sent } else { Outcome::SkippedOverBudget };
        record
    }

    #[test]
    fn a_frame_that_is_not_shown_waits_for_the_next_shown_one() {
        let records = [record(0, Some(50)), record(1, None), record(2, Some(260))];
        let delays = video_delays(&records, Timestamp::from_millis(1_000));
        assert_eq!(delays, [0.05, 0.16, 0.06]);
    }

    #[test]
    fn frames_after_the_last_display_wait_until_the_end() {
        let delays = video_delays(&[record(0, Some(50)), record(1, None)], Timestamp::from_millis(500));
        assert_eq!(delays, [0.05, 0.4]);
    }

    #[test]
    fn displayed_delay_covers_shown_and_video_delay_all_frames() {
        // Captured at 0, 100, 200, 300 ms. The first is shown after 50 ms, the last after 60 ms, the others never.
        let records = [record(0, Some(50)), record(1, None), record(2, None), record(3, Some(360))];
        let mut scores = FrameScores::new(Timestamp::ZERO, Duration::from_secs(1), Duration::from_millis(100));
        let end = Timestamp::from_millis(1_000);
        for (record, delay) in records.iter().zip(video_delays(&records, end)) {
            scores.frame(record, Duration::from_secs_f64(delay));
        }
        let scores = scores.scores(&mut recorder(), ByteCount::ZERO, &Series::default());
        let (all, displayed) = (scores.video_delay_ms.unwrap(), scores.displayed_delay_ms.unwrap());
        assert!((all.mean - (50.0 + 260.0 + 160.0 + 60.0) / 4.0).abs() < 1e-6, "{all:?}");
        assert!((displayed.mean - 55.0).abs() < 1e-6 && (displayed.p50 - 55.0).abs() < 1e-6, "{displayed:?}");
    }

    #[test]
    fn choices_and_states_are_means_of_coded_pictures() {
        let sizes = [Some(900), Some(400), None, None];
        let mut records: Vec<FrameRecord> = (0..4).map(|capture| record(capture, None)).collect();
        for (record, size) in records.iter_mut().zip(sizes).take(3) {
            record.candidates = [900, 400].map(ByteCount::new).to_vec();
            record.size = size.map(ByteCount::new);
            record.state_size = record.size.map(|_| ByteCount::new(5_000));
            (record.sender_states, record.receiver_states) = (Some(1 + record.capture as u16), Some(1));
        }
        let (scores, _) = score_of(&records, recorder(), Duration::from_secs(1));
        let third = 1.0 / 3.0;
        assert_eq!(scores.choices, Some(ChoiceScores { better: third, worse: third, none: third }));
        assert_eq!(scores.states, Some(StateScores { sender: 2.0, receiver: 1.0, bytes: Some(5_000.0) }));
        let (uncoded, _) = score_of(&records[3..], recorder(), Duration::from_secs(1));
        assert_eq!((uncoded.choices, uncoded.states), (None, None));
    }

    #[test]
    fn stalls_equal_the_time_of_freezes() {
        let records = [record(0, Some(20)), record(1, Some(120)), record(9, Some(920)), record(10, Some(1_020))];
        let mut scores = FrameScores::new(Timestamp::ZERO, Duration::from_millis(1_100), Duration::from_millis(100));
        records.iter().for_each(|record| scores.frame(record, Duration::from_millis(20)));
        let scores = scores.scores(&mut recorder(), ByteCount::ZERO, &Series::default());
        assert_eq!(scores.freezes, FreezeScores { count: 1, total_seconds: 0.8, longest_seconds: 0.8 });
        assert!((scores.stall_minutes_per_hour - 60.0 * 0.8 / 1.1).abs() < 1e-9);
        assert!((scores.frames_per_second - 4.0 / 1.1).abs() < 1e-9);
        assert!((scores.harmonic_frame_rate.unwrap() - 1.0 / (0.01 + 0.64 + 0.01)).abs() < 1e-9);
    }

    #[test]
    fn qoe_matches_table_2_of_concerto() {
        assert!((QOE_P.score(200.0, 16.0) - (3.30 - 0.1278 + 0.9952)).abs() < 1e-9);
        assert!((QOE_D.score(200.0, 16.0) - (2.67 - 0.384 + 1.616)).abs() < 1e-9);
    }

    fn recorder() -> SeriesRecorder {
        SeriesRecorder::new(Timestamp::ZERO, Duration::MAX)
    }

    fn score_of(records: &[FrameRecord], recorder: SeriesRecorder, length: Duration) -> (Scores, Series) {
        let mut log = CallLog::new(Timestamp::ZERO, length, Duration::from_millis(33));
        records.iter().for_each(|record| log.decided(record.clone()));
        let finished = log.finish(recorder, |from, to| Bitrate::from_kbps(800).bytes_in(to.saturating_since(from)));
        (finished.scores, finished.series)
    }

    #[test]
    fn an_empty_call_has_scores_without_division_by_zero() {
        let (scores, _) = score_of(&[], recorder(), Duration::ZERO);
        assert_eq!((scores.video_delay_ms, scores.network, scores.packet_loss), (None, None, None));
        assert_eq!(scores.frames, FrameCounts::default());
    }

    #[test]
    fn a_call_without_displays_has_no_video_delay() {
        let (scores, _) = score_of(&[record(0, None), record(1, None)], recorder(), Duration::from_secs(7));
        assert_eq!((scores.frames.captured, scores.frames.displayed), (2, 0));
        assert_eq!((scores.video_delay_ms, scores.displayed_delay_ms, scores.qoe_d), (None, None, None));
        assert_eq!((scores.frames_per_second, scores.harmonic_frame_rate, scores.freezes.count), (0.0, None, 1));
        assert!((scores.stall_minutes_per_hour - 60.0).abs() < 1e-9);
        assert!((scores.scored_seconds - 7.0).abs() < 1e-9);
    }

    #[test]
    fn the_series_repeats_the_last_target_between_pictures() {
        let mut records = [record(0, None), record(3, None)];
        for (record, kbps) in records.iter_mut().zip([400, 800]) {
            record.target = Some(Bitrate::from_kbps(kbps));
            record.estimate = Some(Bitrate::from_kbps(800));
        }
        let (scores, series) = score_of(&records, recorder(), Duration::from_millis(500));
        assert_eq!(series.target_bps, [400_000, 400_000, 400_000, 800_000, 800_000].map(Some));
        assert_eq!((scores.target_smoothness_bps, scores.estimate_accuracy), (Some(100_000.0), Some(1.0)));
        assert_eq!((scores.estimate_smape, scores.estimate_smape_percent), (Some(0.0), Some(0.0)));
    }

    #[test]
    fn a_missing_vmaf_is_reported_and_gives_no_total_score() {
        let mut recorder = recorder();
        recorder.sent(Timestamp::ZERO, ByteCount::new(100));
        recorder.received(Timestamp::from_millis(9), Timestamp::ZERO, ByteCount::new(100), Duration::ZERO);
        let (scores, _) = score_of(&[], recorder, Duration::from_secs(1));
        let with = scores.clone().with_vmaf(Ok(90.0));
        assert!((with.total.unwrap().bob - with.network.unwrap().bob - 27.0).abs() < 1e-9);
        let without = with.with_vmaf(Err("no ffmpeg".to_owned()));
        assert_eq!((without.vmaf, without.total), (None, None));
        assert_eq!(without.vmaf_missing.as_deref(), Some("no ffmpeg"));
    }
}
