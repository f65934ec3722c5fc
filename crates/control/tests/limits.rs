//! Tests of the path observer and of the limits that narrow a controller's allowance.

use std::time::Duration;

use lockstep_control::{
    Allowance, Budget, Ceiling, Delivered, Gross, InFlight, Limit, LimitedBy, PathObserver, ShortQueueLimit,
    SilenceLimit, Tuning, bitrate_ceiling, narrow,
};
use lockstep_transport::{AcknowledgedFragment, Estimate, Feedback, LostFragment};
use lockstep_units::{Bitrate, ByteCount, Timestamp};

const PAYLOAD: u64 = 1_384;
const ROUND_TRIP: Duration = Duration::from_millis(40);

/// The allowance of a controller without any bound.
const BOUNDLESS: Allowance = Allowance {
    budget: ByteCount::new(1_000_000_000),
    pacing_interval: Duration::ZERO,
    target: Bitrate::from_kbps(8_000_000),
    capacity: None,
    behind_cross_traffic: ByteCount::ZERO,
};

/// A path with limits and a clock.
struct Path {
    path: PathObserver,
    ceiling: Option<Ceiling>,
    now: Timestamp,
    frame: u32,
}

impl Path {
    fn new(ceiling: Option<Bitrate>) -> Self {
        let interval = Duration::from_millis(33);
        let payload = ByteCount::new(PAYLOAD);
        let ceiling = ceiling.map(|rate| Ceiling::new(rate, payload, interval, &Tuning::default()));
        Self {
            path: PathObserver::new(payload, &Tuning::default()),
            ceiling,
            now: Timestamp::from_millis(1_000),
            frame: 0,
        }
    }

    /// The budget under an unlimited allowance, and the binding limit.
    fn limited(&self, in_flight: InFlight) -> (Budget, Option<LimitedBy>) {
        let silence = SilenceLimit { payload: ByteCount::new(PAYLOAD) };
        let by_path: [&dyn Limit; 3] = [&Delivered::default(), &silence, &ShortQueueLimit];
        let ceiling = self.ceiling.as_ref().map(|ceiling| ceiling as &dyn Limit);
        let budget = Budget::of(&BOUNDLESS, in_flight);
        narrow(&self.path.view(self.now), budget, by_path.into_iter().chain(ceiling))
    }

    /// Budget of a frame with nothing in flight, bytes.
    fn most(&self) -> u64 {
        self.limited(InFlight::default()).0.frame.0.get()
    }

    fn send(&mut self, at: Timestamp, size: ByteCount) {
        self.path.on_fragment(at, size);
        if let Some(ceiling) = &mut self.ceiling {
            ceiling.on_sent(at, size);
        }
    }

    /// Sends a frame now. Its fragments arrive `delay` later, `apart` from each other. Feedback follows half a round
    /// trip after each.
    fn frame(&mut self, fragments: u16, delay: Duration, apart: Duration) {
        self.frame_with_feedback_delay(fragments, delay, apart, ROUND_TRIP / 2);
    }

    /// Like [`Self::frame`], with feedback `back` after each arrival.
    fn frame_with_feedback_delay(&mut self, fragments: u16, delay: Duration, apart: Duration, back: Duration) {
        let sent_at = self.now;
        let size = ByteCount::new(PAYLOAD + 68);
        (0..fragments).for_each(|_| self.send(sent_at, size));
        for fragment in 0..fragments {
            let arrived_at = sent_at + delay + apart * u32::from(fragment);
            self.now = arrived_at + back;
            let acknowledged = AcknowledgedFragment {
                frame: self.frame,
                fragment,
                size,
                sent_at,
                arrived_at,
                acknowledged_at: self.now,
                congestion_experienced: false,
            };
            let feedback = Feedback {
                found: 0,
                acknowledged: vec![acknowledged],
                estimate: Estimate::default(),
                round_trip_time: Some(self.now.saturating_since(sent_at)),
                highest_sequence: 0,
                received: 0,
            };
            self.path.on_feedback(self.now, &feedback);
        }
        self.frame += 1;
    }

    fn wait(&mut self, time: Duration) {
        self.now += time;
    }
}

const HALF: Duration = Duration::from_millis(20);

/// Data in flight: `packets` full packets.
fn on_the_way(packets: u64) -> InFlight {
    InFlight { bytes: ByteCount::new(1_452 * packets), ..InFlight::default() }
}

#[test]
fn unknown_path_gets_a_small_first_flight() {
    assert_eq!(Path::new(None).most(), 8_000);
}

#[test]
fn quiet_source_on_a_fast_path_doubles_per_round_trip() {
    let mut path = Path::new(None);
    let mut before = path.most();
    for _ in 0..5 {
        let fragments = (before / PAYLOAD) as u16;
        path.frame(fragments, HALF, Duration::from_micros(100));
        let most = path.most();
        assert!(most > before * 3 / 2 && most <= before * 23 / 10, "{before} {most}");
        before = most;
        path.wait(Duration::from_millis(100));
    }
}

#[test]
fn burst_after_a_pause_of_the_link_is_no_evidence() {
    let mut path = Path::new(None);
    path.frame(3, HALF, Duration::from_millis(12));
    path.wait(Duration::from_millis(30));
    // Packets that were held for a quarter of a second arrive together.
    path.frame(30, Duration::from_millis(150), Duration::from_micros(10));
    // Only the deliveries of half a second count: 33 packets.
    assert!(path.most() <= 33 * (PAYLOAD + 68), "{}", path.most());
}

#[test]
fn slow_path_bounds_frames_to_half_a_second_of_data() {
    let mut path = Path::new(None);
    for _ in 0..60 {
        // One packet per 12 ms: 0.97 Mb/s.
        path.frame(4, HALF, Duration::from_millis(12));
    }
    assert!((40_000..=61_000).contains(&path.most()), "{}", path.most());
}

#[test]
fn silence_gets_rare_probes_and_then_a_small_frame() {
    let mut path = Path::new(None);
    (0..30).for_each(|_| path.frame(4, HALF, Duration::from_millis(5)));
    assert!(path.most() > 15_000);
    path.path.on_fragment(path.now, ByteCount::new(1_452));
    assert!(!path.path.is_silent(path.now + Duration::from_millis(100)));
    let mut probes = Vec::new();
    let began = path.now;
    while path.now < began + Duration::from_secs(12) {
        path.wait(Duration::from_millis(10));
        if path.path.is_probe_due(path.now, on_the_way(1)) {
            probes.push(path.now.saturating_since(began).as_millis());
            path.path.on_probe();
            path.path.on_fragment(path.now, ByteCount::new(300));
        }
    }
    assert!(path.path.is_silent(path.now));
    assert_eq!(path.most(), 0);
    // Every 100 ms while the path could deliver them in 100 ms, then less and less often.
    let pauses: Vec<_> = probes.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(pauses[..10].iter().all(|&pause| pause == 100), "{pauses:?}");
    assert!(pauses.is_sorted() && pauses.last() > Some(&200), "{pauses:?}");
    // Feedback for queued packets opens nothing; feedback for later packets does.
    let old = AcknowledgedFragment {
        frame: path.frame,
        fragment: 0,
        size: ByteCount::new(1_452),
        sent_at: began,
        arrived_at: path.now,
        acknowledged_at: path.now,
        congestion_experienced: false,
    };
    let feedback = Feedback {
        found: 0,
        acknowledged: vec![old],
        estimate: Estimate::default(),
        round_trip_time: None,
        highest_sequence: 0,
        received: 0,
    };
    path.path.on_feedback(path.now, &feedback);
    assert_eq!(path.most(), PAYLOAD);
    path.wait(Duration::from_millis(5));
    path.frame(1, HALF, Duration::ZERO);
    assert!(path.most() >= 15_000, "{}", path.most());
}

#[test]
fn probes_into_silence_delay_little_when_it_ends() {
    // One packet per 40 ms is 290 kb/s: 100 ms of it are 3,600 bytes, a fiftieth 730 bytes per second. One packet per
    // 500 ms is 23 kb/s: little more than one packet.
    for (frames, apart, most) in [(100, 40, [4_300, 5_000, 6_500]), (20, 500, [1_550, 1_650, 1_850])] {
        let mut path = Path::new(None);
        for _ in 0..frames {
            path.frame(1, HALF, Duration::ZERO);
            path.wait(Duration::from_millis(apart).saturating_sub(ROUND_TRIP));
        }
        path.path.on_fragment(path.now, ByteCount::new(1));
        let can_carry = |path: &Path, bytes: u64| path.path.can_carry_probe(path.now, ByteCount::new(bytes));
        assert!(can_carry(&path, 1_000_000), "the path is not silent yet");
        for (seconds, most) in [1, 1, 2].into_iter().zip(most) {
            path.wait(Duration::from_secs(seconds));
            let largest = (0..100_000).step_by(50).take_while(|&bytes| can_carry(&path, bytes)).last().unwrap_or(0);
            assert!((most..most + most / 6).contains(&largest), "{largest} bytes after {seconds} s more");
        }
        path.path.on_fragment(path.now, ByteCount::new(20_000));
        assert!(!can_carry(&path, 1), "earlier probes count");
        // After the answer to a hello, one probe may be sent, and another one only if it is small.
        path.wait(Duration::from_millis(10));
        path.path.on_return(path.now);
        assert!(can_carry(&path, 100_000));
        path.path.on_fragment(path.now + Duration::from_millis(1), ByteCount::new(100));
        assert!(!can_carry(&path, 100));
    }
}

#[test]
fn pause_of_the_reverse_path_does_not_stop_probes() {
    let mut path = Path::new(None);
    let quiet = |path: &Path, milliseconds| path.now + Duration::from_millis(milliseconds);
    let can_carry = |path: &Path| path.path.can_carry_probe(quiet(path, 2_000), ByteCount::new(100_000));
    let is_due = |path: &Path, packets: u64| path.path.is_probe_due(quiet(path, 400), on_the_way(packets));
    let sent = |path: &mut Path| path.path.on_fragment(path.now, ByteCount::new(1_452));
    (0..100).for_each(|_| path.frame(4, HALF, Duration::from_millis(5)));
    sent(&mut path);
    assert!(!can_carry(&path) && !is_due(&path, 1_000));
    // The packet arrived at once, but its feedback three seconds later.
    let pause = Duration::from_secs(3);
    path.frame_with_feedback_delay(1, HALF, Duration::ZERO, pause);
    (0..100).for_each(|_| path.frame(4, HALF, Duration::from_millis(5)));
    sent(&mut path);
    assert!(can_carry(&path) && is_due(&path, 1_000));
    // The bytes sent since exceed what the path can carry: the next probe waits, but may have any size.
    path.path.on_fragment(quiet(&path, 300), ByteCount::new(100_000));
    assert!(can_carry(&path) && !is_due(&path, 1_000));
    // Now the packets are delayed instead of the feedback.
    path.wait(Duration::from_secs(1));
    path.frame_with_feedback_delay(1, pause, Duration::ZERO, HALF);
    (0..100).for_each(|_| path.frame(4, HALF, Duration::from_millis(5)));
    sent(&mut path);
    assert!(!can_carry(&path) && !is_due(&path, 1_000));
}

#[test]
fn feedback_behind_the_other_ends_pictures_is_not_silence() {
    let mut path = Path::new(None);
    (0..100).for_each(|_| path.frame(4, HALF, Duration::from_millis(5)));
    let (late, step) = (Duration::from_millis(350), Duration::from_millis(10));
    path.frame_with_feedback_delay(4, HALF, step, late);
    // After feedback was this late once, such delays are tolerated at any frequency.
    for _ in 0..10 {
        (0..8).for_each(|_| path.frame(4, HALF, step));
        path.path.on_fragment(path.now, ByteCount::new(1_452));
        assert!(!path.path.is_silent(path.now + HALF + late), "feedback is as late as before");
        path.frame_with_feedback_delay(4, HALF, step, late);
    }
    path.path.on_fragment(path.now, ByteCount::new(1_452));
    assert!(path.path.is_silent(path.now + Duration::from_millis(900)), "this exceeds the known delay");
}

#[test]
fn hellos_use_a_sixteenth_of_the_rate_and_become_rare() {
    let pauses = |frames: u32, apart: u64| {
        let mut path = Path::new(None);
        for _ in 0..frames {
            path.frame(1, HALF, Duration::ZERO);
            path.wait(Duration::from_millis(apart));
        }
        [300, 4_000, 60_000]
            .map(|silent| path.path.hello_interval(path.now + Duration::from_millis(silent)).as_millis())
    };
    // One packet per 50 ms is 230 kb/s; one per 540 ms is 20 kb/s.
    assert_eq!(pauses(100, 10), [38, 100, 1_000]);
    assert_eq!(pauses(20, 500), [422, 422, 1_000]);
    assert_eq!(Path::new(None).path.hello_interval(Timestamp::from_millis(1_000)), Duration::from_secs(1), "unknown");
}

#[test]
fn probe_on_a_slow_path_waits_for_bytes_in_flight() {
    let mut path = Path::new(None);
    // One packet per 200 ms: 58 kb/s, two or three in half a second.
    (0..20).for_each(|_| path.frame(1, HALF, Duration::ZERO));
    for _ in 0..20 {
        path.wait(Duration::from_millis(200));
        path.frame(1, HALF, Duration::ZERO);
    }
    path.path.on_fragment(path.now, ByteCount::new(1_452));
    let due = |path: &Path, milliseconds: u64, packets: u64| {
        path.path.is_probe_due(path.now + Duration::from_millis(milliseconds), on_the_way(packets))
    };
    assert!(!due(&path, 90, 1) && due(&path, 110, 1));
    // Without bytes in flight there is nothing to wait for.
    assert!(due(&path, 1, 0));
    // Ten packets take two seconds on such a path.
    assert!(!due(&path, 110, 10) && !due(&path, 900, 10) && due(&path, 1_000, 10));
    // While packets arrive late, no probe is due. If only their feedback is late, the sending time counts.
    path.frame(1, HALF + Duration::from_millis(400), Duration::ZERO);
    assert!(!due(&path, 110, 10) && !due(&path, 900, 10) && due(&path, 1_000, 10));
    path.frame(1, HALF, Duration::ZERO);
    assert!(!due(&path, 900, 10) && due(&path, 970, 10));
}

#[test]
fn bytes_before_feedback_are_at_most_a_first_flight() {
    let mut path = Path::new(None);
    let allowed = |path: &Path, bytes: u64| {
        let in_flight = InFlight { bytes: ByteCount::new(bytes), ..InFlight::default() };
        path.limited(in_flight).0.frame.0.get()
    };
    assert_eq!((allowed(&path, 5_000), allowed(&path, 8_000)), (3_000, 0));
    path.frame(1, HALF, Duration::ZERO);
    assert_eq!((allowed(&path, 5_000), allowed(&path, 15_000)), (15_000, 15_000));
}

#[test]
fn ceiling_bounds_budgets_but_not_coded_frames() {
    let ceiling = bitrate_ceiling(1_280, 720, Duration::from_nanos(33_333_333));
    assert!((13.8..13.9).contains(&ceiling.as_mbps()), "{ceiling}");
    let mut path = Path::new(Some(Bitrate::from_kbps(1_000)));
    (0..20).for_each(|_| path.frame(4, HALF, Duration::from_micros(100)));
    path.wait(Duration::from_secs(1));
    assert!(path.most() <= 8_400, "two frame intervals at 1 Mb/s: {}", path.most());
    // A larger frame may be sent. The frames after it have half of their share until the excess is compensated.
    assert!(path.limited(InFlight::default()).0.affordable.0.get() > 40_000);
    path.frame(20, HALF, Duration::from_micros(100));
    assert!((2_000..=2_100).contains(&path.most()), "{}", path.most());
}

#[test]
fn losses_raise_the_loss_share() {
    let mut path = Path::new(None);
    path.frame(10, HALF, Duration::from_millis(1));
    let lost = LostFragment { frame: 0, fragment: 0, size: ByteCount::new(1_452), sent_at: path.now };
    path.path.on_loss(path.now, &[lost; 10]);
    assert!(path.path.loss().share() > 0.02);
}

#[test]
fn last_limit_that_cuts_is_binding() {
    let mut path = Path::new(Some(Bitrate::from_kbps(1_000)));
    assert_eq!(path.limited(InFlight::default()).1, Some(LimitedBy::Delivered), "the first flight");
    (0..20).for_each(|_| path.frame(4, HALF, Duration::from_micros(100)));
    assert_eq!(path.limited(InFlight::default()).1, Some(LimitedBy::Ceiling));
    path.ceiling = None;
    assert_eq!(path.limited(InFlight::default()).1, Some(LimitedBy::Delivered));
    path.send(path.now, ByteCount::new(1_452));
    path.wait(Duration::from_secs(2));
    assert_eq!(path.limited(InFlight::default()).1, Some(LimitedBy::Silence));
}

#[test]
fn limit_that_does_not_cut_is_not_binding() {
    let path = Path::new(None);
    let small = Budget {
        frame: Gross(ByteCount::new(100)),
        affordable: Gross(ByteCount::new(100)),
        ..path.limited(InFlight::default()).0
    };
    assert_eq!(narrow(&path.path.view(path.now), small, [&Delivered::default() as &dyn Limit]), (small, None));
}
