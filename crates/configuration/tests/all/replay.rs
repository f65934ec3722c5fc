//! Recordings of a controller are equal in virtual time and in a live end, and replay to the same decisions.

use lockstep_configuration::{CallArguments, CallSettings, ModelFile, Observers, content_hash, simulate_with};
use lockstep_control::learned::shipped::Shipped;
use lockstep_control::recording::{Answer, Event, Kept, KeptEvents, RecordedInput, RecordingReader};
use lockstep_control::{Algorithm, BobRules, PathObserver};
use lockstep_media::{SourceOptions, source_format};

fn settings(controller: &Algorithm) -> CallSettings {
    let mut options = CallArguments::default();
    for (name, word) in [
        ("modelled", "true"),
        ("clip", "generated:320x240@30"),
        // Rate steps and losses cause decisions.
        ("trace", "steps:1500kbps@2s/300kbps@2s"),
        ("loss", "2%"),
        ("seconds", "5"),
        ("controller", &controller.to_string()),
    ] {
        options.set_values(name, &[word.to_owned()]).expect(name);
    }
    options.settings().expect("nothing contradicts it")
}

fn simulated(settings: &CallSettings) -> Kept {
    let kept = KeptEvents::default();
    let observers = Observers { decisions: Some(Box::new(kept.clone())), ..Observers::default() };
    simulate_with(settings, None, observers, |_| Ok(())).expect("it runs");
    kept.take()
}

/// Controllers that require neither a known path nor a named model.
fn controllers() -> impl Iterator<Item = Algorithm> {
    Algorithm::all().filter(|algorithm| !algorithm.knows_path() && *algorithm != Algorithm::Mmsys24)
}

#[test]
fn replay_of_each_controller_repeats_its_decisions() {
    for algorithm in controllers() {
        let text = simulated(&settings(&algorithm)).text();
        let (header, mut reader) = RecordingReader::new(text.as_bytes()).expect("it is a recording");
        assert_eq!(header.algorithm, algorithm);
        let mut again = header.algorithm.controller(&header.setup()).expect("it needs no path");
        let mut path = PathObserver::new(header.setup().payload, &header.setup().tuning);
        let (mut allowances, mut lost) = (0, 0);
        while let Some(event) = reader.next_event().expect("it is a recording") {
            let answer = event.replay(&mut path, again.as_mut());
            match event {
                Event::Input(_, RecordedInput::Lost(fragments)) => lost += fragments.len(),
                Event::Input(..) => {}
                Event::Answer(then) => {
                    allowances += usize::from(matches!(then, Answer::Allowance(..)));
                    assert_eq!(answer, Some(then), "{algorithm}, line {}", reader.line());
                }
            }
        }
        assert!(allowances >= 150 && lost > 0, "{algorithm}: {allowances} allowances, {lost} lost");
    }
}

#[test]
fn recording_does_not_change_the_call() {
    for algorithm in [Algorithm::Lockstep, Algorithm::Gcc] {
        let settings = settings(&algorithm);
        let observers = Observers { decisions: Some(Box::new(KeptEvents::default())), ..Observers::default() };
        let recorded = simulate_with(&settings, None, observers, |_| Ok(())).expect("it runs").report;
        let plain = simulate_with(&settings, None, Observers::default(), |_| Ok(())).expect("it runs").report;
        let json = |report| serde_json::to_string(report).expect("a report is JSON");
        assert_eq!(json(&recorded), json(&plain));
    }
}

#[test]
fn live_and_simulated_controllers_have_equal_setups() {
    let format = source_format("generated:320x240@30", &SourceOptions::default()).expect("it is generated");
    for algorithm in controllers() {
        let settings = settings(&algorithm);
        let live = KeptEvents::default();
        let end = settings.control.recorded_sending_end(&format, 7, Some(Box::new(live.clone())));
        drop(end.expect("it needs no path"));
        let (live, simulated) = (live.take().header, simulated(&settings).header);
        assert!(live.is_some() && live == simulated, "{algorithm}: {live:?} {simulated:?}");
    }
}

#[test]
fn recording_names_only_the_model_of_the_sender() {
    let of = |algorithm| simulated(&settings(&algorithm)).header.expect("it begins with one").model;
    assert_eq!(of(Algorithm::Concerto), Shipped::Concerto.bytes().map(content_hash));
    assert_eq!(
        (of(Algorithm::Bob(BobRules::Released)), of(Algorithm::Nada)),
        (None, None),
        "the sender runs no model of the receiver"
    );
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../python/lockstep/learn/models/rlv.onnx");
    let file = ModelFile::open(path.as_ref()).expect("it comes with Lockstep");
    assert_eq!(Some(file.hash().to_owned()), Shipped::Rlv.bytes().map(content_hash));
    assert_eq!(content_hash(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", "FIPS 180-4");
}

#[test]
fn hindsight_is_not_recorded_without_a_path() {
    let observers = Observers { decisions: Some(Box::new(KeptEvents::default())), ..Observers::default() };
    let refused =
        simulate_with(&settings(&Algorithm::Hindsight), None, observers, |_| Ok(())).expect_err("it is refused");
    let said = format!("{refused:#}");
    assert!(said.contains("cannot be recorded: cannot replay the controller hindsight"), "{said}");
}
