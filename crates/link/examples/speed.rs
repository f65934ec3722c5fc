//! How many packets a second go through a link, on this machine: `cargo run --release --example speed`.

use std::time::{Duration, Instant};

use lockstep_link::{GilbertElliott, Jitter, JitterDistribution, Link, LinkConfig, Trace};
use lockstep_units::{ByteCount, Timestamp};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    const PACKETS: u32 = 5_000_000;
    for spec in ["constant:1mbps", "cellular:1mbps,duration=600s", "poisson:1mbps,duration=600s"] {
        for everything in [false, true] {
            let mut config = LinkConfig::new(Trace::from_spec(spec)?);
            config.delay = Duration::from_millis(20);
            if everything {
                config.loss.random = 0.01;
                config.loss.burst =
                    Some(GilbertElliott { to_bad: 0.01, to_good: 0.3, loss_in_good: 0.0, loss_in_bad: 1.0 });
                let distribution = JitterDistribution::Exponential { mean: Duration::from_millis(3) };
                config.jitter = Some(Jitter { distribution, reorders: true });
            }
            let mut link = Link::new(config, 1)?;
            let start = Instant::now();
            let mut now = Timestamp::ZERO;
            for index in 0..PACKETS {
                while let Some(wake) = link.poll_timeout().filter(|&wake| wake <= now) {
                    while link.poll(wake).is_some() {}
                }
                let _ = link.send(now, ByteCount::new(1_200), index);
                now += Duration::from_micros(10_000);
            }
            let rate = f64::from(PACKETS) / start.elapsed().as_secs_f64();
            let extras = if everything { ", losses and jitter" } else { "" };
            println!("{spec}{extras}: {:.2} million packets/s, {:.0} times real time", rate / 1e6, rate / 100.0);
        }
    }
    Ok(())
}
