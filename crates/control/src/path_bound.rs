//! What holds for every controller, whatever its formula says: nothing is asked of the path that it has not lately been
//! seen to carry, nothing is sent into silence but now and then a small frame, and pictures that gain nothing by it get
//! no more bits.
//!
//! A frame has at most what the path was seen to carry in half a second of the last five: by what was acknowledged of
//! half a second, or, growing twofold a round trip, by the spacing of fragments inside a frame's own burst. Without the
//! latter a quiet scene could never grow again: the vicious circle that Concerto describes (MobiCom 2019, section 2). A
//! burst of what had queued behind a pause of the link is no such evidence: it shows how fast the last hop is, not the
//! path. Until something is heard, [`FIRST_FLIGHT`] may be under way; then a frame may have [`LEAST_FRAME`] whatever was
//! seen. What is under way may be twice as much as a frame may have, and the target is no more than twice that rate, so
//! that it can double in a round trip.
//!
//! | constant | value | why |
//! |---|---|---|
//! | window of what was delivered | 500 ms | frames larger than this are seen half a second late, whatever follows |
//! | memory | 5 s | a second or two of quiet must not forget the path |
//! | least frame | 15,000 bytes | ten packets, TCP's initial window (RFC 6928) |
//! | first flight | 8,000 bytes | half of that: a slow link's first second was its worst (`docs/controllers.md`, "On slow links") |
//! | growth | 2 a round trip | slow start (RFC 5681) |
//! | burst found the link idle | its first fragment waited no more than 10 ms | a tick of most schedulers |
//! | silence | smoothed round trip + 150 ms | pauses of cellular links are rarely longer |
//! | the same where news came later than that, by the latest of 5 s | 500 ms at most | acknowledgements that wait behind the other end's pictures are no silence; an outage of the way back alone should be noticed all the same |
//! | pause between two probes | 100 ms; doubling to 1 s once the path would take 100 ms for all of them | what is sent into silence must not be in the way when it ends |
//! | what is sent into silence in all | what the path delivered in 100 ms, and a fiftieth of that rate for as long as the silence lasts | the smallest frame of a second without any can be more than a slow link carries in that second: it waits behind the next, and what is new behind both |
//! | pause between two hellos into silence, which are answered | 20 ms at least, as sound has; a fortieth of the silence; so long that they take a sixteenth of what the path carried; 1 s at most | where packets, not moments, are lost in bursts (Gilbert's and Elliott's model, as netem counts it), a silence ends when so many were sent: with bursts of 33 packets at 2 Mb/s p95 was 17 s and is 0.3 (`--burst-loss 0.1%,3%`); a fiftieth left 4.6 s at 150 kb/s where this leaves 1.5; in 60 s of silence 210 of them go, 16 kB |
//! | the same beside sound that arrives | 250 ms at least | sound goes first; but where it alone flows, nobody learns what pictures may have |
//! | where more is on the way than is through soon | 1 s since a frame was last sent, or, where they waited, heard of | on a path that carries a few kb/s, ten probes a second were what filled the queue for seconds, and one a second what kept it filled |
//! | soon | the shortest round trip of a minute, since a queue may stand for long, and 150 ms, at the rate of the last half second of deliveries | where Lockstep's own search for such a time ended |
//! | what is left below the ceiling | half of its share of a frame at least | after frames that came out larger the next are not to be coarse ones, while the path is fast |
//! | ceiling | 0.5 bit a pixel | beyond it VP8's picture gains nothing that is seen: quantizers below 8 or so; small pictures 500 kb/s |

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::time::Duration;

use lockstep_transport::wire::CARRIAGE;
use lockstep_transport::{AcknowledgedFragment, Feedback, LostFragment, SOUND};
use lockstep_units::{Bitrate, ByteCount, Timestamp, duration_from_seconds, moving_average};

use crate::base_delay::BaseDelay;
use crate::path_delay::PathDelay;
use crate::recent_least::RecentLeast;
use crate::short_queue::ShortQueue;
use crate::{Allowance, InFlight, LossRate, TokenBucket};

const WINDOW: Duration = Duration::from_millis(500);
const MEMORY: Duration = Duration::from_secs(5);
/// What a frame may have as long as nothing is known of the path but that it carries something.
pub const LEAST_FRAME: ByteCount = ByteCount::new(15_000);
/// What may be under way until something is heard.
const FIRST_FLIGHT: ByteCount = ByteCount::new(8_000);
const GROWTH: u64 = 2;
const IDLE_WAIT: Duration = Duration::from_millis(10);
const SHORTEST_BURST: Duration = Duration::from_millis(1);
const SILENCE_MARGIN: Duration = Duration::from_millis(150);
const LATEST_NEWS: Duration = Duration::from_millis(500);
const FIRST_ROUND_TRIP: Duration = Duration::from_millis(500);
const PROBE_PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));
/// Pauses between two hellos into silence, what one takes of a link with its headers, of what the path delivered the part that
/// they may take, and of the silence the part that a pause lasts.
const GREETING_PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));
const GREETING: ByteCount = ByteCount::new(20 + CARRIAGE);
const GREETING_SHARE: u64 = 16;
const GREETINGS_FADE: u32 = 40;
/// The least pause between two probes while sound flows and is heard of.
const PAUSE_BESIDE_SOUND: Duration = Duration::from_millis(250);
/// Of what the path delivered in a window, the part that may be sent into silence before probes become rare.
const SILENT_SHARE: (u64, u64) = (1, 5);
const LEAST_HARMLESS: u64 = 1_500;
/// Of the rate at which the path delivered, the part that probes may take for as long as a silence lasts. Of 0.02, 0.05, 0.1 and no
/// such bound this has the highest QoE_d over 302 modelled calls with and without pauses (`docs/controllers.md`, "Into
/// silence"). 0 is as good there, but where the way back alone pauses for 8 s p95 is 10.8 s rather than 0.9.
const PROBES_SHARE: f64 = 0.02;
/// Where only the news of what was sent was late before, probes are due as long as the path bears one of so many packets. With
/// none that slow paths bear are too many where both ways pause in turn (`docs/controllers.md`, "Into silence").
const SMALL_PROBE: u64 = 2;
/// What is on the way is through soon if it takes the path so long beyond a round trip; over so long the shortest of these
/// is taken.
const SOON: Duration = Duration::from_millis(150);
const ROUND_TRIP_MEMORY: Duration = Duration::from_secs(60);
/// More arrivals than this are not remembered, whatever times they are said to have: half a second of a gigabit.
const MOST_ARRIVALS: usize = 65_536;
const ROUND_TRIP_WEIGHT: f64 = 0.125;
const CEILING_BITS_PER_PIXEL: f64 = 0.5;
const LEAST_CEILING: Bitrate = Bitrate::from_kbps(500);
/// Of what the ceiling lets through in a frame interval, what a frame may have that comes after larger ones.
const LEAST_OF_CEILING: f64 = 0.5;

/// The bit rate beyond which pictures of this size and rate gain nothing: half a bit a pixel, and at least 500 kb/s,
/// since small pictures take more bits a pixel.
#[must_use]
pub fn bitrate_ceiling(width: usize, height: usize, frame_interval: Duration) -> Bitrate {
    let pixels = (width * height) as f64 / frame_interval.as_secs_f64().max(1e-6);
    Bitrate::from_bps((CEILING_BITS_PER_PIXEL * pixels) as u64).max(LEAST_CEILING)
}

/// The most bytes of those put in lately; zero if there were none.
fn most(recent: &RecentLeast<Reverse<u64>>) -> u64 {
    recent.get().map_or(0, |Reverse(bytes)| bytes)
}

/// A frame's fragments as they arrived.
#[derive(Debug, Clone, Copy)]
struct Burst {
    frame: u32,
    first_at: Timestamp,
    last_at: Timestamp,
    /// All its bytes, and those after the first fragment.
    bytes: u64,
    later: u64,
    /// Whether its first fragment found the link idle.
    evidence: bool,
}

/// What is left of a controller's allowance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounded {
    /// What the next frame is to be coded for.
    pub allowance: Allowance,
    /// What it may have if it came out larger: what the path bears out, without regard to the ceiling. That pictures gain
    /// nothing by more bits is no reason to leave one out.
    pub affordable: ByteCount,
}

/// The most that is sent in the long run, all headers included.
#[derive(Debug)]
struct Ceiling {
    rate: Bitrate,
    bucket: TokenBucket,
    /// What a frame may have however much those before it took.
    least: ByteCount,
}

impl Ceiling {
    fn new(rate: Bitrate, payload: ByteCount, frame_interval: Duration) -> Self {
        let least = rate.bytes_in(frame_interval.mul_f64(LEAST_OF_CEILING));
        Self { rate, bucket: TokenBucket::new(payload, frame_interval), least }
    }
}

/// What a controller's allowance is bounded by, and when a frame is sent although there is none.
#[derive(Debug)]
pub struct PathBound {
    payload: ByteCount,
    frame_interval: Duration,
    ceiling: Option<Ceiling>,
    path_delay: PathDelay,
    short_queue: ShortQueue,
    /// How long the last that was heard of was queued on its way.
    waited: Duration,
    /// What arrived in the last [`WINDOW`], receiver's clock.
    arrivals: VecDeque<(Timestamp, u64)>,
    arrived: u64,
    /// The most bytes that were delivered in a window.
    delivered: RecentLeast<Reverse<u64>>,
    /// The most bytes that bursts call for.
    bursts: RecentLeast<Reverse<u64>>,
    burst: Option<Burst>,
    round_trip: Option<Duration>,
    shortest_round_trip: RecentLeast<Duration>,
    loss_rate: LossRate,
    /// What news of arrivals takes, on two clocks, and by how much of late it took longer than the least.
    news: BaseDelay,
    late: RecentLeast<Reverse<Duration>>,
    heard_at: Timestamp,
    /// When the oldest was transmitted of all that was since something was last heard.
    unheard_from: Option<Timestamp>,
    /// When a fragment of a frame was last transmitted, and when one was last heard of; sound is something else.
    transmitted_at: Option<Timestamp>,
    frame_heard_at: Timestamp,
    /// When the path was last found to carry something again.
    returned_at: Option<Timestamp>,
    /// Bytes transmitted into silence.
    unheard: u64,
    /// Whether what was sent before the last silence ended had arrived in time, and only the news of it was late.
    carries_unheard: bool,
    /// Probes since those are too many.
    probes: u32,
    /// Nothing that was transmitted after this moment has been acknowledged yet.
    restarted_at: Option<Timestamp>,
}

impl PathBound {
    /// Of a path that nothing is known of, for frames every `frame_interval` in fragments of up to `payload` bytes, and
    /// at most `ceiling` in the long run.
    #[must_use]
    pub fn new(payload: ByteCount, frame_interval: Duration, ceiling: Option<Bitrate>) -> Self {
        Self {
            payload,
            frame_interval,
            ceiling: ceiling.map(|rate| Ceiling::new(rate, payload, frame_interval)),
            path_delay: PathDelay::new(Duration::from_secs(10)),
            short_queue: ShortQueue::new(payload),
            waited: Duration::ZERO,
            arrivals: VecDeque::new(),
            arrived: 0,
            delivered: RecentLeast::new(),
            bursts: RecentLeast::new(),
            burst: None,
            round_trip: None,
            shortest_round_trip: RecentLeast::new(),
            loss_rate: LossRate::default(),
            news: BaseDelay::new(ROUND_TRIP_MEMORY),
            late: RecentLeast::new(),
            heard_at: Timestamp::ZERO,
            unheard_from: None,
            transmitted_at: None,
            frame_heard_at: Timestamp::ZERO,
            returned_at: None,
            unheard: 0,
            carries_unheard: false,
            probes: 0,
            restarted_at: None,
        }
    }

    /// Sets the most that may be sent in the long run, or that there is no such bound.
    pub fn set_ceiling(&mut self, ceiling: Option<Bitrate>) {
        self.ceiling = ceiling.map(|rate| Ceiling::new(rate, self.payload, self.frame_interval));
    }

    /// A frame was decoded, or is lost for all its parity.
    pub fn on_frame(&mut self, lost: bool) {
        self.loss_rate.on_frame(lost);
    }

    /// The loss rate of the path.
    #[must_use]
    pub fn loss_rate(&self) -> &LossRate {
        &self.loss_rate
    }

    /// A fragment of a frame, a datagram of `size` bytes, left the pacer.
    pub fn on_transmit(&mut self, now: Timestamp, size: ByteCount) {
        self.transmitted_at = Some(now);
        self.on_sound(now, size);
    }

    /// A packet of sound, a datagram of `size` bytes, left: it goes whatever the budget is, and says nothing of what
    /// pictures may have.
    pub fn on_sound(&mut self, now: Timestamp, size: ByteCount) {
        if let Some(Ceiling { rate, bucket, .. }) = &mut self.ceiling {
            bucket.on_transmit(now, size + ByteCount::new(CARRIAGE), *rate);
        }
        self.short_queue.on_transmit(now, size);
        self.unheard_from.get_or_insert(now);
        if self.is_silent(now) {
            self.unheard += size.get();
        }
    }

    /// A frame was handed to the transport although the budget did not hold it.
    pub fn on_probe(&mut self) {
        if self.unheard > self.harmless() {
            self.probes = self.probes.saturating_add(1);
        }
    }

    /// Something came from the other end after a pause, whatever it was: where the path was silent, it may be no longer.
    pub fn on_return(&mut self, now: Timestamp) {
        self.returned_at = Some(now);
    }

    /// Feedback arrived.
    pub fn on_feedback(&mut self, now: Timestamp, feedback: &Feedback) {
        self.loss_rate.on_acknowledged(feedback.acknowledged.len());
        self.loss_rate.on_found(feedback.found);
        if feedback.acknowledged.is_empty() {
            return;
        }
        self.short_queue.on_feedback(now, feedback);
        if self.is_silent(now) {
            self.restarted_at = Some(now);
        }
        if let Some(newest) = feedback.acknowledged.iter().map(|arrival| arrival.arrived_at).max() {
            self.late.put(now, Reverse(self.news.queueing_delay(newest, now)), MEMORY);
        }
        (self.heard_at, self.unheard_from, self.unheard, self.probes) = (now, None, 0, 0);
        if let Some(sample) = feedback.round_trip_time {
            self.shortest_round_trip.put(now, sample, ROUND_TRIP_MEMORY);
            let known = self.round_trip.unwrap_or(sample);
            self.round_trip = Some(moving_average(known, sample, ROUND_TRIP_WEIGHT));
        }
        if feedback.acknowledged.iter().any(|arrival| arrival.fragment != SOUND) {
            self.frame_heard_at = now;
        }
        self.learn_what_was_late(now, &feedback.acknowledged);
        for arrival in &feedback.acknowledged {
            if self.restarted_at.is_some_and(|restarted| arrival.sent_at >= restarted) {
                self.restarted_at = None;
            }
            self.arrive(now, arrival);
        }
    }

    /// Learns of the newest packet that was heard of late which of the two ways kept the sender waiting.
    fn learn_what_was_late(&mut self, now: Timestamp, acknowledged: &[AcknowledgedFragment]) {
        let expected = self.round_trip.unwrap_or(FIRST_ROUND_TRIP) + LATEST_NEWS;
        let late = acknowledged.iter().filter(|arrival| now.is_later_by(expected, arrival.sent_at));
        if let Some(newest) = late.max_by_key(|arrival| arrival.sent_at) {
            let way_back = self.news.queueing_delay(newest.arrived_at, now);
            self.carries_unheard = way_back > now.saturating_since(newest.sent_at) / 2;
        }
    }

    fn arrive(&mut self, now: Timestamp, arrival: &AcknowledgedFragment) {
        let (at, size) = (arrival.arrived_at, arrival.size.get());
        let waited = duration_from_seconds(self.path_delay.wait(arrival));
        self.waited = waited;
        self.arrivals.push_back((at, size));
        self.arrived += size;
        while let Some(&(first, size)) = self.arrivals.front()
            && (at.is_later_by(WINDOW, first) || self.arrivals.len() > MOST_ARRIVALS)
        {
            self.arrived -= size;
            self.arrivals.pop_front();
        }
        self.delivered.put(now, Reverse(self.arrived), MEMORY);
        match &mut self.burst {
            Some(burst) if burst.frame == arrival.frame => {
                (burst.bytes, burst.later) = (burst.bytes + size, burst.later + size);
                burst.last_at = burst.last_at.max(at);
                if burst.evidence {
                    let time = burst.last_at.saturating_since(burst.first_at).max(SHORTEST_BURST);
                    let window = Bitrate::mean(ByteCount::new(burst.later), time).bytes_in(WINDOW);
                    self.bursts.put(now, Reverse(window.get().min(GROWTH * burst.bytes)), MEMORY);
                }
            }
            _ => {
                let evidence = arrival.fragment == 0 && waited <= IDLE_WAIT;
                let frame = arrival.frame;
                self.burst = Some(Burst { frame, first_at: at, last_at: at, bytes: size, later: 0, evidence });
            }
        }
    }

    /// Fragments were declared lost.
    pub fn on_loss(&mut self, now: Timestamp, lost: &[LostFragment]) {
        self.loss_rate.on_lost(lost.len());
        self.short_queue.on_loss(now, lost);
    }

    /// For how long after a packet of a frame the next is to wait, whatever the controller's pace, where the queue on the way
    /// was seen to hold fewer packets than frames have.
    #[must_use]
    pub fn least_pause(&self) -> Duration {
        self.short_queue.least_pause()
    }

    /// How long `queued` bytes that wait to be paced will take to leave at least, for the same reason.
    #[must_use]
    pub fn time_to_leave(&self, queued: ByteCount) -> Duration {
        self.short_queue.time_to_leave(queued)
    }

    /// Whether the path has taken datagrams and not been heard of for longer than it should take.
    #[must_use]
    pub fn is_silent(&self, now: Timestamp) -> bool {
        let Some(from) = self.unheard_from else { return false };
        let late = self.late.get().map_or(Duration::ZERO, |Reverse(late)| late).min(LATEST_NEWS);
        let patience = self.round_trip.unwrap_or(FIRST_ROUND_TRIP) + SILENCE_MARGIN.max(late);
        now.is_later_by(patience, from.max(self.heard_at))
    }

    /// Whether the path was found to carry something again, and no fragment of a frame was transmitted since.
    fn has_returned(&self) -> bool {
        self.returned_at.is_some_and(|returned_at| self.transmitted_at.is_none_or(|at| at < returned_at))
    }

    /// Whether a frame is to be sent now even if the budget holds none, as small as there is: nothing is on the way that it could
    /// wait behind, or nothing was sent or heard for so long that nothing would change otherwise: longer where much is
    /// `in_flight`.
    #[must_use]
    pub fn is_probe_due(&self, now: Timestamp, in_flight: InFlight) -> bool {
        let Some(transmitted_at) = self.transmitted_at else { return true };
        if self.has_returned() || in_flight.bytes == ByteCount::ZERO && !self.is_silent(now) {
            return true;
        }
        let small = ByteCount::new(SMALL_PROBE * self.payload.get());
        if self.carries_unheard && self.is_silent(now) && self.bears(now, small) {
            return now.saturating_since(transmitted_at) >= PROBE_PAUSES.0;
        }
        let idle = now.saturating_since(transmitted_at.max(self.frame_heard_at));
        if in_flight.bytes.get() > self.through_soon() {
            // Where it is not what is sent that waits but the news of it, that news comes says little.
            let idle = if self.waited > SOON { idle } else { now.saturating_since(transmitted_at) };
            return idle >= PROBE_PAUSES.1;
        }
        let pause = PROBE_PAUSES.0.saturating_mul(1 << self.probes.min(8)).min(PROBE_PAUSES.1);
        let beside_sound = self.heard_at > self.frame_heard_at;
        let pause = if beside_sound { pause.max(PAUSE_BESIDE_SOUND) } else { pause };
        idle >= pause
    }

    /// Whether a probe of so many bytes may go into silence: if it is only queued, it and those before it are not to keep back
    /// for long what comes after. Any may go where the other end was heard meanwhile, as by a hello that it answered, and where
    /// what was sent before the last silence ended had arrived, and only the news of it was late: the next is taken to be
    /// like that.
    #[must_use]
    pub fn bears_probe(&self, now: Timestamp, size: ByteCount) -> bool {
        if !self.is_silent(now) || self.round_trip.is_none() || self.has_returned() || self.carries_unheard {
            return true;
        }
        self.bears(now, size)
    }

    /// Whether `size` and what was sent before are no more than may go into a silence that lasts until `now`: what does no harm,
    /// and [`PROBES_SHARE`].
    fn bears(&self, now: Timestamp, size: ByteCount) -> bool {
        let rate = Bitrate::mean(ByteCount::new(most(&self.delivered)), WINDOW).mul_f64(PROBES_SHARE);
        let lasting = rate.bytes_in(now.saturating_since(self.heard_at));
        self.unheard + size.get() <= self.harmless() + lasting.get()
    }

    /// The most bytes on the way behind which a probe does not wait for long, at the rate of the last deliveries.
    fn through_soon(&self) -> u64 {
        let time = self.shortest_round_trip.get().unwrap_or(FIRST_ROUND_TRIP) + SOON;
        ((self.arrived as f64 * time.div_duration_f64(WINDOW)) as u64).max(LEAST_HARMLESS)
    }

    /// What may be sent into silence without doing harm: should it only be queued, it is through a tenth of a second
    /// after the path works again.
    fn harmless(&self) -> u64 {
        (most(&self.delivered) * SILENT_SHARE.0 / SILENT_SHARE.1).max(LEAST_HARMLESS)
    }

    /// For how long after a hello into silence no other is sent: see the table.
    #[must_use]
    pub fn greeting_pause(&self, now: Timestamp) -> Duration {
        let silent_for = now.saturating_since(self.heard_at);
        let rate = Bitrate::mean(ByteCount::new(most(&self.delivered) / GREETING_SHARE), WINDOW);
        let (least, longest) = GREETING_PAUSES;
        rate.time_for(GREETING).max(silent_for / GREETINGS_FADE).clamp(least, longest)
    }

    /// As much of `allowance` as is borne out by what is known.
    #[must_use]
    pub fn limit(&self, now: Timestamp, in_flight: InFlight, allowance: Allowance) -> Allowance {
        let shown = ByteCount::new(most(&self.delivered).max(most(&self.bursts))).max(LEAST_FRAME);
        // Before anything is heard there is nothing to grow from.
        let grown = ByteCount::new(GROWTH * shown.get());
        let under_way = if self.round_trip.is_none() { FIRST_FLIGHT } else { grown };
        let room = under_way.saturating_sub(in_flight.bytes);
        let mut budget = allowance.budget.min(shown).min(room);
        let mut target = allowance.target.min(Bitrate::mean(grown, WINDOW));
        if self.is_silent(now) {
            budget = ByteCount::ZERO;
        } else if self.restarted_at.is_some() {
            budget = budget.min(self.payload);
        }
        if let Some(room) = self.short_queue.room(in_flight.queued) {
            budget = budget.min(room);
        }
        if let Some(most) = self.short_queue.most_target(in_flight.queued) {
            target = target.min(most);
        }
        Allowance { budget, target, ..allowance }
    }

    /// As much of `allowance` as pictures gain by.
    #[must_use]
    pub fn below_ceiling(&self, now: Timestamp, in_flight: InFlight, allowance: Allowance) -> Bounded {
        let affordable = allowance.budget;
        let budget = self.most_below_ceiling(now, in_flight).map_or(affordable, |most| most.min(affordable));
        let target = self.ceiling.as_ref().map_or(allowance.target, |ceiling| ceiling.rate.min(allowance.target));
        Bounded { allowance: Allowance { budget, target, ..allowance }, affordable }
    }

    /// The most that pictures gain by in a frame that is sent at `now`; none where there is no ceiling.
    #[must_use]
    pub fn most_below_ceiling(&self, now: Timestamp, in_flight: InFlight) -> Option<ByteCount> {
        let Ceiling { rate, bucket, least } = self.ceiling.as_ref()?;
        Some(bucket.budget(now, in_flight, *rate).max(*least))
    }
}
