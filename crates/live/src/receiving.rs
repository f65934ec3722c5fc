//! Receiving half of a live call: the receiving end, its decoder and its sink.

use std::sync::mpsc::{self, SyncSender};
use std::time::Duration;

use lockstep_call::{
    DecodeJob, DecodeOutcome, Display, DisplayRecord, LipSync, PictureCodec, ReceivingEnd, SoundScores, Vp8,
};
use lockstep_media::{FrameRate, Sink, SinkError, VideoFormat};
use lockstep_socket::Clock;
use lockstep_units::Timestamp;

use crate::Thread;
use crate::call_state::SoundQuality;
use crate::display_queue::{DisplayQueue, Next, Shown, Waiting};
use crate::loop_event::LoopEvent;
use crate::recorder::{RecordError, Recorder};
use crate::sound::{Loudspeaker, Player};
use crate::{END_LIMIT, Ended, LiveError};
use lockstep_session::stream::StreamName;

/// Opens a sink for a stream with this name and picture format; the name is empty if the stream has none.
pub type OpenSink = Box<dyn FnOnce(&StreamName, VideoFormat) -> Result<Box<dyn Sink>, SinkError> + Send>;

/// A received stream, coded by `C`.
pub struct Receiving<C: PictureCodec = Vp8> {
    /// The receiving end.
    pub end: ReceivingEnd<C>,
    /// Opens the sink, once the first picture shows its format.
    pub open_sink: OpenSink,
    /// Loudspeaker for the call's sound, if sound is played. Among several streams, the first one plays it. A sink that
    /// records sound records what is played.
    pub loudspeaker: Option<Loudspeaker>,
}

/// Displays pictures until the call ends or the user closes the window.
fn show<C: PictureCodec>(queue: &DisplayQueue<C>, open_sink: OpenSink, has_sound: bool) -> Result<(), LiveError> {
    let shown = || {
        let Some(Next::Picture(first)) = queue.take() else { return Ok(()) };
        let sink = open_sink(&first.name, first.format)?;
        queue.is_live(sink.is_live());
        let mut recorder = Recorder::new(sink, has_sound, first.display.captured_at)?;
        if recorder.records_sound() {
            queue.records_sound();
        }
        recorder.show(&first.display.picture, first.display.captured_at)?;
        drop(first); // frees its memory for reuse
        while let Some(next) = queue.take() {
            match next {
                Next::Picture(waiting) => recorder.show(&waiting.display.picture, waiting.display.captured_at)?,
                Next::Sound(sound) => recorder.record_sound(&sound)?,
            }
        }
        recorder.finish()
    };
    match shown() {
        Ok(()) | Err(RecordError::Sink(SinkError::WindowClosed)) => Ok(()),
        Err(error) => Err(LiveError::Sink(error.to_string())),
    }
}

/// Format of a displayed picture, with the frame rate that its sender announced.
fn format_of<C: PictureCodec>(display: &Display<C>, announced: Option<lockstep_transport::VideoFormat>) -> VideoFormat {
    let frame_rate = announced
        .and_then(|format| FrameRate::new(format.frame_rate_numerator, format.frame_rate_denominator))
        .unwrap_or_default();
    VideoFormat { width: display.picture.width(), height: display.picture.height(), frame_rate }
}

/// State of the half during the call.
pub(crate) struct ReceivingHalf<C: PictureCodec = Vp8> {
    pub(crate) end: ReceivingEnd<C>,
    jobs: mpsc::Sender<DecodeJob<C>>,
    decoder: Thread,
    queue: DisplayQueue<C>,
    sink: Thread,
    sync: LipSync<C>,
    player: Option<Player>,
}

impl<C: PictureCodec> ReceivingHalf<C> {
    /// Starts the threads of the stream; returns the end if that fails.
    pub(crate) fn start(
        receiving: Receiving<C>,
        stream: usize,
        clock: Clock,
        events: &SyncSender<LoopEvent<C>>,
    ) -> Result<Self, (Box<ReceivingEnd<C>>, LiveError)> {
        let Receiving { end, open_sink, loudspeaker } = receiving;
        let (jobs, to_decode) = mpsc::channel::<DecodeJob<C>>();
        let queue = DisplayQueue::default();
        let to_show = queue.clone();
        let decoded = events.clone();
        let threads = || {
            let decoder = Thread::spawn("decoder", move || {
                for job in to_decode {
                    if decoded.send(LoopEvent::Decoded(stream, job.run())).is_err() {
                        break;
                    }
                }
                Ok(())
            })?;
            let sync = LipSync::new(loudspeaker.as_ref().is_some_and(|loudspeaker| loudspeaker.lip_sync));
            let start = |speaker: Loudspeaker| Player::start(speaker.sink, clock, events, queue.clone());
            let player = loudspeaker.map(start).transpose()?;
            let has_sound = player.is_some();
            Ok((decoder, Thread::spawn("sink", move || show(&to_show, open_sink, has_sound))?, sync, player))
        };
        match threads() {
            Ok((decoder, sink, sync, player)) => Ok(Self { end, jobs, decoder, queue, sink, sync, player }),
            Err(error) => Err((Box::new(end), error)),
        }
    }

    /// Handles the result of a decoding job.
    pub(crate) fn decoded(&mut self, now: Timestamp, outcome: DecodeOutcome<C>) {
        self.end.decoded(now, outcome);
        if let Some(display) = self.end.poll_display() {
            self.sync.push(now, display);
            if let (Some(player), Some(delay)) = (&self.player, self.sync.min_sound_delay()) {
                player.set_min_delay(delay);
            }
        }
    }

    /// Records that sound captured at `captured` is played at `now`; `None` for concealed sound or silence.
    pub(crate) fn on_playback(&mut self, now: Timestamp, captured: Option<Timestamp>) {
        self.sync.on_playback(now, captured);
    }

    /// Queues the picture that is due for display, if there is one.
    fn show(&mut self, now: Timestamp, name: StreamName, min_round_trip: Option<Duration>) {
        let Some(display) = self.sync.poll(now) else { return };
        let Display { frame, completed_at, displayed_at, captured_at, .. } = display;
        let record = DisplayRecord { frame, completed_at, displayed_at };
        let shown = Shown { record, captured_at, min_round_trip };
        let format = format_of(&display, self.end.format());
        self.queue.push(Waiting { display, name, format, shown });
    }

    /// When the sound of the waiting picture will be played.
    pub(crate) fn poll_timeout(&self) -> Option<Timestamp> {
        self.sync.poll_timeout()
    }

    /// Queues pictures for display, sound for playout and frames for decoding.
    pub(crate) fn step(
        &mut self,
        now: Timestamp,
        name: StreamName,
        min_round_trip: Option<Duration>,
        shown: &mut impl FnMut(&Shown),
    ) {
        while let Some(packet) = self.end.poll_sound() {
            if let Some(player) = &self.player {
                player.insert(now, packet);
            }
        }
        self.show(now, name, min_round_trip);
        self.log_shown(shown);
        while let Some(job) = self.end.poll_decode() {
            let _ = self.jobs.send(job); // a failed decoder is detected by `reason_to_end`
        }
    }

    /// Reports the pictures that the sink has taken.
    pub(crate) fn log_shown(&self, shown: &mut impl FnMut(&Shown)) {
        self.queue.taken().iter().for_each(shown);
    }

    /// Whether a picture waits for the sink.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Quality of the received sound so far, if there is a loudspeaker.
    pub(crate) fn sound_quality(&self) -> Option<SoundQuality> {
        self.player.as_ref().map(Player::sound_quality)
    }

    /// Pictures that the sink was too slow to display.
    pub(crate) fn dropped(&self) -> u64 {
        self.queue.dropped()
    }

    /// Whether every received frame is decoded and displayed, or never will be.
    pub(crate) fn is_shown(&self) -> bool {
        self.sink.is_over()
            || self.decoder.is_over()
            || (self.queue.is_empty() && !self.sync.is_holding() && !self.end.is_decoding())
    }

    /// The reason for this half to end the call, if there is one.
    pub(crate) fn reason_to_end(&mut self) -> Result<Option<Ended>, LiveError> {
        lockstep_session::refusal(&self.end)?;
        self.decoder.check()?;
        self.player.as_mut().map_or(Ok(()), Player::check)?;
        if self.sink.is_over() {
            return self.sink.check().map(|()| Some(Ended::WindowClosed));
        }
        Ok(None)
    }

    /// Completes the recording of pictures and sound, however the call ended, and returns the sound's scores. A sink
    /// that `is_stuck` gets no further time.
    pub(crate) fn finish(
        &mut self,
        min_round_trip: Option<Duration>,
        is_stuck: bool,
    ) -> (Option<SoundScores>, Result<(), LiveError>) {
        self.queue.close();
        let shown = self.sink.finish(if is_stuck { Duration::ZERO } else { END_LIMIT });
        let way = min_round_trip.unwrap_or_default() / 2;
        match self.player.as_mut().map_or(Ok(None), |player| player.finish(way)) {
            Ok(scores) => {
                let error = self.sync.errors();
                (scores.map(|scores| SoundScores { lip_sync_error_ms: error, ..scores }), shown)
            }
            Err(error) => (None, shown.and(Err(error))),
        }
    }
}
