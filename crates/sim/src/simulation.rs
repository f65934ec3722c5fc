//! One call over one link each way.

use std::time::Duration;

use lockstep_call::{CallSound, Codec, ReceivingEnd, SendingEnd, SoundScores, Vp8};
use lockstep_link::LinkStatistics;
use lockstep_measure::{
    CallObserver, DRAIN, FinishedCall, OppositeResult, Scores, Series, SharedSessionMeter, VideoDelayFloor,
};
use lockstep_media::{Source, VmafError, VmafMeter};
use lockstep_units::Timestamp;

use crate::activity::Activity;
use crate::call_flow::{CallFlow, CallFlowOptions, CallResult, SimulationError, StopReason};
use crate::call_pair::{CallPacket, CallPair};
use crate::encode_time::JobTimes;
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
    /// What came of the call in the opposite direction, if there was one.
    pub opposite: Option<OppositeResult>,
    /// The forward link's counters.
    pub forward: LinkStatistics,
    /// The reverse link's counters.
    pub reverse: LinkStatistics,
    /// The sending end as the call left it.
    pub sender: SendingEnd<C>,
    /// The receiving end as the call left it.
    pub receiver: ReceivingEnd<C>,
}

/// Has `meter` look at the ends of `call`.
pub(crate) fn look<C: Codec>(meter: &SharedSessionMeter, now: Timestamp, call: Option<&CallFlow<C>>) {
    if let Some(call) = call {
        let mut meter = meter.lock();
        meter.sending(now, call.sender());
        meter.receiving(now, call.receiver());
    }
}

/// A call in virtual time, alone on its links or with one in the opposite direction.
pub struct Simulation<C: Codec = Vp8> {
    /// The call, and that in the opposite direction if there is one.
    calls: Vec<CallFlow<C>>,
    forward: SharedLink<CallPacket<C::Packet>>,
    reverse: SharedLink<CallPacket<C::Packet>>,
    setting: CallFlowOptions,
    length: Duration,
    frame_interval: Duration,
    /// Of the call, and of that in the opposite direction.
    sessions: [Option<SharedSessionMeter>; 2],
}

/// How often a session meter looks at the ends.
pub(crate) const METERED: Duration = Duration::from_secs(1);

impl<C: Codec> Simulation<C> {
    /// A call that begins at [`Timestamp::ZERO`].
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
        let setting = CallFlowOptions {
            // A little longer than what is scored, so that the last scored frames have later ones to be followed by.
            activity: Activity::between(Timestamp::ZERO, Timestamp::ZERO + options.length + DRAIN),
            length: options.length,
            ends_with_source: true,
            job_times: options.job_times,
            decode_time: options.decode_time,
        };
        let calls = vec![CallFlow::new(sender, receiver, source, setting.clone())];
        Self { calls, forward, reverse, setting, length: options.length, frame_interval, sessions: [None, None] }
    }

    /// Has `observer` hear of every captured frame, in order, as soon as nothing about it can change any more.
    #[must_use]
    pub fn observed_by(mut self, observer: Box<dyn CallObserver>) -> Self {
        if let Some(call) = self.calls.first_mut() {
            call.observe(observer);
        }
        self
    }

    /// Has `meter` look at the ends of the call each second. Whoever wants its pictures in the rows, too, has the meter observe
    /// them.
    #[must_use]
    pub fn metered_by(mut self, meter: SharedSessionMeter) -> Self {
        self.sessions[0] = Some(meter);
        self
    }

    /// Has `meter` look at the ends of the call in the opposite direction each second, and observe its pictures; to be said
    /// after [`with_opposite`](Self::with_opposite).
    #[must_use]
    pub fn metered_backwards_by(mut self, meter: SharedSessionMeter) -> Self {
        if let Some(call) = self.calls.get_mut(1) {
            call.observe(Box::new(meter.clone()));
            self.sessions[1] = Some(meter);
        }
        self
    }

    /// Has another call go the opposite way at the same time, over the same links: its pictures go where the first one's
    /// feedback goes, which rides on them where there is room.
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

    /// Has the call sound, too.
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

    /// Compares what is shown with what was captured by `meter`; where there is none, the scores will say why.
    #[must_use]
    pub fn measuring_vmaf(mut self, meter: Result<VmafMeter, VmafError>) -> Self {
        if let Some(call) = self.calls.first_mut() {
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
        self,
        mut progress: impl FnMut(Timestamp, &SendingEnd<C>) -> Result<(), StopReason>,
    ) -> Result<SimulationResult<C>, SimulationError> {
        let end = Timestamp::ZERO + self.length + DRAIN;
        let progress_interval =
            if C::HAS_PIXELS { self.frame_interval.max(Duration::from_micros(1)) } else { MODELLED_PROGRESS };
        let mut calls = self.calls.into_iter();
        let Some(there) = calls.next() else { return Err(SimulationError::Unlogged) };
        let pair = CallPair { there, back: calls.next() };
        let mut network = Network::new(vec![pair], self.forward, self.reverse);
        let (sessions, mut next_look) = (self.sessions, Timestamp::ZERO);
        let is_metered = sessions.iter().any(Option::is_some);
        let look_at_both = |now, pair: Option<&CallPair<C>>| {
            let ends = [pair.map(|pair| &pair.there), pair.and_then(|pair| pair.back.as_ref())];
            for (meter, call) in sessions.iter().zip(ends) {
                meter.iter().for_each(|meter| look(meter, now, call));
            }
        };
        let mut next_progress = Timestamp::ZERO + progress_interval;
        while network.now() < end {
            if is_metered && network.now() >= next_look {
                next_look += METERED;
                look_at_both(network.now(), network.flows().first());
            }
            let next = if is_metered { next_progress.min(next_look) } else { next_progress };
            network.run_until(next.min(end));
            if network.flows().iter().any(CallPair::has_failed) {
                break;
            }
            let Some(CallPair { there: call, .. }) = network.flows().first() else { break };
            if call.source_ended_at().is_some_and(|at| network.now() >= at + DRAIN) {
                break;
            }
            if network.now() >= next_progress.min(end) {
                progress(network.now(), call.sender()).map_err(SimulationError::Stopped)?;
                next_progress = network.now() + progress_interval;
            }
        }
        if is_metered {
            look_at_both(network.now(), network.flows().first());
        }
        let (mut pairs, links) = network.into_parts();
        let Some(CallPair { there, back }) = pairs.pop() else { return Err(SimulationError::Unlogged) };
        let opposite = back.map(|back| {
            let CallResult { call, sound, .. } = back.finish(|from, to| links[1].capacity_between(from, to))?;
            if let [_, Some(meter)] = &sessions {
                meter.lock().carried(&call.series);
            }
            Ok::<_, SimulationError>(OppositeResult { scores: call.scores, sound })
        });
        let opposite = opposite.transpose()?;
        let CallResult { call, sound, sender, receiver } =
            there.finish(|from, to| links[0].capacity_between(from, to))?;
        let (forward, reverse) = (*links[0].statistics(), *links[1].statistics());
        let FinishedCall { scores, series, .. } = call;
        Ok(SimulationResult { scores, series, sound, opposite, forward, reverse, sender, receiver })
    }
}
