use std::time::Duration;

use lockstep_link::Trace;

use super::*;
use crate::closed_loop::{Plan, known_path, run, setup};
use crate::learned::shipped::Shipped;

fn shipped() -> Lockstep {
    Lockstep::with_model(&setup(), Shipped::Lockstep.model().unwrap()).unwrap()
}

#[test]
fn without_a_model_it_is_sprout_to_the_byte() {
    let plan = Plan::constant(1_000);
    let ours = run(&plan, &mut Lockstep::without_model(&setup()), None);
    let sprout = run(&plan, &mut Sprout::new(&setup()), None);
    assert_eq!(format!("{ours:?}"), format!("{sprout:?}"));
}

#[test]
fn lessons_say_what_the_path_took() {
    let plan = Plan::constant(1_000);
    // The loop's link carries nothing around datagrams, with which lessons reckon (56 bytes around most of 1,264): a path a
    // little faster is the same.
    let known = Trace::constant(lockstep_units::Bitrate::from_kbps(1_060));
    let mut controller = Lockstep::without_model(&setup()).with_lessons(known_path(&known));
    run(&plan, &mut controller, None);
    let lessons = controller.take_lessons();
    assert!((590..=600).contains(&lessons.len()), "a lesson a picture: {}", lessons.len());
    // Of half a second, a constant link that is kept busy carries just what the filter expects.
    let late: Vec<f32> = lessons[300..].iter().map(|lesson| lesson.right[3]).collect();
    let mean = late.iter().sum::<f32>() / late.len() as f32;
    assert!(mean.abs() < 0.15, "{mean}");
    assert!(lessons.iter().all(|lesson| lesson.seen.iter().chain(&lesson.right).all(|value| value.is_finite())));
    assert!(controller.take_lessons().is_empty());
}

#[test]
fn an_outage_is_in_the_lessons_before_it_is_seen() {
    let trace = Trace::from_opportunities((0..2_000).chain(4_000..6_000).collect(), 6_000).unwrap();
    let plan = Plan::new(trace);
    let mut controller = Lockstep::without_model(&setup()).with_lessons(known_path(&plan.trace));
    run(&plan, &mut controller, None);
    let lessons = controller.take_lessons();
    let (before, at) = (&lessons[40], &lessons[59]);
    assert!(before.right[0] - at.right[3] > 0.5, "{before:?} {at:?}");
}

#[test]
fn the_model_that_comes_with_it_fills_most_of_a_link_and_keeps_the_queue_short() {
    let outcome = run(&Plan::constant(1_000), &mut shipped(), None);
    assert!((0.6..1.05).contains(&outcome.rate(5, 20).as_mbps()), "{outcome:?}");
    assert!(outcome.queueing_delay(5, 20, 0.5) < Duration::from_millis(80), "{outcome:?}");
}

#[test]
fn the_same_feedback_gives_the_same_decisions() {
    let calls = [(), ()].map(|()| format!("{:?}", run(&Plan::step(2_500, 600, 20), &mut shipped(), None)));
    assert_eq!(calls[0], calls[1]);
}

#[test]
fn inputs_unlike_those_of_training_leave_the_decision_to_sprout() {
    let mut controller = shipped();
    run(&Plan::constant(1_000), &mut controller, None);
    assert_eq!(controller.falls_back(), None);
    let net = controller.net.as_mut().unwrap();
    // As if it had been trained where nothing was ever seen.
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
    assert!(counted[0].1 > 600 && unlike.1 > 30, "it is told in reports: {counted:?}");
    let (path, in_flight) = (PathView { now, ..PathView::default() }, InFlight::default());
    let (ours, sprout) = (controller.allowance(&path, in_flight), controller.sprout.allowance(&path, in_flight));
    assert_eq!((ours.budget, ours.pacing_interval), (sprout.budget, sprout.pacing_interval));
    assert!(ours.target >= sprout.target);
}

#[test]
fn a_model_for_something_else_is_refused() {
    let error = Lockstep::with_model(&setup(), Shipped::Concerto.model().unwrap()).err().unwrap();
    assert!(error.to_string().contains("it is one for `concerto`, not for `lockstep`"), "{error}");
}

#[test]
fn a_path_that_becomes_faster_is_not_taken_for_one_that_others_share() {
    let mut controller = shipped();
    let outcome = run(&Plan::step(400, 4_000, 20), &mut controller, None);
    let by_sprout: u64 = controller.counters()[1..].iter().map(|(_, pictures)| pictures).sum();
    assert_eq!(by_sprout, 0, "{:?}", controller.counters());
    assert!(outcome.rate(23, 40).as_mbps() > 2.5, "{outcome:?}");
}

#[test]
fn from_a_slow_path_to_a_much_faster_one_takes_no_second_whatever_frames_are_left_out() {
    for (smallest, from) in [0.0, 0.4, 0.6].into_iter().flat_map(|smallest| [60, 150, 400].map(|from| (smallest, from)))
    {
        let rule = Rule { smallest, ..Rule::of(crate::Latency::Balanced) };
        let outcome = run(&Plan::step(from, 8_000, 20), &mut shipped().with_rule(rule), None);
        assert!(outcome.rate(21, 23).as_mbps() > 2.0, "{smallest} {from}: {outcome:?}");
    }
}

#[test]
fn a_frame_that_would_be_small_is_left_out() {
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
    // In a frame interval such a link carries 8 kB.
    let carried = controller.sprout.mean_rate() * controller.frame_interval;
    assert!(any < 0.1 * carried && large > 0.25 * carried, "{any} {large} of {carried}");
}

#[test]
fn of_a_path_of_which_nothing_was_heard_the_target_is_not_that_of_the_slowest() {
    let (mut ours, mut sprout) = (shipped(), Sprout::new(&setup()));
    let targets = [&mut ours as &mut dyn Controller, &mut sprout].map(|controller| {
        controller.handle(&PathView::default(), Input::Time);
        controller.allowance(&PathView::default(), InFlight::default()).target
    });
    assert!(targets[0] >= targets[1], "{targets:?}");
}

/// A forecast of 20 kB soon, rather likely, but in a case of ten of no more than `least` by each deadline.
fn rather_likely(least: [f64; HORIZONS.len()]) -> Present {
    let basis = Basis { rate: 100_000.0, unknown: 0.0 };
    let said = HORIZONS.iter().zip(least).flat_map(|(&horizon, least)| {
        [least, 20_000.0, 20_000.0, 20_000.0, 20_000.0].map(|bytes| basis.said(horizon, bytes) as f32)
    });
    let said: Vec<f32> = said.chain([0.0; MODEL_STATE]).collect();
    let forecast = Forecast::of(&said, basis).unwrap();
    Present { forecast, on_the_way: 500.0, sent: 0.0, unknown: 0.0 }
}

#[test]
fn a_frame_that_is_likely_to_be_through_soon_is_no_larger_than_what_is_through_at_last_in_nine_cases_of_ten() {
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
fn the_net_is_told_of_budgets_as_in_its_lessons_whatever_the_rule_takes_away() {
    let given = [0.06, 0.5].map(|latest| {
        let rule = Rule { latest, ..Rule::of(crate::Latency::Balanced) };
        let present = Some(rather_likely([100.0, 200.0, 500.0, 2_500.0]));
        let mut controller = Lockstep { present, ..Lockstep::without_model(&setup()) }.with_rule(rule);
        controller.begin_picture(Timestamp::ZERO);
        controller.given
    });
    assert!(given[0] == given[1] && given[0] > 19_000.0, "{given:?}");
}
