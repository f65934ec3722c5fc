//! Descriptions of generated traces, for command lines and configurations.

use std::path::Path;
use std::time::Duration;

use lockstep_units::Bitrate;
use lockstep_units::excerpt;
use lockstep_units::quantity::{QuantityError, parse_rate, parse_share, parse_time};

use crate::error::TraceError;
use crate::fitted::{Families, Family};
use crate::generate::{Cellular, OnOff, Poisson, Ramp};
use crate::timeline::End;
use crate::trace::{Conditions, Segment, Trace};

/// Kinds of generated traces, with examples for error messages.
const KINDS: [(&str, &str); 7] = [
    ("constant", "constant:500kbps"),
    ("steps", "steps:1mbps@40s/2.5mbps@20s"),
    ("ramp", "ramp:100kbps-5mbps,duration=30s"),
    ("onoff", "onoff:500kbps,on=1s,off=5s,loss=100%"),
    ("poisson", "poisson:570kbps,seed=7"),
    ("cellular", "cellular:mean=3mbps,seed=7"),
    ("fitted", "fitted:family=lte,seed=7,seconds=60"),
];

/// Longest description, bytes, and largest number of outages; each outage is a pass over the trace.
const MAX_SPEC: usize = 1 << 16;
const MAX_OUTAGES: usize = 256;

/// Fields after the kind. Each is taken once, so that unknown fields remain and can be refused.
struct Fields<'a> {
    value: Option<&'a str>,
    named: Vec<(&'a str, &'a str)>,
}

/// Reads a file of families, or returns the error.
type ReadFamilies<'a> = &'a dyn Fn(&Path) -> Result<Families, String>;

/// Whether a family is the path of a file: it has a `/` or ends in `.json`. Otherwise it is a built-in family.
fn is_family_file(family: &str) -> bool {
    family.contains('/') || family.ends_with(".json")
}

/// The error of a field.
fn wrong(name: &str, problem: &QuantityError) -> String {
    format!("{name}: {problem}")
}

impl<'a> Fields<'a> {
    fn read(text: &'a str) -> Result<Self, String> {
        let mut fields = Self { value: None, named: Vec::new() };
        for (index, field) in text.split(',').map(str::trim).enumerate() {
            match field.split_once('=') {
                Some((name, value)) => {
                    let name = name.trim();
                    if name != "outage" && fields.named.iter().any(|&(other, _)| other == name) {
                        return Err(format!("{} is given twice", excerpt(name)));
                    }
                    fields.named.push((name, value.trim()));
                }
                None if index == 0 => fields.value = Some(field).filter(|field| !field.is_empty()),
                None if is_family_file(field) => {
                    return Err(format!("\"{}\" is not of the form name=value; a path has no commas", excerpt(field)));
                }
                None => return Err(format!("\"{}\" is not of the form name=value", excerpt(field))),
            }
        }
        Ok(fields)
    }

    fn take(&mut self, name: &str) -> Option<&'a str> {
        let index = self.named.iter().position(|&(other, _)| other == name)?;
        Some(self.named.remove(index).1)
    }

    /// The main value, which may also be given by `name`.
    fn main(&mut self, name: &str) -> Result<&'a str, String> {
        match (self.value.take(), self.take(name)) {
            (Some(value), Some(_)) => Err(format!("\"{}\" conflicts with {name}=", excerpt(value))),
            (value, named) => value.or(named).ok_or_else(|| format!("{name} is missing")),
        }
    }

    fn rate(&mut self, name: &str) -> Result<Bitrate, String> {
        parse_rate(self.main(name)?).map_err(|problem| wrong(name, &problem))
    }

    fn time(&mut self, name: &str) -> Result<Option<Duration>, String> {
        self.take(name).map(|text| parse_time(text).map_err(|problem| wrong(name, &problem))).transpose()
    }

    fn share(&mut self, name: &str) -> Result<Option<f64>, String> {
        self.take(name).map(|text| parse_share(text).map_err(|problem| wrong(name, &problem))).transpose()
    }

    fn number<T: std::str::FromStr>(&mut self, name: &str) -> Result<Option<T>, String> {
        let parse = |text: &str| text.parse().map_err(|_| format!("{name}: \"{}\" is not a number", excerpt(text)));
        self.take(name).map(parse).transpose()
    }
}

/// Parses `1mbps@40s/2.5mbps@20s`.
fn steps(text: &str) -> Result<Vec<Segment>, String> {
    text.split('/')
        .map(|step| {
            let (rate, time) =
                step.split_once('@').ok_or_else(|| format!("\"{}\" is not of the form rate@time", excerpt(step)))?;
            let rate = parse_rate(rate).map_err(|problem| wrong("steps", &problem))?;
            let duration = parse_time(time).map_err(|problem| wrong("steps", &problem))?;
            Ok(Segment { duration, rate, conditions: Conditions::NONE })
        })
        .collect()
}

/// The family of `fitted:`: a built-in one, or one of a file.
fn family(fields: &mut Fields<'_>, read: ReadFamilies<'_>) -> Result<Family, String> {
    let family = fields.main("family")?;
    if !is_family_file(family) {
        let built_in = Families::built_in();
        let found = built_in.named(family).cloned();
        return found
            .map_err(|error| format!("{error}; or the path of a file of families, with a / or ending in .json"));
    }
    let families = read(Path::new(family))?;
    families.named_or_only(fields.take("name")).cloned().map_err(|error| format!("{family}: {error}"))
}

fn generate(kind: &str, fields: &mut Fields<'_>, read: ReadFamilies<'_>) -> Result<Trace, String> {
    const MINUTE: Duration = Duration::from_secs(60);
    let refused = |error: TraceError| error.to_string();
    let trace = match kind {
        "constant" => {
            let (rate, duration) = (fields.rate("rate")?, fields.time("duration")?);
            let end = if duration.is_some() { End::Repeat } else { End::Hold };
            let duration = duration.unwrap_or(MINUTE);
            Trace::from_segments(&[Segment { duration, rate, conditions: Conditions::NONE }], end)
        }
        "steps" => Trace::from_segments(&steps(fields.main("steps")?)?, End::Repeat),
        "ramp" => {
            let text = fields.main("rates")?;
            let (from, to) = text.split_once('-').ok_or_else(|| "rates are not of the form from-to".to_owned())?;
            let rate = |text| parse_rate(text).map_err(|problem| wrong("rates", &problem));
            let (from, to) = (rate(from)?, rate(to)?);
            let duration = fields.time("duration")?.unwrap_or(MINUTE);
            Ramp { from, to, duration, step: fields.time("step")?.unwrap_or(Duration::from_millis(100)) }.trace()
        }
        "onoff" => OnOff {
            rate: fields.rate("rate")?,
            on: fields.time("on")?.unwrap_or(Duration::from_secs(1)),
            off: fields.time("off")?.unwrap_or(Duration::from_secs(5)),
            loss: fields.share("loss")?.unwrap_or(1.0),
            duration: fields.time("duration")?.unwrap_or(10 * MINUTE),
            seed: fields.number("seed")?.unwrap_or(1),
        }
        .trace(),
        "poisson" => Poisson {
            rate: fields.rate("rate")?,
            duration: fields.time("duration")?.unwrap_or(MINUTE),
            seed: fields.number("seed")?.unwrap_or(1),
        }
        .trace(),
        "cellular" => {
            let default = Cellular::new(fields.rate("mean")?);
            Cellular {
                mean: default.mean,
                deviation: fields.number("deviation")?.unwrap_or(default.deviation),
                states: fields.number("states")?.unwrap_or(default.states),
                dwell: fields.time("dwell")?.unwrap_or(default.dwell),
                step: fields.time("step")?.unwrap_or(default.step),
                noise: fields.number("noise")?.unwrap_or(default.noise),
                outage_every: fields.time("outage-every")?.unwrap_or(default.outage_every),
                outage: fields.time("outage-length")?.unwrap_or(default.outage),
                duration: fields.time("duration")?.unwrap_or(default.duration),
                seed: fields.number("seed")?.unwrap_or(default.seed),
            }
            .trace()
        }
        "fitted" => {
            let family = family(fields, read)?;
            let mean = fields.take("mean").map(|text| parse_rate(text).map_err(|problem| wrong("mean", &problem)));
            let seconds: f64 = fields.number("seconds")?.unwrap_or(120.0);
            let duration = Duration::try_from_secs_f64(seconds)
                .map_err(|_| "seconds: not a possible duration of a trace".to_owned())?;
            family.trace(duration, fields.number("seed")?.unwrap_or(1), mean.transpose()?)
        }
        other => {
            let examples = KINDS.map(|(_, example)| example).join(", ");
            return Err(format!("unknown kind of trace \"{}\"; examples of all kinds: {examples}", excerpt(other)));
        }
    };
    trace.map_err(refused)
}

/// Applies the fields of every kind: outages, conditions and end.
fn compose(mut trace: Trace, fields: &mut Fields<'_>) -> Result<Trace, String> {
    let refused = |error: TraceError| error.to_string();
    if fields.named.iter().filter(|(name, _)| *name == "outage").count() > MAX_OUTAGES {
        return Err(format!("more than {MAX_OUTAGES} outages"));
    }
    while let Some(text) = fields.take("outage") {
        let (start, length) =
            text.split_once('+').ok_or_else(|| "outage is not of the form start+length, such as 10s+1s".to_owned())?;
        let time = |text| parse_time(text).map_err(|problem| wrong("outage", &problem));
        trace = trace.with_outage(time(start)?, time(length)?).map_err(refused)?;
    }
    let (loss, delay, jitter) = (fields.share("loss")?, fields.time("delay")?, fields.time("jitter")?);
    if loss.is_some() || delay.is_some() || jitter.is_some() {
        let bin = trace.period();
        let parts = trace.to_segments(bin).map_err(refused)?;
        let changed = |old: Conditions| Conditions {
            loss: loss.unwrap_or(old.loss),
            delay: delay.unwrap_or(old.delay),
            jitter: jitter.unwrap_or(old.jitter),
        };
        let parts: Vec<_> = parts.iter().map(|part| (part.duration, changed(part.conditions))).collect();
        trace = trace.with_conditions(&parts).map_err(refused)?;
    }
    match fields.take("end") {
        None => Ok(trace),
        Some("repeat") => trace.with_end(End::Repeat).map_err(refused),
        Some("hold") => trace.with_end(End::Hold).map_err(refused),
        Some(other) => Err(format!("end: expected repeat or hold, found \"{}\"", excerpt(other))),
    }
}

impl Trace {
    /// Whether `text` starts like the description of a generated trace, and not like a path.
    #[must_use]
    pub fn is_spec(text: &str) -> bool {
        text.split_once(':').is_some_and(|(kind, _)| KINDS.iter().any(|&(known, _)| known == kind.trim()))
    }

    /// Generates a trace from a description: kind, colon, main value, and named values, separated by commas.
    ///
    /// - `constant:500kbps` holds; with `duration=20s` it repeats, which matters for outages.
    /// - `steps:1mbps@40s/2.5mbps@20s` repeats.
    /// - `ramp:100kbps-5mbps,duration=60s,step=100ms` then holds.
    /// - `onoff:500kbps,on=1s,off=5s,loss=100%,duration=600s,seed=1` (see [`OnOff`]) repeats.
    /// - `poisson:570kbps,duration=60s,seed=1` (see [`Poisson`]) repeats.
    /// - `cellular:3mbps,seed=1` or `cellular:mean=3mbps` (see [`Cellular`]) repeats. Further fields: `deviation`,
    ///   `states`, `dwell`, `step`, `noise`, `outage-every`, `outage-length`, `duration`.
    /// - `fitted:lte,seed=1` or `fitted:family=lte`, with `seconds=120` and `mean` (see [`crate::Family`]), repeats.
    ///   Built-in families: `lte`, `umts`, `broadband`, `wifi` and `wired`. [`Trace::from_spec_with`] also accepts
    ///   files.
    ///
    /// Named values in the list are the defaults. All kinds also accept these fields:
    ///
    /// - `outage=10s+1s`: an outage from 10 s on for 1 s; repeatable
    /// - `loss=1%`, `delay=20ms` (one-way), `jitter=5ms`
    /// - `end=repeat` or `end=hold`
    ///
    /// # Errors
    /// [`TraceError::Spec`] with the problem; also for more than 64 KiB or 256 outages.
    pub fn from_spec(spec: &str) -> Result<Self, TraceError> {
        Self::from_spec_with(spec, &|path| {
            Err(format!("cannot read the file {} here; name a built-in family", path.display()))
        })
    }

    /// As [`Trace::from_spec`], but a family may be a file that `lockstep data fit` wrote; `read` reads it.
    ///
    /// `fitted:family=mine.json` selects the only family of the file, `fitted:family=mine.json,name=lte` a named one. A
    /// path has a `/` or ends in `.json`. The file may change later, so such a trace has no [`Trace::spec`] and is
    /// stored in full.
    ///
    /// # Errors
    /// [`TraceError::Spec`] with the problem, including those of the file.
    pub fn from_spec_with(spec: &str, read: &dyn Fn(&Path) -> Result<Families, String>) -> Result<Self, TraceError> {
        let parse = || {
            if spec.len() > MAX_SPEC {
                return Err(format!("longer than {MAX_SPEC} bytes"));
            }
            let (kind, rest) = spec.split_once(':').unwrap_or((spec, ""));
            let mut fields = Fields::read(rest)?;
            let trace = generate(kind.trim(), &mut fields, read)?;
            let trace = compose(trace, &mut fields)?;
            match (fields.value, fields.named.first()) {
                (None, None) => Ok(trace),
                (Some(value), _) => Err(format!("unexpected value \"{}\"", excerpt(value))),
                (_, Some((name, _))) => Err(format!("{} has no \"{}\"", kind.trim(), excerpt(name))),
            }
        };
        let mut trace: Self = parse().map_err(|message: String| TraceError::Spec { spec: excerpt(spec), message })?;
        trace.spec = Self::family_file(spec).is_none().then(|| spec.into());
        Ok(trace)
    }

    /// The file of families that `spec` names, if any.
    #[must_use]
    pub fn family_file(spec: &str) -> Option<&Path> {
        let (kind, rest) = spec.split_once(':').filter(|_| spec.len() <= MAX_SPEC)?;
        let family = Fields::read(rest).ok()?.main("family").ok()?;
        (kind.trim() == "fitted" && is_family_file(family)).then(|| Path::new(family))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockstep_units::Timestamp;
    use proptest::prelude::*;

    fn at(trace: &Trace, seconds: f64) -> u64 {
        trace.capacity_at(Timestamp::from_nanos((seconds * 1e9) as u64)).as_bps()
    }

    #[test]
    fn example_of_every_kind_is_valid() {
        for (kind, example) in KINDS {
            assert!(Trace::is_spec(example));
            let trace = Trace::from_spec(example).unwrap_or_else(|error| panic!("{kind}: {error}"));
            assert_eq!(trace.spec(), Some(example));
        }
        assert!(!Trace::is_spec("traces/Verizon-LTE-short.up") && !Trace::is_spec("c:\\constant"));
    }

    #[test]
    fn descriptions_give_the_described_traces() {
        let trace = Trace::from_spec("constant:500kbps, outage=10s+1s").unwrap();
        assert_eq!([at(&trace, 9.9), at(&trace, 10.0), at(&trace, 10.9), at(&trace, 11.0)], [500_000, 0, 0, 500_000]);
        assert_eq!(at(&trace, 70.5), 500_000, "one outage only");
        let trace = Trace::from_spec("constant:500kbps,duration=20s,outage=10s+1s,outage=15s+1s").unwrap();
        assert_eq!([at(&trace, 30.5), at(&trace, 35.5), at(&trace, 36.0)], [0, 0, 500_000]);
        let trace = Trace::from_spec("ramp:1mbps-2mbps,duration=11s,step=1s").unwrap();
        assert_eq!(
            [at(&trace, 0.5), at(&trace, 5.5), at(&trace, 10.5), at(&trace, 99.0)],
            [1_000_000, 1_500_000, 2_000_000, 2_000_000]
        );
        let trace = Trace::from_spec("constant:1mbps,loss=2%,delay=30ms").unwrap();
        let conditions = trace.conditions_at(Timestamp::from_millis(500_000));
        assert_eq!(conditions, Conditions { loss: 0.02, delay: Duration::from_millis(30), jitter: Duration::ZERO });
        let trace = Trace::from_spec("constant:1mbps,outage=59500ms+1s").unwrap();
        assert_eq!([at(&trace, 59.4), at(&trace, 60.4), at(&trace, 60.6)], [1_000_000, 0, 1_000_000]);
    }

    #[test]
    fn invalid_descriptions_are_refused_with_the_reason() {
        for (spec, why) in [
            ("", "unknown kind of trace"),
            ("constant", "rate is missing"),
            ("constant:fast", "needs a number and a unit"),
            ("constant:1mbps,2mbps", "name=value"),
            ("constant:1mbps,sed=7", "no \"sed\""),
            ("constant:1mbps,rate=2mbps,loss=1%,loss=2%", "given twice"),
            ("constant:1mbps,outage=10s", "start+length"),
            ("constant:0bps,duration=0s", "duration of the trace is zero"),
            ("poisson:570kbps,end=hold", "cannot hold a last value"),
            ("cellular:3mbps,states=1", "2 to 64"),
            ("poisson:900gbps", "opportunities"),
            ("cellular:3mbps,outage-every=1", "needs a number and a unit"),
            (
                "fitted:dialup",
                "unknown family \"dialup\"; known families: broadband, lte, umts, wifi, wired; or the path",
            ),
            ("fitted:lte,name=lte", "fitted has no \"name\""),
            ("fitted:family=mine.json", "cannot read the file mine.json here"),
        ] {
            let error = Trace::from_spec(spec).expect_err(spec).to_string();
            assert!(error.contains(why), "{spec}: {error}");
        }
    }

    /// Test files: `one.json` has one family, other files have all built-in ones.
    fn read(path: &Path) -> Result<Families, String> {
        let mut families = Families::built_in();
        if path.ends_with("one.json") {
            families.families.retain(|family| family.name == "lte");
        }
        Ok(families)
    }

    #[test]
    fn family_of_a_file_equals_the_built_in_one() {
        let built_in = Trace::from_spec("fitted:lte,seed=3,seconds=30,mean=2mbps,outage=10s+1s").unwrap();
        for family in ["family=one.json", "a/one.json", "family=./all,name=lte", "family=a=b/one.json"] {
            let spec = format!("fitted:{family},seed=3,seconds=30,mean=2mbps,outage=10s+1s");
            // Only the first "=" of a field separates name and value.
            let trace = Trace::from_spec_with(&spec, &read).unwrap_or_else(|error| panic!("{spec}: {error}"));
            assert_eq!(trace, built_in, "{spec}");
            // The file may change later.
            assert_eq!(trace.spec(), None, "{spec}");
        }
        let spec = "fitted:family=lte,seed=3";
        assert_eq!(Trace::from_spec_with(spec, &read), Trace::from_spec(spec));
    }

    #[test]
    fn errors_of_a_file_of_families_have_its_path() {
        for (spec, why) in [
            ("fitted:family=a/all.json", "a/all.json: there are several families; say which with name="),
            ("fitted:family=a/all.json,name=dialup", "a/all.json: unknown family \"dialup\"; known families: "),
            ("fitted:family=one.json,name=umts", "one.json: unknown family \"umts\"; known families: lte"),
            ("fitted:family=a,b/one.json", "a path has no commas"),
            ("fitted:one.json,family=lte", "\"one.json\" conflicts with family="),
            ("fitted:one.json,sed=7", "fitted has no \"sed\""),
            ("fitted:one.json,seconds=NaN", "not a possible duration of a trace"),
            ("fitted:one.json,seconds=1e15", "segments"),
        ] {
            let error = Trace::from_spec_with(spec, &read).expect_err(spec).to_string();
            assert!(error.contains(why), "{spec}: {error}");
        }
    }

    #[test]
    fn family_file_is_found_in_the_description() {
        let file = |spec| Trace::family_file(spec).map(|path| path.to_str().unwrap().to_owned());
        assert_eq!(file("fitted:family=mine.json,seed=3").as_deref(), Some("mine.json"));
        assert_eq!(file("fitted:a/b,seed=3").as_deref(), Some("a/b"));
        for none in ["fitted:lte", "fitted:family=mine", "a/b.json", "steps:1mbps@1s/2mbps@1s", "steps:family=a.json"] {
            assert_eq!(file(none), None, "{none}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_descriptions_never_panic(
            kind in prop::sample::select(vec!["constant", "steps", "ramp", "onoff", "poisson", "cellular", "fitted", "x"]),
            rest in "[0-9a-z=+,@/.%-]{0,30}",
        ) {
            let _ = Trace::from_spec_with(&format!("{kind}:{rest}"), &read);
        }
    }
}
