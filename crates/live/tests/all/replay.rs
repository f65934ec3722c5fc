//! Replays a controller and an estimator of a live call in virtual time: the same input yields the same decisions.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use lockstep_call::{FunctionalEncoder, MenuMode, ReceivingEnd, SendingEnd, Tuning};
use lockstep_control::recording::{Event, Header, Kept, KeptEvents, Recorded, RecordedInput, RecordingReader};
use lockstep_control::{Algorithm, ControllerSetup, Estimator, EstimatorKind, PathObserver, RateBounds};
use lockstep_transport::{Arrival, Estimate, ReceiverConfig, SenderConfig};
use lockstep_units::{ByteCount, Timestamp};
use lockstep_vp8::Parameters;

use crate::calls;

const PICTURES: u32 = 60;
/// Calls that run at the same time. Their pictures are small, and each waits for the clock most of the time.
const AT_ONCE: usize = 4;

/// An input or an output of an estimator.
#[derive(Debug, Clone)]
enum Sensed {
    Arrival(Arrival),
    Estimate(Timestamp, Estimate),
}

type Senses = Arc<Mutex<Vec<Sensed>>>;

/// An estimator that records its inputs and outputs.
struct RecordedEstimator(Box<dyn Estimator>, Senses);

impl RecordedEstimator {
    fn put(&self, sensed: Sensed) {
        self.1.lock().unwrap_or_else(PoisonError::into_inner).push(sensed);
    }
}

impl Estimator for RecordedEstimator {
    fn on_arrival(&mut self, arrival: &Arrival) {
        self.put(Sensed::Arrival(*arrival));
        self.0.on_arrival(arrival);
    }

    fn estimate(&mut self, now: Timestamp) -> Estimate {
        let estimate = self.0.estimate(now);
        self.put(Sensed::Estimate(now, estimate));
        estimate
    }

    fn follows_arrivals_alone(&self) -> bool {
        self.0.follows_arrivals_alone()
    }
}

/// Estimator of the receiver. mmsys24 has no bundled model, so BoB's heuristic replaces it here, and the sender
/// receives estimates.
fn estimator(kind: EstimatorKind) -> Box<dyn Estimator> {
    kind.make(RateBounds::default())
}

/// Recordings of both ends of a live call over loopback.
fn live(algorithm: &Algorithm) -> (Kept, Vec<Sensed>) {
    let format =
        lockstep_transport::VideoFormat { width: 64, height: 48, frame_rate_numerator: 30, frame_rate_denominator: 1 };
    let senses = Senses::default();
    let sensing = Arc::clone(&senses);
    let receiver = move || {
        ReceivingEnd::with_estimators(ReceiverConfig::default(), move |number| {
            let estimator = estimator(EstimatorKind::from_number(number)?);
            Some(Box::new(RecordedEstimator(estimator, Arc::clone(&sensing))) as Box<dyn Estimator>)
        })
    };
    let listener = calls::listening_with(receiver, calls::sink(calls::discard));
    let config = SenderConfig { estimator: algorithm.estimator_kind().number(), ..SenderConfig::new(7, format) };
    let setup = ControllerSetup::new(ByteCount::new(config.payload as u64), Duration::from_millis(33));
    let header = Header::new(algorithm.clone(), &setup, None).expect("it needs no path");
    let kept = KeptEvents::default();
    let controller = algorithm.controller(&setup).expect("it needs no path");
    let recorded = Recorded::new(controller, &header, Box::new(kept.clone()));
    let encoder = FunctionalEncoder::new(Parameters::default(), MenuMode::default(), &Tuning::default());
    let end = SendingEnd::new(config, Box::new(recorded), Box::new(encoder), &Tuning::default());
    let half = lockstep_live::Sending { end, ..calls::sending(calls::pictures(PICTURES)) };
    let (sender, _) = calls::joining(listener.ticket(), half, calls::CALL);
    assert!(sender.result.is_ok() && listener.join().0.result.is_ok(), "{algorithm}");
    let senses = senses.lock().unwrap_or_else(PoisonError::into_inner).clone();
    (kept.take(), senses)
}

/// Replays a recording to a new controller, and compares its answers.
fn replay_controller(algorithm: &Algorithm, kept: &Kept) {
    let text = kept.text();
    let (header, mut reader) = RecordingReader::new(text.as_bytes()).expect("it is a recording");
    assert_eq!(header.algorithm, *algorithm);
    let mut again = algorithm.controller(&header.setup()).expect("it needs no path");
    let mut path = PathObserver::new(header.payload, &header.setup().tuning);
    let (mut asked, mut heard) = (0, 0);
    while let Some(event) = reader.next_event().expect("it is a recording") {
        if let Event::Input(_, RecordedInput::Feedback(feedback)) = &event {
            heard += feedback.acknowledged.len();
        }
        if let (Some(now), Event::Answer(then)) = (event.replay(&mut path, again.as_mut()), &event) {
            asked += 1;
            assert_eq!(now, *then, "{algorithm}, line {}", reader.line());
        }
    }
    assert_eq!(reader.events(), kept.events.len() as u64 + 1, "all of it, and its end");
    assert!(asked > 60 && heard > 20, "{algorithm}: asked {asked} times, {heard} packets acknowledged");
}

/// Replays a recording to a new estimator, and compares its estimates.
fn replay_estimator(algorithm: &Algorithm, senses: &[Sensed]) {
    let mut again = estimator(algorithm.estimator_kind());
    let (mut arrived, mut asked) = (0, 0);
    for (index, sensed) in senses.iter().enumerate() {
        match sensed {
            Sensed::Arrival(arrival) => {
                arrived += 1;
                again.on_arrival(arrival);
            }
            Sensed::Estimate(now, then) => {
                asked += 1;
                assert_eq!(again.estimate(*now), *then, "{algorithm}, at the receiver, {index}");
            }
        }
    }
    assert!(asked > 20 && arrived > 20, "{algorithm}: asked {asked} times, {arrived} packets arrived");
}

#[test]
#[ignore = "slow"]
fn replay_of_a_live_call_repeats_every_decision() {
    // Every controller, except those that a live call cannot have.
    let algorithms: Vec<Algorithm> = Algorithm::all().filter(|algorithm| !algorithm.knows_path()).collect();
    for group in algorithms.chunks(AT_ONCE) {
        thread::scope(|scope| {
            for algorithm in group {
                scope.spawn(move || {
                    let (kept, senses) = live(algorithm);
                    replay_controller(algorithm, &kept);
                    replay_estimator(algorithm, &senses);
                });
            }
        });
    }
}
