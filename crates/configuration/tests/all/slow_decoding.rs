//! A receiver whose decoding takes longer than a frame interval.

use lockstep_configuration::{CallArguments, simulate_modelled};
use lockstep_sim::CodecModel;

/// The 95th percentile of the video delay, milliseconds, the number of sent pictures and that of captured ones.
fn call(codec: &str, decode_ms: &str, loss: &str) -> (f64, u64, u64) {
    let mut options = CallArguments::default();
    let words =
        [("clip", "generated:640x360@30"), ("trace", "constant:20mbps"), ("seconds", "30"), ("modelled", "true")];
    for (name, word) in words.into_iter().chain([("codec", codec), ("decode_ms", decode_ms), ("loss", loss)]) {
        options.set_values(name, &[word.to_owned()]).unwrap();
    }
    let report = simulate_modelled(&options.settings().unwrap(), &CodecModel::built_in().unwrap()).unwrap().report;
    let scores = report.scores;
    (scores.video_delay_ms.unwrap().p95, scores.frames.sent, scores.frames.captured)
}

#[test]
fn slow_decoding_skips_pictures_and_bounds_delay() {
    for codec in ["functional", "conventional"] {
        for loss in ["0", "2%"] {
            // The decoder finishes 25 of 30 pictures per second.
            let (p95, sent, captured) = call(codec, "40", loss);
            assert!(p95 < 450.0, "{codec}, {loss} lost: {p95} ms");
            assert!(
                (0.7..0.9).contains(&(sent as f64 / captured as f64)),
                "{codec}, {loss} lost: {sent} of {captured}"
            );
        }
    }
}

#[test]
fn decoding_within_the_frame_interval_skips_no_picture() {
    for codec in ["functional", "conventional"] {
        let (_, sent, captured) = call(codec, "30", "0");
        assert!(captured - sent <= 2, "{codec}: {sent} of {captured}");
    }
}
