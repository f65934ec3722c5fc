//! One call over one link each way.

use std::collections::BTreeMap;
use std::time::Duration;

use lockstep_call::{
    DRAIN, DecodeOutcome, DisplayRecord, FrameRecord, LinkUse, Menu, ReceivingEnd, Scores, SendingEnd, SerialMenu,
    Series, SeriesRecorder, carried, merge_displays, score,
};
use lockstep_link::{Link, LinkStatistics};
use lockstep_media::{QualityError, Source, SourceError, psnr, ssim};
use lockstep_units::Timestamp;
use lockstep_vp8::Picture;

/// Why a simulation ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SimulationError {
    /// The source of pictures failed.
    #[error("the source failed: {0}")]
    Source(#[from] SourceError),
    /// A picture was shown that cannot be compared with the one captured.
    #[error("a shown picture cannot be compared with its original: {0}")]
    Quality(#[from] QualityError),
}

/// What a simulation is told beside the call and its links.
#[derive(Debug, Clone)]
pub struct SimulationOptions {
    /// Scored length of the call. It ends earlier if the source does.
    pub length: Duration,
    /// Virtual time from the start of a menu to its end.
    pub encode_time: Duration,
    /// Virtual time that decoding one frame takes.
    pub decode_time: Duration,
}

/// A finished simulation.
pub struct SimulationResult {
    /// One record a captured frame.
    pub records: Vec<FrameRecord>,
    /// The call's scores.
    pub scores: Scores,
    /// Rates and delays over time.
    pub series: Series,
    /// The forward link's counters.
    pub forward: LinkStatistics,
    /// The reverse link's counters.
    pub reverse: LinkStatistics,
    /// The sending end as the call left it.
    pub sender: SendingEnd,
    /// The receiving end as the call left it.
    pub receiver: ReceivingEnd,
}

/// A call in virtual time.
pub struct Simulation {
    sender: SendingEnd,
    receiver: ReceivingEnd,
    forward: Link<Vec<u8>>,
    reverse: Link<Vec<u8>>,
    options: SimulationOptions,
    now: Timestamp,
    encoding: Option<(Timestamp, Menu)>,
    decoding: Option<(Timestamp, DecodeOutcome)>,
    originals: BTreeMap<u64, Picture>,
    displays: Vec<DisplayRecord>,
    recorder: SeriesRecorder,
}

impl Simulation {
    /// A call that begins at [`Timestamp::ZERO`].
    #[must_use]
    pub fn new(
        sender: SendingEnd,
        receiver: ReceivingEnd,
        forward: Link<Vec<u8>>,
        reverse: Link<Vec<u8>>,
        options: SimulationOptions,
    ) -> Self {
        Self {
            sender,
            receiver,
            forward,
            reverse,
            options,
            now: Timestamp::ZERO,
            encoding: None,
            decoding: None,
            originals: BTreeMap::new(),
            displays: Vec::new(),
            recorder: SeriesRecorder::new(Timestamp::ZERO),
        }
    }

    /// Runs the call to its end. `progress` hears of each captured frame.
    ///
    /// # Errors
    /// If the source fails.
    pub fn run(
        mut self,
        source: &mut dyn Source,
        mut progress: impl FnMut(Timestamp, &SendingEnd),
    ) -> Result<SimulationResult, SimulationError> {
        let frame_interval = source.format().frame_interval();
        let end = Timestamp::ZERO + self.options.length + DRAIN;
        let mut next_capture = Some(Timestamp::ZERO);
        let mut source_end = None;
        let mut captures: u64 = 0;
        loop {
            let next = [
                next_capture,
                self.encoding.as_ref().map(|(at, _)| *at),
                self.decoding.as_ref().map(|(at, _)| *at),
                self.forward.poll_timeout(),
                self.reverse.poll_timeout(),
                self.sender.poll_timeout(),
                self.receiver.poll_timeout(),
            ]
            .into_iter()
            .flatten()
            .min();
            let limit = source_end.map_or(end, |at: Timestamp| end.min(at + DRAIN));
            match next {
                Some(at) if at <= limit => self.now = self.now.max(at),
                _ => break,
            }
            if next_capture.is_some_and(|at| at <= self.now) {
                if let Some(picture) = source.next()? {
                    self.originals.insert(captures, picture.clone());
                    self.sender.capture(self.now, picture);
                    progress(self.now, &self.sender);
                    captures += 1;
                    // Not a sum of intervals: a third of a second must not drift.
                    next_capture = Some(Timestamp::ZERO + source.format().time_of(captures));
                } else {
                    next_capture = None;
                    source_end = Some(self.now);
                }
            }
            self.step()?;
        }
        let length =
            source_end.map_or(self.options.length, |at| self.options.length.min(at.saturating_since(Timestamp::ZERO)));
        Ok(self.finish(length, frame_interval))
    }

    /// Does all that is due at this moment.
    fn step(&mut self) -> Result<(), SimulationError> {
        let now = self.now;
        if let Some((_, menu)) = self.encoding.take_if(|(at, _)| *at <= now) {
            self.sender.encoded(now, menu);
            let _ = self.sender.poll_committed(); // quality is measured on what the receiver shows
        }
        while let Some(delivered) = self.forward.poll(now) {
            self.recorder.received(delivered.at, carried(&delivered.packet), delivered.queueing_delay);
            self.receiver.handle_datagram(now, &delivered.packet);
            self.acknowledge();
        }
        if let Some((_, outcome)) = self.decoding.take_if(|(at, _)| *at <= now) {
            self.receiver.decoded(now, outcome);
            self.show()?;
        }
        while let Some(delivered) = self.reverse.poll(now) {
            self.sender.handle_datagram(now, &delivered.packet);
        }
        if self.sender.poll_timeout().is_some_and(|at| at <= now) {
            self.sender.handle_timeout(now);
        }
        if self.receiver.poll_timeout().is_some_and(|at| at <= now) {
            self.receiver.handle_timeout(now);
        }
        // Either gives no job while one is under way.
        if let Some(job) = self.sender.poll_encode(now) {
            self.encoding = Some((now + self.options.encode_time, job.run(&SerialMenu)));
        }
        if let Some(job) = self.receiver.poll_decode() {
            self.decoding = Some((now + self.options.decode_time, job.run()));
        }
        while let Some(datagram) = self.sender.poll_transmit(now) {
            self.recorder.sent(now, carried(&datagram));
            let _ = self.forward.send(now, carried(&datagram), datagram);
        }
        self.acknowledge();
        Ok(())
    }

    fn acknowledge(&mut self) {
        while let Some(datagram) = self.receiver.poll_transmit(self.now) {
            let _ = self.reverse.send(self.now, carried(&datagram), datagram);
        }
    }

    fn show(&mut self) -> Result<(), SimulationError> {
        let Some(display) = self.receiver.poll_display() else { return Ok(()) };
        self.displays.push(DisplayRecord {
            frame: display.frame,
            completed_at: display.completed_at,
            displayed_at: display.displayed_at,
        });
        let Some(capture) = self.sender.capture_of(display.frame) else { return Ok(()) };
        // Nothing older than what is shown will be shown any more.
        let later = self.originals.split_off(&(capture + 1));
        let shown = self.originals.remove(&capture);
        self.originals = later;
        if let Some(original) = shown {
            let (ssim, psnr_db) = (ssim(&original, &display.picture)?, psnr(&original, &display.picture)?);
            self.sender.record_quality(capture, ssim, psnr_db);
        }
        Ok(())
    }

    fn finish(self, length: Duration, frame_interval: Duration) -> SimulationResult {
        let mut records = self.sender.records().to_vec();
        merge_displays(&mut records, &self.displays);
        let link = LinkUse {
            delivered: self.recorder.received_within(length),
            capacity: self.forward.capacity_between(Timestamp::ZERO, Timestamp::ZERO + length),
        };
        let scores = score(&records, Timestamp::ZERO, length, frame_interval, link);
        let series = self.recorder.finish(length, |from, to| self.forward.capacity_between(from, to));
        SimulationResult {
            records,
            scores,
            series,
            forward: *self.forward.statistics(),
            reverse: *self.reverse.statistics(),
            sender: self.sender,
            receiver: self.receiver,
        }
    }
}
