//! The compared designs: a source that always fills the target, video, and intermediate sources that differ in one
//! property. Each runs under current GCC, GCC of Concerto's time, and GCC without one of its parts.

use std::time::Duration;

use lockstep_call::TARGET_INTERVAL;
use lockstep_configuration::GccCall;
use lockstep_control::{GccSettings, Probing};
use lockstep_sim::modelled::{FeedbackInterval, ModelledCodec};
use lockstep_sim::{Filling, Padding};
use lockstep_transport::Recovery;

/// Data that always waits for the pacer of the source without pauses, beyond a frame interval. It exceeds the coding
/// time.
const AHEAD: Duration = Duration::from_millis(60);
/// Feedback interval of WebRTC's receivers at usual rates (`RemoteEstimatorProxy`: 50 to 250 ms).
const FEEDBACK_INTERVAL: Duration = Duration::from_millis(100);
/// Pacing factor at which no packet waits.
const UNPACED: f64 = 1_000.0;

/// The control of `--controller gcc`.
pub(super) const TODAY: &str = "current GCC";
/// The same control without bursts of its pacer.
pub(super) const WITHOUT_BURSTS: &str = "current GCC, without bursts of 40 ms";
/// Approximation of GCC in Concerto's time: it probes at the start only, and the observed path does not limit it.
pub(super) const THEN: &str = "GCC of 2018";
/// The reference source.
pub(super) const FULL_THROTTLE: &str = "full throttle";
/// The video of today's systems.
pub(super) const VIDEO: &str = "video";
/// Frames of exactly the target size: video without codec effects.
pub(super) const FRAMES: &str = "frames (pauses alone)";

/// A compared design: a source and a control. Every control has a full-throttle source, too.
#[derive(Debug, Clone, Copy)]
pub(super) struct Design {
    pub(super) control: &'static str,
    pub(super) source: &'static str,
    pub(super) call: GccCall,
}

/// A control: its name, the enabled parts of GCC, the feedback interval of the receiver.
type Control = (&'static str, GccSettings, FeedbackInterval);

fn full_throttle((control, gcc, feedback): Control) -> Design {
    // The source never pauses, and packets leave evenly at the target rate.
    let gcc = GccSettings { pacing_factor: 1.0, bursts: false, ..gcc };
    let source = ModelledCodec::FullThrottle(Filling { ahead: AHEAD, ..Filling::default() });
    Design { control, source: FULL_THROTTLE, call: GccCall { source, gcc, feedback } }
}

fn video((control, gcc, feedback): Control) -> Design {
    Design { control, source: VIDEO, call: GccCall { source: ModelledCodec::Conventional, gcc, feedback } }
}

/// The source without pauses, and the intermediate sources up to video. The sizes of "frames" are exactly the target.
fn sources(control: Control) -> Vec<Design> {
    let (full, video) = (full_throttle(control), video(control));
    let with = |source, codec| Design { source, call: GccCall { source: codec, ..video.call }, ..video };
    let frames = Filling::default();
    let late = Filling { target_interval: TARGET_INTERVAL, ..frames };
    let again = |filling| Filling { recovery: Recovery::Retransmit, ..filling };
    let unpaced = GccSettings { pacing_factor: UNPACED, ..video.call.gcc };
    vec![
        full,
        with(FRAMES, ModelledCodec::FullThrottle(frames)),
        with("frames, what is lost sent again", ModelledCodec::FullThrottle(again(frames))),
        with("frames, target taken once a second", ModelledCodec::FullThrottle(late)),
        with("frames, both", ModelledCodec::FullThrottle(again(late))),
        video,
        Design { source: "video, unpaced", call: GccCall { gcc: unpaced, ..video.call }, ..video },
        with("video, padded to the target", ModelledCodec::Padded(Padding::Target)),
        with("video, padded to the budget", ModelledCodec::Padded(Padding::Budget)),
    ]
}

/// All compared designs.
pub(super) fn designs() -> Vec<Design> {
    let gcc = GccSettings::default();
    let (usual, seldom) = (FeedbackInterval::default(), FeedbackInterval::Every(FEEDBACK_INTERVAL));
    let then = GccSettings { probing: Probing::AtStart, bursts: false, bounded_by_path: false, ..gcc };
    let without_bursts = GccSettings { bursts: false, ..gcc };
    let others: [Control; 8] = [
        ("current, feedback every 100 ms", gcc, seldom),
        ("current, probes at the start only", GccSettings { probing: Probing::AtStart, ..gcc }, usual),
        ("current, without probes", GccSettings { probing: Probing::Never, ..gcc }, usual),
        ("current, growth not bound to throughput", GccSettings { throughput_bounds_growth: false, ..gcc }, usual),
        ("current, not bound by the path", GccSettings { bounded_by_path: false, ..gcc }, usual),
        ("of 2018, with bursts of 40 ms", GccSettings { bursts: true, ..then }, seldom),
        ("of 2018, with all probes", GccSettings { probing: Probing::Always, ..then }, seldom),
        ("of 2018, without probes", GccSettings { probing: Probing::Never, ..then }, seldom),
    ];
    let ladders = [(TODAY, gcc, usual), (WITHOUT_BURSTS, without_bursts, usual), (THEN, then, seldom)];
    let mut designs: Vec<Design> = ladders.into_iter().flat_map(sources).collect();
    designs.extend(others.into_iter().flat_map(|control| [full_throttle(control), video(control)]));
    designs
}
