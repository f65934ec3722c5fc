//! Ranks the controllers of submitted rows. Each codec has its own table, because models have no pixels.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Result, bail};
use serde_json::Value;

use lockstep_call::mean;
use lockstep_configuration::OptionGroup;

use crate::page::{Page, Row, Table};
use crate::sweep::jobs::SweepCodec;
use crate::sweep::submitted::Submitted;

/// Columns of a table.
const COLUMNS: [&str; 9] = ["rank", "controller", "calls", "QoE_d", "±", "worst QoE_d", "p95 delay ms", "±", "SSIM dB"];
const WORDS: usize = 2;

const ABOUT: [&str; 3] = [
    "Means over calls, sorted by QoE_d. ± is half of the 95 % interval: Student's t over the means of the traces.",
    "A controller without all calls of its table, or with a call that has no QoE_d, has no rank.",
    "`lockstep leaderboard verify` runs the calls of submitted rows again and compares every score.",
];

/// 97.5 % quantiles of Student's t with 1, 2, ... degrees of freedom; above 15, the one of 15, as in Python's
/// `lockstep.intervals`.
const T_95: [f64; 15] =
    [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131];

/// A controller in the table of a codec.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    name: String,
    /// Calls with a QoE_d.
    calls: usize,
    qoe_d: Option<f64>,
    qoe_d_interval: Option<f64>,
    worst_qoe_d: Option<f64>,
    p95_delay_ms: Option<f64>,
    p95_delay_interval: Option<f64>,
    ssim_db: Option<f64>,
}

/// Table of a codec.
#[derive(Debug, Clone, PartialEq)]
pub struct Ranking {
    codec: SweepCodec,
    /// Number of different calls.
    calls: usize,
    /// Ranked entries first.
    entries: Vec<Entry>,
}

/// Half the width of the 95 % interval of the mean of `values`.
fn half_interval(values: &[f64]) -> Option<f64> {
    let middle = mean(values.iter().copied()).filter(|_| values.len() > 1)?;
    let squares: f64 = values.iter().map(|value| (value - middle).powi(2)).sum();
    let freedom = values.len() - 1;
    let deviation = (squares / freedom as f64).sqrt();
    Some(T_95[freedom.min(T_95.len()) - 1] * deviation / (values.len() as f64).sqrt())
}

/// Name of the trace, or its hash if it is a file, which may have another name elsewhere.
fn trace(row: &Submitted) -> String {
    let name = || row.arguments.trace.as_ref().map(ToString::to_string).unwrap_or_default();
    row.hashes.trace.clone().unwrap_or_else(name)
}

/// Settings that make two rows the same call under different controllers: everything but the control.
fn call(row: &Submitted) -> String {
    settings(row, |group| !matches!(group, OptionGroup::Control | OptionGroup::Estimator))
}

/// Settings of the control, which belong to the name of a controller.
fn control(row: &Submitted) -> String {
    settings(row, |group| matches!(group, OptionGroup::Control | OptionGroup::Estimator))
}

/// Settings of the groups that `has` selects, as text. A hash replaces the name of a file.
fn settings(row: &Submitted, has: impl Fn(OptionGroup) -> bool) -> String {
    let hashes = &row.hashes;
    let of_file = |name: &str| match name {
        "trace" => hashes.trace.as_ref(),
        "reverse" => hashes.reverse.as_ref(),
        "clip" => hashes.clip.as_ref(),
        "model" => hashes.model.as_ref(),
        "estimator" => hashes.estimator.as_ref(),
        _ => None,
    };
    let values = row.arguments.values().into_iter().filter(|(option, _)| has(option.group) && option.name != "python");
    let values = values.map(|(option, value)| match of_file(option.name) {
        Some(hash) => Value::from(hash.as_str()),
        None => value,
    });
    let codec_model = hashes.codec_model.clone().map_or(Value::Null, Value::from);
    Value::Array(values.chain([codec_model]).collect()).to_string()
}

/// Values by trace, each with the mean of its calls.
fn by_trace(rows: &[&Submitted], score: &str) -> Vec<f64> {
    let mut traces: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for row in rows {
        traces.entry(trace(row)).or_default().extend(row.score(score));
    }
    traces.into_values().filter_map(mean).collect()
}

fn entry(name: &str, rows: &[&Submitted]) -> Entry {
    let all = |score: &'static str| rows.iter().filter_map(move |row| row.score(score));
    Entry {
        name: name.to_owned(),
        calls: all("qoe_d").count(),
        qoe_d: mean(all("qoe_d")),
        qoe_d_interval: half_interval(&by_trace(rows, "qoe_d")),
        worst_qoe_d: all("qoe_d").min_by(f64::total_cmp),
        p95_delay_ms: mean(all("video_delay_ms_p95")),
        p95_delay_interval: half_interval(&by_trace(rows, "video_delay_ms_p95")),
        ssim_db: mean(all("ssim_db_mean")),
    }
}

/// The tables of `rows`, each with the file that it is from.
///
/// # Errors
/// If two controllers have one name, or one call has different scores.
pub fn ranked(rows: &[(&Path, Submitted)]) -> Result<Vec<Ranking>> {
    /// Rows of one controller by their calls.
    type Calls<'a> = BTreeMap<String, (&'a Path, &'a Submitted)>;
    let mut codecs: BTreeMap<SweepCodec, BTreeMap<&str, Calls<'_>>> = BTreeMap::new();
    for (path, row) in rows {
        let calls = codecs.entry(row.codec).or_default().entry(&row.name).or_default();
        if let Some((other, first)) = calls.values().next()
            && control(first) != control(row)
        {
            bail!(
                "cannot rank `{0}`: {1} and {2} have different controllers with this name; rename one in its sweep, \
                 such as --controllers other={0}",
                row.name,
                other.display(),
                path.display()
            );
        }
        if let Some((other, first)) = calls.insert(call(row), (path, row))
            && first.scores != row.scores
        {
            bail!(
                "cannot rank `{}`: row {} of {} and row {} of {} are one call with different scores; \
                 `lockstep leaderboard verify` shows which is wrong",
                row.name,
                first.number,
                other.display(),
                row.number,
                path.display()
            );
        }
    }
    let ranking = |(codec, controllers): (SweepCodec, BTreeMap<&str, Calls<'_>>)| {
        let calls: BTreeSet<&String> = controllers.values().flat_map(BTreeMap::keys).collect();
        let of_controller =
            |(name, rows): (&&str, &Calls<'_>)| entry(name, &rows.values().map(|(_, row)| *row).collect::<Vec<_>>());
        let mut entries: Vec<Entry> = controllers.iter().map(of_controller).collect();
        let score = |entry: &Entry| entry.qoe_d.unwrap_or(f64::NEG_INFINITY);
        entries.sort_by(|one, other| {
            let complete = |entry: &Entry| entry.calls == calls.len();
            complete(other).cmp(&complete(one)).then(score(other).total_cmp(&score(one)))
        });
        Ranking { codec, calls: calls.len(), entries }
    };
    Ok(codecs.into_iter().map(ranking).collect())
}

impl Ranking {
    /// Cells of each entry, and whether it has no rank.
    fn rows(&self) -> Vec<(Vec<String>, bool)> {
        let number =
            |value: Option<f64>, digits: usize| value.map_or("-".to_owned(), |value| format!("{value:.digits$}"));
        let row = |(index, entry): (usize, &Entry)| {
            let is_complete = entry.calls == self.calls;
            let calls =
                if is_complete { entry.calls.to_string() } else { format!("{} of {}", entry.calls, self.calls) };
            let cells = vec![
                if is_complete { (index + 1).to_string() } else { "-".to_owned() },
                entry.name.clone(),
                calls,
                number(entry.qoe_d, 3),
                number(entry.qoe_d_interval, 3),
                number(entry.worst_qoe_d, 3),
                number(entry.p95_delay_ms, 0),
                number(entry.p95_delay_interval, 0),
                number(entry.ssim_db, 2),
            ];
            (cells, !is_complete)
        };
        self.entries.iter().enumerate().map(row).collect()
    }
}

/// The tables as a page.
pub fn html(tables: &[Ranking]) -> String {
    let tables = tables.iter().map(|ranking| Table {
        heading: ranking.codec.name(),
        columns: &COLUMNS,
        words: WORDS,
        rows: ranking.rows().into_iter().map(|(cells, fails)| Row { cells, fails }).collect(),
    });
    Page { title: "Leaderboard", paragraphs: ABOUT.map(str::to_owned).to_vec(), tables: tables.collect() }.html()
}

/// `text` without characters that end a cell or have a meaning in Markdown.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    for character in text.chars().filter(|character| !character.is_control()) {
        if character.is_ascii_punctuation() && !"-.,:%".contains(character) {
            plain.push('\\');
        }
        plain.push(character);
    }
    plain
}

/// The tables as Markdown.
pub fn markdown(tables: &[Ranking]) -> String {
    let mut text = format!("# Leaderboard\n\n{}\n", ABOUT.join("\n"));
    for ranking in tables {
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        text += &format!("\n## {}\n\n", ranking.codec.name());
        text += &line(COLUMNS.map(str::to_owned).to_vec());
        text +=
            &line((0..COLUMNS.len()).map(|column| if column < WORDS { "---" } else { "---:" }.to_owned()).collect());
        for (cells, _) in ranking.rows() {
            text += &line(
                cells
                    .iter()
                    .enumerate()
                    .map(|(column, cell)| if column == 1 { plain(cell) } else { cell.clone() })
                    .collect(),
            );
        }
    }
    text + &format!("\nlockstep {}\n", env!("CARGO_PKG_VERSION"))
}

#[cfg(test)]
mod tests {
    use lockstep_configuration::{CallArguments, TraceName};

    use crate::sweep::rows::SCORES;
    use crate::sweep::submitted::Hashes;

    use super::*;

    /// A row with these scores, over the trace and with the controller `name`.
    fn row(name: &str, trace: &str, qoe_d: Option<f64>, delay: f64) -> Submitted {
        let mut arguments = CallArguments::default();
        arguments.set_values("controller", &["gcc".to_owned()]).unwrap();
        arguments.trace = Some(TraceName::from(trace));
        let scores = SCORES.iter().map(|(score, _)| match *score {
            "qoe_d" => qoe_d,
            "video_delay_ms_p95" => Some(delay),
            _ => None,
        });
        Submitted {
            number: 1,
            name: name.to_owned(),
            codec: SweepCodec::Modelled,
            codec_model: None,
            arguments,
            hashes: Hashes::default(),
            scores: scores.collect(),
        }
    }

    fn ranking(rows: Vec<Submitted>) -> Result<Vec<Ranking>> {
        let path = Path::new("rows.parquet");
        ranked(&rows.into_iter().map(|row| (path, row)).collect::<Vec<_>>())
    }

    #[test]
    fn controllers_are_sorted_by_mean_with_intervals() {
        let tables = ranking(vec![
            row("slow", "a", Some(0.2), 300.0),
            row("slow", "b", Some(0.4), 500.0),
            row("<fast>|", "a", Some(0.5), 100.0),
            row("<fast>|", "b", Some(0.9), 200.0),
        ])
        .unwrap();
        let [table] = &tables[..] else { panic!("one codec") };
        let [first, second] = &table.entries[..] else { panic!("two controllers") };
        assert_eq!((first.name.as_str(), second.name.as_str()), ("<fast>|", "slow"));
        assert_eq!((first.calls, first.worst_qoe_d, first.p95_delay_ms), (2, Some(0.5), Some(150.0)));
        // 12.706 times 0.2.
        assert!((first.qoe_d_interval.unwrap() - 2.5412).abs() < 1e-9);
        let text = markdown(&tables);
        assert!(text.contains("| 1 | \\<fast\\>\\| | 2 | 0.700 | 2.541 | 0.500 | 150 | 635 | - |"), "{text}");
        let html = html(&tables);
        assert!(html.contains("<td>&lt;fast&gt;|</td>") && !html.contains("<script"), "{html}");
    }

    #[test]
    fn incomplete_controllers_have_no_rank() {
        let rows = vec![
            row("a", "a", Some(0.2), 1.0),
            row("a", "b", Some(0.2), 1.0),
            row("picks", "b", Some(0.9), 1.0),
            row("fails", "a", None, 1.0),
            row("fails", "b", Some(0.8), 1.0),
        ];
        let tables = ranking(rows).unwrap();
        let cells: Vec<Vec<String>> = tables[0].rows().into_iter().map(|(cells, _)| cells[..3].to_vec()).collect();
        assert_eq!(cells, [["1", "a", "2"], ["-", "picks", "1 of 2"], ["-", "fails", "1 of 2"]]);
    }

    #[test]
    fn repeated_calls_count_once_and_contradictions_are_refused() {
        let one = row("a", "a", Some(0.2), 1.0);
        assert_eq!(ranking(vec![one.clone(), one.clone()]).unwrap()[0].entries[0].calls, 1);
        let error = ranking(vec![one.clone(), row("a", "a", Some(0.3), 1.0)]).unwrap_err().to_string();
        assert!(error.contains("one call with different scores"), "{error}");
        let mut other = row("a", "b", Some(0.3), 1.0);
        other.arguments.set_values("controller", &["nada".to_owned()]).unwrap();
        let error = ranking(vec![one, other]).unwrap_err().to_string();
        assert!(error.contains("different controllers with this name"), "{error}");
    }

    #[test]
    fn call_has_the_hash_of_its_trace_and_not_its_name() {
        let mut one = row("a", "here/x.up", Some(0.2), 1.0);
        one.hashes.trace = Some("0".to_owned());
        let mut other = row("b", "there/x.up", Some(0.3), 1.0);
        other.hashes.trace = Some("0".to_owned());
        assert_eq!(ranking(vec![one, other]).unwrap()[0].calls, 1);
    }
}
