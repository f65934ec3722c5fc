//! Measures the speed of learning environments without Python, in steps per second of one core. Linux only.
//!
//! `cargo run --release -p lockstep-sim --example environment_speed -- [CALLS [STEPS [FEEDBACK_MS]]]`
//!
//! The calls are those of `lockstep-bench-gym`: about 1 Mb/s, steps of 200 ms. With FEEDBACK_MS, receivers
//! acknowledge at most once per interval (default until aggregation: 50 ms). Times are processor time of this process.
//! The printed digest is equal for two builds with equal results.

use std::sync::Arc;
use std::time::Duration;

use lockstep_link::Trace;
use lockstep_sim::environment::{EnvironmentSetting, FEATURES, Seeds, VectorEnvironment};
use lockstep_sim::modelled::FeedbackInterval;
use lockstep_sim::{ClipCurves, CodecModel};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Processor time of this process, seconds. Source: fields 14 and 15 of proc_pid_stat(5), in hundredths of a second.
fn core_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    [11, 12].iter().filter_map(|&at| fields.get(at)?.parse::<f64>().ok()).sum::<f64>() / 100.0
}

/// Resident memory of this process, bytes. Source: field 2 of proc_pid_statm(5), in pages of 4 KiB.
fn resident_bytes() -> f64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    text.split_whitespace().nth(1).and_then(|pages| pages.parse::<f64>().ok()).unwrap_or_default() * 4096.0
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let numbers: Vec<usize> = std::env::args().skip(1).map(|word| word.parse()).collect::<Result<_, _>>()?;
    let calls = numbers.first().copied().unwrap_or(1024);
    let steps = numbers.get(1).copied().unwrap_or(200_000);
    let model = CodecModel::built_in()?;
    let clips = model.clips.iter().map(|clip| Arc::new(ClipCurves::new(clip, 1280, 720))).collect();
    let traces = ["constant:1.2mbps", "cellular:mean=2mbps,seed=1", "cellular:mean=2mbps,seed=2"];
    let traces = traces.iter().map(|spec| Trace::from_spec(spec)).collect::<Result<_, _>>()?;
    let mut setting = EnvironmentSetting::new(traces, clips);
    if let Some(&milliseconds) = numbers.get(2) {
        setting.call.feedback = FeedbackInterval::Every(Duration::from_millis(milliseconds as u64));
    }
    let before = resident_bytes();
    let mut vector = VectorEnvironment::new(setting, calls, 1, 1)?;
    vector.reset(&Seeds::Derived(1), None)?;
    let rates = |round: usize| -> Vec<f64> {
        // Rates spread around 1 Mb/s by up to two factors of 1.2 in each direction.
        (0..calls).map(|call| 1e6 * f64::powf(1.2, ((call * 7 + round * 3) % 5) as f64 - 2.0)).collect()
    };
    let rounds = steps.div_ceil(calls).max(1);
    for round in 0..(rounds / 10).max(1) {
        vector.step(&rates(round))?;
    }
    let mut features = vec![0.0; calls * FEATURES.len()];
    let mut done = vec![false; calls];
    let mut digest = 0_u64;
    let mut packets = 0.0;
    let place = FEATURES.iter().position(|feature| feature.name == "packets").unwrap_or_default();
    let started = core_seconds();
    for round in 0..rounds {
        vector.step(&rates(round))?;
        vector.write(&mut features, &mut done);
        packets += features.iter().skip(place).step_by(FEATURES.len()).sum::<f64>();
        digest = features.iter().fold(digest, |digest, value| digest.rotate_left(5) ^ value.to_bits());
    }
    let spent = core_seconds() - started;
    let taken = (rounds * calls) as f64;
    println!(
        "{calls} calls: {:.0} steps per core second, {:.1} us per step; {:.1} packets per step; {:.0} bytes per call; {:.0} x \
         real time; digest {digest:016x}",
        taken / spent,
        spent / taken * 1e6,
        packets / taken,
        (resident_bytes() - before) / calls as f64,
        taken / spent * Duration::from_millis(200).as_secs_f64(),
    );
    Ok(())
}
