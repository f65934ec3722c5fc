//! Runs a scenario and evaluates it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use lockstep_call::PictureCodec;
use lockstep_link::{Link, Medium};
use lockstep_measure::{FinishedCall, SharedSessionMeter};
use lockstep_units::{Bitrate, ByteCount, Timestamp};

use super::fairness::jain;
use super::report::{MIN_SETTLING_PHASE, settle_time};
use super::{
    DelayReport, FlowKind, FlowReport, LinkReport, MediumReport, Phase, PhaseRate, Scenario, ScenarioError,
    ScenarioFlow, ScenarioReport, SettleTime, TransferReport, VideoReport,
};
use crate::activity::Activity;
use crate::any_flow::{AnyFlow, AnyPacket};
use crate::call_flow::StopReason;
use crate::cross_traffic::{CrossTraffic, TcpStatistics};
use crate::meter::{FlowMeter, METER_INTERVAL};
use crate::network::{Network, SharedLink};
use crate::simulation::METERED;

/// Time that a scenario continues after the end of its flows, so that packets in flight arrive.
pub const DRAIN: Duration = Duration::from_secs(2);

/// Data in a full packet, bytes: without IPv4 and TCP headers.
const TCP_DATA: u64 = 1_460;

/// Limit on the changes of a trace that give phases. Traces with more changes vary all the time.
const MAX_CHANGES: usize = 16;

/// Derives a seed for a link or flow. Derived seeds are far apart.
fn derived(seed: u64, index: usize) -> u64 {
    seed.wrapping_add((index as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// Time in seconds, with as few digits as in the scenario. `Timestamp::as_secs_f64` would give 40.00000000000001.
fn seconds(at: Timestamp) -> f64 {
    at.saturating_since(Timestamp::ZERO).as_secs_f64()
}

/// Results of a flow before its report.
#[derive(Default)]
struct Finished {
    goodput: ByteCount,
    video: Option<VideoReport>,
    transfers: Option<TransferReport>,
}

impl Scenario {
    /// Runs the scenario with `media`: one call for each of [`Scenario::media_flows`], in order. `progress` is called
    /// with the virtual time every 100 ms.
    ///
    /// # Errors
    /// If the scenario cannot be run, or a call failed.
    pub fn run<C: PictureCodec>(
        &self,
        media: Vec<AnyFlow<C>>,
        seed: u64,
        progress: impl FnMut(Timestamp),
    ) -> Result<ScenarioReport, ScenarioError> {
        let mut progress = progress;
        self.run_metered(media, &[], seed, |now| {
            progress(now);
            Ok(())
        })
    }

    /// Like [`run`](Self::run), with one session meter per call, in order. Each meter samples both ends every second
    /// while the call is active. To record pictures, too, add the meter as an observer of its call. An error of
    /// `progress` stops the run.
    ///
    /// # Errors
    /// Like [`run`](Self::run); [`ScenarioError::Stopped`] if `progress` fails.
    pub fn run_metered<C: PictureCodec>(
        &self,
        media: Vec<AnyFlow<C>>,
        sessions: &[SharedSessionMeter],
        seed: u64,
        mut progress: impl FnMut(Timestamp) -> Result<(), StopReason>,
    ) -> Result<ScenarioReport, ScenarioError> {
        self.check()?;
        let wanted = self.media_flows().count();
        if media.len() != wanted {
            return Err(ScenarioError::Media { wanted, given: media.len() });
        }
        let end = Timestamp::ZERO + self.duration();
        let activities: Vec<Activity> = self.flows.iter().map(|flow| flow.activity().until(end)).collect();
        let mut media = media.into_iter();
        let flows = self.flows.iter().zip(&activities).enumerate().filter_map(|(index, (flow, activity))| {
            let traffic = flow.traffic(activity.clone(), derived(seed, index));
            traffic.map(AnyFlow::Traffic).or_else(|| media.next())
        });
        let flows: Vec<AnyFlow<C>> = flows.collect();
        let mut links: Vec<SharedLink<AnyPacket>> = Vec::with_capacity(self.links.len());
        for (index, link) in self.links.iter().enumerate() {
            let seed = derived(!seed, index);
            let error = |error| ScenarioError::Link { name: link.name.clone(), error };
            links.push(Link::new(link.config.clone(), seed).map_err(error)?);
        }
        let routes = self.flows.iter().map(ScenarioFlow::route).collect();
        let (from, to) = self.evaluated();
        let network = Network::with_routes(flows, routes, links)?.sharing(self.media_of_links(seed))?;
        let mut network = network.metered_between(from, to);
        let calls = (0..self.flows.len()).filter(|&flow| self.flows[flow].kind == FlowKind::Media);
        let mut samples: Vec<_> = calls
            .zip(sessions)
            .map(|(flow, meter)| (flow, meter, activities[flow].start(), activities[flow].end()))
            .collect();
        let mut sample_due = |network: &Network<AnyFlow<C>>| {
            for (flow, meter, due, end) in &mut samples {
                if network.now() >= *due && *due <= *end {
                    *due += METERED;
                    network.flows()[*flow].sample(meter, network.now());
                }
            }
        };
        while network.now() < end {
            sample_due(&network);
            network.run_until((network.now() + METER_INTERVAL).min(end));
            progress(network.now()).map_err(ScenarioError::Stopped)?;
        }
        sample_due(&network);
        network.run_until(end + DRAIN);
        self.report(network, &activities, seed)
    }

    /// Shared media with their links.
    fn media_of_links(&self, seed: u64) -> Vec<Medium> {
        let on = |name: &str| {
            let on_it =
                self.links.iter().enumerate().filter(move |(_, link)| link.config.medium.as_deref() == Some(name));
            on_it.map(|(number, _)| number).collect::<Vec<_>>()
        };
        let media = self.shared_media.iter().enumerate();
        media
            .map(|(index, medium)| Medium::new(medium.kind, on(&medium.name), derived(!seed, self.links.len() + index)))
            .collect()
    }

    fn report<C: PictureCodec>(
        &self,
        network: Network<AnyFlow<C>>,
        activities: &[Activity],
        seed: u64,
    ) -> Result<ScenarioReport, ScenarioError> {
        let end = Timestamp::ZERO + self.duration();
        let meters = network.meters().to_vec();
        let media = network.media().to_vec();
        let (flows, links) = network.into_parts();
        let mut reports = Vec::with_capacity(flows.len());
        for (index, flow) in flows.into_iter().enumerate() {
            let (plan, activity, meter) = (&self.flows[index], &activities[index], &meters[index]);
            let capacity = |from, to| {
                let first = plan.forward.first().map(|&link| &links[link]);
                first.map_or(ByteCount::ZERO, |link| link.capacity_between(from, to))
            };
            let finished = finish(flow, meter, capacity)
                .map_err(|error| ScenarioError::Call { name: plan.name.clone(), error })?;
            reports.push(self.flow_report(plan, activity, meter, finished));
        }
        let link_reports =
            self.links.iter().zip(&links).map(|(plan, link)| link_report(&plan.name, link, end)).collect();
        let share = |busy: Duration| (busy.as_secs_f64() / (self.duration() + DRAIN).as_secs_f64()).min(1.0);
        let shared_media = self.shared_media.iter().zip(&media);
        let shared_media = shared_media.map(|(plan, medium)| {
            let carried: ByteCount = medium.links().map(|link| links[link].statistics().served.bytes).sum();
            let statistics = medium.statistics();
            MediumReport {
                name: plan.name.clone(),
                busy: share(statistics.busy),
                carried_bps: Bitrate::mean(carried, self.duration()),
                collisions: statistics.collisions as f64 / statistics.packets.max(1) as f64,
            }
        });
        let shared_media = shared_media.collect();
        let phases = self.phases(activities, &meters);
        let fair = || phases.iter().filter_map(|phase| Some((phase.to_seconds - phase.from_seconds, phase.fairness?)));
        let time: f64 = fair().map(|(time, _)| time).sum();
        let fairness = (time > 0.0).then(|| fair().map(|(time, fairness)| time * fairness).sum::<f64>() / time);
        Ok(ScenarioReport {
            scenario: self.name.clone(),
            source: self.source.clone(),
            seed,
            seconds: self.duration().as_secs_f64(),
            evaluated_seconds: (seconds(self.evaluated().0), seconds(self.evaluated().1)),
            flows: reports,
            links: link_reports,
            shared_media,
            phases,
            fairness,
        })
    }

    fn flow_report(
        &self,
        plan: &ScenarioFlow,
        activity: &Activity,
        meter: &FlowMeter,
        finished: Finished,
    ) -> FlowReport {
        let (from, to) = self.evaluated();
        // Packets in flight at the end of a flow count, unless only a part of the scenario is evaluated.
        let until = if self.evaluated_seconds.is_some() { to } else { Timestamp::MAX };
        let counted = Activity::of(activity.intervals().iter().map(|&(begin, end)| (begin.max(from), end.min(to))));
        let time = counted.time_between(Timestamp::ZERO, Timestamp::MAX);
        let bytes = |between: ByteCount| Bitrate::mean(between, time);
        let lost = meter.sent_packets().saturating_sub(meter.received_packets());
        let interval = |&(from, to): &(Timestamp, Timestamp)| (seconds(from), seconds(to));
        FlowReport {
            name: plan.name.clone(),
            kind: plan.kind.name().to_owned(),
            active_seconds: counted.intervals().iter().map(interval).collect(),
            sent_bps: bytes(meter.sent_between(from, until)),
            received_bps: bytes(meter.received_between(from, until)),
            goodput_bps: Bitrate::mean(finished.goodput, activity.time_between(Timestamp::ZERO, Timestamp::MAX)),
            loss: lost as f64 / meter.sent_packets().max(1) as f64,
            marked: meter.marked_packets() as f64 / meter.received_packets().max(1) as f64,
            feedback_bps: bytes(meter.feedback_bytes()),
            priority: plan.priority,
            one_way_delay_ms: DelayReport::of(meter.one_way_delays_ms()),
            queueing_delay_ms: DelayReport::of(meter.queueing_delays_ms()),
            video: finished.video,
            transfers: finished.transfers,
            interval_ms: METER_INTERVAL.as_millis() as u64,
            sent_series_bps: meter.sent_rates(self.duration()),
            received_series_bps: meter.received_rates(self.duration()),
        }
    }

    /// Times at which a capacity or the set of active flows changes.
    fn changes(&self, activities: &[Activity]) -> Vec<Timestamp> {
        let (begin, end) = self.evaluated();
        let mut changes = BTreeSet::from([begin, end]);
        for (from, to) in activities.iter().flat_map(Activity::intervals) {
            changes.extend([*from, *to]);
        }
        for link in &self.links {
            let trace = &link.config.trace;
            if trace.has_opportunities() {
                continue;
            }
            let Ok(segments) = trace.to_segments(Duration::from_secs(1)) else { continue };
            if segments.len() > MAX_CHANGES {
                continue;
            }
            let (mut at, mut rate) = (Timestamp::ZERO, None);
            for segment in segments {
                if rate.replace(segment.rate) != Some(segment.rate) {
                    changes.insert(at);
                }
                at += segment.duration;
            }
        }
        changes.into_iter().filter(|&at| begin <= at && at <= end).collect()
    }

    /// Groups of `media` flows that share a link or a medium.
    fn sharing(&self, media: impl Iterator<Item = usize>) -> impl Iterator<Item = Vec<usize>> {
        let mut users: BTreeMap<(Option<&str>, usize), Vec<usize>> = BTreeMap::new();
        for flow in media {
            let mut passed = BTreeSet::new();
            for &link in &self.flows[flow].forward {
                let medium = self.links[link].config.medium.as_deref();
                passed.insert((medium, if medium.is_some() { 0 } else { link }));
            }
            for place in passed {
                users.entry(place).or_default().push(flow);
            }
        }
        users.into_values().filter(|flows| flows.len() > 1)
    }

    fn phases(&self, activities: &[Activity], meters: &[FlowMeter]) -> Vec<Phase> {
        let changes = self.changes(activities);
        let mut phases = Vec::new();
        for pair in changes.windows(2) {
            let (from, to) = (pair[0], pair[1]);
            let length = to.saturating_since(from);
            if length < Duration::from_secs(2) {
                continue;
            }
            let active: Vec<usize> =
                (0..self.flows.len()).filter(|&flow| activities[flow].time_between(from, to) == length).collect();
            let middle = from + length / 2;
            let rate =
                |flow: usize| Bitrate::mean(meters[flow].received_between(middle, to), to.saturating_since(middle));
            let media = || active.iter().copied().filter(|&flow| self.flows[flow].kind == FlowKind::Media);
            let weighted = |flow: usize| rate(flow).mul_f64(self.flows[flow].priority.recip());
            let shared: Vec<Vec<Bitrate>> =
                self.sharing(media()).map(|flows| flows.into_iter().map(weighted).collect()).collect();
            let lowest_over_highest = shared.iter().filter_map(|rates| ratio(rates.iter().min(), rates.iter().max()));
            let bulk = |flow: &usize| matches!(self.flows[*flow].kind, FlowKind::Tcp { files: None, .. });
            let mean = |rates: Vec<Bitrate>| {
                let sum: u64 = rates.iter().map(|rate| rate.as_bps()).sum();
                (!rates.is_empty()).then(|| Bitrate::from_bps(sum / rates.len() as u64))
            };
            let tcp = mean(active.iter().copied().filter(bulk).map(rate).collect());
            let of_media = mean(media().map(rate).collect());
            let settles = |flow: usize| SettleTime {
                flow: self.flows[flow].name.clone(),
                seconds: settle_time(&meters[flow], from, to).map(|time| time.as_secs_f64()),
            };
            phases.push(Phase {
                from_seconds: seconds(from),
                to_seconds: seconds(to),
                rates: active
                    .iter()
                    .map(|&flow| PhaseRate { flow: self.flows[flow].name.clone(), received_bps: rate(flow) })
                    .collect(),
                fairness: shared.iter().filter_map(|rates| jain(rates)).min_by(f64::total_cmp),
                lowest_over_highest: lowest_over_highest.min_by(f64::total_cmp),
                media_over_tcp: ratio(of_media.as_ref(), tcp.as_ref()),
                settled: if length >= MIN_SETTLING_PHASE { media().map(settles).collect() } else { Vec::new() },
            });
        }
        phases
    }
}

/// One rate over another; `None` if either is absent or the divisor is zero.
fn ratio(over: Option<&Bitrate>, under: Option<&Bitrate>) -> Option<f64> {
    let under = under.filter(|&&under| under > Bitrate::ZERO)?;
    Some(over?.as_bps() as f64 / under.as_bps() as f64)
}

fn transfers(statistics: TcpStatistics) -> TransferReport {
    let mean = statistics.file_time.as_secs_f64() / statistics.files.max(1) as f64;
    TransferReport {
        timeouts: statistics.timeouts,
        files: statistics.files,
        mean_file_seconds: (statistics.files > 0).then_some(mean),
    }
}

fn finish<C: PictureCodec>(
    flow: AnyFlow<C>,
    meter: &FlowMeter,
    capacity: impl Fn(Timestamp, Timestamp) -> ByteCount,
) -> Result<Finished, crate::call_flow::SimulationError> {
    let of_call = |call: FinishedCall| Finished { goodput: call.shown, video: Some(call.scores), transfers: None };
    Ok(match flow {
        AnyFlow::Call(call) => of_call(call.finish(capacity)?.call),
        AnyFlow::Modelled(call) => of_call(call.finish(capacity)?.call),
        AnyFlow::Traffic(CrossTraffic::Tcp(tcp)) => {
            let statistics = tcp.statistics();
            let goodput = ByteCount::new(statistics.acknowledged * TCP_DATA);
            Finished { goodput, video: None, transfers: Some(transfers(statistics)) }
        }
        AnyFlow::Traffic(_) => {
            Finished { goodput: meter.received_between(Timestamp::ZERO, Timestamp::MAX), ..Finished::default() }
        }
    })
}

fn link_report(name: &str, link: &SharedLink<AnyPacket>, end: Timestamp) -> LinkReport {
    let statistics = link.statistics();
    let capacity = link.capacity_between(Timestamp::ZERO, end);
    let length = end.saturating_since(Timestamp::ZERO);
    LinkReport {
        name: name.to_owned(),
        capacity_bps: Bitrate::mean(capacity, length),
        // Bytes in the queue at the end are served later.
        utilisation: (statistics.served.bytes.as_f64() / capacity.as_f64().max(1.0)).min(1.0),
        dropped: statistics.dropped_by_queue.packets as f64 / statistics.sent.packets.max(1) as f64,
        marked: statistics.marked.packets as f64 / statistics.sent.packets.max(1) as f64,
        mean_queueing_delay_ms: statistics.mean_queueing_delay().as_secs_f64() * 1e3,
        longest_queueing_delay_ms: statistics.longest_queueing_delay.as_secs_f64() * 1e3,
    }
}
