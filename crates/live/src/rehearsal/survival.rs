//! Planned faults: which ones a call survives, and how it ends otherwise.

use lockstep_link::{LossConfig, Reordering};

use super::*;

/// Longest time until pictures and sound return after a fault.
const BACK: Duration = Duration::from_millis(500);
/// A call that cannot resume reports the reason within this time.
const OVER: Duration = Duration::from_secs(30);
/// Tolerance of the end time.
const LOOK: Duration = Duration::from_millis(250);

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A call that has run for 5 s, with pictures and sound at both ends.
fn begun(cast: Cast, links: [LinkConfig; 2], seed: u64) -> World {
    let mut world = World::new(cast, links, seed);
    world.run_for(seconds(5));
    let (pictures, sound) = world.max_recovery(Timestamp::ZERO);
    assert!(pictures <= seconds(1), "no picture for {pictures:?}");
    assert!(cast.talk == Talk::Mute || sound <= seconds(3), "no sound for {sound:?}");
    world
}

fn usual_call() -> World {
    begun(Cast::default(), [usual_link(), usual_link()], 1)
}

fn no_idle_limit() -> TimeLimits {
    TimeLimits { idle_limit: None, ..Cast::default().time_limits }
}

/// Asserts that pictures and sound return in time after `since`. With alternating speech, the speaker may pause for a
/// while.
fn assert_back(world: &mut World, since: Timestamp, what: &str) {
    let talk = world.cast.talk;
    world.run_until(since + seconds(if talk == Talk::Always { 3 } else { 8 }));
    let (pictures, sound) = world.max_recovery(since);
    let said = [JOINER, LISTENER].map(|end| world.ended(end));
    assert!(pictures <= BACK, "{what}: pictures are back after {pictures:?} {said:?}");
    assert!(talk != Talk::Always || sound <= BACK, "{what}: sound is back after {sound:?}");
    assert!(talk == Talk::Mute || sound <= seconds(8), "{what}: sound is back after {sound:?}");
}

/// Asserts that both ends report the end of the call, in time after `since`.
fn assert_over(world: &mut World, since: Timestamp, words: [&str; 2]) {
    world.run_until(since + OVER + LOOK);
    for (end, words) in [JOINER, LISTENER].into_iter().zip(words) {
        let (at, said) = world.ended(end).expect("it is over");
        let after = at.saturating_since(since);
        assert!(after <= OVER + LOOK && said.contains(words), "end {end}: after {after:?}: {said}");
    }
}

#[test]
#[ignore = "slow"]
fn pictures_and_sound_return_within_500_ms_of_a_lost_link() {
    for talk in [Talk::Always, Talk::Mute, Talk::ByTurns(3)] {
        for lost in [1, 10, 60] {
            for seed in 1..=2 {
                let cast = Cast { talk, time_limits: no_idle_limit(), pictures: "generated:16x16@30" };
                let mut world = begun(cast, [usual_link(), usual_link()], seed);
                world.run_for(Duration::from_millis(37 * seed));
                world.cut = [true; 2];
                world.run_for(seconds(lost) + Duration::from_millis(113 * seed));
                world.cut = [false; 2];
                let since = world.now;
                assert_back(&mut world, since, &format!("{lost} s, {talk:?}, seed {seed}"));
            }
        }
    }
}

#[test]
fn permanent_link_failure_ends_the_call_with_a_reason() {
    let mut world = usual_call();
    world.cut = [true; 2];
    let since = world.now;
    assert_over(&mut world, since, ["nothing came from the other end for 30.0 s"; 2]);
}

#[test]
#[ignore = "slow"]
fn failure_of_one_direction_ends_the_call_only_if_permanent() {
    for (dead, talk) in [(JOINER, Talk::Always), (LISTENER, Talk::Always), (JOINER, Talk::Mute), (LISTENER, Talk::Mute)]
    {
        let mut world = begun(Cast { talk, ..Cast::default() }, [usual_link(), usual_link()], 1);
        world.cut[dead] = true;
        world.run_for(seconds(10));
        if talk == Talk::Always {
            // The other direction still works.
            let late = world.ends[dead].played.last().expect("it played something").0;
            let now = world.now + world.ends[dead].ahead;
            assert!(now.saturating_since(late) < BACK, "it hears no more");
        }
        world.cut[dead] = false;
        let since = world.now;
        assert_back(&mut world, since, &format!("direction {dead}"));
        world.cut[dead] = true;
        let since = world.now;
        let mut words = ["the other end ended the call because it failed"; 2];
        words[1 - dead] = "nothing came from the other end";
        assert_over(&mut world, since, words);
    }
}

/// Frames sent to the old address of an end must not serve as references. The sender must not need a lost frame to
/// detect that: at ten pictures per second it would be too late, and probes are rarer still while sound is sent.
#[test]
#[ignore = "slow"]
fn ten_pictures_per_second_return_as_soon_after_a_path_change() {
    let long = || LinkConfig { delay: Duration::from_millis(53), ..usual_link() };
    for end in [JOINER, LISTENER] {
        for talk in [Talk::Mute, Talk::ByTurns(3), Talk::Always] {
            let cast = Cast { pictures: "generated:16x16@10", talk, ..Cast::default() };
            let mut world = begun(cast, [long(), long()], 1);
            for moved in 0..10 {
                world.run_for(Duration::from_millis(10 * moved));
                world.rebind(end);
                let since = world.now;
                assert_back(&mut world, since, &format!("move {moved} of end {end}, {talk:?}"));
            }
        }
    }
}

#[test]
fn call_survives_path_changes_of_either_end() {
    for end in [JOINER, LISTENER] {
        for talk in [Talk::Always, Talk::Mute] {
            let mut world = begun(Cast { talk, ..Cast::default() }, [usual_link(), usual_link()], 1);
            for _ in 0..4 {
                world.rebind(end);
                let since = world.now;
                assert_back(&mut world, since, &format!("end {end}, {talk:?}"));
            }
        }
    }
}

#[test]
fn simultaneous_path_changes_end_the_call_with_a_reason() {
    let mut world = usual_call();
    [JOINER, LISTENER].into_iter().for_each(|end| world.rebind(end));
    let since = world.now;
    assert_over(&mut world, since, ["nothing came from the other end"; 2]);
}

#[test]
fn end_stopped_for_five_seconds_resumes_at_once() {
    for end in [JOINER, LISTENER] {
        let mut world = usual_call();
        for _ in 0..2 {
            world.stop(end);
            world.run_for(seconds(5));
            world.resume(end);
            let since = world.now;
            assert_back(&mut world, since, &format!("end {end}"));
        }
    }
}

#[test]
fn killed_end_makes_the_other_report_silence() {
    for end in [JOINER, LISTENER] {
        let mut world = usual_call();
        world.stop(end);
        let since = world.now;
        world.run_until(since + OVER + LOOK);
        let (_, said) = world.ended(1 - end).expect("it is over");
        assert!(said.contains("nothing came from the other end for 30.0 s"), "{said}");
    }
}

#[test]
fn restart_of_the_listener_ends_the_call_within_a_second() {
    let mut world = usual_call();
    world.restart(LISTENER);
    world.run_for(seconds(1));
    let (_, said) = world.ended(JOINER).expect("it is over");
    assert!(said.contains("the other end was restarted"), "{said}");
}

#[test]
fn restarted_joiner_is_refused_because_its_ticket_is_used() {
    let mut world = usual_call();
    let since = world.now;
    world.restart(JOINER);
    world.run_for(seconds(1));
    let (_, said) = world.ended(JOINER).expect("it is refused");
    assert!(said.contains("the ticket was used already"), "{said}");
    assert_over(&mut world, since, ["used already", "nothing came from the other end"]);
}

#[test]
fn hang_up_reaches_the_other_end_despite_loss() {
    for end in [JOINER, LISTENER] {
        let lossy = LinkConfig { loss: LossConfig { random: 0.3, ..LossConfig::default() }, ..usual_link() };
        let mut world = begun(Cast::default(), [lossy.clone(), lossy], 5);
        let at = world.now + world.ends[end].ahead;
        world.ends[end].hang_up(at);
        world.run_for(seconds(4));
        let (_, said) = world.ended(1 - end).expect("it is over");
        assert_eq!(said, "ByPeer");
        let (_, said) = world.ended(end).expect("it is over here, too");
        assert_eq!(said, "Stopped", "of the other end no more than a last word can be lost");
    }
}

/// The result at an end that hangs up `after` the other end was stopped. The other end resumes `later`, if given.
fn hang_up_on_stopped_end(end: usize, after: Duration, later: Option<Duration>) -> String {
    let mut world = usual_call();
    world.stop(1 - end);
    world.run_for(after);
    let at = world.now + world.ends[end].ahead;
    world.ends[end].hang_up(at);
    if let Some(later) = later {
        world.run_for(later);
        world.resume(1 - end);
    }
    world.run_for(seconds(4));
    world.ended(end).expect("it is over").1
}

#[test]
fn hang_up_on_a_dead_end_is_reported_as_silence() {
    for end in [JOINER, LISTENER] {
        let said = hang_up_on_stopped_end(end, seconds(5), None);
        assert!(said.contains("may not know: nothing came from it for 8.0 s"), "{said}");
        // The other end receives the close message late.
        assert_eq!(hang_up_on_stopped_end(end, seconds(5), Some(seconds(2))), "Stopped");
        // The other end may have received the close message, and its acknowledgement may have been lost.
        assert_eq!(hang_up_on_stopped_end(end, Duration::ZERO, None), "Stopped");
    }
}

/// The last ten seconds at an end: pictures displayed, the longest gap, and the share of sound played.
fn recent(world: &World, end: usize) -> (usize, Duration, f64) {
    let now = world.now + world.ends[end].ahead;
    let from = Timestamp::ZERO + now.saturating_since(Timestamp::ZERO + seconds(10));
    let shown: Vec<Timestamp> = world.ends[end].shown.iter().map(|&(at, _)| at).filter(|&at| at >= from).collect();
    let all = [&[from][..], &shown[..], &[now][..]].concat();
    let pause = all.windows(2).map(|pair| pair[1].saturating_since(pair[0])).max().unwrap_or_default();
    let played = world.ends[end].played.iter().filter(|&&(at, _)| at >= from).count();
    (shown.len(), pause, played as f64 / 500.0)
}

/// Asserts that pictures and sound continue over such links.
fn assert_media_continue(link: &LinkConfig, largest: usize, pause: Duration, what: &str) {
    for seed in 1..=3 {
        let mut world = World::new(Cast::default(), [link.clone(), link.clone()], seed);
        world.largest = largest;
        world.run_for(seconds(30));
        for end in [JOINER, LISTENER] {
            let (shown, longest, played) = recent(&world, end);
            let said = world.ended(end);
            assert!(shown >= 100 && longest <= pause, "{what}: {shown} pictures, {longest:?} without {said:?}");
            assert!(played > 0.95, "{what}: {played} of the sound");
        }
    }
}

#[test]
fn path_of_1200_byte_datagrams_carries_a_call() {
    assert_media_continue(&usual_link(), 1_200, Duration::from_millis(300), "1,200 bytes");
}

#[test]
fn smaller_path_mtu_is_detected_in_mid_call() {
    let mut world = usual_call();
    world.largest = 1_200;
    world.run_for(seconds(20));
    for end in [JOINER, LISTENER] {
        let (shown, pause, played) = recent(&world, end);
        assert!(shown >= 100 && pause <= seconds(1) && played > 0.95, "{shown} pictures, {pause:?} without, {played}");
    }
}

#[test]
#[ignore = "slow"]
fn reordered_and_duplicated_datagrams_are_harmless() {
    let reordering = Some(Reordering { probability: 0.1, extra_delay: Duration::from_millis(30) });
    let link = LinkConfig { reordering, duplication: 0.1, ..usual_link() };
    assert_media_continue(&link, usize::MAX, Duration::from_millis(500), "reordered and copied");
}

#[test]
#[ignore = "slow"]
fn pictures_and_sound_continue_at_30_percent_loss() {
    let link = LinkConfig { loss: LossConfig { random: 0.3, ..LossConfig::default() }, ..usual_link() };
    assert_media_continue(&link, usize::MAX, seconds(1), "30 % lost");
}

#[test]
fn pictures_continue_over_a_feedback_path_of_32_kbps() {
    let slow = LinkConfig { trace: Trace::constant(Bitrate::from_kbps(32)), ..usual_link() };
    let cast = Cast { talk: Talk::Mute, ..Cast::default() };
    let mut world = World::new(cast, [usual_link(), slow], 1);
    // This end only receives.
    world.ends[LISTENER].next_capture = None;
    // The queue is long until the sender knows the capacity of the path back.
    world.run_for(seconds(15));
    let before = world.bytes[LISTENER];
    world.run_for(seconds(15));
    let (shown, pause, _) = recent(&world, LISTENER);
    assert!(shown >= 100 && pause <= seconds(1), "{shown} pictures, {pause:?} without");
    let bits = (world.bytes[LISTENER] - before) * 8 / 15;
    assert!(bits < 40_000, "{bits} bits a second of feedback");
}

#[test]
#[ignore = "slow"]
fn two_way_call_survives_a_reverse_path_of_32_kbps() {
    let slow = LinkConfig { trace: Trace::constant(Bitrate::from_kbps(32)), ..usual_link() };
    for talk in [Talk::Mute, Talk::ByTurns(7)] {
        let cast = Cast { talk, ..Cast::default() };
        let mut world = World::new(cast, [usual_link(), slow.clone()], 1);
        world.run_for(seconds(60));
        let there = recent(&world, LISTENER);
        let back = recent(&world, JOINER);
        // Continuous speech, one packet per 20 ms, exceeds the capacity.
        let (least, min_back) = if talk == Talk::Mute { (30, 30) } else { (5, 1) };
        assert!(there.0 >= least && there.1 <= seconds(2), "{talk:?}: {} pictures, {:?} without", there.0, there.1);
        assert!(back.0 >= min_back, "{talk:?}: {} pictures back", back.0);
        assert!(world.ended(JOINER).is_none() && world.ended(LISTENER).is_none(), "it is over");
    }
}

#[test]
fn running_call_never_reads_the_system_clock() {
    // A clock change of an hour must not disturb a call. Before a call, the system's clock gives the start time for logs
    // and the dates of a new certificate.
    let source = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut readers = Vec::new();
    let folders = [source.clone(), source.join("connection"), source.join("../../socket/src")];
    for entry in folders.iter().flat_map(|folder| std::fs::read_dir(folder).expect("it is there").flatten()) {
        let Ok(text) = std::fs::read_to_string(entry.path()) else { continue };
        if text.contains("SystemTime") {
            readers.push((entry.file_name(), text.matches("SystemTime::now").count()));
        }
    }
    readers.sort();
    assert_eq!(readers, [("clock.rs".into(), 1), ("identity.rs".into(), 2)]);
}
