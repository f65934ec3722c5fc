//! Output for the user: progress during a command, and a summary at its end.

use std::collections::BTreeMap;
use std::io::{IsTerminal, stderr};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use lockstep_call::{SoundScores, mean};
use lockstep_control::LimitedBy;
use lockstep_measure::{PersonFlowReport, RoomReport, Scores, VMAF_NOT_ASKED_FOR};
use lockstep_units::{Bitrate, printable};

use crate::output_file;

/// Progress bar with a message. If standard error is not a terminal, it is a plain line every few seconds.
pub struct Progress {
    bar: ProgressBar,
    plain: Option<(Instant, String)>,
}

/// Status line that replaces the previous one on a terminal. Elsewhere it is printed every few seconds, and at the end.
pub struct ChangingLine {
    terminal: bool,
    printed_at: Option<Instant>,
    pending: Option<String>,
}

impl Default for ChangingLine {
    /// Creates an empty line.
    fn default() -> Self {
        Self { terminal: output_file::prints_to_terminal(), printed_at: None, pending: None }
    }
}

impl ChangingLine {
    /// Replaces the text with `line`.
    pub fn change(&mut self, line: &str) {
        if self.terminal {
            output_file::print_text(format_args!("\r\x1b[2K{}", printable(line)));
        } else if self.printed_at.is_some_and(|at| at.elapsed() < PLAIN_INTERVAL) {
            self.pending = Some(line.to_owned());
            return;
        } else {
            print_line!("{line}");
        }
        (self.printed_at, self.pending) = (Some(Instant::now()), None);
    }

    /// Replaces the text with `line` at once, on a terminal or not.
    pub fn news(&mut self, line: &str) {
        self.printed_at = None;
        self.change(line);
    }

    /// Ends the line, so that later output starts on a new line.
    pub fn end(self) {
        match self.pending {
            Some(line) => print_line!("{line}"),
            None if self.terminal && self.printed_at.is_some() => print_line!(""),
            None => {}
        }
    }
}

/// Interval of printed lines if there is no terminal.
const PLAIN_INTERVAL: Duration = Duration::from_secs(5);

impl Progress {
    /// A bar for the work `what` of `length` steps. A length of 0 means unknown, and shows no share.
    pub fn new(what: &str, length: u64) -> Self {
        let terminal = stderr().is_terminal();
        let bar = if terminal { ProgressBar::new(length) } else { ProgressBar::hidden() };
        bar.set_length(length);
        let template = match length {
            0 => "{prefix:.bold} {msg}",
            _ => "{prefix:.bold} {bar:24.cyan/238} {percent:>3} % {msg}",
        };
        let style = ProgressStyle::with_template(template)
            .unwrap_or_else(|_| ProgressStyle::default_bar())
            .progress_chars("━━─");
        bar.set_style(style);
        bar.set_prefix(printable(what).into_owned());
        Self { bar, plain: (!terminal).then(|| (Instant::now(), what.to_owned())) }
    }

    /// Shows that `done` steps are done, with `message`.
    pub fn update(&mut self, done: u64, message: &str) {
        self.bar.set_position(done);
        self.bar.set_message(printable(message).into_owned());
        let Some((last, what)) = &mut self.plain else { return };
        if last.elapsed() >= PLAIN_INTERVAL {
            *last = Instant::now();
            eprint_line!("{what} {}{message}", share(done, self.bar.length()));
        }
    }

    /// Removes the bar at the end of the work.
    pub fn finish(self) {
        self.bar.finish_and_clear();
    }
}

/// Share of `done` in `length` as a prefix of a message; empty if there is no length.
fn share(done: u64, length: Option<u64>) -> String {
    let whole = length.filter(|&length| length > 0);
    whole.map_or_else(String::new, |length| format!("{:>3} % ", u128::from(done) * 100 / u128::from(length)))
}

/// The three most frequent limits with their shares.
fn held_back(limits: &BTreeMap<LimitedBy, f64>) -> String {
    let mut shares: Vec<_> = limits.iter().collect();
    shares.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    let named = shares.iter().filter(|(_, share)| **share >= 0.005).take(3).map(|(limit, share)| {
        let name = limit.name().replace('_', " ");
        format!("{name} {:.0} %", 100.0 * **share)
    });
    if shares.is_empty() { "-".to_owned() } else { named.collect::<Vec<_>>().join("   ") }
}

/// `value` with `digits` decimals; a dash if it is `None`.
#[must_use]
pub fn figure(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
}

fn shown(value: Option<f64>, digits: usize, unit: &str) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$} {unit}"))
}

/// Warns on standard error if a call was shorter than the `asked` seconds.
pub fn warn_of_early_end(asked: f64, scores: &Scores) {
    let scored = scores.scored_seconds;
    // Times are whole nanoseconds; `asked` may not be.
    if scored < asked - 1e-6 {
        eprint_line!(
            "lockstep: warning: the pictures ended after {scored:.2} s of the {asked} s asked for; the scores are of that \
             time"
        );
    }
}

/// Prints the scores of a call's sound.
pub fn print_sound(sound: &SoundScores) {
    print_line!(
        "sound         {:.1} % concealed   mouth to ear p50 {}   p95 {}   lip sync within {} for 95 %",
        100.0 * sound.concealed_share,
        shown(sound.mouth_to_ear_ms.map(|delay| delay.p50), 0, "ms"),
        shown(sound.mouth_to_ear_ms.map(|delay| delay.p95), 0, "ms"),
        shown(sound.lip_sync_error_ms.map(|error| error.p95), 0, "ms"),
    );
}

/// Prints the scores of a call.
pub fn print_scores(scores: &Scores) {
    let delay = scores.video_delay_ms;
    let frames = scores.frames;
    if frames.displayed == 0 {
        print_line!("no picture of the call was shown, so there is no video delay and no quality");
    }
    print_line!(
        "video delay   p50 {}   mean {}   p95 {}",
        shown(delay.map(|delay| delay.p50), 0, "ms"),
        shown(delay.map(|delay| delay.mean), 0, "ms"),
        shown(delay.map(|delay| delay.p95), 0, "ms"),
    );
    let displayed = scores.displayed_delay_ms;
    print_line!(
        "  displayed   p50 {}   mean {}   p95 {}",
        shown(displayed.map(|delay| delay.p50), 0, "ms"),
        shown(displayed.map(|delay| delay.mean), 0, "ms"),
        shown(displayed.map(|delay| delay.p95), 0, "ms"),
    );
    if let Some(floor) = scores.video_delay_floor_ms {
        print_line!(
            "its floor     p50 {:.0} ms   mean {:.0} ms   p95 {:.0} ms   {} of the frames near it",
            floor.p50,
            floor.mean,
            floor.p95,
            shown(scores.near_floor.map(|share| 100.0 * share), 0, "%"),
        );
    }
    print_line!(
        "quality       SSIM mean {}   p25 {}   PSNR {}",
        shown(scores.ssim_db.map(|ssim| ssim.mean), 2, "dB"),
        shown(scores.ssim_db.map(|ssim| ssim.p25), 2, "dB"),
        shown(scores.psnr_db.map(|psnr| psnr.mean), 2, "dB"),
    );
    print_line!(
        "rate          {}   {:.0} % of the link",
        Bitrate::from_bps(scores.throughput_bps),
        100.0 * scores.link_utilisation
    );
    let (one_way, queueing) = (scores.one_way_delay_ms, scores.queueing_delay_ms);
    print_line!(
        "packets       one-way p50 {}   p95 {}   queueing p50 {}   p95 {}   loss {}",
        shown(one_way.map(|delay| delay.p50), 0, "ms"),
        shown(one_way.map(|delay| delay.p95), 0, "ms"),
        shown(queueing.map(|delay| delay.p50), 0, "ms"),
        shown(queueing.map(|delay| delay.p95), 0, "ms"),
        shown(scores.packet_loss.map(|loss| 100.0 * loss), 2, "%"),
    );
    print_line!(
        "frames        {} captured   {} sent   {} skipped   {} displayed   {} key   {} recovery",
        frames.captured,
        frames.sent,
        frames.skipped,
        frames.displayed,
        frames.key,
        frames.recovery
    );
    print_line!(
        "budget        fill {}   overshoot {}",
        shown(scores.fill.map(|fill| 100.0 * fill), 0, "%"),
        shown(scores.overshoot_ratio.map(|ratio| 100.0 * ratio), 1, "%"),
    );
    print_line!("held back by  {}", held_back(&scores.limited_by));
    print_line!(
        "smoothness    {:.1} frames/s   harmonic {}   {} freezes   longest {:.2} s   stalled {:.2} min/h",
        scores.frames_per_second,
        shown(scores.harmonic_frame_rate, 1, "frames/s"),
        scores.freezes.count,
        scores.freezes.longest_seconds,
        scores.stall_minutes_per_hour
    );
    let schedule =
        scores.qoe_d_schedule.map_or_else(String::new, |schedule| format!(", a schedule reaches {schedule:.2}"));
    let bound = scores.qoe_d_bound.map_or_else(String::new, |bound| format!(" (at most {bound:.2}{schedule})"));
    print_line!("experience    QoE_p {}   QoE_d {}{bound}", shown(scores.qoe_p, 2, ""), shown(scores.qoe_d, 2, ""));
    print_line!(
        "score         network {} (challenge)   {} (BoB's weights)   estimate accurate to {}",
        shown(scores.network.map(|network| network.challenge), 1, "of 70"),
        shown(scores.network.map(|network| network.bob), 1, "of 70"),
        shown(scores.estimate_accuracy.map(|accuracy| 100.0 * accuracy), 0, "%"),
    );
    if let Some(vmaf) = scores.vmaf {
        print_line!(
            "              VMAF {vmaf:.1}   total {} (challenge)   {} (BoB's weights)",
            shown(scores.total.map(|total| total.challenge), 1, ""),
            shown(scores.total.map(|total| total.bob), 1, ""),
        );
    } else if let Some(reason) = scores.vmaf_missing.as_deref().filter(|&reason| reason != VMAF_NOT_ASKED_FOR) {
        print_line!("              no VMAF: {reason}");
    }
}

/// Columns of the table of a room after the direction: names, digits, and values.
type RoomColumn<C> = (&'static str, usize, fn(&PersonFlowReport<C>) -> Option<f64>);

/// Prints a table of the directions of a room, the one with the highest video delay first. The mean is last.
pub fn print_room<C>(report: &RoomReport<C>) {
    let columns: [RoomColumn<C>; 8] = [
        ("delay p50, ms", 0, |flow| flow.call.scores.video_delay_ms.map(|delay| delay.p50)),
        ("p95, ms", 0, |flow| flow.call.scores.video_delay_ms.map(|delay| delay.p95)),
        ("SSIM, dB", 2, |flow| flow.call.scores.ssim_db.map(|ssim| ssim.mean)),
        ("kb/s", 0, |flow| Some(flow.call.scores.throughput_bps as f64 / 1e3)),
        ("frames/s", 1, |flow| Some(flow.call.scores.frames_per_second)),
        ("freeze, s", 2, |flow| Some(flow.call.scores.freezes.longest_seconds)),
        ("loss, %", 2, |flow| flow.call.scores.packet_loss.map(|loss| 100.0 * loss)),
        ("ear p95, ms", 0, |flow| flow.call.sound.as_ref()?.mouth_to_ear_ms.map(|delay| delay.p95)),
    ];
    // The last column is for sound.
    let is_heard = report.calls.iter().any(|flow| flow.call.sound.is_some());
    let columns = if is_heard { &columns[..] } else { &columns[..columns.len() - 1] };
    let line = |direction: &str, value: &dyn Fn(&RoomColumn<C>) -> String| {
        let cells = columns.iter().map(|column| format!("{:>width$}", value(column), width = column.0.len()));
        print_line!("{direction:<9}  {}", cells.collect::<Vec<_>>().join("  "));
    };
    line("from, to", &|(name, ..)| (*name).to_owned());
    let mut flows: Vec<&PersonFlowReport<C>> = report.calls.iter().collect();
    // Without a displayed picture there is no delay, which is worse than any delay.
    let p95 = |flow: &PersonFlowReport<C>| flow.call.scores.video_delay_ms.map_or(f64::INFINITY, |delay| delay.p95);
    flows.sort_by(|one, other| p95(other).total_cmp(&p95(one)));
    for flow in &flows {
        line(&format!("{} -> {}", flow.from, flow.to), &|(_, digits, value)| figure(value(flow), *digits));
    }
    line("mean", &|(_, digits, value)| figure(mean(flows.iter().filter_map(|flow| value(flow))), *digits));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn share_is_shown_only_for_a_known_length() {
        assert_eq!(share(30, Some(120)), " 25 % ");
        assert_eq!(share(u64::MAX, Some(u64::MAX)), "100 % ");
        assert_eq!((share(30, Some(0)), share(30, None)), (String::new(), String::new()));
    }
}
