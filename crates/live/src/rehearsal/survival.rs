//! What calls survive, by plan, and how they end where they do not.

use lockstep_link::{LossConfig, Reordering};

use super::*;

/// Pictures and sound are back so soon after what was in their way has gone.
const BACK: Duration = Duration::from_millis(500);
/// A call that does not go on says why within this time.
const OVER: Duration = Duration::from_secs(30);
/// The time between two looks at the time of a call that ends.
const LOOK: Duration = Duration::from_millis(250);

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A call that has gone on for 5 s, and in which both ends see and hear each other.
fn begun(cast: Cast, links: [LinkConfig; 2], seed: u64) -> World {
    let mut world = World::new(cast, links, seed);
    world.run_for(seconds(5));
    let (pictures, sound) = world.longest_back(Timestamp::ZERO);
    assert!(pictures <= seconds(1), "no picture for {pictures:?}");
    assert!(cast.talk == Talk::Mute || sound <= seconds(3), "no sound for {sound:?}");
    world
}

fn usual_call() -> World {
    begun(Cast::default(), [usual_link(), usual_link()], 1)
}

fn patient() -> Patience {
    Patience { idle_limit: None, ..Cast::default().patience }
}

/// Both are back in time after `since`; silence is no sound, and somebody may be silent for a while.
fn assert_back(world: &mut World, since: Timestamp, what: &str) {
    let talk = world.cast.talk;
    world.run_until(since + seconds(if talk == Talk::Always { 3 } else { 8 }));
    let (pictures, sound) = world.longest_back(since);
    let said = [JOINER, LISTENER].map(|end| world.ended(end));
    assert!(pictures <= BACK, "{what}: pictures are back after {pictures:?} {said:?}");
    assert!(talk != Talk::Always || sound <= BACK, "{what}: sound is back after {sound:?}");
    assert!(talk == Talk::Mute || sound <= seconds(8), "{what}: sound is back after {sound:?}");
}

/// Both ends say why it is over, in time after `since`.
fn assert_over(world: &mut World, since: Timestamp, words: [&str; 2]) {
    world.run_until(since + OVER + LOOK);
    for (end, words) in [JOINER, LISTENER].into_iter().zip(words) {
        let (at, said) = world.ended(end).expect("it is over");
        let after = at.saturating_since(since);
        assert!(after <= OVER + LOOK && said.contains(words), "end {end}: after {after:?}: {said}");
    }
}

#[test]
fn pictures_and_sound_are_back_half_a_second_after_a_lost_link_is() {
    for talk in [Talk::Always, Talk::Mute, Talk::ByTurns(3)] {
        for lost in [1, 10, 60] {
            for seed in 1..=2 {
                let cast = Cast { talk, patience: patient(), pictures: "generated:16x16@30" };
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
fn a_link_that_stays_lost_ends_the_call_at_both_ends_with_a_word() {
    let mut world = usual_call();
    world.cut = [true; 2];
    let since = world.now;
    assert_over(&mut world, since, ["nothing came from the other end for 30.0 s"; 2]);
}

#[test]
fn one_direction_may_be_dead_for_a_while_and_ends_the_call_at_both_ends_if_it_stays() {
    for (dead, talk) in [(JOINER, Talk::Always), (LISTENER, Talk::Always), (JOINER, Talk::Mute), (LISTENER, Talk::Mute)]
    {
        let mut world = begun(Cast { talk, ..Cast::default() }, [usual_link(), usual_link()], 1);
        world.cut[dead] = true;
        world.run_for(seconds(10));
        if talk == Talk::Always {
            // The other direction goes on.
            let late = world.ends[dead].heard.last().expect("it heard something").0;
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

/// What was sent to an address that the other end has left must not be built upon, nor may it take a lost frame to learn so:
/// of ten pictures a second that is too many, and beside sound that has come before probes are rarer still.
#[test]
fn few_pictures_over_a_long_way_are_back_as_soon_when_either_end_moves() {
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
fn either_end_may_move_to_another_address_at_any_time() {
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
fn ends_that_move_at_once_to_where_neither_finds_the_other_say_so() {
    let mut world = usual_call();
    [JOINER, LISTENER].into_iter().for_each(|end| world.rebind(end));
    let since = world.now;
    assert_over(&mut world, since, ["nothing came from the other end"; 2]);
}

#[test]
fn an_end_that_is_stopped_for_five_seconds_is_back_at_once() {
    for end in [JOINER, LISTENER] {
        let mut world = usual_call();
        for _ in 0..2 {
            world.stop(end);
            world.run_for(seconds(5));
            world.go_on(end);
            let since = world.now;
            assert_back(&mut world, since, &format!("end {end}"));
        }
    }
}

#[test]
fn an_end_that_is_killed_is_missed_by_the_other_with_a_word() {
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
fn a_listener_that_is_started_anew_knows_nothing_of_the_call_and_the_joiner_says_so_within_a_second() {
    let mut world = usual_call();
    world.restart(LISTENER);
    world.run_for(seconds(1));
    let (_, said) = world.ended(JOINER).expect("it is over");
    assert!(said.contains("the other end was started anew"), "{said}");
}

#[test]
fn a_joiner_that_is_started_anew_is_told_that_its_ticket_is_used() {
    let mut world = usual_call();
    let since = world.now;
    world.restart(JOINER);
    world.run_for(seconds(1));
    let (_, said) = world.ended(JOINER).expect("it is refused");
    assert!(said.contains("the ticket was used already"), "{said}");
    assert_over(&mut world, since, ["used already", "nothing came from the other end"]);
}

#[test]
fn the_other_end_hears_at_once_that_somebody_hangs_up_whatever_is_lost() {
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

/// How it ends for an end that hangs up `after` so long in which the other one is stopped, which goes on `later`, if it does.
fn hang_up_on_one_that_is_gone(end: usize, after: Duration, later: Option<Duration>) -> String {
    let mut world = usual_call();
    world.stop(1 - end);
    world.run_for(after);
    let at = world.now + world.ends[end].ahead;
    world.ends[end].hang_up(at);
    if let Some(later) = later {
        world.run_for(later);
        world.go_on(1 - end);
    }
    world.run_for(seconds(4));
    world.ended(end).expect("it is over").1
}

#[test]
fn whoever_hangs_up_on_an_end_that_is_gone_is_told_that_it_did_not_hear() {
    for end in [JOINER, LISTENER] {
        let said = hang_up_on_one_that_is_gone(end, seconds(5), None);
        assert!(said.contains("not seem to have heard so: nothing came from it for 8.0 s"), "{said}");
        // It hears of it late.
        assert_eq!(hang_up_on_one_that_is_gone(end, seconds(5), Some(seconds(2))), "Stopped");
        // It may have heard, and its word of that may have been lost.
        assert_eq!(hang_up_on_one_that_is_gone(end, Duration::ZERO, None), "Stopped");
    }
}

/// Pictures shown at an end in the last ten seconds, the longest time without any, and the share of 20 ms that were heard.
fn lately(world: &World, end: usize) -> (usize, Duration, f64) {
    let now = world.now + world.ends[end].ahead;
    let from = Timestamp::ZERO + now.saturating_since(Timestamp::ZERO + seconds(10));
    let shown: Vec<Timestamp> = world.ends[end].shown.iter().map(|&(at, _)| at).filter(|&at| at >= from).collect();
    let all = [&[from][..], &shown[..], &[now][..]].concat();
    let pause = all.windows(2).map(|pair| pair[1].saturating_since(pair[0])).max().unwrap_or_default();
    let heard = world.ends[end].heard.iter().filter(|&&(at, _)| at >= from).count();
    (shown.len(), pause, heard as f64 / 500.0)
}

/// Over such links both ends go on to see and hear each other.
fn assert_goes_on(link: &LinkConfig, largest: usize, pause: Duration, what: &str) {
    for seed in 1..=3 {
        let mut world = World::new(Cast::default(), [link.clone(), link.clone()], seed);
        world.largest = largest;
        world.run_for(seconds(30));
        for end in [JOINER, LISTENER] {
            let (shown, longest, heard) = lately(&world, end);
            let said = world.ended(end);
            assert!(shown >= 100 && longest <= pause, "{what}: {shown} pictures, {longest:?} without {said:?}");
            assert!(heard > 0.95, "{what}: {heard} of the sound");
        }
    }
}

#[test]
fn a_path_of_datagrams_of_1200_bytes_is_enough() {
    assert_goes_on(&usual_link(), 1_200, Duration::from_millis(300), "1,200 bytes");
}

#[test]
fn a_path_that_takes_only_small_datagrams_from_now_on_is_found_out() {
    let mut world = usual_call();
    world.largest = 1_200;
    world.run_for(seconds(20));
    for end in [JOINER, LISTENER] {
        let (shown, pause, heard) = lately(&world, end);
        assert!(shown >= 100 && pause <= seconds(1) && heard > 0.95, "{shown} pictures, {pause:?} without, {heard}");
    }
}

#[test]
fn reordered_datagrams_and_copies_of_them_do_no_harm() {
    let reordering = Some(Reordering { probability: 0.1, extra_delay: Duration::from_millis(30) });
    let link = LinkConfig { reordering, duplication: 0.1, ..usual_link() };
    assert_goes_on(&link, usize::MAX, Duration::from_millis(500), "reordered and copied");
}

#[test]
fn with_30_percent_of_the_datagrams_lost_pictures_and_sound_go_on() {
    let link = LinkConfig { loss: LossConfig { random: 0.3, ..LossConfig::default() }, ..usual_link() };
    assert_goes_on(&link, usize::MAX, seconds(1), "30 % lost");
}

#[test]
fn with_a_way_back_of_32_kilobits_a_second_pictures_go_on_there_if_fewer() {
    let slow = LinkConfig { trace: Trace::constant(Bitrate::from_kbps(32)), ..usual_link() };
    let cast = Cast { talk: Talk::Mute, ..Cast::default() };
    let mut world = World::new(cast, [usual_link(), slow], 1);
    // It only watches.
    world.ends[LISTENER].next_capture = None;
    // Until it is known how little it carries, its queue is long.
    world.run_for(seconds(15));
    let before = world.bytes[LISTENER];
    world.run_for(seconds(15));
    let (shown, pause, _) = lately(&world, LISTENER);
    assert!(shown >= 100 && pause <= seconds(1), "{shown} pictures, {pause:?} without");
    let bits = (world.bytes[LISTENER] - before) * 8 / 15;
    assert!(bits < 40_000, "{bits} bits a second of feedback");
}

#[test]
fn with_pictures_both_ways_and_a_way_back_of_32_kilobits_a_second_the_call_goes_on() {
    let slow = LinkConfig { trace: Trace::constant(Bitrate::from_kbps(32)), ..usual_link() };
    for talk in [Talk::Mute, Talk::ByTurns(7)] {
        let cast = Cast { talk, ..Cast::default() };
        let mut world = World::new(cast, [usual_link(), slow.clone()], 1);
        world.run_for(seconds(60));
        let there = lately(&world, LISTENER);
        let back = lately(&world, JOINER);
        // Somebody's voice, 20 ms a packet, is more than it carries.
        let (least, least_back) = if talk == Talk::Mute { (30, 30) } else { (5, 1) };
        assert!(there.0 >= least && there.1 <= seconds(2), "{talk:?}: {} pictures, {:?} without", there.0, there.1);
        assert!(back.0 >= least_back, "{talk:?}: {} pictures back", back.0);
        assert!(world.ended(JOINER).is_none() && world.ended(LISTENER).is_none(), "it is over");
    }
}

#[test]
fn nothing_of_a_call_reads_the_systems_clock_once_it_has_begun() {
    // Somebody sets it by an hour: only the moment of the start, which logs name, is told by it.
    let source = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut readers = Vec::new();
    let folders = [source.clone(), source.join("connection"), source.join("../../socket/src")];
    for entry in folders.iter().flat_map(|folder| std::fs::read_dir(folder).expect("it is there").flatten()) {
        let Ok(text) = std::fs::read_to_string(entry.path()) else { continue };
        if text.contains("SystemTime") {
            readers.push((entry.file_name(), text.matches("SystemTime::now").count()));
        }
    }
    assert_eq!(readers, [("clock.rs".into(), 1)]);
}
