//! Loss share from the two counters in every feedback. Lost acknowledgements do not affect it.

use lockstep_transport::Feedback;

/// Expected datagrams, and those of them that did not arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Lost {
    pub(crate) due: u64,
    pub(crate) lost: u64,
}

impl Lost {
    /// Share of lost datagrams, 0 to 1; zero if none was expected.
    pub(crate) fn share(self) -> f64 {
        if self.due == 0 { 0.0 } else { self.lost as f64 / self.due as f64 }
    }
}

/// Counter of losses since [`ReportedLoss::take`]. A late datagram compensates for one that is lost later.
#[derive(Debug, Default)]
pub(crate) struct ReportedLoss {
    /// `highest_sequence + 1` and `received` of the newest feedback, and of the feedback at the last
    /// [`ReportedLoss::take`].
    newest: (u64, u64),
    taken: (u64, u64),
}

impl ReportedLoss {
    /// Adds a feedback. Returns the difference to the one before; zero if a newer one overtook it.
    pub(crate) fn on_feedback(&mut self, feedback: &Feedback) -> Lost {
        let now = (feedback.highest_sequence.saturating_add(1), feedback.received);
        if now.0 < self.newest.0 || now.1 < self.newest.1 {
            return Lost::default();
        }
        let before = std::mem::replace(&mut self.newest, now);
        difference(before, now)
    }

    /// Expected and lost datagrams since the last [`ReportedLoss::take`].
    pub(crate) fn since_taken(&self) -> Lost {
        difference(self.taken, self.newest)
    }

    /// Returns the counts and restarts them.
    pub(crate) fn take(&mut self) -> Lost {
        let lost = self.since_taken();
        self.taken = self.newest;
        lost
    }
}

fn difference(before: (u64, u64), now: (u64, u64)) -> Lost {
    let due = now.0.saturating_sub(before.0);
    Lost { due, lost: due.saturating_sub(now.1.saturating_sub(before.1)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feedback(highest_sequence: u64, received: u64) -> Feedback {
        Feedback {
            found: 0,
            acknowledged: Vec::new(),
            estimate: lockstep_transport::Estimate::default(),
            round_trip_time: None,
            highest_sequence,
            received,
        }
    }

    #[test]
    fn losses_are_counted_across_lost_and_late_acknowledgements() {
        let mut loss = ReportedLoss::default();
        assert_eq!(loss.on_feedback(&feedback(9, 10)), Lost { due: 10, lost: 0 });
        assert_eq!(loss.on_feedback(&feedback(29, 25)), Lost { due: 20, lost: 5 });
        assert_eq!(loss.on_feedback(&feedback(19, 18)), Lost::default());
        assert_eq!(loss.take(), Lost { due: 30, lost: 5 });
        assert_eq!(loss.take(), Lost::default());
    }
}
