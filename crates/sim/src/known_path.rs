//! Knowledge of a link's future, for controllers such as `hindsight`.

use std::sync::Arc;

use lockstep_control::{KnownCapacity, KnownPath, KnownQueue};
use lockstep_link::{LinkConfig, QueueConfig, Trace};
use lockstep_units::{ByteCount, Timestamp};

#[derive(Debug)]
struct TraceCapacity(Trace);

impl KnownCapacity for TraceCapacity {
    fn bytes_between(&self, from: Timestamp, to: Timestamp) -> ByteCount {
        self.0.bytes_between(from, to)
    }

    fn loss_at(&self, at: Timestamp) -> f64 {
        self.0.conditions_at(at).loss
    }
}

/// Path with `link` as its only bottleneck. The trace starts at `start` on the sender's clock.
#[must_use]
pub fn known_path(link: &LinkConfig, start: Timestamp) -> KnownPath {
    let bursts = link.loss.burst.map_or(0.0, |burst| {
        let bad = burst.to_bad / (burst.to_bad + burst.to_good).max(f64::MIN_POSITIVE);
        bad * burst.loss_in_bad + (1.0 - bad) * burst.loss_in_good
    });
    let on_off = link.loss.on_off.map_or(0.0, |on_off| {
        let (on, off) = (on_off.mean_on.as_secs_f64(), on_off.mean_off.as_secs_f64());
        on_off.loss * on / (on + off).max(f64::MIN_POSITIVE)
    });
    let loss = 1.0 - (1.0 - link.loss.random) * (1.0 - bursts) * (1.0 - on_off);
    let (packets, bytes) = link.queue.limits();
    let target = match link.queue {
        QueueConfig::CoDel { target, .. } | QueueConfig::Pie { target, .. } => Some(target),
        _ => None,
    };
    let queue = KnownQueue { packets, bytes, target };
    KnownPath { capacity: Arc::new(TraceCapacity(link.trace.clone())), offset: link.trace_offset, start, queue, loss }
}
