//! What a controller decided in a live call, it decides again in virtual time when it is told the same: nothing but what it
//! is told bears on it.

mod calls;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lockstep_call::{FunctionalEncoder, MenuMode, SendingEnd};
use lockstep_control::{Algorithm, Allowance, Controller, InFlight, Setting};
use lockstep_transport::{Feedback, LostFragment, SenderConfig};
use lockstep_units::{Bitrate, ByteCount, Timestamp};
use lockstep_vp8::Parameters;

const PICTURES: u32 = 60;

/// What a controller was told, or asked and answered.
#[derive(Debug, Clone)]
enum Event {
    Transmit(Timestamp, ByteCount),
    Feedback(Timestamp, Feedback),
    Time(Timestamp),
    Loss(Timestamp, Vec<LostFragment>),
    Allowance(Timestamp, InFlight, Allowance),
    Pacing(Timestamp, InFlight, Duration),
    Estimate(Option<Bitrate>),
    Probes(bool),
    PictureLeftOut,
}

type Recording = Arc<Mutex<Vec<Event>>>;

/// A controller of which everything is recorded.
struct Recorded(Box<dyn Controller>, Recording);

impl Recorded {
    fn put(&self, event: Event) {
        self.1.lock().unwrap_or_else(PoisonError::into_inner).push(event);
    }
}

impl Controller for Recorded {
    fn on_transmit(&mut self, now: Timestamp, size: ByteCount) {
        self.put(Event::Transmit(now, size));
        self.0.on_transmit(now, size);
    }

    fn on_feedback(&mut self, now: Timestamp, feedback: &Feedback) {
        self.put(Event::Feedback(now, feedback.clone()));
        self.0.on_feedback(now, feedback);
    }

    fn on_time(&mut self, now: Timestamp) {
        self.put(Event::Time(now));
        self.0.on_time(now);
    }

    fn on_loss(&mut self, now: Timestamp, lost: &[LostFragment]) {
        self.put(Event::Loss(now, lost.to_vec()));
        self.0.on_loss(now, lost);
    }

    fn on_picture_left_out(&mut self) {
        self.put(Event::PictureLeftOut);
        self.0.on_picture_left_out();
    }

    fn allowance(&self, now: Timestamp, in_flight: InFlight) -> Allowance {
        let allowance = self.0.allowance(now, in_flight);
        self.put(Event::Allowance(now, in_flight, allowance));
        allowance
    }

    fn pacing_interval(&self, now: Timestamp, in_flight: InFlight) -> Duration {
        let interval = self.0.pacing_interval(now, in_flight);
        self.put(Event::Pacing(now, in_flight, interval));
        interval
    }

    fn estimate(&self) -> Option<Bitrate> {
        let estimate = self.0.estimate();
        self.put(Event::Estimate(estimate));
        estimate
    }

    fn wants_probes(&self) -> bool {
        let wants = self.0.wants_probes();
        self.put(Event::Probes(wants));
        wants
    }
}

fn controller(name: &str, payload: usize) -> Box<dyn Controller> {
    let setting = Setting::new(ByteCount::new(payload as u64), Duration::from_millis(33));
    let algorithm: Algorithm = name.parse().expect("there is one");
    algorithm.controller(&setting).expect("it needs no path")
}

/// What the controller of that name was told and said in a live call over loopback.
fn live(name: &str) -> (Vec<Event>, usize) {
    let format =
        lockstep_transport::VideoFormat { width: 64, height: 48, frame_rate_numerator: 30, frame_rate_denominator: 1 };
    let listener = calls::listening(calls::sink(calls::discard), calls::CALL);
    let config = SenderConfig { estimator: 1, ..SenderConfig::new(7, format) };
    let payload = config.payload;
    let recording = Recording::default();
    let recorded = Recorded(controller(name, payload), Arc::clone(&recording));
    let encoder = FunctionalEncoder::new(Parameters::default(), MenuMode::default());
    let end = SendingEnd::new(config, Box::new(recorded), Box::new(encoder));
    let half = lockstep_live::Sending { end, ..calls::sending(calls::pictures(PICTURES)) };
    let (sender, _) = calls::joining(listener.ticket(), half, calls::CALL);
    assert!(sender.result.is_ok() && listener.join().0.result.is_ok());
    let events = recording.lock().unwrap_or_else(PoisonError::into_inner).clone();
    (events, payload)
}

#[test]
fn a_recorded_live_call_replays_to_the_same_decisions() {
    for name in ["lockstep", "concerto", "sprout"] {
        let (events, payload) = live(name);
        let mut again = controller(name, payload);
        let (mut asked, mut heard) = (0, 0);
        for (index, event) in events.into_iter().enumerate() {
            let place = || format!("{name}, event {index}");
            match event {
                Event::Transmit(now, size) => again.on_transmit(now, size),
                Event::Feedback(now, feedback) => {
                    heard += feedback.acknowledged.len();
                    again.on_feedback(now, &feedback);
                }
                Event::Time(now) => again.on_time(now),
                Event::Loss(now, lost) => again.on_loss(now, &lost),
                Event::PictureLeftOut => again.on_picture_left_out(),
                Event::Allowance(now, in_flight, said) => {
                    asked += 1;
                    assert_eq!(again.allowance(now, in_flight), said, "{}", place());
                }
                Event::Pacing(now, in_flight, said) => {
                    assert_eq!(again.pacing_interval(now, in_flight), said, "{}", place());
                }
                Event::Estimate(said) => assert_eq!(again.estimate(), said, "{}", place()),
                Event::Probes(said) => assert_eq!(again.wants_probes(), said, "{}", place()),
            }
        }
        assert!(asked > 60 && heard > 20, "{name}: asked {asked} times, {heard} packets heard of");
    }
}
