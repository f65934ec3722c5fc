//! Long gaps: closed laptops, lost networks and new addresses. A call without an idle limit waits, and resumes by itself.

use super::meeting::MEET;
use super::*;

/// Longest time until pictures and sound return after an hour.
const BACK: Duration = Duration::from_secs(3);
/// Longest time between two pictures after that. A clock that stood still halves the rate of pictures for a while.
const MAX_GAP: Duration = Duration::from_millis(500);
const HOUR: Duration = Duration::from_secs(3_600);

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A call that waits without limit, after five seconds. A low frame rate makes an hour cheap.
fn call(meet: Meet) -> World {
    let time_limits = TimeLimits { idle_limit: None, ..Cast::default().time_limits };
    let cast = Cast { pictures: "generated:16x16@10", talk: Talk::Always, time_limits };
    let mut world = World::meeting(cast, [usual_link(), usual_link()], 1, meet);
    world.run_for(seconds(5));
    world
}

/// Asserts that pictures and sound return in time after `since`, and continue.
fn assert_back(world: &mut World, since: Timestamp, what: &str) {
    world.run_until(since + BACK + seconds(1));
    let (pictures, sound) = world.max_recovery(since);
    let said = [JOINER, LISTENER].map(|end| world.ended(end));
    assert!(pictures <= BACK && sound <= BACK, "{what}: back after {pictures:?} and {sound:?} {said:?}");
    let later = world.now;
    world.run_until(later + seconds(20));
    for end in [JOINER, LISTENER] {
        let from = later + world.ends[end].ahead;
        let times = |moments: &[(Timestamp, Timestamp)]| -> Vec<Timestamp> {
            moments.iter().map(|&(at, _)| at).filter(|&at| at >= from).collect()
        };
        let shown = times(&world.ends[end].shown);
        let gap = shown.windows(2).map(|pair| pair[1].saturating_since(pair[0])).max().unwrap_or(Duration::MAX);
        let played = times(&world.ends[end].played).len();
        assert!(
            gap <= MAX_GAP && played >= 950,
            "{what}: end {end} saw nothing for {gap:?}, {played} packets of sound"
        );
    }
}

/// Cuts both directions for `time`; nothing is kept of the records before.
fn cut_for(world: &mut World, time: Duration) {
    world.cut = [true; 2];
    world.run_for(time);
    world.forget();
    world.cut = [false; 2];
}

/// Suspends an end for `time`, up to an hour: its clock stands still, as a laptop's monotonic clock does.
fn suspend_for(world: &mut World, end: usize, time: Duration) {
    world.stop(end);
    if end == LISTENER {
        world.run_for(time);
        world.ends[LISTENER].ahead -= time;
    } else {
        // The joiner's clock cannot fall behind the world's, so the listener's leaps.
        world.run_for(seconds(60));
        world.ends[LISTENER].ahead += time;
        world.run_for(seconds(1));
    }
    world.forget();
    world.resume(end);
}

#[test]
#[ignore = "slow"]
fn call_resumes_after_an_hour_without_a_network() {
    let mut world = call(Meet::default());
    cut_for(&mut world, HOUR);
    let since = world.now;
    assert_back(&mut world, since, "an hour");
}

#[test]
fn call_resumes_after_each_of_three_gaps() {
    let mut world = call(Meet::default());
    for gap in [40, 90, 60] {
        cut_for(&mut world, seconds(gap));
        let since = world.now;
        assert_back(&mut world, since, &format!("{gap} s"));
    }
}

#[test]
#[ignore = "slow"]
fn call_resumes_after_an_hour_of_suspension() {
    for end in [JOINER, LISTENER] {
        let mut world = call(MEET);
        suspend_for(&mut world, end, HOUR);
        let since = world.now;
        assert_back(&mut world, since, &format!("end {end}"));
    }
}

#[test]
fn call_resumes_after_a_short_suspension() {
    for end in [JOINER, LISTENER] {
        let mut world = call(Meet::default());
        suspend_for(&mut world, end, seconds(120));
        let since = world.now;
        assert_back(&mut world, since, &format!("end {end}"));
    }
}

#[test]
fn call_resumes_in_another_network_after_a_gap() {
    for end in [JOINER, LISTENER] {
        let mut world = call(Meet::default());
        world.cut = [true; 2];
        world.run_for(seconds(100));
        world.rebind(end);
        cut_for(&mut world, seconds(1));
        let since = world.now;
        assert_back(&mut world, since, &format!("end {end}"));
    }
}

#[test]
fn rendezvous_rejoins_two_ends_in_other_networks_after_a_gap() {
    let mut world = call(MEET);
    world.cut = [true; 2];
    world.run_for(seconds(100));
    [JOINER, LISTENER].into_iter().for_each(|end| world.rebind(end));
    cut_for(&mut world, seconds(1));
    let since = world.now;
    assert_back(&mut world, since, "both moved");
}

#[test]
fn leaving_ends_at_once_while_the_other_end_is_away() {
    for end in [JOINER, LISTENER] {
        let mut world = call(Meet::default());
        world.stop(1 - end);
        world.run_for(seconds(60));
        let left = world.now;
        let at = left + world.ends[end].ahead;
        world.ends[end].hang_up(at);
        world.run_for(seconds(5));
        let (over, said) = world.ended(end).expect("it is over");
        assert!(over.saturating_since(left) <= seconds(4) && said.contains("may not know"), "{said}");
        // The other end has no way to know, and waits until its user leaves.
        world.resume(1 - end);
        world.run_for(seconds(60));
        assert!(world.ended(1 - end).is_none());
    }
}

#[test]
fn leaving_after_a_gap_ends_the_call_at_both_ends() {
    let mut world = call(Meet::default());
    cut_for(&mut world, seconds(100));
    world.run_for(seconds(2));
    let at = world.now + world.ends[JOINER].ahead;
    world.ends[JOINER].hang_up(at);
    world.run_for(seconds(1));
    assert_eq!([JOINER, LISTENER].map(|end| world.ended(end).expect("it is over").1), ["Stopped", "ByPeer"]);
}

#[test]
fn absent_end_loses_its_place_to_nobody() {
    let mut world = call(Meet::default());
    // The ticket is known, but the process is another one.
    world.stop(JOINER);
    world.run_for(seconds(60));
    world.restart(JOINER);
    world.run_for(seconds(2));
    assert!(world.ended(JOINER).expect("it is refused").1.contains("the ticket was used already"));
    assert!(world.ended(LISTENER).is_none(), "the listener still waits for the first one");
}
