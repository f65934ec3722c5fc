//! Calls that share a screen: its text stays sharp, and cameras are not affected.

use std::time::Duration;

use lockstep_call::{
    FrameRecord, FunctionalEncoder, MenuMode, Outcome, ReceivingEnd, SendingEnd, Tuning, announced, quantile,
};
use lockstep_control::{GracePeriod, InterArrival, SalsifyWindow};
use lockstep_link::{Link, LinkConfig, Trace};
use lockstep_media::{GeneratedClip, GeneratedSource, ScreenContent, VideoFormat, ssim_db};
use lockstep_sim::{Simulation, SimulationOptions};
use lockstep_transport::{ReceiverConfig, SenderConfig};
use lockstep_units::{ByteCount, Timestamp};
use lockstep_vp8::{Content, FrameKind, Parameters, Picture, State, encode};

use crate::finished::{Finished, job_times};

const WIDTH: usize = 640;
const HEIGHT: usize = 360;

fn clip(content: Option<ScreenContent>) -> GeneratedClip {
    let format = VideoFormat { width: WIDTH, height: HEIGHT, ..VideoFormat::default() };
    let clip = match content {
        Some(content) => GeneratedClip::screen(content, format, 3),
        None => GeneratedClip::new(format, 3),
    };
    clip.expect("the size is valid")
}

/// Records of a call of `seconds` over `trace`.
fn call(clip: GeneratedClip, trace: &str, seconds: u64, tuning: &Tuning) -> Vec<FrameRecord> {
    let transport = SenderConfig::new(7, announced(&clip.format()));
    let payload = ByteCount::new(transport.payload as u64);
    let parameters = Parameters { frame_kind: FrameKind::Inter, ..Parameters::default() };
    let encoder = FunctionalEncoder::new(parameters, MenuMode::default(), tuning);
    let sender = SendingEnd::new(transport, Box::new(SalsifyWindow::new(payload)), Box::new(encoder), tuning);
    let receiver = ReceivingEnd::new(ReceiverConfig::default(), Box::new(InterArrival::new(GracePeriod::LinkIdle)));
    let link = |trace: &str, seed| {
        let trace = Trace::from_spec(trace).expect("the trace is valid");
        let config = LinkConfig { delay: Duration::from_millis(20), ..LinkConfig::new(trace) };
        Link::new(config, seed).expect("the link is valid")
    };
    let options = SimulationOptions {
        length: Duration::from_secs(seconds),
        job_times: job_times(Duration::from_millis(8)),
        decode_time: Duration::from_millis(2),
    };
    let source = Box::new(GeneratedSource::new(clip));
    let (forward, reverse) = (link(trace, 1), link("constant:100mbps", 2));
    Finished::of(Simulation::new(sender, receiver, source, forward, reverse, &options)).records
}

/// Text of the picture on display at `at`, dB.
fn text_at(records: &[FrameRecord], at: Duration) -> f64 {
    let at = Timestamp::ZERO + at;
    let shown = records.iter().filter(|record| record.displayed_at.is_some_and(|displayed| displayed <= at));
    ssim_db(
        shown
            .max_by_key(|record| record.displayed_at)
            .and_then(|record| record.text_ssim)
            .expect("a screen with text is shown"),
    )
}

/// Median quantizer of the frames sent between two times, seconds.
fn quantizer_between(records: &[FrameRecord], from: f64, to: f64) -> f64 {
    let during = records.iter().filter(|record| (from..to).contains(&record.captured_at.as_secs_f64()));
    let mut quantizers: Vec<f64> = during.filter_map(|record| record.quantizer.map(f64::from)).collect();
    quantizers.sort_by(f64::total_cmp);
    quantile(&quantizers, 0.5).expect("frames were sent")
}

#[test]
fn text_of_a_still_terminal_is_sharp_within_a_second() {
    // The output stops after 1.5 s.
    let records = call(clip(Some(ScreenContent::Terminal)), "constant:1mbps", 3, &Tuning::default());
    let text = text_at(&records, Duration::from_millis(2_500));
    assert!(text > 30.0, "{text}");
}

#[test]
fn scrolled_text_has_fewer_and_sharper_frames() {
    let scroll = |longest| {
        let mut tuning = Tuning::default();
        tuning.screen.longest = longest;
        let records = call(clip(Some(ScreenContent::Terminal)), "constant:300kbps", 6, &tuning);
        let sent = records.iter().filter(|record| record.outcome == Outcome::Sent).count();
        (quantizer_between(&records, 4.2, 5.5), sent)
    };
    let (sharp, coarse) = (scroll(Tuning::default().screen.longest), scroll(Duration::ZERO));
    assert!(sharp.0 + 15.0 < coarse.0 && sharp.1 < coarse.1, "{sharp:?} {coarse:?}");
}

#[test]
fn camera_pictures_ignore_the_constants_of_screens() {
    let mut tuning = Tuning::default();
    let usual = call(clip(None), "constant:300kbps", 3, &tuning);
    (tuning.screen.sharp, tuning.screen.longest) = (4, Duration::from_secs(2));
    assert_eq!(call(clip(None), "constant:300kbps", 3, &tuning), usual);
}

#[test]
fn far_scroll_of_a_screen_is_coded_as_motion() {
    let page = clip(Some(ScreenContent::Page));
    let size = |before: &Picture, now: &Picture, content| {
        let parameters = Parameters { quantizer: 30, frame_kind: FrameKind::Inter, content, ..Parameters::default() };
        encode(&encode(&State::default(), before, &parameters).state, now, &parameters).frame.len()
    };
    // Six pictures of the fastest part: 150 of 360 samples.
    let (before, now) = (page.picture(102), page.picture(108));
    let [camera, screen] = [Content::Camera, Content::Screen].map(|content| size(&before, &now, content));
    assert!(10 * screen < 7 * camera, "{screen} of {camera}");
}
