//! Modelled calls: which codec options affect them.

use lockstep_call::Outcome;
use lockstep_configuration::{CallArguments, Observers, simulate_with};
use lockstep_measure::{KeptFrames, Scores};
use lockstep_units::Timestamp;

/// Result of a modelled call: scores, maximum candidates per menu, and start and end of coding for each sent picture.
struct Modelled {
    scores: Scores,
    max_candidates: usize,
    coded: Vec<(Timestamp, Timestamp)>,
}

fn modelled(options: &[(&str, &str)]) -> Modelled {
    // A short cellular call has budgets that frames meet and miss.
    let usual = [
        ("modelled", "true"),
        ("clip", "generated:640x360@30"),
        ("trace", "cellular:mean=1.5mbps,seed=3"),
        ("controller", "salsify"),
        ("seconds", "10"),
    ];
    let mut all = CallArguments::default();
    for (name, word) in usual.iter().chain(options) {
        all.set_values(name, &[(*word).to_owned()]).unwrap();
    }
    let kept = KeptFrames::default();
    let settings = all.settings().unwrap();
    let report =
        simulate_with(&settings, None, Observers::of_frames(Box::new(kept.clone())), |_| Ok(())).unwrap().report;
    let frames = kept.take();
    let sent = frames.iter().map(|frame| &frame.record).filter(|record| record.outcome == Outcome::Sent);
    Modelled {
        scores: report.scores,
        max_candidates: frames.iter().map(|frame| frame.record.candidates.len()).max().unwrap(),
        coded: sent.map(|record| (record.encode_started_at.unwrap(), record.sent_at.unwrap())).collect(),
    }
}

#[test]
fn modelled_call_has_the_menu_and_passes_of_the_codec() {
    let fit = modelled(&[]);
    assert!(fit.max_candidates > 2, "{}", fit.max_candidates);
    let once = modelled(&[("fit_passes", "1")]);
    assert_eq!(once.max_candidates, 1);
    assert_ne!(once.scores, fit.scores);
    let serial = modelled(&[("menu", "serial")]);
    let parallel = modelled(&[("menu", "parallel")]);
    assert_eq!((serial.max_candidates, parallel.max_candidates), (2, 2));
    assert_ne!(serial.scores, fit.scores);
    // The candidates are the same; only their coding time differs.
    assert_ne!(serial.scores, parallel.scores);
}

/// The model was fitted to clips in real-time coding, so a slower preset costs time without a gain.
#[test]
fn preset_changes_only_the_coding_time_of_a_modelled_call() {
    let mean = |call: &Modelled| {
        let spent = call.coded.iter().map(|(began, sent)| sent.saturating_since(*began).as_secs_f64());
        spent.sum::<f64>() / call.coded.len() as f64
    };
    // This controller ignores delay, so only the preset makes a difference.
    let call = |preset| modelled(&[("codec", "conventional"), ("controller", "fixed:500kbps"), ("preset", preset)]);
    let (real_time, quality) = (call("real-time"), call("quality"));
    assert!(mean(&quality) > mean(&real_time), "{} {}", mean(&quality), mean(&real_time));
    assert_eq!(quality.scores.ssim_db, real_time.scores.ssim_db);
    assert_ne!(quality.scores.video_delay_ms, real_time.scores.video_delay_ms);
}

/// A picture that waited for seconds is worth less than a skipped one.
#[test]
fn link_below_the_coarsest_pictures_skips_them() {
    for seed in ["1", "2"] {
        let link = [("trace", "constant:25kbps"), ("controller", "sprout"), ("seconds", "30"), ("seed", seed)];
        let scores = modelled(&link).scores;
        assert!(scores.video_delay_ms.is_some_and(|delay| delay.p50 < 2_000.0), "{:?}", scores.video_delay_ms);
    }
}

/// Pictures above the maximum useful rate are still worth showing.
#[test]
fn fast_path_skips_no_large_picture() {
    for seed in ["4", "14", "15"] {
        let scores = modelled(&[("trace", "constant:50mbps"), ("controller", "sprout"), ("seed", seed)]).scores;
        assert!(scores.frames.displayed + 3 >= scores.frames.captured, "seed {seed}: {:?}", scores.frames);
        // Half a bit per pixel is 3.5 Mb/s in the long run.
        assert!(scores.throughput_bps < 4_200_000, "seed {seed}: {}", scores.throughput_bps);
    }
}

#[test]
fn queued_acknowledgements_do_not_lower_the_rate() {
    for controller in ["sprout", "lockstep"] {
        let rates = ["1", "2", "3"].map(|seed| {
            let call = modelled(&[
                ("controller", controller),
                ("two_way", "true"),
                ("clip", "generated:1280x720@30"),
                ("trace", "constant:2mbps"),
                ("reverse", "constant:200kbps"),
                ("seconds", "40"),
                ("seed", seed),
            ]);
            call.scores.throughput_bps as f64 * 1e-6
        });
        let mean = rates.iter().sum::<f64>() / 3.0;
        assert!(mean > 1.0, "{controller}: {rates:?} of 2 Mb/s");
    }
}
