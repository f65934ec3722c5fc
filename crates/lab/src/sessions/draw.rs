//! Draws the sessions of a population. Each depends on the seed and its number only.

use std::time::Duration;

use anyhow::{Context, Result};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64;
use serde_json::json;

use lockstep_configuration::{CallArguments, CallSettings, Observers, simulate_modelled_with};
use lockstep_measure::{SessionSecond, SessionTotals, SharedSessionMeter};
use lockstep_runner::session_log::arguments::numbered;
use lockstep_runner::session_log::rows::Description;
use lockstep_sim::CodecModel;
use lockstep_units::Timestamp;
use lockstep_units::random::normal;

use super::population::{Population, Spread};

/// Maximum duration after which the trace of a session repeats.
const MAX_TRACE: Duration = Duration::from_secs(300);
/// Minimum rate of a link, kb/s.
const MIN_KBPS: f64 = 30.0;
/// Maximum share of randomly lost packets.
const MAX_LOSS: f64 = 0.3;

/// A session before its call.
#[derive(Debug)]
pub struct Drawn {
    pub settings: CallSettings,
    pub description: Description,
}

/// A finished session.
#[derive(Debug)]
pub struct Session {
    pub description: Description,
    pub rows: Vec<SessionSecond>,
    pub totals: SessionTotals,
}

/// Draws an index with probabilities proportional to `weights`.
fn one_of(random: &mut Pcg64, weights: impl Iterator<Item = f64> + Clone) -> usize {
    let mut left = random.random::<f64>() * weights.clone().sum::<f64>();
    let mut last = 0;
    for (index, weight) in weights.enumerate() {
        if weight > 0.0 {
            last = index;
            left -= weight;
            if left < 0.0 {
                break;
            }
        }
    }
    last
}

fn between(random: &mut Pcg64, [from, to]: [f64; 2]) -> f64 {
    from + (to - from) * random.random::<f64>()
}

fn spread(random: &mut Pcg64, spread: Spread) -> f64 {
    spread.median * libm::exp(spread.deviation * normal(random))
}

impl Drawn {
    /// Draws session `index` of `population` with seed `seed`. `number` is the hash of the population.
    pub fn new(population: &Population, number: i64, seed: u64, index: u64) -> Result<Self> {
        let session = numbered(&[&number.to_string(), &seed.to_string(), &index.to_string()]);
        let random = &mut Pcg64::seed_from_u64(session as u64);
        let place = &population.places[one_of(random, population.places.iter().map(|place| place.share))];
        let hour = one_of(random, population.hours.iter().copied());
        let local_start_s = 3_600 * hour as i32 + random.random_range(0..3_600);
        let named = |random: &mut Pcg64, shares: &super::population::Shares| {
            shares.keys().nth(one_of(random, shares.values().copied())).cloned().unwrap_or_default()
        };
        let access_name = named(random, &place.access);
        let access = population.access.get(&access_name).context("the population has no such access network")?;
        let (controller, codec) = (named(random, &population.controllers), named(random, &population.codecs));
        let clip = named(random, &population.clips);
        let length = population.length_s;
        let length_s = spread(random, Spread { median: length.median, deviation: length.deviation });
        let seconds = length_s.clamp(length.least, length.most).round();
        let free = 1.0 - access.taken * population.busy[hour];
        let mean_kbps = (spread(random, access.mean_kbps) * free).clamp(MIN_KBPS, 1e6).round();
        let delay_ms = between(random, access.delay_ms) + between(random, place.farther_ms);
        let is_lossy = random.random::<f64>() < access.lossy;
        let loss = spread(random, access.loss).min(MAX_LOSS);
        let [least, most] = access.queue_packets;
        let queue_packets = random.random_range(least..=most);
        let call_seed = random.random::<u32>();
        let trace_seconds = seconds.min(MAX_TRACE.as_secs_f64());
        let trace =
            format!("fitted:family={},mean={mean_kbps}kbps,seed={call_seed},seconds={trace_seconds}", access.family);
        let values = [
            ("modelled", json!(true)),
            ("trace", json!(trace)),
            ("clip", json!(clip)),
            ("controller", json!(controller)),
            ("codec", json!(codec)),
            ("seconds", json!(seconds)),
            ("seed", json!(call_seed)),
            ("delay_ms", json!((10.0 * delay_ms).round() / 10.0)),
            ("loss", json!(if is_lossy { (1e5 * loss).round() / 1e5 } else { 0.0 })),
            ("queue_packets", json!(queue_packets)),
        ];
        let mut options = CallArguments::default();
        for (name, value) in &values {
            options.set_value(name, value)?;
        }
        let settings = options.settings()?;
        let mut description = Description {
            session,
            kind: "generate".to_owned(),
            seen_from: "both",
            local_start_s: Some(local_start_s),
            place: place.name.clone(),
            access: access_name,
            ..Description::default()
        };
        description.simulated(&settings)?;
        Ok(Self { settings, description })
    }

    /// Runs the call of the session.
    pub fn run(self, model: &CodecModel) -> Result<Session> {
        let Self { settings, description } = self;
        let meter = SharedSessionMeter::new(Timestamp::ZERO);
        let observers = Observers { session: Some(meter.clone()), ..Observers::default() };
        simulate_modelled_with(&settings, model, None, observers, |_| Ok(()))?;
        let rows = meter.lock().take(settings.length.get().as_secs()).1;
        let mut totals = SessionTotals::default();
        rows.iter().for_each(|row| totals.add(row));
        Ok(Session { description, rows, totals })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_depends_on_seed_and_number_only() {
        let mut population = Population::open(None).unwrap();
        (population.length_s.least, population.length_s.most) = (8.0, 12.0);
        let model = CodecModel::built_in().unwrap();
        let session = |seed, index| Drawn::new(&population, 5, seed, index).unwrap();
        let (one, again, other) = (session(1, 7), session(1, 7), session(2, 7));
        assert_eq!(one.description, again.description);
        assert_ne!(one.description.session, other.description.session);
        let seconds = one.settings.length.get().as_secs();
        let (one, again) = (one.run(&model).unwrap(), again.run(&model).unwrap());
        assert_eq!(one.rows, again.rows);
        assert_eq!((one.rows.len() as u64, one.totals.seconds()), (seconds, seconds));
        assert!(one.totals.get("codec_bps").unwrap() > 0 && one.totals.get("capacity_bps").unwrap() > 0);
    }

    #[test]
    fn drawn_shares_match_the_population() {
        let population = Population::open(None).unwrap();
        let drawn: Vec<Drawn> = (0..2_000).map(|index| Drawn::new(&population, 5, 3, index).unwrap()).collect();
        let share = |is: &dyn Fn(&Drawn) -> bool| drawn.iter().filter(|one| is(one)).count() as f64 / 2_000.0;
        let cities = share(&|one| one.description.place == "city");
        assert!((0.46..0.54).contains(&cities), "{cities}");
        let evenings = share(&|one| (19..22).contains(&(one.description.local_start_s.unwrap() / 3_600)));
        assert!((0.26..0.36).contains(&evenings), "{evenings}");
        let wifi = share(&|one| one.description.access == "wifi");
        assert!((0.70..0.76).contains(&wifi), "{wifi}");
        let kinds: std::collections::BTreeSet<&str> = drawn.iter().map(|one| &*one.description.access).collect();
        assert_eq!(kinds.into_iter().collect::<Vec<_>>(), ["2g", "3g", "4g", "lte", "wifi"]);
        let hours = drawn.iter().map(|one| one.settings.length.get().as_secs_f64() / 3_600.0);
        let mean = hours.sum::<f64>() / 2_000.0;
        assert!((1.23..1.43).contains(&mean), "{mean}");
    }
}
