//! One call over one link each way.

use std::time::Duration;

use lockstep_call::{
    CallObserver, CallSound, Codec, DRAIN, FinishedCall, JobTimes, ReceivingEnd, Scores, SendingEnd, Series,
    SoundScores, VideoDelayFloor, Vp8,
};
use lockstep_link::LinkStatistics;
use lockstep_media::{Source, VmafError, VmafMeter};
use lockstep_units::Timestamp;

use crate::activity::Activity;
use crate::call_flow::{CallFlow, CallResult, CallSetting, SimulationError, StopReason};
use crate::network::{Network, SharedLink};

/// Virtual time between two reports of the progress of a call without pixels, of which thousands of seconds pass in
/// one.
const MODELLED_PROGRESS: Duration = Duration::from_millis(500);

/// What a simulation is told beside the call and its links.
#[derive(Debug, Clone)]
pub struct SimulationOptions {
    /// Scored length of the call. It ends earlier if the source does.
    pub length: Duration,
    /// Virtual time that jobs of encoding take.
    pub job_times: JobTimes,
    /// Virtual time that decoding one frame takes.
    pub decode_time: Duration,
}

/// A finished simulation.
pub struct SimulationResult<C: Codec = Vp8> {
    /// The call's scores.
    pub scores: Scores,
    /// Rates and delays over time.
    pub series: Series,
    /// How its sound was heard, if it had any.
    pub sound: Option<SoundScores>,
    /// The forward link's counters.
    pub forward: LinkStatistics,
    /// The reverse link's counters.
    pub reverse: LinkStatistics,
    /// The sending end as the call left it.
    pub sender: SendingEnd<C>,
    /// The receiving end as the call left it.
    pub receiver: ReceivingEnd<C>,
}

/// A call in virtual time, alone on its links.
pub struct Simulation<C: Codec = Vp8> {
    network: Network<CallFlow<C>>,
    length: Duration,
    frame_interval: Duration,
}

impl<C: Codec> Simulation<C> {
    /// A call that begins at [`Timestamp::ZERO`].
    #[must_use]
    pub fn new(
        sender: SendingEnd<C>,
        receiver: ReceivingEnd<C>,
        source: Box<dyn Source<C::Picture>>,
        forward: SharedLink<C::Packet>,
        reverse: SharedLink<C::Packet>,
        options: &SimulationOptions,
    ) -> Self {
        let frame_interval = source.format().frame_interval();
        let setting = CallSetting {
            // A little longer than what is scored, so that the last scored frames have later ones to be followed by.
            activity: Activity::between(Timestamp::ZERO, Timestamp::ZERO + options.length + DRAIN),
            length: options.length,
            ends_with_source: true,
            job_times: options.job_times,
            decode_time: options.decode_time,
        };
        let call = CallFlow::new(sender, receiver, source, setting);
        Self { network: Network::new(vec![call], forward, reverse), length: options.length, frame_interval }
    }

    /// Has `observer` hear of every captured frame, in order, as soon as nothing about it can change any more.
    #[must_use]
    pub fn observed_by(mut self, observer: Box<dyn CallObserver>) -> Self {
        if let Some(call) = self.network.flows_mut().first_mut() {
            call.observe(observer);
        }
        self
    }

    /// Has the call sound, too.
    #[must_use]
    pub fn with_sound(mut self, sound: CallSound<C::Payload>) -> Self {
        if let Some(call) = self.network.flows_mut().first_mut() {
            call.add_sound(sound);
        }
        self
    }

    /// Compares the video delay of every frame of the call with `floor`.
    #[must_use]
    pub fn compared_with(mut self, floor: VideoDelayFloor) -> Self {
        if let Some(call) = self.network.flows_mut().first_mut() {
            call.compare_with(floor);
        }
        self
    }

    /// Compares what is shown with what was captured by `meter`; where there is none, the scores will say why.
    #[must_use]
    pub fn measuring_vmaf(mut self, meter: Result<VmafMeter, VmafError>) -> Self {
        if let Some(call) = self.network.flows_mut().first_mut() {
            call.measure_vmaf(meter);
        }
        self
    }

    /// Runs the call to its end. `progress` hears of it once a frame interval, or twice a second of a call without
    /// pixels, and may end it.
    ///
    /// # Errors
    /// If the source fails, or `progress` does.
    pub fn run(
        mut self,
        mut progress: impl FnMut(Timestamp, &SendingEnd<C>) -> Result<(), StopReason>,
    ) -> Result<SimulationResult<C>, SimulationError> {
        let end = Timestamp::ZERO + self.length + DRAIN;
        let progress_interval =
            if C::HAS_PIXELS { self.frame_interval.max(Duration::from_micros(1)) } else { MODELLED_PROGRESS };
        while self.network.now() < end {
            let next = self.network.now() + progress_interval;
            self.network.run_until(next.min(end));
            let Some(call) = self.network.flows().first() else { break };
            if call.has_failed() || call.source_ended_at().is_some_and(|at| self.network.now() >= at + DRAIN) {
                break;
            }
            progress(self.network.now(), call.sender()).map_err(SimulationError::Stopped)?;
        }
        let (mut calls, links) = self.network.into_parts();
        let CallResult { call, sound, sender, receiver } =
            calls.remove(0).finish(|from, to| links[0].capacity_between(from, to))?;
        let (forward, reverse) = (*links[0].statistics(), *links[1].statistics());
        let FinishedCall { scores, series, .. } = call;
        Ok(SimulationResult { scores, series, sound, forward, reverse, sender, receiver })
    }
}
