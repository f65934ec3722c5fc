//! Example of an own controller, registered and simulated: `cargo run --release -p lockstep-configuration --example
//! registered_controller`.

use std::time::Duration;

use lockstep_configuration::{CallArguments, simulate};
use lockstep_control::{
    Allowance, Controller, ControllerSetup, Controllers, InFlight, Input, PathView, Registration, TokenBucket, Traits,
};
use lockstep_units::Bitrate;

/// Sends 5 % faster after each feedback whose packets were queued for less than 30 ms, and 10 % slower otherwise.
struct Mine {
    target: Bitrate,
    setup: ControllerSetup,
    bucket: TokenBucket,
}

impl Controller for Mine {
    fn traits(&self) -> Traits {
        Traits::ESTIMATING
    }

    fn handle(&mut self, path: &PathView<'_>, input: Input<'_>) {
        match (input, path.queueing_delays.last()) {
            (Input::Sent(size), _) => self.bucket.on_transmit(path.now, size, self.target),
            (Input::Feedback(_), Some(wait)) => {
                let factor = if wait.queued < Duration::from_millis(30) { 1.05 } else { 0.9 };
                self.target = self.target.mul_f64(factor).clamp(self.setup.bounds.min, self.setup.bounds.max);
            }
            _ => {}
        }
    }

    fn allowance(&self, path: &PathView<'_>, in_flight: InFlight) -> Allowance {
        self.bucket.allowance(path.now, in_flight, self.target, self.target.mul_f64(2.5))
    }

    fn pacing_interval(&self, _path: &PathView<'_>, _in_flight: InFlight) -> Duration {
        self.bucket.pacing_interval(self.target.mul_f64(2.5))
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

pub(crate) fn main() -> anyhow::Result<()> {
    let mine = Registration::new("mine", "keeps the queue below 30 ms", |setup| {
        let bucket = TokenBucket::new(setup.payload, setup.frame_interval);
        Box::new(Mine { target: setup.bounds.initial, setup: setup.clone(), bucket })
    });
    let controllers = Controllers::default().with(mine)?;
    let mut options = CallArguments { modelled: Some(true), ..CallArguments::default() };
    for (name, word) in [("controller", "mine"), ("trace", "steps:3mbps@5s/1mbps@5s"), ("seconds", "20")] {
        options.set_values(name, &[word.to_owned()])?;
    }
    let scores = simulate(&options.settings_with(&controllers)?, |_| Ok(()))?.report.scores;
    println!("{:?} QoE, {:?}", scores.qoe_d, scores.video_delay_ms.map(|delay| delay.p95));
    Ok(())
}
