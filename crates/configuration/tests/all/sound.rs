//! Calls with sound, in virtual time.

use std::sync::{Arc, Mutex};

use lockstep_call::SoundScores;
use lockstep_configuration::{CallArguments, CallSettings, Observers, simulate_with};
use lockstep_measure::CallReport;
use lockstep_sound::{Frame, SoundFailure, SoundSink};

fn settings(options: &[(&str, &str)]) -> CallSettings {
    let usual = [("clip", "generated:160x120@15"), ("seconds", "8"), ("trace", "constant:500kbps"), ("audio", "tone")];
    let mut call = CallArguments::default();
    for (name, word) in usual.iter().chain(options) {
        call.set_values(name, &[(*word).to_owned()]).unwrap();
    }
    call.settings().unwrap()
}

/// Whether each 20 ms of played sound was loud.
#[derive(Clone, Default)]
struct Loudness(Arc<Mutex<Vec<bool>>>);

impl SoundSink for Loudness {
    fn play(&mut self, frame: &Frame) -> Result<(), SoundFailure> {
        self.0.lock().unwrap().push(frame.iter().any(|sample| sample.unsigned_abs() > 300));
        Ok(())
    }
}

/// Scores of the sound, and the loud intervals.
fn hear(options: &[(&str, &str)]) -> (SoundScores, Vec<bool>) {
    let loudness = Loudness::default();
    let observers = Observers { sound: Some(Box::new(loudness.clone())), ..Observers::default() };
    let report = simulate_with(&settings(options), None, observers, |_| Ok(())).unwrap().report;
    let heard = loudness.0.lock().unwrap().clone();
    (report.sound.expect("the call has sound"), heard)
}

/// Share of loud 20 ms intervals between two times, seconds.
fn loud(heard: &[bool], from: f64, to: f64) -> f64 {
    let part = &heard[(from * 50.0) as usize..(to * 50.0) as usize];
    part.iter().filter(|&&is_loud| is_loud).count() as f64 / part.len() as f64
}

#[test]
fn sound_is_complete_and_fast_on_a_good_path() {
    let (scores, heard) = hear(&[("trace", "constant:2mbps")]);
    assert!(scores.concealed_share < 0.01, "{scores:?}");
    assert!(scores.mouth_to_ear_ms.unwrap().p95 < 150.0, "{scores:?}");
    assert!(scores.lip_sync_error_ms.unwrap().p95 <= 46.0, "{scores:?}");
    // The tone has three seconds of speech, four syllables each, and one second of silence.
    assert!(loud(&heard, 0.5, 3.0) > 0.6 && loud(&heard, 3.3, 4.0) < 0.05 && loud(&heard, 4.5, 7.0) > 0.6);
}

#[test]
fn sound_resumes_within_half_a_second_after_an_outage() {
    for length in ["300ms", "1s"] {
        let outage = format!("5s+{length}");
        let (scores, heard) = hear(&[("loss_at", outage.as_str())]);
        let back = if length == "1s" { 6.0 } else { 5.3 };
        assert!(loud(&heard, back + 0.25, back + 0.5) > 0.4, "{length}: {scores:?}");
        assert!(loud(&heard, back + 0.5, 6.9) > 0.5, "{length}: {scores:?}");
    }
}

#[test]
fn lost_sound_is_mostly_recovered_from_the_next_packet() {
    // The number of consecutive losses is random. Single calls conceal 2 to 12 %, and the mean of forty is 6 %.
    //
    // The limit of 8 % holds for eight calls; without the copies the share would be twice as high.
    let seeds = ["1", "2", "3", "4", "5", "6", "7", "8"];
    let calls = seeds.map(|seed| hear(&[("loss", "10%"), ("seconds", "16"), ("seed", seed)]).0);
    assert!(calls.iter().all(|scores| scores.recovered_frames > 20), "{calls:?}");
    let concealed: f64 = calls.iter().map(|scores| scores.concealed_share).sum();
    assert!(concealed / 8.0 < 0.08, "{calls:?}");
}

#[test]
fn equal_calls_have_equal_sound() {
    for modelled in ["true", "false"] {
        let settings = settings(&[("modelled", modelled), ("loss", "3%")]);
        let report = || simulate_with(&settings, None, Observers::default(), |_| Ok(())).unwrap().report;
        let (first, second) = (report(), report());
        assert_eq!((&first.scores, &first.sound), (&second.scores, &second.sound));
        assert!(first.sound.is_some());
    }
}

#[test]
fn pictures_yield_to_sound_on_a_slow_path() {
    for controller in ["sprout", "gcc"] {
        let report = |audio: bool| {
            let words = [("controller", controller), ("trace", "constant:300kbps"), ("seconds", "20")];
            let mut settings = settings(&words);
            if !audio {
                settings.audio = None;
            }
            simulate_with(&settings, None, Observers::default(), |_| Ok(())).unwrap().report
        };
        let (with, without) = (report(true), report(false));
        let queueing = |report: &CallReport<CallSettings>| report.scores.queueing_delay_ms.unwrap().p50;
        assert!(
            queueing(&with) < queueing(&without) + 60.0,
            "{controller}: {} {}",
            queueing(&with),
            queueing(&without)
        );
        assert!(with.sound.unwrap().concealed_share < 0.08);
    }
}

#[test]
fn sound_arrives_in_time_over_a_reverse_path_of_32_kbps() {
    // Speech lasts three of four seconds. With unbounded queues, 80 % was concealed and p95 was 7.2 to 7.4 s.
    //
    // With bounds, p95 is 0.8 to 0.9 s and 6 to 7 % is concealed.
    for seed in ["1", "2"] {
        let call =
            [("trace", "constant:5mbps"), ("reverse", "constant:32kbps"), ("two_way", "true"), ("seconds", "30")];
        let settings = settings(&[&call[..], &[("seed", seed)]].concat());
        let report = simulate_with(&settings, None, Observers::default(), |_| Ok(())).unwrap().report;
        let back = report.opposite.expect("it has a way back").sound.expect("with sound");
        assert!(back.mouth_to_ear_ms.unwrap().p95 < 1_200.0 && back.concealed_share < 0.2, "{seed}: {back:?}");
        let there = report.sound.expect("the call has sound");
        assert!(there.mouth_to_ear_ms.unwrap().p95 < 150.0 && there.concealed_share < 0.01, "{seed}: {there:?}");
    }
}

#[test]
fn sound_does_not_delay_pictures_without_lip_sync() {
    let delay = |options: &[(&str, &str)]| {
        let settings = settings(&[&[("controller", "sprout"), ("trace", "constant:2mbps")], options].concat());
        let report = simulate_with(&settings, None, Observers::default(), |_| Ok(())).unwrap().report;
        report.scores.video_delay_ms.unwrap().p50
    };
    assert!(delay(&[("latency", "low")]) <= delay(&[("latency", "balanced")]));
}

#[test]
fn unreadable_sound_is_refused_with_its_name() {
    for modelled in ["true", "false"] {
        for (sound, message) in
            [("no-such.wav", "cannot read no-such.wav"), ("Cargo.toml", "truncated or invalid WAV file")]
        {
            let settings = settings(&[("audio", sound), ("modelled", modelled)]);
            let error = simulate_with(&settings, None, Observers::default(), |_| Ok(())).unwrap_err();
            assert!(format!("{error:#}").contains(message), "{sound}, modelled: {modelled}: {error:#}");
        }
    }
}

#[test]
fn two_way_call_scores_each_direction_on_shared_links() {
    for modelled in ["true", "false"] {
        let report = |two_way: &str, reverse: &str| {
            // Pictures that could use more than the capacity of either link.
            let clip = ("clip", "generated:640x360@15");
            let words =
                [clip, ("modelled", modelled), ("two_way", two_way), ("reverse", reverse), ("trace", "constant:1mbps")];
            simulate_with(&settings(&words), None, Observers::default(), |_| Ok(())).unwrap().report
        };
        let (both, again) = (report("true", "constant:300kbps"), report("true", "constant:300kbps"));
        let opposite = both.opposite.clone().expect("there is one");
        assert_eq!((&both.scores, &both.opposite), (&again.scores, &again.opposite));
        // Each direction has its own link, pictures and sound.
        let rates = [both.scores.throughput_bps, opposite.scores.throughput_bps];
        // Acknowledgements queue behind the other's pictures, which does not lower the rate.
        assert!((400_000..=1_000_000).contains(&rates[0]) && (100_000..=300_000).contains(&rates[1]), "{rates:?}");
        assert_ne!(both.scores, opposite.scores);
        assert_ne!(both.sound, opposite.sound);
        let heard = [both.sound.unwrap(), opposite.sound.unwrap()];
        assert!(heard.iter().all(|sound| sound.packets > 100 && sound.concealed_share < 0.2), "{heard:?}");
        assert_eq!(report("false", "constant:300kbps").opposite, None);
    }
}
