//! The contenders of a sweep: controllers with their models or estimators, under distinct names.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use lockstep_configuration::{CallArguments, ControllerName, OptionValue};
use lockstep_control::{Algorithm, Controllers};

/// A controller in a sweep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contender {
    /// Its name in rows and tables.
    pub name: String,
    /// None if an estimator decides, or for the default.
    pub controller: Option<ControllerName>,
    /// Its model, if it is not the built-in one.
    pub model: Option<PathBuf>,
    /// File of a foreign estimator at the receiver.
    pub estimator: Option<PathBuf>,
}

/// Prefix of an estimator's file.
const ESTIMATOR: &str = "estimator:";

impl Contender {
    /// Parses an element of `--controllers`: `gcc`, `concerto:run.onnx`, `estimator:mine.py` or `program:./mine`, each
    /// with an optional `NAME=`. `given` has the model of elements without one.
    fn parse(word: &str, given: &CallArguments, controllers: &Controllers) -> Result<(Option<String>, Self)> {
        let (name, word) = match word.split_once('=') {
            // A path may contain an equals sign.
            Some((name, rest)) if !name.contains([':', '/']) => (Some(name.trim().to_owned()), rest),
            _ => (None, word),
        };
        if name.as_deref() == Some("") {
            bail!("`={word}`: expected a name before the equals sign, such as mine={word}");
        }
        if word.starts_with(ControllerName::PROGRAM) {
            let program = ControllerName::from_word(word).map_err(anyhow::Error::msg)?;
            return Ok((name, Self::new(Some(program), None, None)));
        }
        let parsed = match (word.strip_prefix(ESTIMATOR), controllers.find(word), word.split_once(':')) {
            (Some(""), ..) => bail!("`{word}`: expected a file after the colon, such as {ESTIMATOR}mine.py"),
            (Some(path), ..) => Self::new(None, None, Some(path.into())),
            (None, Ok(algorithm), _) => Self::new(Some(algorithm.into()), given.model.clone(), None),
            (None, Err(_), Some((algorithm, model))) if !algorithm.starts_with("fixed") => {
                Self::new(Some(controllers.find(algorithm)?.into()), Some(model.into()), None)
            }
            (None, Err(error), _) => return Err(error.into()),
        };
        Ok((name, parsed))
    }

    fn new(controller: Option<ControllerName>, model: Option<PathBuf>, estimator: Option<PathBuf>) -> Self {
        Self { name: String::new(), controller, model, estimator }
    }

    /// Default name: the controller with its files, formatted by `shown`.
    fn usual_name(&self, shown: impl Fn(&Path) -> String) -> String {
        let controller = || match &self.controller {
            Some(name) => name.program().map_or_else(|| name.to_string(), &shown),
            None => Algorithm::default().to_string(),
        };
        match (&self.estimator, &self.model) {
            (Some(estimator), _) => shown(estimator),
            (None, Some(model)) => format!("{}:{}", controller(), shown(model)),
            (None, None) => controller(),
        }
    }
}

/// The last part of a path.
fn file_name(path: &Path) -> String {
    path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
}

/// The contenders of `words`, or the one of `given`, sorted by name. The default name contains the file name, or the
/// whole path if file names are equal.
///
/// # Errors
/// If a word names no controller, or if different contenders have the same given name.
pub fn all(words: &[String], given: &CallArguments, controllers: &Controllers) -> Result<Vec<Contender>> {
    let mut parsed = match words {
        [] => {
            let CallArguments { controller, model, estimator, as_published, .. } = given.clone();
            let system = as_published.and_then(|system| system.to_value().as_str().map(str::to_owned));
            vec![(system, Contender::new(controller, model, estimator))]
        }
        words => words.iter().map(|word| Contender::parse(word, given, controllers)).collect::<Result<_>>()?,
    };
    let mut different: Vec<(Option<String>, Contender)> = Vec::new();
    parsed.retain(|one| {
        let is_new = !different.contains(one);
        different.extend(is_new.then(|| one.clone()));
        is_new
    });
    let short = |(name, contender): &(Option<String>, Contender)| {
        name.clone().unwrap_or_else(|| contender.usual_name(file_name))
    };
    let mut counts: HashMap<String, usize> = HashMap::new();
    for one in &parsed {
        *counts.entry(short(one)).or_default() += 1;
    }
    let mut contenders: Vec<Contender> = parsed
        .iter()
        .map(|one| {
            let (name, contender) = one;
            let is_unique = name.is_some() || counts[&short(one)] == 1;
            let name = if is_unique { short(one) } else { contender.usual_name(|path| path.display().to_string()) };
            Contender { name, ..contender.clone() }
        })
        .collect();
    contenders.sort_by(|one, other| one.name.cmp(&other.name));
    if let Some(pair) = contenders.windows(2).find(|pair| pair[0].name == pair[1].name) {
        bail!("--controllers: two contenders have the name `{0}`; rename one, such as other={0}", pair[0].name);
    }
    Ok(contenders)
}

#[cfg(test)]
mod tests {
    use lockstep_configuration::AsPublished;
    use lockstep_control::{Fixed, Registration};

    use super::*;

    #[test]
    fn published_system_names_the_only_contender() {
        let given = CallArguments { as_published: Some(AsPublished::Salsify), ..CallArguments::default() };
        let contenders = all(&[], &given, &Controllers::default()).unwrap();
        assert_eq!(contenders.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["salsify"]);
    }

    fn named(words: &[&str]) -> Result<Vec<Contender>> {
        let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        all(&words, &CallArguments::default(), &Controllers::default())
    }

    fn names(words: &[&str]) -> Vec<String> {
        named(words).unwrap().into_iter().map(|contender| contender.name).collect()
    }

    #[test]
    fn contender_name_comes_from_name_file_or_path() {
        assert_eq!(names(&["salsify", "gcc", "gcc", "fixed:1mbps"]), ["fixed:1000000bps", "gcc", "salsify"]);
        assert_eq!(names(&["estimator:a/mine.py", "estimator:b/yours.py"]), ["mine.py", "yours.py"]);
        assert_eq!(names(&["estimator:a/mine.py", "estimator:b/mine.py"]), ["a/mine.py", "b/mine.py"]);
        assert_eq!(names(&["concerto:a/run.onnx", "rlv:b/run.onnx"]), ["concerto:run.onnx", "rlv:run.onnx"]);
        assert_eq!(names(&["concerto", "concerto:a/run.onnx"]), ["concerto", "concerto:run.onnx"]);
        assert_eq!(names(&["program:./a/mine", "ours=program:./x", "gcc"]), ["gcc", "mine", "ours"]);
        assert_eq!(names(&["mine=estimator:a/x=1.py", "ours=concerto:run.onnx", "gcc"]), ["gcc", "mine", "ours"]);
    }

    #[test]
    fn contender_runs_its_named_controller() {
        let [ours, mine] = &named(&["mine=estimator:mine.py", "concerto:run.onnx"]).unwrap()[..] else { panic!("two") };
        let concerto = Some(Algorithm::Concerto.into());
        assert_eq!((&ours.controller, ours.model.as_deref()), (&concerto, Some(Path::new("run.onnx"))));
        assert_eq!((&mine.controller, mine.estimator.as_deref()), (&None, Some(Path::new("mine.py"))));
        let given = CallArguments { model: Some("other.onnx".into()), ..CallArguments::default() };
        let words = ["rlv".to_owned(), "concerto:run.onnx".to_owned()];
        let models: Vec<_> = all(&words, &given, &Controllers::default())
            .unwrap()
            .into_iter()
            .map(|contender| contender.model)
            .collect();
        assert_eq!(models, [Some("run.onnx".into()), Some("other.onnx".into())]);
    }

    #[test]
    fn registered_controller_is_a_contender() {
        let mine = Registration::new("mine", "", |setting| Box::new(Fixed::new(setting.bounds.initial, setting)));
        let controllers = Controllers::default().with(mine).unwrap();
        let words = ["gcc", "mine", "ours=mine"].map(str::to_owned);
        let names = all(&words, &CallArguments::default(), &controllers).unwrap().into_iter().map(|one| one.name);
        assert_eq!(names.collect::<Vec<_>>(), ["gcc", "mine", "ours"]);
    }

    #[test]
    fn words_that_name_no_controller_are_refused() {
        for (words, reason) in [
            (&["reno"][..], "unknown controller `reno`"),
            (&["reno:run.onnx"], "unknown controller `reno`"),
            (&["fixed:fast"], "expected a bit rate"),
            (&["estimator:"], "expected a file after the colon"),
            (&["program:"], "expected a file behind the colon"),
            (&["=gcc"], "expected a name before the equals sign"),
            (&["gcc=estimator:mine.py", "gcc"], "two contenders have the name `gcc`"),
        ] {
            let error = named(words).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }
}
