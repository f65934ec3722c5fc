//! Everything against everything on traces that nothing was trained on: Lockstep's own controller, the others that were learned,
//! those that were not, hindsight and the upper bound on QoE_d, by family of traces, without loss and with it.
//!
//! Each family and condition is a sweep with its journal and its Parquet file, so that a study that was ended goes on. The
//! table has for each controller what is gained and what it costs, and for Lockstep's own how much of the way it goes from
//! the best that was not learned to hindsight and to the bound. Intervals are of the mean over traces and seeds, 95 % (Student's t).

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde::Serialize;

use lockstep_call::mean;
use lockstep_measure::Scores;

use super::{Budget, write};
use crate::commands::data::split::traces_to_judge_by;
use crate::commands::figure;
use crate::commands::sweep::{self, SweepArguments};

/// What `lockstep study lockstep` is told.
#[derive(Args)]
pub(super) struct LockstepArguments {
    /// A manifest of `lockstep data split`: its judging part is a family, by the name of the file. May be given more than once;
    /// generated families are there in any case.
    #[arg(long, value_name = "FILE")]
    split: Vec<PathBuf>,
    /// How much is run: modelled codecs, six traces of a family at most, one seed; or all traces, three seeds, and the
    /// codecs with pictures over two traces of a family.
    #[arg(long, value_enum, default_value = "small")]
    budget: Budget,
    /// The model of the controller `lockstep`, if not the one that comes with it.
    #[arg(long, value_name = "FILE")]
    model: Option<PathBuf>,
    /// Where the sweeps go, one Parquet file for each family and condition; the study goes on from what is there.
    #[arg(long, value_name = "DIR", default_value = "out/study-lockstep")]
    output: PathBuf,
    /// Where the numbers of the table go, as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
}

/// What is compared. The yardstick is [`HINDSIGHT`]; the way to it, and to the bound, begins at the best that was not learned.
const OWN: &str = "lockstep";
const HINDSIGHT: &str = "hindsight";
const CLASSICAL: [&str; 7] = ["sprout", "salsify", "scream", "copa", "gcc", "nada", "bob-heuristic"];
const LEARNED: [&str; 5] = ["concerto", "rlv", "bob", "hrcc", "gemini"];
/// Conditions, and the words that make them.
const CONDITIONS: [(&str, &[&str]); 4] = [
    ("clean", &[]),
    ("loss-1", &["--loss", "0.01"]),
    ("loss-5", &["--loss", "0.05"]),
    ("long-path", &["--delay-ms", "75"]),
];
/// Generated families: seeds that `lockstep train` never takes for training (it adds a million and three to its own for what
/// it judges by, and draws the others below 2^31 from small ones).
const JUDGED_SEEDS: std::ops::Range<u64> = 9_000_000_001..9_000_000_007;
/// Traces of a family with a small budget.
const FEW: usize = 6;

/// All of them, the first of which alone may have a model that is named.
fn controllers() -> Vec<&'static str> {
    [&[OWN, HINDSIGHT][..], &CLASSICAL[..], &LEARNED[..]].concat()
}

fn generated() -> Vec<(String, Vec<String>)> {
    let fitted = |family: &str| {
        let word = |seed| format!("fitted:family={family},seed={seed},seconds=60");
        (format!("{family} (fitted)"), JUDGED_SEEDS.map(word).collect())
    };
    let means = ["300kbps", "800kbps", "1500kbps", "3mbps", "5mbps", "8mbps"];
    let cellular = JUDGED_SEEDS.zip(means).map(|(seed, mean)| {
        format!("cellular:mean={mean},deviation=0.6,dwell=2s,outage-every=30s,duration=60s,seed={seed}")
    });
    let mut families: Vec<_> = ["lte", "umts", "broadband", "wifi"].into_iter().map(fitted).collect();
    families.push(("cellular (generated)".to_owned(), cellular.collect()));
    families
}

fn recorded(manifests: &[PathBuf]) -> Result<Vec<(String, Vec<String>)>> {
    let family = |path: &PathBuf| {
        let traces = traces_to_judge_by(path)?;
        let name = path.file_stem().map_or_else(|| "recorded".into(), |name| name.to_string_lossy().into_owned());
        Ok((name, traces.iter().map(|trace| trace.to_string_lossy().into_owned()).collect()))
    };
    manifests.iter().map(family).collect()
}

/// 97.5 % quantiles of Student's t with 1, 2, ... degrees of freedom; with more it is taken as that of 15, as in the studies
/// that Python runs.
const T_95: [f64; 15] =
    [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131];

/// Mean, and the half width of its 95 % confidence interval, which one value does not have.
fn interval(values: &[f64]) -> Option<(f64, Option<f64>)> {
    let middle = mean(values)?;
    let freedom = values.len() - 1;
    if freedom == 0 {
        return Some((middle, None));
    }
    let squares: f64 = values.iter().map(|value| (value - middle) * (value - middle)).sum();
    let error = (squares / freedom as f64 / values.len() as f64).sqrt();
    Some((middle, Some(T_95[freedom.min(T_95.len()) - 1] * error)))
}

/// What came of one controller.
#[derive(Debug, Clone, Serialize)]
struct Row {
    budget: Budget,
    family: String,
    condition: &'static str,
    codec: String,
    controller: String,
    calls: usize,
    qoe_d: f64,
    /// Half the width of its interval; none where it is of one call, or of means.
    qoe_d_interval: Option<f64>,
    worst_qoe_d: f64,
    /// Mean upper bound on QoE_d of these calls; none for calls with pixels, and only with Lockstep's own controller.
    qoe_d_bound: Option<f64>,
    p95_ms: f64,
    worst_p95_ms: f64,
    ssim_db: f64,
    link_utilisation: f64,
    /// Whether no other controller, hindsight aside, has both a shorter p95 and a higher SSIM.
    on_front: bool,
}

fn row(
    (budget, family, condition): (Budget, &str, &'static str),
    codec: &str,
    controller: &str,
    calls: &[Scores],
) -> Option<Row> {
    let all = |score: fn(&Scores) -> Option<f64>| calls.iter().filter_map(score).collect::<Vec<f64>>();
    let quality = all(|scores| scores.qoe_d);
    let delays = all(|scores| scores.video_delay_ms.map(|delay| delay.p95));
    let (qoe_d, qoe_d_interval) = interval(&quality)?;
    Some(Row {
        budget,
        family: family.to_owned(),
        condition,
        codec: codec.to_owned(),
        controller: controller.to_owned(),
        calls: calls.len(),
        qoe_d,
        qoe_d_interval,
        worst_qoe_d: quality.iter().copied().fold(f64::INFINITY, f64::min),
        qoe_d_bound: mean(all(|scores| scores.qoe_d_bound)),
        p95_ms: mean(&delays)?,
        worst_p95_ms: delays.iter().copied().fold(0.0, f64::max),
        ssim_db: mean(calls.iter().filter_map(|scores| scores.ssim_db).map(|ssim| ssim.mean))?,
        link_utilisation: mean(calls.iter().map(|scores| scores.link_utilisation))?,
        on_front: false,
    })
}

/// Marks who is on the front of p95 against SSIM.
fn mark_front(rows: &mut [Row]) {
    let points: Vec<(String, f64, f64)> =
        rows.iter().map(|row| (row.controller.clone(), row.p95_ms, row.ssim_db)).collect();
    for row in rows {
        row.on_front = !points.iter().any(|(controller, p95, ssim)| {
            controller != HINDSIGHT && *controller != row.controller && *p95 < row.p95_ms && *ssim > row.ssim_db
        });
    }
}

/// From the best that was not learned, in QoE_d.
#[derive(Debug, Clone, PartialEq)]
struct Way {
    best: String,
    own: f64,
    hindsight: f64,
    bound: Option<f64>,
}

fn way(rows: &[Row]) -> Option<Way> {
    let of = |name: &str| rows.iter().find(|row| row.controller == name);
    let classical = rows.iter().filter(|row| CLASSICAL.contains(&row.controller.as_str()));
    let best = classical.max_by(|one, other| one.qoe_d.total_cmp(&other.qoe_d))?;
    let (own, hindsight) = (of(OWN)?, of(HINDSIGHT)?);
    Some(Way {
        best: best.controller.clone(),
        own: own.qoe_d - best.qoe_d,
        hindsight: hindsight.qoe_d - best.qoe_d,
        bound: own.qoe_d_bound.map(|bound| bound - best.qoe_d),
    })
}

fn print(rows: &[Row]) {
    let Some(first) = rows.first() else { return };
    say!("\n{}, {}, {}: {} calls each", first.family, first.condition, first.codec, first.calls);
    say!(
        "{:<16}{:>8}{:>8}{:>8}{:>9}{:>9}{:>9}{:>8}",
        "",
        "QoE_d",
        "+-",
        "worst",
        "p95 ms",
        "worst",
        "SSIM dB",
        "link %"
    );
    for row in rows {
        say!(
            "{:<16}{:>8}{:>8}{:>8}{:>9}{:>9}{:>9}{:>8}{}",
            row.controller,
            figure(Some(row.qoe_d), 3),
            figure(row.qoe_d_interval, 3),
            figure(Some(row.worst_qoe_d), 2),
            figure(Some(row.p95_ms), 0),
            figure(Some(row.worst_p95_ms), 0),
            figure(Some(row.ssim_db), 2),
            figure(Some(100.0 * row.link_utilisation), 0),
            if row.on_front { "   on the front" } else { "" }
        );
    }
    if let Some(Way { best, own, hindsight, bound }) = way(rows) {
        let bound = bound.map_or_else(String::new, |bound| format!(", the upper bound {bound:+.3}"));
        say!("{OWN} is {own:+.3} from {best}, the best that was not learned; {HINDSIGHT} {hindsight:+.3}{bound}");
    }
}

/// One sweep: its rows.
fn cell(
    arguments: &LockstepArguments,
    (family, traces): &(String, Vec<String>),
    (condition, words): (&'static str, &[&str]),
    codecs: &[&str],
) -> Result<Vec<Row>> {
    let full = arguments.budget == Budget::Full;
    let pixels = codecs.iter().any(|codec| !codec.starts_with("modelled"));
    let count = if pixels {
        2
    } else if full {
        traces.len()
    } else {
        FEW
    };
    let slug: String = family.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' }).collect();
    let mut results: BTreeMap<(String, String), Vec<Scores>> = BTreeMap::new();
    let controllers = controllers();
    // A model that is named is one for Lockstep's own; the others take none.
    for (part, controllers) in [("own", &controllers[..1]), ("others", &controllers[1..])] {
        let file = format!("{slug}-{condition}{}-{part}.parquet", if pixels { "-pictures" } else { "" });
        let mut said: Vec<String> =
            ["--controllers", &controllers.join(","), "--codecs", &codecs.join(",")].map(str::to_owned).to_vec();
        said.extend(
            ["--clip", if pixels { "generated:640x360@30" } else { "generated:1280x720@30" }].map(str::to_owned),
        );
        said.extend(["--seconds", if pixels { "30" } else { "60" }].map(str::to_owned));
        said.extend(["--seeds", if full && !pixels { "1-3" } else { "1" }].map(str::to_owned));
        said.extend(words.iter().map(|word| (*word).to_owned()));
        if part == "own" && !pixels {
            said.push("--bound".to_owned());
        }
        if let (Some(model), "own") = (&arguments.model, part) {
            said.extend(["--model".to_owned(), model.to_string_lossy().into_owned()]);
        }
        said.extend(["--output".to_owned(), arguments.output.join(file).to_string_lossy().into_owned()]);
        for trace in traces.iter().take(count) {
            said.extend(["--traces".to_owned(), trace.clone()]);
        }
        for (controller, codec, scores) in sweep::finished(&SweepArguments::from_words(&said)?)? {
            results.entry((codec, controller)).or_default().push(scores);
        }
    }
    let mut rows: Vec<Row> = results
        .iter()
        .filter_map(|((codec, controller), scores)| {
            row((arguments.budget, family, condition), codec, controller, scores)
        })
        .collect();
    for part in rows.chunk_by_mut(|one, other| one.codec == other.codec) {
        part.sort_by(|one, other| other.qoe_d.total_cmp(&one.qoe_d));
        mark_front(part);
        print(part);
    }
    Ok(rows)
}

pub(super) fn run(arguments: &LockstepArguments) -> Result<()> {
    let mut families = recorded(&arguments.split)?;
    families.extend(generated());
    if let Some((name, _)) = families.iter().find(|(_, traces)| traces.is_empty()) {
        bail!("the manifest of {name} has no trace to judge by");
    }
    fs::create_dir_all(&arguments.output).with_context(|| format!("folder {}", arguments.output.display()))?;
    let mut rows = Vec::new();
    for condition in CONDITIONS {
        for family in &families {
            // The conventional codec takes longer, since more is sent again: with a small budget only where nothing is lost.
            let both = condition.1.is_empty() || arguments.budget == Budget::Full;
            let codecs: &[&str] = if both { &["modelled", "modelled-conventional"] } else { &["modelled"] };
            rows.extend(cell(arguments, family, condition, codecs)?);
        }
    }
    if arguments.budget == Budget::Full {
        for family in &families {
            rows.extend(cell(arguments, family, CONDITIONS[0], &["functional"])?);
        }
    }
    let mut clean: Vec<Row> = Vec::new();
    for controller in controllers() {
        let own: Vec<&Row> = rows
            .iter()
            .filter(|row| row.controller == controller && row.condition == "clean" && row.codec == "modelled")
            .collect();
        let over = |value: fn(&Row) -> f64| mean(own.iter().map(|row| value(row)));
        let (Some(qoe_d), Some(p95_ms), Some(ssim_db), Some(used)) =
            (over(|row| row.qoe_d), over(|row| row.p95_ms), over(|row| row.ssim_db), over(|row| row.link_utilisation))
        else {
            continue;
        };
        clean.push(Row {
            budget: arguments.budget,
            family: "mean of the families".to_owned(),
            condition: "clean",
            codec: "modelled".to_owned(),
            controller: controller.to_owned(),
            calls: own.iter().map(|row| row.calls).sum(),
            qoe_d,
            qoe_d_interval: None,
            worst_qoe_d: own.iter().map(|row| row.worst_qoe_d).fold(f64::INFINITY, f64::min),
            qoe_d_bound: mean(own.iter().filter_map(|row| row.qoe_d_bound)),
            p95_ms,
            worst_p95_ms: own.iter().map(|row| row.worst_p95_ms).fold(0.0, f64::max),
            ssim_db,
            link_utilisation: used,
            on_front: false,
        });
    }
    clean.sort_by(|one, other| other.qoe_d.total_cmp(&one.qoe_d));
    mark_front(&mut clean);
    print(&clean);
    let folder = arguments.output.display();
    say!("\nbudget: {:?}; sweeps in {folder}", arguments.budget);
    say!("p95 against SSIM: lockstep-sweep-plot {folder}/*-clean-*.parquet --output {folder}/clean.html");
    rows.extend(clean);
    write(arguments.json.as_ref(), &rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::configuration::content_hash;

    fn row(controller: &str, qoe_d: f64, p95_ms: f64, ssim_db: f64) -> Row {
        Row {
            budget: Budget::Small,
            family: String::new(),
            condition: "clean",
            codec: String::new(),
            controller: controller.to_owned(),
            calls: 1,
            qoe_d,
            qoe_d_interval: None,
            worst_qoe_d: qoe_d,
            qoe_d_bound: (controller == OWN).then_some(4.5),
            p95_ms,
            worst_p95_ms: p95_ms,
            ssim_db,
            link_utilisation: 0.5,
            on_front: false,
        }
    }

    #[test]
    fn front_leaves_out_who_is_beaten_but_not_by_hindsight() {
        let mut rows = [
            row("lockstep", 4.2, 100.0, 15.0),
            row("sprout", 4.1, 110.0, 14.9),
            row("gcc", 4.0, 90.0, 14.0),
            row("hindsight", 4.3, 50.0, 16.0),
        ];
        mark_front(&mut rows);
        assert_eq!(rows.iter().map(|row| row.on_front).collect::<Vec<_>>(), [true, false, true, true]);
        let Way { best, own, hindsight, bound } = way(&rows).unwrap();
        assert_eq!(best, "sprout");
        assert!((own - 0.1).abs() < 1e-9 && (hindsight - 0.2).abs() < 1e-9);
        assert!((bound.unwrap() - 0.4).abs() < 1e-9);
    }

    #[test]
    fn the_interval_of_a_mean_is_students_and_one_value_has_none() {
        let half = |values: &[f64]| interval(values).unwrap().1.unwrap();
        // Standard errors of 1 / sqrt(3) and, of forty values, 1 / sqrt(39).
        assert!((half(&[1.0, 2.0, 3.0]) - 4.303 / 3.0_f64.sqrt()).abs() < 1e-12);
        assert!((half(&[1.0, -1.0].repeat(20)) - 2.131 / 39.0_f64.sqrt()).abs() < 1e-12);
        assert_eq!(interval(&[]), None);
        assert_eq!(interval(&[5.0]), Some((5.0, None)));
    }

    #[test]
    fn a_manifest_is_a_family_by_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let (path, traces) = (folder.path().join("lte.json"), folder.path().join("traces-of-lte"));
        fs::create_dir(&traces).unwrap();
        fs::write(traces.join("b"), "10\n").unwrap();
        let hash = "sha256 of b";
        let manifest = |hash: &str| {
            format!(
                r#"{{"folder": "traces-of-lte", "seed": 1, "files": [{{"path": "b", "sha256": "{hash}"}}], "train": [],
                "test": ["b"], "walk_forward": []}}"#
            )
        };
        fs::write(&path, manifest(hash)).unwrap();
        let said = format!("{:#}", recorded(std::slice::from_ref(&path)).unwrap_err());
        assert!(said.contains("b is not the trace that was split"), "{said}");
        fs::write(&path, manifest(&content_hash(b"10\n"))).unwrap();
        let families = recorded(&[path]).unwrap();
        assert_eq!(families, [("lte".to_owned(), vec![traces.join("b").to_string_lossy().into_owned()])]);
    }
}
