//! Measures how many packets per second a network of minimal flows carries on this machine.
//!
//! `cargo run --release -p lockstep-sim --example network_speed`

use std::time::{Duration, Instant};

use lockstep_link::{Link, LinkConfig, Trace};
use lockstep_sim::{Arrived, Direction, Flow, Network, Route, SharedLink};
use lockstep_units::{ByteCount, Timestamp};

/// Flow that sends five packets 30 times per second and acknowledges each packet.
struct Lean {
    next: Timestamp,
    to_send: u32,
    to_acknowledge: u32,
    packets: u64,
}

impl Flow for Lean {
    type Packet = [u64; 4];

    fn handle_packet(&mut self, _now: Timestamp, arrived: Arrived<Self::Packet>) {
        self.packets += 1;
        if arrived.direction == Direction::Forward {
            self.to_acknowledge += 1;
        }
    }

    fn poll_transmit(&mut self, _now: Timestamp) -> Option<(Direction, ByteCount, Self::Packet)> {
        if self.to_send > 0 {
            self.to_send -= 1;
            return Some((Direction::Forward, ByteCount::new(1_200), [1; 4]));
        }
        if self.to_acknowledge > 0 {
            self.to_acknowledge -= 1;
            return Some((Direction::Reverse, ByteCount::new(60), [2; 4]));
        }
        None
    }

    fn poll_timeout(&self) -> Option<Timestamp> {
        Some(self.next)
    }

    fn handle_timeout(&mut self, _now: Timestamp) {
        self.to_send += 5;
        self.next += Duration::from_nanos(33_333_333);
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    fn link(spec: &str) -> Result<SharedLink<[u64; 4]>, Box<dyn std::error::Error>> {
        let config = LinkConfig { delay: Duration::from_millis(20), ..LinkConfig::new(Trace::from_spec(spec)?) };
        Ok(Link::new(config, 1)?)
    }
    let lean = |index| Lean { next: Timestamp::from_millis(index), to_send: 0, to_acknowledge: 0, packets: 0 };
    for (flows, hops, metered) in [(1, 1, false), (1, 1, true), (4, 1, false), (16, 1, false), (1, 3, false)] {
        let capacity = format!("constant:{}mbps", 2 * flows);
        let mut links = Vec::new();
        for _ in 0..hops {
            links.push(link(&capacity)?);
        }
        links.push(link("constant:100mbps")?);
        let route = Route { forward: (0..hops).collect(), reverse: vec![hops], ..Route::single_bottleneck() };
        let mut network = Network::with_routes((0..flows).map(lean).collect(), vec![route; flows as usize], links)?;
        if metered {
            network = network.metered();
        }
        let start = Instant::now();
        let seconds = 10_000 / flows;
        network.run_until(Timestamp::from_millis(1_000 * seconds));
        let elapsed = start.elapsed().as_secs_f64();
        let packets: u64 = network.flows().iter().map(|flow| flow.packets).sum();
        println!(
            "{flows} flows, {hops} bottlenecks{}: {:.2} million packets/s, {:.0} seconds of a flow per second",
            if metered { ", metered" } else { "" },
            packets as f64 / elapsed / 1e6,
            (seconds * flows) as f64 / elapsed,
        );
    }
    Ok(())
}
