//! Throwaway: prints everything countable of many modelled calls, to compare builds.
use lockstep_call::{ClipCurves, CodecModel, MenuMode, ModelledClip};
use lockstep_control::{Algorithm, Setting};
use lockstep_link::*;
use lockstep_sim::modelled::*;
use lockstep_sim::{Network, SharedLink};
use lockstep_units::Timestamp;
use std::sync::Arc;
use std::time::Duration;
fn main() {
    let model = CodecModel::built_in().unwrap();
    let passes = MenuMode::default();
    for name in ["salsify", "gcc", "nada", "scream", "sprout", "copa", "bob-heuristic", "fixed:1mbps"] {
        for codec in [
            ModelledCodec::Functional(passes),
            ModelledCodec::Functional(MenuMode::Serial),
            ModelledCodec::Functional(MenuMode::Parallel),
            ModelledCodec::Conventional,
            ModelledCodec::FullThrottle,
        ] {
            for feedback in [FeedbackInterval::EveryFragment, FeedbackInterval::Every(Duration::from_millis(50))] {
                for which in 0..4u64 {
                    let algorithm: Algorithm = name.parse().unwrap();
                    let setting = ModelledSetting { feedback, codec, ..ModelledSetting::new() };
                    let control = Setting::new(setting.payload, setting.frame_interval());
                    let curves = Arc::new(ClipCurves::new(&model.clips[0], 640, 360));
                    let clip = ModelledClip::new(curves, setting.frame_interval(), which);
                    let call = || {
                        setting
                            .call(
                                algorithm.controller(&control).unwrap(),
                                algorithm.estimator(control.bounds),
                                clip.clone(),
                            )
                            .unlogged()
                    };
                    let trace = ["constant:1mbps", "cellular:mean=2mbps,seed=3", "constant:600kbps", "cellular:mean=1mbps,seed=9"]
                        [which as usize];
                    let mut forward = LinkConfig {
                        delay: Duration::from_millis(20),
                        ..LinkConfig::new(Trace::from_spec(trace).unwrap())
                    };
                    let mut reverse = LinkConfig {
                        delay: Duration::from_millis(20),
                        ..LinkConfig::new(Trace::from_spec("constant:100mbps").unwrap())
                    };
                    if which >= 2 {
                        forward.loss.random = 0.04;
                        reverse.loss.random = 0.04;
                        forward.reordering =
                            Some(Reordering { probability: 0.02, extra_delay: Duration::from_millis(15) });
                        forward.loss.scheduled = vec![LossInterval {
                            from: Duration::from_secs(6),
                            to: Duration::from_millis(7_500),
                            loss: 1.0,
                        }];
                    }
                    let forward: SharedLink<_> = Link::new(forward, 1 + which).unwrap();
                    let reverse: SharedLink<_> = Link::new(reverse, 2 + which).unwrap();
                    let count = if which == 3 { 2 } else { 1 };
                    let mut network = Network::new((0..count).map(|_| call()).collect(), forward, reverse);
                    network.run_until(Timestamp::from_millis(20_000));
                    println!("{name} {codec:?} {feedback:?} {which}");
                    for link in network.links() {
                        println!("{:?}", link.statistics());
                    }
                    for flow in network.flows_mut() {
                        println!("{:?} {:?}", flow.sender().statistics(), flow.receiver().statistics());
                        println!("{:?} {:?}", flow.receiver().counts(), flow.steps().map(|steps| steps.take()));
                    }
                }
            }
        }
    }
}
