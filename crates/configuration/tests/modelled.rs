//! Modelled calls: what they heed of the options of the codec.

use lockstep_call::Outcome;
use lockstep_configuration::{CallArguments, Observers, simulate_with};
use lockstep_measure::{KeptFrames, Scores};
use lockstep_units::Timestamp;

/// What came of a modelled call: the scores, how many candidates each menu had at most, and for each picture that was
/// sent, when coding began and when the frame went out.
struct Modelled {
    scores: Scores,
    most_candidates: usize,
    coded: Vec<(Timestamp, Timestamp)>,
}

fn modelled(options: &[(&str, &str)]) -> Modelled {
    // A short cellular call, so that there are budgets to be met and missed.
    let usual = [
        ("modelled", "true"),
        ("clip", "generated:640x360@30"),
        ("trace", "cellular:mean=1.5mbps,seed=3"),
        ("controller", "salsify"),
        ("seconds", "10"),
    ];
    let mut all = CallArguments::default();
    for (name, word) in usual.iter().chain(options) {
        all.set_words(name, &[(*word).to_owned()]).unwrap();
    }
    let kept = KeptFrames::default();
    let settings = all.settings().unwrap();
    let report =
        simulate_with(&settings, None, Observers::of_frames(Box::new(kept.clone())), |_| Ok(())).unwrap().report;
    let frames = kept.take();
    let sent = frames.iter().map(|frame| &frame.record).filter(|record| record.outcome == Outcome::Sent);
    Modelled {
        scores: report.scores,
        most_candidates: frames.iter().map(|frame| frame.record.candidates.len()).max().unwrap(),
        coded: sent.map(|record| (record.encode_started_at.unwrap(), record.sent_at.unwrap())).collect(),
    }
}

#[test]
fn a_modelled_call_has_the_menu_and_the_passes_of_the_codec() {
    let fit = modelled(&[]);
    assert!(fit.most_candidates > 2, "{}", fit.most_candidates);
    let once = modelled(&[("fit_passes", "1")]);
    assert_eq!(once.most_candidates, 1);
    assert_ne!(once.scores, fit.scores);
    let serial = modelled(&[("menu", "serial")]);
    let parallel = modelled(&[("menu", "parallel")]);
    assert_eq!((serial.most_candidates, parallel.most_candidates), (2, 2));
    assert_ne!(serial.scores, fit.scores);
    // The same two candidates; how long they take is the difference.
    assert_ne!(serial.scores, parallel.scores);
}

/// Sizes and qualities are those of the clips that the model was fitted to, which were coded in real time; so a slower
/// preset costs time, and gains nothing.
#[test]
fn of_the_preset_a_modelled_call_heeds_the_time_that_coding_takes() {
    let mean = |call: &Modelled| {
        let spent = call.coded.iter().map(|(began, sent)| sent.saturating_since(*began).as_secs_f64());
        spent.sum::<f64>() / call.coded.len() as f64
    };
    // One that sends the same whatever the delay: what differs then is the preset's.
    let call = |preset| modelled(&[("codec", "conventional"), ("controller", "fixed:500kbps"), ("preset", preset)]);
    let (real_time, quality) = (call("real-time"), call("quality"));
    assert!(mean(&quality) > mean(&real_time), "{} {}", mean(&quality), mean(&real_time));
    assert_eq!(quality.scores.ssim_db, real_time.scores.ssim_db);
    assert_ne!(quality.scores.video_delay_ms, real_time.scores.video_delay_ms);
}

/// A picture that has waited for seconds is worth less than one that was not sent.
#[test]
fn on_a_link_that_hardly_carries_the_coarsest_pictures_they_are_left_out_rather_than_queued() {
    for seed in ["1", "2"] {
        let link = [("trace", "constant:25kbps"), ("controller", "sprout"), ("seconds", "30"), ("seed", seed)];
        let scores = modelled(&link).scores;
        assert!(scores.video_delay_ms.is_some_and(|delay| delay.p50 < 2_000.0), "{:?}", scores.video_delay_ms);
    }
}

/// Of what gains nothing by more bits, pictures that need them all the same are no less worth seeing.
#[test]
fn where_the_path_carries_more_no_picture_is_left_out_for_being_larger_than_it_gains_by() {
    for seed in ["4", "14", "15"] {
        let scores = modelled(&[("trace", "constant:50mbps"), ("controller", "sprout"), ("seed", seed)]).scores;
        assert!(scores.frames.displayed + 3 >= scores.frames.captured, "seed {seed}: {:?}", scores.frames);
        // Half a bit a pixel, 3.5 Mb/s, in the long run.
        assert!(scores.throughput_bps < 4_200_000, "seed {seed}: {}", scores.throughput_bps);
    }
}

#[test]
fn pictures_make_use_of_their_way_although_acknowledgements_wait_behind_the_others_pictures() {
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
