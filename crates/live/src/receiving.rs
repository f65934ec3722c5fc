//! The half of a live call that shows what comes: the receiving end, its decoder and its sink.

use std::sync::mpsc::{self, SyncSender, TrySendError};
use std::time::Duration;

use lockstep_call::{DecodeJob, DecodeOutcome, Display, DisplayRecord, LipSync, ReceivingEnd, SoundScores};
use lockstep_media::{FrameRate, Sink, SinkError, VideoFormat};
use lockstep_units::Timestamp;

use crate::call::Event;
use crate::clock::Clock;
use crate::sound::{Loudspeaker, Player};
use crate::threads::Thread;
use crate::{END_LIMIT, Ended, LiveError};

/// Pictures that may wait for the sink; while more do, nothing is decoded.
const DISPLAY_QUEUE: usize = 4;

/// Opens a sink for pictures of a format.
pub type OpenSink = Box<dyn FnOnce(VideoFormat) -> Result<Box<dyn Sink>, SinkError> + Send>;

/// What a call receives.
pub struct Receiving {
    /// The end.
    pub end: ReceivingEnd,
    /// Opens the sink, once the first picture tells its size.
    pub open_sink: OpenSink,
    /// What its sound is played on, if it is heard.
    pub loudspeaker: Option<Loudspeaker>,
}

/// What a call tells its owner of each picture.
#[derive(Debug, Clone, Copy)]
pub struct Shown {
    /// The picture's place in the receiver's log.
    pub record: DisplayRecord,
    /// When the sender captured it, on the sender's clock.
    pub captured_at: Timestamp,
    /// The shortest round trip so far, without what queues added to others.
    pub shortest_round_trip: Option<Duration>,
}

/// Shows what comes until the call is over or the person closes the window.
fn show(displays: &mpsc::Receiver<(Display, VideoFormat)>, open_sink: OpenSink) -> Result<(), LiveError> {
    let shown = || {
        let Ok((first, format)) = displays.recv() else { return Ok(()) };
        let mut sink = open_sink(format)?;
        sink.show(&first.picture, &first.payload)?;
        for (display, _) in displays {
            sink.show(&display.picture, &display.payload)?;
        }
        sink.finish()
    };
    match shown() {
        Ok(()) | Err(SinkError::WindowClosed) => Ok(()),
        Err(error) => Err(LiveError::Sink(error.to_string())),
    }
}

/// The format of a picture that a call shows, with the frame rate that its sender announced.
fn format_of(display: &Display, announced: Option<lockstep_transport::VideoFormat>) -> VideoFormat {
    let frame_rate = announced
        .and_then(|format| FrameRate::new(format.frame_rate_numerator, format.frame_rate_denominator))
        .unwrap_or_default();
    VideoFormat { width: display.picture.width(), height: display.picture.height(), frame_rate }
}

/// The half while the call runs.
pub(crate) struct ReceivingHalf {
    pub(crate) end: ReceivingEnd,
    jobs: mpsc::Sender<DecodeJob>,
    decoder: Thread,
    pictures: Option<SyncSender<(Display, VideoFormat)>>,
    /// A picture for which the sink has no room yet.
    waiting: Option<(Display, VideoFormat)>,
    sink: Thread,
    sync: LipSync,
    player: Option<Player>,
}

impl ReceivingHalf {
    /// Starts the threads; gives the end back if that fails.
    pub(crate) fn start(
        receiving: Receiving,
        clock: Clock,
        events: &SyncSender<Event>,
    ) -> Result<Self, (Box<ReceivingEnd>, LiveError)> {
        let Receiving { end, open_sink, loudspeaker } = receiving;
        let (jobs, to_decode) = mpsc::channel::<DecodeJob>();
        let (pictures, to_show) = mpsc::sync_channel(DISPLAY_QUEUE);
        let decoded = events.clone();
        let threads = || {
            let decoder = Thread::spawn("decoder", move || {
                for job in to_decode {
                    if decoded.send(Event::Decoded(job.run())).is_err() {
                        break;
                    }
                }
                Ok(())
            })?;
            let sync = LipSync::new(loudspeaker.as_ref().is_some_and(|loudspeaker| loudspeaker.lip_sync));
            let player = loudspeaker.map(|speaker| Player::start(speaker.sink, clock, events)).transpose()?;
            Ok((decoder, Thread::spawn("sink", move || show(&to_show, open_sink))?, sync, player))
        };
        match threads() {
            Ok((decoder, sink, sync, player)) => {
                Ok(Self { end, jobs, decoder, pictures: Some(pictures), waiting: None, sink, sync, player })
            }
            Err(error) => Err((Box::new(end), error)),
        }
    }

    /// A picture is decoded, or is none.
    pub(crate) fn decoded(&mut self, now: Timestamp, outcome: DecodeOutcome) {
        self.end.decoded(now, outcome);
        if let Some(display) = self.end.poll_display() {
            self.sync.push(now, display);
            if let (Some(player), Some(delay)) = (&self.player, self.sync.least_sound_delay()) {
                player.set_least_delay(delay);
            }
        }
    }

    /// At `now`, what was captured at `captured` is heard; or nothing is.
    pub(crate) fn heard(&mut self, now: Timestamp, captured: Option<Timestamp>) {
        self.sync.hear(now, captured);
    }

    /// Shows the picture that is to be shown, if the sink has room.
    fn show(&mut self, now: Timestamp, shortest_round_trip: Option<Duration>, shown: &mut impl FnMut(&Shown)) {
        let Some(display) = self.sync.poll(now) else { return };
        let Display { frame, completed_at, displayed_at, captured_at, .. } = display;
        let record = DisplayRecord { frame, completed_at, displayed_at };
        shown(&Shown { record, captured_at, shortest_round_trip });
        let format = format_of(&display, self.end.format());
        self.waiting = Some((display, format));
    }

    /// When a picture's sound will be heard.
    pub(crate) fn poll_timeout(&self) -> Option<Timestamp> {
        self.sync.poll_timeout().filter(|_| self.waiting.is_none())
    }

    /// Has shown, played and decoded what is to be.
    pub(crate) fn step(
        &mut self,
        now: Timestamp,
        shortest_round_trip: Option<Duration>,
        shown: &mut impl FnMut(&Shown),
    ) {
        while let Some(packet) = self.end.poll_sound() {
            if let Some(player) = &self.player {
                player.insert(now, packet);
            }
        }
        if self.waiting.is_none() {
            self.show(now, shortest_round_trip, shown);
        }
        if self.end.poll_timeout().is_some_and(|at| at <= now) {
            self.end.handle_timeout(now);
        }
        if let (Some(pictures), Some(display)) = (&self.pictures, self.waiting.take())
            && let Err(TrySendError::Full(display)) = pictures.try_send(display)
        {
            self.waiting = Some(display);
        }
        while self.waiting.is_none()
            && let Some(job) = self.end.poll_decode()
        {
            let _ = self.jobs.send(job); // that the decoder is gone is noticed by whoever checks
        }
    }

    /// Whether a picture waits for room at the sink.
    pub(crate) fn is_waiting(&self) -> bool {
        self.waiting.is_some()
    }

    /// Whether all that came is decoded and at the sink, or never will be.
    pub(crate) fn is_shown(&self) -> bool {
        self.sink.is_over()
            || self.decoder.is_over()
            || (self.waiting.is_none() && !self.sync.is_holding() && !self.end.is_decoding())
    }

    /// Whether this half ends the call, and why.
    pub(crate) fn reason_to_end(&mut self) -> Result<Option<Ended>, LiveError> {
        if let Some(number) = self.end.refused_estimator() {
            return Err(LiveError::UnknownEstimator { number });
        }
        if let Some((format, limit)) = self.end.format_beyond_limit() {
            return Err(LiveError::TooManyPixels { width: format.width, height: format.height, limit });
        }
        self.decoder.check()?;
        self.player.as_mut().map_or(Ok(()), Player::check)?;
        if self.sink.is_over() {
            return self.sink.check().map(|()| Some(Ended::WindowClosed));
        }
        Ok(None)
    }

    /// Has what was shown and heard written whole, however the call ended; says how the sound was heard.
    pub(crate) fn finish(
        &mut self,
        shortest_round_trip: Option<Duration>,
    ) -> (Option<SoundScores>, Result<(), LiveError>) {
        self.pictures = None;
        let shown = self.sink.finish(END_LIMIT);
        let way = shortest_round_trip.unwrap_or_default() / 2;
        match self.player.as_mut().map_or(Ok(None), |player| player.finish(way)) {
            Ok(scores) => {
                let error = self.sync.errors();
                (scores.map(|scores| SoundScores { lip_sync_error_ms: error, ..scores }), shown)
            }
            Err(error) => (None, shown.and(Err(error))),
        }
    }
}
