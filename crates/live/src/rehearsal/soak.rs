//! Hours of calls with random faults.
//!
//! Links fail in one or both directions, for a moment or a minute. Links become slow or lossy, or reorder datagrams.
//! Ends change their address, are stopped and resumed, or are killed and restarted. Their cameras and microphones are
//! unplugged: the other end then shows a frozen picture and hears silence. After each fault, pictures and sound
//! return, or the call reports why it ended. Held memory stays bounded.
//!
//! `LOCKSTEP_SOAK_HOURS=24 LOCKSTEP_SOAK_SEED=1 cargo test --release -p lockstep-live soak -- --ignored --nocapture`
//!
//! A failure names the seed of its call; `LOCKSTEP_SOAK_CALL=1034` runs that call alone.

use lockstep_link::{GilbertElliott, LossConfig, Reordering};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg32;

use super::*;

/// A fault of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mishap {
    /// The datagrams of these ends are lost for this time.
    Cut([bool; 2], Duration),
    /// An end has a new address.
    Move(usize),
    /// An end is stopped for this time.
    Stop(usize, Duration),
    /// An end is killed and restarted.
    Kill(usize),
    /// Datagrams larger than this number of bytes are lost for this time.
    Narrow(usize, Duration),
    /// The camera and the microphone of an end, or one of them, are unplugged for this time.
    Unplug(usize, [bool; 2], Duration),
    /// No fault.
    Nothing,
}

/// Longest time until pictures and sound return after a fault: over a good link, and over any other.
const BACK: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(10));
/// Bounds of the states and links that an end holds, whatever the length of the call.
const MAX_STATES: usize = 40;
const MAX_LINKS: usize = 12;

fn between(random: &mut Pcg32, least: u64, most: u64) -> Duration {
    Duration::from_millis(random.random_range(least..=most))
}

fn mishap(random: &mut Pcg32) -> Mishap {
    let end = random.random_range(0..2_usize);
    match random.random_range(0..100_u32) {
        0..20 => Mishap::Cut([true; 2], between(random, 100, 3_000)),
        20..30 => Mishap::Cut([true; 2], between(random, 3_000, 25_000)),
        30..45 => Mishap::Cut([end == 0, end == 1], between(random, 100, 20_000)),
        45..65 => Mishap::Move(end),
        65..80 => Mishap::Stop(end, between(random, 100, 10_000)),
        80..82 => Mishap::Kill(end),
        82..87 => Mishap::Narrow(1_200, between(random, 1_000, 30_000)),
        87..95 => {
            let devices = [[true, false], [false, true], [true, true]][random.random_range(0..3)];
            Mishap::Unplug(end, devices, between(random, 100, 60_000))
        }
        _ => Mishap::Nothing,
    }
}

/// A random link, and whether it is a good one.
fn link(random: &mut Pcg32) -> (LinkConfig, bool) {
    let kbps = random.random_range(600..20_000);
    let mut link =
        LinkConfig { delay: between(random, 5, 60), ..LinkConfig::new(Trace::constant(Bitrate::from_kbps(kbps))) };
    let kind = random.random_range(0..6_u32);
    match kind {
        0 => link.loss = LossConfig { random: random.random_range(0.0..0.3), ..LossConfig::default() },
        1 => link.reordering = Some(Reordering { probability: 0.1, extra_delay: between(random, 1, 50) }),
        2 => link.duplication = 0.2,
        3 => {
            let burst = GilbertElliott { to_bad: 0.01, to_good: 0.3, loss_in_good: 0.0, loss_in_bad: 1.0 };
            link.loss = LossConfig { burst: Some(burst), ..LossConfig::default() };
        }
        _ => {}
    }
    (link, kind >= 4)
}

/// Totals of hours of calls.
#[derive(Debug, Default)]
struct Totals {
    calls: u64,
    mishaps: u64,
    unplugged: u64,
    ended: u64,
    longest_good: [Duration; 2],
    longest: [Duration; 2],
    max_states: usize,
    pictures: u64,
}

/// Runs one call until it ends or `length` has passed; returns how long it was.
fn call(random: &mut Pcg32, length: Duration, seed: u64, totals: &mut Totals) -> Duration {
    let [(forward, good), (reverse, good_back)] = [link(random), link(random)];
    let good = good && good_back;
    let talk = match random.random_range(0..4_u32) {
        0 => Talk::Mute,
        1 => Talk::ByTurns(seed),
        _ => Talk::Always,
    };
    let cast = Cast { pictures: "generated:16x16@10", talk, ..Cast::default() };
    let mut world = World::new(cast, [forward, reverse], seed);
    totals.calls += 1;
    world.run_for(Duration::from_secs(3));
    while world.now < Timestamp::ZERO + length {
        let pause = between(random, 10, 30_000);
        world.run_for(pause);
        let mishap = mishap(random);
        totals.mishaps += 1;
        let mut killed = false;
        match mishap {
            Mishap::Cut(cut, time) => {
                world.cut = cut;
                world.run_for(time);
                world.cut = [false; 2];
            }
            Mishap::Move(end) => world.rebind(end),
            Mishap::Stop(end, time) => {
                world.stop(end);
                world.run_for(time);
                world.resume(end);
            }
            Mishap::Kill(end) => {
                world.restart(end);
                killed = true;
            }
            Mishap::Narrow(bytes, time) => {
                world.largest = bytes;
                world.run_for(time);
                world.largest = usize::MAX;
            }
            Mishap::Unplug(end, devices, time) => {
                totals.unplugged += 1;
                world.unplug(end, devices);
                let out = world.now + world.ends[end].ahead;
                world.run_for(time);
                let other = &world.ends[1 - end];
                let newest = |moments: &[(Timestamp, Timestamp)]| moments.iter().map(|&(_, captured)| captured).max();
                let (shown, played) = (newest(&other.shown), newest(&other.played));
                assert!(!devices[0] || shown <= Some(out), "seed {seed}: a picture of {shown:?} without a camera");
                // Concealment extends the last sound by some frames.
                let conceals = out + Duration::from_millis(if good { 20 } else { 1_000 });
                assert!(
                    !devices[1] || played <= Some(conceals),
                    "seed {seed}: sound of {played:?} without a microphone"
                );
                world.unplug(end, [false; 2]);
            }
            Mishap::Nothing => {}
        }
        // A lost device is looked for every second.
        let search = if matches!(mishap, Mishap::Unplug(..)) { ATTEMPT_INTERVAL } else { Duration::ZERO };
        let since = world.now;
        world.forget();
        if killed {
            // The killed end is gone: the other one reports that within its limit.
            world.run_for(Duration::from_secs(31));
            assert!(world.ended(JOINER).is_some(), "seed {seed}: a joiner outlived {mishap:?} {:?}", world.now);
            totals.ended += 1;
            break;
        }
        world.run_for(search + BACK.1);
        let said = [JOINER, LISTENER].map(|end| world.ended(end));
        assert_eq!(said, [None, None], "seed {seed}: over at {since:?} after {mishap:?}");
        let (pictures, sound) = world.max_recovery(since);
        let hears = talk == Talk::Always;
        let limit = search + if good { BACK.0 } else { BACK.1 };
        assert!(pictures <= limit, "seed {seed}, {talk:?}: pictures {pictures:?} after {mishap:?} at {since:?}");
        assert!(!hears || sound <= limit, "seed {seed}: sound {sound:?} after {mishap:?} at {since:?}");
        // The search for a device is no outage of the call.
        let [pictures, sound] = [pictures, sound].map(|time| time.saturating_sub(search));
        let longest = if good { &mut totals.longest_good } else { &mut totals.longest };
        longest[0] = longest[0].max(pictures);
        if hears {
            longest[1] = longest[1].max(sound);
        }
        for end in &world.ends {
            let states = end.receiving.held_states().max(end.sending.status(world.now + end.ahead).held_states);
            totals.max_states = totals.max_states.max(states);
            assert!(states <= MAX_STATES, "seed {seed}: {states} states are held");
            assert!(end.sending.held_records() <= 64, "seed {seed}: records pile up");
            let links = end.exchange.connection.links();
            assert!(links <= MAX_LINKS, "seed {seed}: {links} links");
            assert_eq!(end.receiving.counts().mismatched, 0, "seed {seed}: ends differ");
        }
        totals.pictures += world.ends.iter().map(|end| end.shown.len() as u64).sum::<u64>();
        world.forget();
    }
    world.now.saturating_since(Timestamp::ZERO)
}

/// Runs calls of up to an hour, `hours` in total. A call that a killed end finishes counts with the time that it had.
fn soak(hours: f64, seed: u64) -> Totals {
    let mut totals = Totals::default();
    let hour = Duration::from_secs(3_600);
    let mut left = hour.mul_f64(hours);
    let mut number = seed * 1_000;
    while !left.is_zero() {
        number += 1;
        left = left.saturating_sub(numbered_call(number, left, &mut totals));
    }
    totals
}

/// Runs the call with this number, for `most` time; returns how long it was.
fn numbered_call(number: u64, most: Duration, totals: &mut Totals) -> Duration {
    let mut random = Pcg32::seed_from_u64(number);
    let length = most.min(between(&mut random, 60_000, 3_600_000));
    call(&mut random, length, number, totals)
}

#[test]
#[ignore = "slow"]
fn calls_survive_a_quarter_of_an_hour_of_faults() {
    let totals = soak(0.25, 1);
    assert!(totals.mishaps > 20 && totals.pictures > 1_000, "{totals:?}");
}

#[test]
#[ignore = "hours of virtual time; see this file's beginning"]
fn calls_survive_a_marathon_of_faults() {
    let number =
        |name: &str, usual: f64| std::env::var(name).ok().and_then(|text| text.parse::<f64>().ok()).unwrap_or(usual);
    let again = number("LOCKSTEP_SOAK_CALL", 0.0) as u64;
    let totals = if again > 0 {
        let mut totals = Totals::default();
        numbered_call(again, Duration::MAX, &mut totals);
        totals
    } else {
        soak(number("LOCKSTEP_SOAK_HOURS", 24.0), number("LOCKSTEP_SOAK_SEED", 1.0) as u64)
    };
    println!("{totals:?}");
}
