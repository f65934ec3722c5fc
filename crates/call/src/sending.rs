//! Sending end of a call: a state machine without a clock, from captured pictures to datagrams.
//!
//! A driver passes pictures ([`SendingEnd::capture`]) and runs the coding jobs of [`SendingEnd::poll_encode`] on any
//! thread. It returns their results ([`SendingEnd::encoded`]) and moves datagrams. Feedback and pacing continue while a
//! picture is being coded. Of pictures captured during that time, only the newest is kept.

mod budget;
mod chain;
mod decode_lag;
mod encoding;
mod silence;
mod sound;

use std::time::Duration;

use lockstep_control::{Ceiling, Controller, FailureReason, InFlight, Input, Latency, LimitedBy, PathObserver, Traits};
use lockstep_transport::wire::Acknowledgement;
use lockstep_transport::{
    Datagram, Recovery, Sender, SenderConfig, SenderEvent, StateId, Transmit, VideoFormat, WireError,
};
use lockstep_units::{Bitrate, ByteCount, Timestamp};

use crate::codec::{Codec, CodecTraits, Vp8};
use crate::effort::{EffortControl, Preset};
use crate::encoder::{EncodeJob, FrameEncoder};
use crate::narrow::NarrowPathShares;
use crate::open_records::OpenRecords;
use crate::overhead::Overhead;
use crate::record::FrameRecord;
use crate::sound::RecentRate;
use crate::tuning::Tuning;
use chain::Chain;
use decode_lag::DecodeLag;
pub use decode_lag::DecodeLagConfig;
use encoding::Encoding;

/// Reliable resolution of a host's timers. Most schedulers have ticks of 1 ms or more, and a timer of 50 µs is late by
/// as much. Fragments that are due within it leave together.
const TIMER_RESOLUTION: Duration = Duration::from_millis(1);
/// Maximum number of fragments that leave together: most sockets and drivers accept these 90 kB without loss.
const MAX_BURST_FRAGMENTS: u32 = 64;

/// Number of fragments that may leave together at a pacing interval: those of one millisecond, at least one.
fn pacing_burst(interval: Duration) -> u32 {
    if interval >= TIMER_RESOLUTION {
        return 1;
    }
    let due = TIMER_RESOLUTION.subsec_nanos().div_ceil(interval.subsec_nanos().max(1));
    due.min(MAX_BURST_FRAGMENTS)
}

/// Frame that was passed to the transport, with the data for measuring its quality.
#[derive(Debug, Clone)]
pub struct Committed<C: Codec = Vp8> {
    /// Number of the captured picture.
    pub capture: u64,
    /// The picture as captured.
    pub original: C::Picture,
    /// Picture that the receiver will display.
    pub reconstruction: C::Decoded,
    /// Target state of the frame, with its name.
    pub reached: (StateId, C::State),
}

/// Status of the sending end at one moment, for a progress line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SendingStatus {
    /// Target of the controller.
    pub target: Bitrate,
    /// Quantizer of the last sent frame.
    pub quantizer: Option<u8>,
    /// Limit of the last decided picture; none before the first.
    pub limited_by: Option<LimitedBy>,
    /// Smoothed round-trip time.
    pub round_trip_time: Option<Duration>,
    /// Data in flight.
    pub in_flight: InFlight,
    /// Number of states held as sources.
    pub held_states: usize,
}

/// Sending end of a call.
pub struct SendingEnd<C: Codec = Vp8> {
    transport: Sender<C::Payload>,
    tuning: Tuning,
    /// Maximum payload of a fragment on the path.
    path_payload: ByteCount,
    /// Maximum payload of new frames' fragments. It is lower if words would wait behind them.
    payload: ByteCount,
    recovery: Recovery,
    overhead: Overhead,
    frame_interval: Duration,
    /// Whether captured pictures show a screen.
    is_screen: bool,
    /// Rate of sound; none without sound.
    sound: Option<Box<RecentRate>>,
    /// Rate of the application's messages.
    messages: RecentRate,
    /// Narrow-path mode, used only with sound: it changes the way of sound and limits pictures.
    narrow: NarrowPathShares,
    controller: Box<dyn Controller>,
    /// Whether the end does only what a published system does.
    is_as_published: bool,
    encoder: Box<dyn FrameEncoder<C>>,
    effort: EffortControl,
    waiting: Option<(u64, C::Picture)>,
    encoding: Option<Encoding<C::Picture>>,
    refinement: Option<EncodeJob<C>>,
    path: PathObserver,
    /// Upper bound of the mean rate.
    ceiling: Option<Ceiling>,
    /// Whether the ceiling depends on the format.
    has_automatic_ceiling: bool,
    /// Whether the path was silent at the last check.
    silent: bool,
    /// Time of the next hello during silence.
    hello_at: Option<Timestamp>,
    chain: Chain,
    decode_lag: DecodeLag,
    last_quantizer: Option<u8>,
    last_limited_by: Option<LimitedBy>,
    records: OpenRecords,
    committed: Option<Committed<C>>,
}

impl<C: Codec> SendingEnd<C> {
    /// A sending end without pictures. The encoder determines the announced codec and the recovery from losses.
    #[must_use]
    pub fn new(
        mut transport: SenderConfig,
        controller: Box<dyn Controller>,
        encoder: Box<dyn FrameEncoder<C>>,
        tuning: &Tuning,
    ) -> Self {
        let CodecTraits { id, max_states, .. } = encoder.codec();
        (transport.recovery, transport.codec) = (encoder.recovery(), id);
        transport.tuning = tuning.transport;
        transport.retained_states = transport.retained_states.min(max_states);
        let payload = ByteCount::new(transport.payload as u64);
        let format = transport.format;
        let frame_interval = format.frame_interval();
        let control = &tuning.control;
        let ceiling = control.ceiling.rate(format.width.into(), format.height.into(), frame_interval);
        let ceiling = controller.traits().has_ceiling.then(|| Ceiling::new(ceiling, payload, frame_interval, control));
        Self {
            tuning: *tuning,
            path_payload: payload,
            payload,
            recovery: transport.recovery,
            overhead: Overhead::default(),
            frame_interval,
            is_screen: false,
            sound: None,
            messages: RecentRate::default(),
            narrow: NarrowPathShares::new(tuning),
            transport: Sender::new(transport),
            controller,
            is_as_published: false,
            encoder,
            effort: EffortControl::new(Preset::default(), Latency::default()),
            waiting: None,
            encoding: None,
            refinement: None,
            path: PathObserver::new(payload, control),
            ceiling,
            has_automatic_ceiling: true,
            silent: false,
            hello_at: None,
            chain: Chain::new(),
            decode_lag: DecodeLag::new(tuning.decode_lag, control.silence.margin, control.path.retry),
            last_quantizer: None,
            last_limited_by: None,
            records: OpenRecords::default(),
            committed: None,
        }
    }

    /// The same end with another ceiling of the bit rate than [`bitrate_ceiling`](lockstep_control::bitrate_ceiling),
    /// or with none. Only for controllers with a ceiling
    /// ([`Traits::has_ceiling`](lockstep_control::Traits::has_ceiling)).
    #[must_use]
    pub fn with_max_bitrate(mut self, ceiling: Option<Bitrate>) -> Self {
        self.set_max_bitrate(ceiling);
        self
    }

    /// Changes the ceiling of the bit rate during the call; none removes it. Controllers without a ceiling ignore it.
    pub fn set_max_bitrate(&mut self, ceiling: Option<Bitrate>) {
        self.has_automatic_ceiling = false;
        self.set_ceiling(ceiling);
    }

    /// The same end with another choice of the encoder's effort than [`Preset::Auto`] for [`Latency::Balanced`]. Codecs
    /// without effort levels ignore it.
    #[must_use]
    pub fn with_preset(mut self, preset: Preset, latency: Latency) -> Self {
        self.effort = EffortControl::new(preset, latency);
        self
    }

    /// The same end without the rules that Lockstep adds to a published system: limits by path, ceiling and probes
    /// ([`Traits::AS_PUBLISHED`]), parity, recovery before a loss is known, and pauses for a slow receiver.
    #[must_use]
    pub fn as_published(mut self) -> Self {
        self.is_as_published = true;
        self.set_ceiling(None);
        self
    }

    /// Which rules apply to the controller now.
    fn traits(&self) -> Traits {
        if self.is_as_published { Traits::AS_PUBLISHED } else { self.controller.traits() }
    }

    fn set_ceiling(&mut self, ceiling: Option<Bitrate>) {
        let ceiling = ceiling.filter(|_| self.traits().has_ceiling);
        self.ceiling =
            ceiling.map(|rate| Ceiling::new(rate, self.path_payload, self.frame_interval, &self.tuning.control));
    }

    /// Replaces the controller during the call, for example to change the latency. The new one starts without
    /// estimates, and must require the same estimator at the receiver.
    pub fn set_controller(&mut self, controller: Box<dyn Controller>) {
        self.controller = controller;
    }

    /// Changes the size or rate of pictures during the call. The encoder starts a new size with a key frame.
    pub fn set_format(&mut self, now: Timestamp, format: VideoFormat) {
        if format == self.format() {
            return;
        }
        self.frame_interval = format.frame_interval();
        self.transport.set_format(now, format);
        if self.has_automatic_ceiling {
            let config = &self.tuning.control.ceiling;
            let ceiling = config.rate(format.width.into(), format.height.into(), self.frame_interval);
            self.set_ceiling(Some(ceiling));
        }
    }

    /// Sets whether the pictures captured from now on show a screen. Its text stays sharp: a screen has fewer frames on
    /// slow paths, where a camera has coarser ones. Ends as published, and conventional codecs, code both alike.
    pub fn set_screen(&mut self, is_screen: bool) {
        self.is_screen = is_screen;
    }

    /// Number of the connection, which identifies the stream in a call of several.
    #[must_use]
    pub fn connection(&self) -> u32 {
        self.transport.connection()
    }

    /// The last announced format.
    #[must_use]
    pub fn format(&self) -> VideoFormat {
        self.transport.format()
    }

    /// Sets the maximum payload of new frames' datagrams, as far as the path is known to carry it. The value is capped
    /// at the transport's payload.
    pub fn set_payload(&mut self, bytes: usize) {
        self.path_payload = ByteCount::new(self.transport.set_payload(bytes) as u64);
        self.fit_payload();
    }

    /// The frame that was last passed to the transport, once.
    pub fn poll_committed(&mut self) -> Option<Committed<C>> {
        self.committed.take()
    }

    /// Handles a datagram, from the receiver or anybody else. Returns whether it was valid.
    pub fn handle_datagram(&mut self, now: Timestamp, datagram: Result<Datagram<C::Payload>, WireError>) -> bool {
        let taken = self.transport.handle_datagram(now, datagram);
        self.drain_events(now);
        taken
    }

    /// Takes the last handled acknowledgement, whose memory [`ReceivingEnd::reuse`](crate::ReceivingEnd::reuse) can
    /// use.
    pub fn take_handled(&mut self) -> Option<Box<Acknowledgement>> {
        self.transport.take_handled()
    }

    /// The next datagram that may leave now.
    #[inline]
    pub fn poll_transmit(&mut self, now: Timestamp) -> Option<Transmit<C::Payload>> {
        if self.transport.is_quiet(now) { None } else { self.transmit(now) }
    }

    fn transmit(&mut self, now: Timestamp) -> Option<Transmit<C::Payload>> {
        if self.transport.queued_fragments() > 0 {
            let pace = self.controller.pacing_interval(&self.path.view(now), self.in_flight());
            // Reference controllers that ignore the path do not wait for room in its queue.
            let interval = if self.traits().is_bounded { pace.max(self.path.min_pause()) } else { pace };
            let interval = interval.max(self.narrow_pause(now));
            self.transport.set_pace(interval, pacing_burst(interval));
        }
        let transmit = self.transport.poll_transmit(now)?;
        if let Datagram::Sound(_) = transmit.datagram {
            self.sound.get_or_insert_default().on_transmit(now, transmit.size);
            self.path.on_sound(now, transmit.size);
            self.controller.handle(&self.path.view(now), Input::Sent(transmit.size));
            self.on_ceiling(now, transmit.size);
            self.narrow.on_sound(now);
            self.hold_sound(now);
        } else if let Some(fragment) = transmit.fragment {
            let new = if fragment.retransmitted { ByteCount::ZERO } else { fragment.payload };
            self.overhead.on_transmit(transmit.size, new);
            self.path.on_fragment(now, transmit.size);
            self.controller.handle(&self.path.view(now), Input::Sent(transmit.size));
            self.on_ceiling(now, transmit.size);
        }
        Some(transmit)
    }

    /// Adds a datagram of `size` bytes to the ceiling.
    fn on_ceiling(&mut self, now: Timestamp, size: ByteCount) {
        if let Some(ceiling) = &mut self.ceiling {
            ceiling.on_sent(now, size);
        }
    }

    /// Time of the next call of [`SendingEnd::handle_timeout`] and [`SendingEnd::poll_transmit`].
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        Timestamp::earliest([self.transport.poll_timeout(), self.hello_at])
    }

    /// Handles the time of [`SendingEnd::poll_timeout`].
    pub fn handle_timeout(&mut self, now: Timestamp) {
        self.transport.handle_timeout(now);
        self.note_silence(now);
        self.drain_events(now);
    }

    /// The record of the next decided picture, in the order of capture. The driver calls this last. If it never does,
    /// about the newest thousand are kept.
    pub fn poll_record(&mut self) -> Option<FrameRecord> {
        self.records.take_decided()
    }

    /// Like [`Self::poll_record`] after the call, including pictures without a decision.
    pub fn poll_last_record(&mut self) -> Option<FrameRecord> {
        self.records.take_any()
    }

    /// Number of records that wait to be taken or decided.
    #[must_use]
    pub fn held_records(&self) -> usize {
        self.records.len()
    }

    /// Number of captured pictures.
    #[must_use]
    pub fn captured(&self) -> u64 {
        self.records.captured()
    }

    /// Checks whether the encoder failed. No frame is sent any more if it did.
    ///
    /// # Errors
    /// The reason, once.
    pub fn check(&self) -> Result<(), FailureReason> {
        self.encoder.check()
    }

    /// The present status, for a progress line.
    #[must_use]
    pub fn status(&self, now: Timestamp) -> SendingStatus {
        SendingStatus {
            target: self.budget(now).target,
            quantizer: self.last_quantizer,
            limited_by: self.last_limited_by,
            round_trip_time: self.transport.round_trip_time().map(|time| time.smoothed),
            in_flight: self.in_flight(),
            held_states: self.encoder.held_states(),
        }
    }

    /// The transport's counters.
    #[must_use]
    pub fn statistics(&self) -> lockstep_transport::SenderStatistics {
        self.transport.statistics()
    }

    /// Number of the controller's decisions by kind ([`Controller::counters`]).
    #[must_use]
    pub fn controller_counters(&self) -> Vec<(&'static str, u64)> {
        self.controller.counters()
    }

    fn record(&mut self, capture: u64, change: impl FnOnce(&mut FrameRecord)) {
        if let Some(record) = self.records.get_mut(capture) {
            change(record);
        }
    }

    #[inline]
    fn drain_events(&mut self, now: Timestamp) {
        if self.transport.has_events() {
            self.take_events(now);
        }
    }

    fn take_events(&mut self, now: Timestamp) {
        while let Some(event) = self.transport.poll_event() {
            match event {
                SenderEvent::Feedback(feedback) => {
                    self.path.on_feedback(now, &feedback);
                    let view = self.path.view(now);
                    if self.sound.is_some() {
                        self.narrow.on_feedback(&view, &feedback);
                    }
                    self.controller.handle(&view, Input::Feedback(&feedback));
                    self.decode_lag.on_feedback(now, &feedback);
                    self.transport.reuse(feedback);
                }
                SenderEvent::FragmentsLost(fragments) => {
                    self.path.on_loss(now, &fragments);
                    self.controller.handle(&self.path.view(now), Input::Lost(&fragments));
                    self.decode_lag.on_fragments_lost(&fragments);
                }
                SenderEvent::Release(state) => self.encoder.forget(state),
                SenderEvent::FrameAcknowledged { frame, .. } => {
                    self.chain.on_decoded();
                    self.decode_lag.on_decoded(now, frame);
                    self.path.on_frame(false);
                }
                SenderEvent::FrameLost(_) => {
                    self.decode_lag.on_frame_lost();
                    self.path.on_frame(true);
                }
                // A refusal shows nothing about the path.
                SenderEvent::FrameRefused(_) => self.decode_lag.on_frame_lost(),
                SenderEvent::Connected => {}
                SenderEvent::Answered => self.answered(now),
            }
        }
        self.hold_sound(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fragments_of_one_millisecond_leave_together() {
        let microseconds = [5_000, 1_000, 999, 500, 100, 16, 1, 0];
        let bursts = microseconds.map(|interval| pacing_burst(Duration::from_micros(interval)));
        assert_eq!(bursts, [1, 1, 2, 2, 10, 63, 64, 64]);
    }
}
