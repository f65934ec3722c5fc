//! One simulated call over one link in each direction, optionally with a call in the opposite direction.

use std::time::Duration;

use lockstep_call::{CallSound, Codec, ReceivingEnd, SendingEnd, SoundScores, Vp8};
use lockstep_link::LinkStatistics;
use lockstep_measure::{
    DRAIN, FinishedCall, FrameObserver, OppositeResult, Scores, Series, SharedSessionMeter, VideoDelayFloor,
};
use lockstep_media::{Source, VmafError, VmafMeter};
use lockstep_units::Timestamp;

use crate::activity::Activity;
use crate::call_flow::{CallFlow, CallFlowOptions, CallResult, SimulationError, StopReason};
use crate::call_pair::{CallPacket, CallPair};
use crate::encode_time::JobTimes;
use crate::network::{Network, SharedLink};

/// Virtual time between two progress reports of a modelled call, of which thousands of seconds run per second.
const MODELLED_PROGRESS: Duration = Duration::from_millis(500);

/// Settings of a simulation besides the call and its links.
#[derive(Debug, Clone)]
pub struct SimulationOptions {
    /// Duration of the scored part. It ends earlier if the source does.
    pub length: Duration,
    /// Virtual time of each encoding job.
    pub job_times: JobTimes,
    /// Virtual time of decoding one frame.
    pub decode_time: Duration,
}

impl SimulationOptions {
    /// Settings of a call that starts at [`Timestamp::ZERO`].
    #[must_use]
    pub fn call(&self) -> CallFlowOptions {
        CallFlowOptions {
            // Longer than the scored part, so that later frames follow the last scored ones.
            activity: Activity::between(Timestamp::ZERO, Timestamp::ZERO + self.length + DRAIN),
            length: self.length,
            ends_with_source: true,
            job_times: self.job_times,
            decode_time: self.decode_time,
        }
    }
}

/// Results of a finished simulation.
pub struct SimulationResult<C: Codec = Vp8> {
    /// Scores of the call.
    pub scores: Scores,
    /// Rates and delays over time.
    pub series: Series,
    /// Scores of the sound; `None` if the call had no sound.
    pub sound: Option<SoundScores>,
    /// Results of the call in the opposite direction; `None` if there was none.
    pub opposite: Option<OppositeResult>,
    /// Counters of the forward link.
    pub forward: LinkStatistics,
    /// Counters of the reverse link.
    pub reverse: LinkStatistics,
    /// Sending end at the end of the call.
    pub sender: SendingEnd<C>,
    /// Receiving end at the end of the call.
    pub receiver: ReceivingEnd<C>,
}

/// Samples both ends of `call` with `meter`.
pub(crate) fn sample_ends<C: Codec>(meter: &SharedSessionMeter, now: Timestamp, call: Option<&CallFlow<C>>) {
    if let Some(call) = call {
        let mut meter = meter.lock();
        meter.sending(now, call.sender());
        meter.receiving(now, call.receiver());
    }
}

/// A call in virtual time, alone on its links or with a call in the opposite direction.
pub struct Simulation<C: Codec = Vp8> {
    /// The call, and the call in the opposite direction if there is one.
    calls: Vec<CallFlow<C>>,
    forward: SharedLink<CallPacket<C::Packet>>,
    reverse: SharedLink<CallPacket<C::Packet>>,
    setting: CallFlowOptions,
    length: Duration,
    frame_interval: Duration,
    /// Session meters of the call and of the call in the opposite direction.
    sessions: [Option<SharedSessionMeter>; 2],
}

/// Sampling interval of session meters.
pub(crate) const METERED: Duration = Duration::from_secs(1);

impl<C: Codec> Simulation<C> {
    /// A call that starts at [`Timestamp::ZERO`].
    #[must_use]
    pub fn new(
        sender: SendingEnd<C>,
        receiver: ReceivingEnd<C>,
        source: Box<dyn Source<C::Picture>>,
        forward: SharedLink<CallPacket<C::Packet>>,
        reverse: SharedLink<CallPacket<C::Packet>>,
        options: &SimulationOptions,
    ) -> Self {
        let frame_interval = source.format().frame_interval();
        let setting = options.call();
        let calls = vec![CallFlow::new(sender, receiver, source, setting.clone())];
        Self { calls, forward, reverse, setting, length: options.length, frame_interval, sessions: [None, None] }
    }

    /// Reports every captured frame to `observer`, in order, once its record is final.
    #[must_use]
    pub fn observed_by(mut self, observer: Box<dyn FrameObserver>) -> Self {
        if let Some(call) = self.calls.first_mut() {
            call.observe(observer);
        }
        self
    }

    /// Samples both ends of the call with `meter` every second. To record pictures, too, add the meter as an observer.
    #[must_use]
    pub fn metered_by(mut self, meter: SharedSessionMeter) -> Self {
        self.sessions[0] = Some(meter);
        self
    }

    /// Samples the call in the opposite direction with `meter` every second, and reports its pictures to it. Call it
    /// after [`with_opposite`](Self::with_opposite).
    #[must_use]
    pub fn metered_backwards_by(mut self, meter: SharedSessionMeter) -> Self {
        if let Some(call) = self.calls.get_mut(1) {
            call.observe(Box::new(meter.clone()));
            self.sessions[1] = Some(meter);
        }
        self
    }

    /// Adds a simultaneous call in the opposite direction over the same links. Feedback shares packets with the other
    /// call's media if there is room.
    #[must_use]
    pub fn with_opposite(
        mut self,
        sender: SendingEnd<C>,
        receiver: ReceivingEnd<C>,
        source: Box<dyn Source<C::Picture>>,
        sound: Option<CallSound<C::Payload>>,
    ) -> Self {
        let mut call = CallFlow::new(sender, receiver, source, self.setting.clone());
        if let Some(sound) = sound {
            call.add_sound(sound);
        }
        self.calls.push(call);
        self
    }

    /// Adds sound to the call.
    #[must_use]
    pub fn with_sound(mut self, sound: CallSound<C::Payload>) -> Self {
        if let Some(call) = self.calls.first_mut() {
            call.add_sound(sound);
        }
        self
    }

    /// Compares the video delay of every frame of the call with `floor`.
    #[must_use]
    pub fn compared_with(mut self, floor: VideoDelayFloor) -> Self {
        if let Some(call) = self.calls.first_mut() {
            call.compare_with(floor);
        }
        self
    }

    /// Measures VMAF with `meter`. If `meter` is an error, the scores report it.
    #[must_use]
    pub fn measuring_vmaf(mut self, meter: Result<VmafMeter, VmafError>) -> Self {
        if let Some(call) = self.calls.first_mut() {
            call.measure_vmaf(meter);
        }
        self
    }

    /// Runs the call to its end. `progress` is called once per frame interval, or twice per second of a modelled call.
    /// Its error stops the call.
    ///
    /// # Errors
    /// If the source fails, or `progress` returns an error.
    pub fn run(
        self,
        progress: impl FnMut(Timestamp, &SendingEnd<C>) -> Result<(), StopReason>,
    ) -> Result<SimulationResult<C>, SimulationError> {
        let mut calls = self.calls.into_iter();
        let Some(first) = calls.next() else { return Err(SimulationError::Unlogged) };
        let pair = CallPair { first, opposite: calls.next() };
        let mut network = Network::new(vec![pair], self.forward, self.reverse);
        let sessions = [self.sessions];
        run_pairs(&mut network, (self.length, self.frame_interval), &sessions, progress)?;
        let [sessions] = sessions;
        let (mut pairs, links) = network.into_parts();
        let Some(CallPair { first, opposite }) = pairs.pop() else { return Err(SimulationError::Unlogged) };
        let opposite = opposite.map(|opposite| {
            let CallResult { call, sound, .. } = opposite.finish(|from, to| links[1].capacity_between(from, to))?;
            if let [_, Some(meter)] = &sessions {
                meter.lock().carried(&call.series);
            }
            Ok::<_, SimulationError>(OppositeResult { scores: call.scores, sound })
        });
        let opposite = opposite.transpose()?;
        let CallResult { call, sound, sender, receiver } =
            first.finish(|from, to| links[0].capacity_between(from, to))?;
        let (forward, reverse) = (*links[0].statistics(), *links[1].statistics());
        let FinishedCall { scores, series, .. } = call;
        Ok(SimulationResult { scores, series, sound, opposite, forward, reverse, sender, receiver })
    }
}

/// Runs the calls of `network`, which are scored for `length`, until their end.
///
/// The run ends early if a call fails, or once all sources have ended. `sessions` has the meters of both calls of each
/// pair. `progress` receives the first sending end.
pub(crate) fn run_pairs<C: Codec>(
    network: &mut Network<CallPair<C>>,
    (length, frame_interval): (Duration, Duration),
    sessions: &[[Option<SharedSessionMeter>; 2]],
    mut progress: impl FnMut(Timestamp, &SendingEnd<C>) -> Result<(), StopReason>,
) -> Result<(), SimulationError> {
    let end = Timestamp::ZERO + length + DRAIN;
    let progress_interval =
        if C::HAS_PIXELS { frame_interval.max(Duration::from_micros(1)) } else { MODELLED_PROGRESS };
    let is_metered = sessions.iter().flatten().any(Option::is_some);
    let sample_all = |network: &Network<CallPair<C>>| {
        for (pair, meters) in network.flows().iter().zip(sessions) {
            for (meter, call) in meters.iter().zip([Some(&pair.first), pair.opposite.as_ref()]) {
                meter.iter().for_each(|meter| sample_ends(meter, network.now(), call));
            }
        }
    };
    let (mut next_sample, mut next_progress) = (Timestamp::ZERO, Timestamp::ZERO + progress_interval);
    while network.now() < end {
        if is_metered && network.now() >= next_sample {
            next_sample += METERED;
            sample_all(network);
        }
        let next = if is_metered { next_progress.min(next_sample) } else { next_progress };
        network.run_until(next.min(end));
        if network.flows().iter().any(CallPair::has_failed) {
            break;
        }
        let now = network.now();
        let has_ended = |pair: &CallPair<C>| pair.first.source_ended_at().is_some_and(|at| now >= at + DRAIN);
        if network.flows().iter().all(has_ended) {
            break;
        }
        let Some(CallPair { first, .. }) = network.flows().first() else { break };
        if now >= next_progress.min(end) {
            progress(now, first.sender()).map_err(SimulationError::Stopped)?;
            next_progress = now + progress_interval;
        }
    }
    if is_metered {
        sample_all(network);
    }
    Ok(())
}
