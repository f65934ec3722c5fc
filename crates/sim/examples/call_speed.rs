use lockstep_call::{ClipCurves, CodecModel, ModelledClip};
use lockstep_control::{Algorithm, Setting};
use lockstep_link::{Link, LinkConfig, Trace};
use lockstep_sim::modelled::{FeedbackInterval, ModelledSetting};
use lockstep_sim::{Network, SharedLink};
use lockstep_units::{Bitrate, Timestamp};
use std::sync::Arc;
use std::time::{Duration, Instant};
fn link<P: Clone>(kbps: u64) -> SharedLink<P> {
    let config =
        LinkConfig { delay: Duration::from_millis(20), ..LinkConfig::new(Trace::constant(Bitrate::from_kbps(kbps))) };
    Link::new(config, 1).unwrap()
}
fn core() -> f64 {
    std::fs::read_to_string("/proc/thread-self/schedstat")
        .unwrap()
        .split_whitespace()
        .next()
        .unwrap()
        .parse::<u64>()
        .unwrap() as f64
        * 1e-9
}
fn main() {
    let which = std::env::args().nth(1).unwrap_or("salsify".into());
    let seconds: u64 = std::env::args().nth(2).map_or(6000, |s| s.parse().unwrap());
    let fixed = which.starts_with("fixed");
    let feedback =
        if fixed { FeedbackInterval::Every(Duration::from_millis(50)) } else { FeedbackInterval::EveryFragment };
    let algorithm: Algorithm = which.parse().unwrap();
    let setting = ModelledSetting { feedback, ..ModelledSetting::new() };
    let control = Setting::new(setting.payload, setting.frame_interval());
    let model = CodecModel::built_in().unwrap();
    let curves = Arc::new(ClipCurves::new(&model.clips[0], 1280, 720));
    let clip = ModelledClip::new(curves, setting.frame_interval(), 1);
    let call =
        setting.call(algorithm.controller(&control).unwrap(), algorithm.estimator(control.bounds), clip).unlogged();
    let mut network = Network::new(vec![call], link(if fixed { 1200 } else { 1000 }), link(100_000));
    let (wall, c) = (Instant::now(), core());
    network.run_until(Timestamp::from_millis(seconds * 1000));
    println!(
        "{which}: {:.0}x core, {:.0}x wall, {} packets, {} reverse",
        seconds as f64 / (core() - c),
        seconds as f64 / wall.elapsed().as_secs_f64(),
        network.links()[0].statistics().delivered.packets,
        network.links()[1].statistics().delivered.packets
    );
}
