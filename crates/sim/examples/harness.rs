//! private harness
use lockstep_call::{ClipCurves, CodecModel, MenuMode, ModelledClip};
use lockstep_control::{Algorithm, Setting};
use lockstep_link::{GilbertElliott, Link, LinkConfig, LossConfig, QueueConfig, Reordering, Trace};
use lockstep_sim::environment::{AgentPlace, EnvironmentSetting, FEATURES, VectorEnvironment};
use lockstep_sim::modelled::{FeedbackInterval, ModelledCodec, ModelledSetting};
use lockstep_sim::{Activity, Network, SharedLink};
use lockstep_units::{Bitrate, Timestamp};
use std::sync::Arc;
use std::time::Duration;

fn cpu() -> f64 {
    let s = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    s.split(' ').next().unwrap().parse::<f64>().unwrap() * 1e-9
}
fn link<P: Clone>(c: LinkConfig, seed: u64) -> SharedLink<P> {
    Link::new(c, seed).unwrap()
}
fn clip(interval: Duration, seed: u64) -> ModelledClip {
    let model = CodecModel::built_in().unwrap();
    let curves = Arc::new(ClipCurves::new(if seed == 0 { &model.clips[0] } else { model.drawn(seed) }, 1280, 720));
    ModelledClip::new(curves, interval, seed.max(1))
}
fn trace(text: &str) -> Trace {
    if std::path::Path::new(text).exists() {
        Trace::open(std::path::Path::new(text)).unwrap()
    } else {
        Trace::from_spec(text).unwrap()
    }
}
fn fb_env() -> FeedbackInterval {
    std::env::var("FEEDBACK_MS").ok().map_or(FeedbackInterval::default(), |t| {
        FeedbackInterval::aggregated(Duration::from_millis(t.parse().unwrap()))
    })
}
fn speed(kind: &str, seconds: u64) -> f64 {
    let (alg, fb, cap): (Algorithm, _, _) = match kind {
        "fixed" => {
            (Algorithm::Fixed(Bitrate::from_kbps(1_000)), FeedbackInterval::Every(Duration::from_millis(50)), 1_200)
        }
        _ => (kind.parse().unwrap(), fb_env(), 1_000),
    };
    let setting = ModelledSetting { feedback: fb, ..ModelledSetting::new() };
    let control = Setting::new(setting.payload, setting.frame_interval());
    let call = setting
        .call(alg.controller(&control).unwrap(), alg.estimator(control.bounds), clip(setting.frame_interval(), 0))
        .unlogged();
    let l = |kbps| LinkConfig {
        delay: Duration::from_millis(20),
        ..LinkConfig::new(Trace::constant(Bitrate::from_kbps(kbps)))
    };
    let mut network = Network::new(vec![call], link(l(cap), 1), link(l(100_000), 1));
    let from = cpu();
    network.run_until(Timestamp::from_millis(seconds * 1_000));
    cpu() - from
}
fn gym(calls: usize, steps: usize) -> f64 {
    let model = CodecModel::built_in().unwrap();
    let clips = model.clips.iter().map(|clip| Arc::new(ClipCurves::new(clip, 1280, 720))).collect();
    let traces = ["constant:1.2mbps", "cellular:mean=2mbps,seed=1", "cellular:mean=2mbps,seed=2"]
        .map(|s| Trace::from_spec(s).unwrap());
    let setting = EnvironmentSetting::new(traces.into(), clips);
    let mut vector = VectorEnvironment::new(setting, calls, 1, 1).unwrap();
    vector.reset(Some(1), None).unwrap();
    let rounds = (steps / calls).max(1);
    let mut features = vec![0.0; calls * FEATURES.len()];
    let mut done = vec![false; calls];
    let mut x = 88172645463325252u64;
    let mut spent = 0.0;
    for round in 0..rounds + rounds / 10 {
        let rates: Vec<f64> = (0..calls)
            .map(|_| {
                x ^= x << 13;
                x ^= x >> 7;
                x ^= x << 17;
                1e6 * (0.8 + 0.4 * (x >> 11) as f64 / (1u64 << 53) as f64)
            })
            .collect();
        let t = proc_cpu();
        vector.step(&rates).unwrap();
        vector.write(&mut features, &mut done);
        if round >= rounds / 10 {
            spent += proc_cpu() - t;
        }
    }
    (rounds * calls) as f64 / spent
}
fn proc_cpu() -> f64 {
    // all threads
    let mut sum = 0.0;
    for t in std::fs::read_dir("/proc/self/task").unwrap() {
        if let Ok(s) = std::fs::read_to_string(t.unwrap().path().join("schedstat")) {
            sum += s.split(' ').next().unwrap().parse::<f64>().unwrap() * 1e-9;
        }
    }
    sum
}
fn one(
    alg: &str,
    codec: &str,
    tr: &str,
    variant: &str,
    feedback: FeedbackInterval,
    seconds: u64,
    seed: u64,
) -> serde_json::Value {
    let codec = match codec {
        "conventional" => ModelledCodec::Conventional,
        _ => ModelledCodec::Functional(MenuMode::default()),
    };
    let length = Duration::from_secs(seconds);
    let setting = ModelledSetting {
        feedback,
        codec,
        length,
        activity: Activity::between(Timestamp::ZERO, Timestamp::ZERO + length + Duration::from_secs(1)),
        ..ModelledSetting::new()
    };
    let alg: Algorithm = alg.parse().unwrap();
    let control = Setting::new(setting.payload, setting.frame_interval());
    let call = setting.call(
        alg.controller(&control).unwrap(),
        alg.estimator(control.bounds),
        clip(setting.frame_interval(), seed),
    );
    let mut f = LinkConfig {
        delay: Duration::from_millis(20),
        queue: QueueConfig::drop_tail(256),
        ..LinkConfig::new(trace(tr))
    };
    let mut r = LinkConfig {
        delay: Duration::from_millis(20),
        ..LinkConfig::new(Trace::constant(Bitrate::from_kbps(100_000)))
    };
    match variant {
        "plain" => {}
        "loss" => {
            f.loss = LossConfig { random: 0.05, ..LossConfig::default() };
            r.loss = LossConfig { random: 0.02, ..LossConfig::default() };
        }
        "burst" => {
            f.loss = LossConfig {
                burst: Some(GilbertElliott { to_bad: 0.01, to_good: 0.3, loss_in_good: 0.0, loss_in_bad: 1.0 }),
                ..LossConfig::default()
            };
        }
        "reorder" => {
            f.reordering = Some(Reordering { probability: 0.02, extra_delay: Duration::from_millis(15) });
            f.duplication = 0.01;
        }
        "small" => {
            f.queue = QueueConfig::drop_tail(15);
        }
        "codel" => {
            f.queue = QueueConfig::drop_tail(256).with_codel().with_ecn();
        }
        "pie" => {
            f.queue = QueueConfig::drop_tail(256).with_pie();
        }
        "slow" => {
            r.trace = Trace::constant(Bitrate::from_kbps(64));
        }
        _ => panic!(),
    }
    let mut network = Network::new(vec![call], link(f, seed), link(r, seed ^ 1));
    network.run_until(Timestamp::ZERO + length + Duration::from_secs(3));
    let (mut calls, links) = network.into_parts();
    let result = calls.remove(0).finish(|a, b| links[0].capacity_between(a, b)).unwrap();
    serde_json::json!({ "scores": result.call.scores, "series": result.call.series, "sender": result.sender.statistics(), "receiver": result.receiver.statistics(), "counts": result.receiver.counts(), "forward": links[0].statistics(), "reverse": links[1].statistics() })
}
fn fingerprint() {
    let algs =
        ["salsify", "sprout", "gcc", "nada", "scream", "bob-heuristic", "copa", "concerto", "lockstep", "fixed:1mbps"];
    let traces = [
        "constant:1mbps",
        "cellular:mean=2mbps,seed=3",
        "../shared/traces/mahimahi/Verizon-LTE-short.up",
        "cellular:mean=8mbps,seed=4",
    ];
    let mut n = 0u64;
    for alg in algs {
        for codec in ["functional", "conventional"] {
            for tr in traces {
                for variant in ["plain", "loss", "burst", "reorder", "small", "codel", "pie", "slow"] {
                    n += 1;
                    // a third of the grid, spread
                    if n * 7 % 3 != 0 && !matches!(variant, "plain" | "loss") {
                        continue;
                    }
                    let feedback = match n % 5 {
                        0 => FeedbackInterval::Every(Duration::from_millis(50)),
                        1 | 2 if std::env::var("OLD").is_err() => FeedbackInterval::default(),
                        _ => FeedbackInterval::EveryFragment,
                    };
                    let v = one(alg, codec, tr, variant, feedback, 8, n);
                    println!("{alg} {codec} {tr} {variant} {n} {v}");
                }
            }
        }
    }
    // the environments
    let model = CodecModel::built_in().unwrap();
    for (place, loss, conventional, obs) in [
        (AgentPlace::Receiver, 0.0, false, None),
        (AgentPlace::Sender, 0.03, false, Some("concerto")),
        (AgentPlace::Receiver, 0.02, true, None),
        (AgentPlace::Sender, 0.0, true, Some("concerto")),
    ] {
        let clips = model.clips.iter().map(|clip| Arc::new(ClipCurves::new(clip, 1280, 720))).collect();
        let traces = ["constant:1.2mbps", "cellular:mean=2mbps,seed=1"].map(|s| Trace::from_spec(s).unwrap());
        let mut setting = EnvironmentSetting {
            place,
            loss: loss..=loss,
            steps: 50,
            observation: obs.map(|o| o.parse().unwrap()),
            ..EnvironmentSetting::new(traces.into(), clips)
        };
        if conventional {
            setting.call.codec = ModelledCodec::Conventional;
            setting.call.feedback = FeedbackInterval::EveryFragment;
        }
        let count = 48;
        let mut vector = VectorEnvironment::new(setting, count, 1, 2).unwrap();
        vector.reset(Some(1), None).unwrap();
        let numbers = count * vector.observation_shape().iter().product::<usize>();
        for step in 0..120 {
            let rates: Vec<f64> = (0..count).map(|i| 1e5 * (1 + (step * 7 + i * 3) % 23) as f64).collect();
            vector.step(&rates).unwrap();
            let mut features = vec![0.0; count * FEATURES.len()];
            let mut done = vec![false; count];
            vector.write(&mut features, &mut done);
            let mut seen = vec![0f32; numbers];
            vector.write_observations(&mut seen);
            if step % 10 == 9 {
                println!("env {step} {features:?} {done:?} {seen:?}");
            }
        }
    }
}
fn main() {
    let a: Vec<String> = std::env::args().collect();
    match a[1].as_str() {
        "speed" => {
            let seconds = a[3].parse().unwrap();
            let rounds: u32 = a[4].parse().unwrap();
            let mut all: Vec<f64> = (0..rounds).map(|_| seconds as f64 / speed(&a[2], seconds)).collect();
            all.sort_by(f64::total_cmp);
            println!("{} x real time: median {:.0} best {:.0}", a[2], all[all.len() / 2], all[all.len() - 1]);
        }
        "gym" => {
            let rounds: u32 = a[4].parse().unwrap();
            let mut all: Vec<f64> = (0..rounds).map(|_| gym(a[2].parse().unwrap(), a[3].parse().unwrap())).collect();
            all.sort_by(f64::total_cmp);
            println!("gym {} calls: steps/CPU s median {:.0} best {:.0}", a[2], all[all.len() / 2], all[all.len() - 1]);
        }
        "fingerprint" => fingerprint(),
        "one" => {
            let ms: f64 = a[6].parse().unwrap();
            let fb = if ms > 0.0 {
                FeedbackInterval::Every(Duration::from_secs_f64(ms / 1e3))
            } else {
                FeedbackInterval::EveryFragment
            };
            println!("{}", one(&a[2], &a[3], &a[4], &a[5], fb, a[7].parse().unwrap(), 1));
        }
        "agg" => {
            // agg SECONDS VARIANTS TRACES...
            let seconds: u64 = a[2].parse().unwrap();
            for variant in a[3].split(',') {
                for tr in &a[4..] {
                    for alg in std::env::var("ALGS")
                        .unwrap_or("salsify,sprout,gcc,nada,scream,bob-heuristic".into())
                        .split(',')
                    {
                        for codec in ["functional", "conventional"] {
                            for seed in 1..=std::env::var("SEEDS").map_or(2u64, |t| t.parse().unwrap()) {
                                let v = one(alg, codec, tr, variant, fb_env(), seconds, seed);
                                let s = &v["scores"];
                                println!(
                                    "{}",
                                    serde_json::json!([
                                        alg,
                                        codec,
                                        tr,
                                        variant,
                                        seed,
                                        s["video_delay_ms"]["p95"],
                                        s["video_delay_ms"]["mean"],
                                        s["throughput_bps"],
                                        s["ssim_db"]["mean"],
                                        v["reverse"]["sent"]["bytes"],
                                        v["forward"]["sent"]["bytes"],
                                        v["sender"]["spurious"],
                                        v["sender"]["fragments_lost"],
                                        v["receiver"]["acknowledgements"]
                                    ])
                                );
                            }
                        }
                    }
                }
            }
        }
        _ => panic!(),
    }
}
