use std::time::Duration;

use lockstep_link::Trace;

use super::*;
use crate::closed_loop::{Plan, known_path, run, setup};
use crate::learned::shipped::Shipped;

fn shipped() -> Lockstep {
    Lockstep::with_model(&setup(), Shipped::Lockstep.model().unwrap()).unwrap()
}

#[test]
fn controller_without_a_model_equals_sprout() {
    let plan = Plan::constant(1_000);
    let ours = run(&plan, &mut Lockstep::without_model(&setup()), None);
    let sprout = run(&plan, &mut Sprout::new(&setup()), None);
    assert_eq!(format!("{ours:?}"), format!("{sprout:?}"));
}

#[test]
fn training_samples_contain_the_delivered_bytes() {
    let plan = Plan::constant(1_000);
    // The test link carries no overhead, but training samples include it (56 bytes for most datagrams of 1,264). A
    // slightly faster path has the same effect.
    let known = Trace::constant(lockstep_units::Bitrate::from_kbps(1_060));
    let mut controller = Lockstep::without_model(&setup()).with_training_samples(known_path(&known));
    run(&plan, &mut controller, None);
    let training_samples = controller.take_training_samples();
    assert!((590..=600).contains(&training_samples.len()), "one sample per picture: {}", training_samples.len());
    // Within half a second, a busy constant link delivers the filter's expectation.
    let late: Vec<f32> = training_samples[300..].iter().map(|sample| sample.outputs[3]).collect();
    let mean = late.iter().sum::<f32>() / late.len() as f32;
    assert!(mean.abs() < 0.15, "{mean}");
    assert!(
        training_samples.iter().all(|sample| sample.seen.iter().chain(&sample.outputs).all(|value| value.is_finite()))
    );
    assert!(controller.take_training_samples().is_empty());
}

#[test]
fn training_samples_show_an_outage_before_feedback() {
    let trace = Trace::from_opportunities((0..2_000).chain(4_000..6_000).collect(), 6_000).unwrap();
    let plan = Plan::new(trace);
    let mut controller = Lockstep::without_model(&setup()).with_training_samples(known_path(&plan.trace));
    run(&plan, &mut controller, None);
    let training_samples = controller.take_training_samples();
    let (before, at) = (&training_samples[40], &training_samples[59]);
    assert!(before.outputs[0] - at.outputs[3] > 0.5, "{before:?} {at:?}");
}

#[test]
fn shipped_model_fills_most_of_a_link_with_a_short_queue() {
    let outcome = run(&Plan::constant(1_000), &mut shipped(), None);
    assert!((0.6..1.05).contains(&outcome.rate(5, 20).as_mbps()), "{outcome:?}");
    assert!(outcome.queueing_delay(5, 20, 0.5) < Duration::from_millis(80), "{outcome:?}");
}

#[test]
fn same_feedback_gives_the_same_decisions() {
    let calls = [(), ()].map(|()| format!("{:?}", run(&Plan::step(2_500, 600, 20), &mut shipped(), None)));
    assert_eq!(calls[0], calls[1]);
}

#[test]
fn inputs_unlike_training_fall_back_to_sprout() {
    let mut controller = shipped();
    run(&Plan::constant(1_000), &mut controller, None);
    assert_eq!(controller.falls_back(), None);
    let net = controller.net.as_mut().unwrap();
    // A range that no input is in.
    net.range = Some(([-5.0; OBSERVED], [-4.9; OBSERVED]));
    let now = Timestamp::ZERO + Duration::from_secs(20);
    let round_trip = Some(Duration::from_millis(50));
    let path = PathView { base_round_trip: round_trip, last_round_trip: round_trip, ..PathView::default() };
    for picture in 0..60 {
        controller.on_time(&PathView { now: now + picture * Duration::from_millis(33), ..path });
    }
    let now = now + Duration::from_secs(2);
    assert_eq!(controller.falls_back(), Some(Fallback::UnlikeTraining));
    let counted = controller.counters();
    let unlike = counted.iter().find(|(name, _)| *name == Fallback::UnlikeTraining.name()).unwrap();
    assert!(counted[0].1 > 600 && unlike.1 > 30, "the counter shows it: {counted:?}");
    let (path, in_flight) = (PathView { now, ..PathView::default() }, InFlight::default());
    let (ours, sprout) = (controller.allowance(&path, in_flight), controller.sprout.allowance(&path, in_flight));
    assert_eq!((ours.budget, ours.pacing_interval), (sprout.budget, sprout.pacing_interval));
    assert!(ours.target >= sprout.target);
}

#[test]
fn model_of_another_controller_is_refused() {
    let error = Lockstep::with_model(&setup(), Shipped::Concerto.model().unwrap()).err().unwrap();
    assert!(error.to_string().contains("lockstep.controller is `concerto`, expected `lockstep`"), "{error}");
}

#[test]
fn faster_path_is_not_mistaken_for_cross_traffic() {
    let mut controller = shipped();
    let outcome = run(&Plan::step(400, 4_000, 20), &mut controller, None);
    let by_sprout: u64 = controller.counters()[1..].iter().map(|(_, pictures)| pictures).sum();
    assert_eq!(by_sprout, 0, "{:?}", controller.counters());
    assert!(outcome.rate(23, 40).as_mbps() > 2.5, "{outcome:?}");
}

#[test]
fn rate_reaches_a_much_faster_path_within_1_s() {
    for (smallest, from) in [0.0, 0.4, 0.6].into_iter().flat_map(|smallest| [60, 150, 400].map(|from| (smallest, from)))
    {
        let rule = Rule { smallest, ..Rule::of(crate::Latency::Balanced) };
        let outcome = run(&Plan::step(from, 8_000, 20), &mut shipped().with_rule(rule), None);
        assert!(outcome.rate(21, 23).as_mbps() > 2.0, "{smallest} {from}: {outcome:?}");
    }
}

#[test]
fn small_frame_is_skipped() {
    let mut controller = shipped();
    run(&Plan::constant(2_000), &mut controller, None);
    let budgets = |smallest: f64, controller: Lockstep| {
        let rule = Rule { smallest, ..Rule::of(crate::Latency::Balanced) };
        let controller = controller.with_rule(rule);
        let waiting =
            |queued| InFlight { bytes: ByteCount::new(1_000), queued: ByteCount::new(queued), ..InFlight::default() };
        let budgets = (0..20_000)
            .step_by(100)
            .map(|queued| controller.link_budget(controller.present.as_ref().unwrap(), waiting(queued)));
        (budgets.filter(|budget| *budget > 0.0).fold(f64::MAX, f64::min), controller)
    };
    let (any, controller) = budgets(0.0, controller);
    let (large, controller) = budgets(0.5, controller);
    // The link delivers 8 kB in a frame interval.
    let carried = controller.sprout.mean_rate() * controller.frame_interval;
    assert!(any < 0.1 * carried && large > 0.25 * carried, "{any} {large} of {carried}");
}

#[test]
fn target_before_feedback_is_not_that_of_the_slowest_path() {
    let (mut ours, mut sprout) = (shipped(), Sprout::new(&setup()));
    let targets = [&mut ours as &mut dyn Controller, &mut sprout].map(|controller| {
        controller.handle(&PathView::default(), Input::Time);
        controller.allowance(&PathView::default(), InFlight::default()).target
    });
    assert!(targets[0] >= targets[1], "{targets:?}");
}

/// A forecast of 20 kB soon as the likely case. In one of ten cases it is `least` by each deadline.
fn rather_likely(least: [f64; HORIZONS.len()]) -> Present {
    let basis = Basis { rate: 100_000.0, unknown: 0.0 };
    let output = HORIZONS.iter().zip(least).flat_map(|(&horizon, least)| {
        [least, 20_000.0, 20_000.0, 20_000.0, 20_000.0].map(|bytes| basis.output_for(horizon, bytes) as f32)
    });
    let output: Vec<f32> = output.chain([0.0; MODEL_STATE]).collect();
    let forecast = Forecast::of(&output, basis).unwrap();
    Present { forecast, bytes_in_flight: 500.0, sent: 0.0, unknown: 0.0 }
}

#[test]
fn budget_fits_the_latest_time_in_nine_of_ten_cases() {
    let budget = |least: [f64; HORIZONS.len()], latest: f64| {
        let rule = Rule { smallest: 0.0, latest, ..Rule::of(crate::Latency::Balanced) };
        let in_flight = InFlight { bytes: ByteCount::new(500), ..InFlight::default() };
        Lockstep::without_model(&setup()).with_rule(rule).link_budget(&rather_likely(least), in_flight)
    };
    let slow = [100.0, 200.0, 500.0, 2_500.0];
    assert!((budget(slow, 0.5) - 2_000.0).abs() < 50.0, "{}", budget(slow, 0.5));
    assert!(budget(slow, 0.15) < 50.0, "{}", budget(slow, 0.15));
    let fast = [5_000.0, 12_000.0, 30_000.0, 90_000.0];
    assert!(budget(fast, 0.5) > 19_000.0, "{}", budget(fast, 0.5));
}

#[test]
fn observed_budget_ignores_the_latest_time_of_the_rule() {
    let given = [0.06, 0.5].map(|latest| {
        let rule = Rule { latest, ..Rule::of(crate::Latency::Balanced) };
        let present = Some(rather_likely([100.0, 200.0, 500.0, 2_500.0]));
        let mut controller = Lockstep { present, ..Lockstep::without_model(&setup()) }.with_rule(rule);
        controller.begin_picture(Timestamp::ZERO);
        controller.given
    });
    assert!(given[0] == given[1] && given[0] > 19_000.0, "{given:?}");
}
