//! The table of options, and the settings made from it.

use lockstep_call::{FIT_PASSES, MenuMode};
use lockstep_configuration::{CallArguments, CallSettings, ControllerChoice, Form, OptionError, OptionGroup};
use lockstep_control::{Algorithm, GracePeriod, Latency};
use proptest::prelude::*;
use serde_json::{Value, json};

/// Options from words.
fn said(words: &[(&str, &str)]) -> Result<CallArguments, OptionError> {
    let mut options = CallArguments::default();
    for (name, word) in words {
        options.set_values(name, &[(*word).to_owned()])?;
    }
    Ok(options)
}

fn settings(words: &[(&str, &str)]) -> CallSettings {
    said(words).unwrap().settings().unwrap()
}

fn refusal(words: &[(&str, &str)]) -> String {
    said(words).unwrap().settings().unwrap_err().to_string()
}

/// Options and their words.
type Words = &'static [(&'static str, &'static str)];

/// For each option, a word other than its default, and the other options that it requires.
const OTHERS: &[(&str, &str, Words)] = &[
    ("clip", "generated:64x48@25", &[]),
    ("trace", "constant:700kbps", &[]),
    ("reverse", "constant:3mbps", &[]),
    ("queue", "pie", &[]),
    ("ecn", "true", &[("queue", "codel"), ("controller", "gcc")]),
    ("queue_packets", "40", &[]),
    ("queue_bytes", "60000", &[]),
    ("delay_ms", "7.5", &[]),
    ("loss", "2%", &[]),
    ("reverse_loss", "0.00001", &[]),
    ("burst_loss", "1%,30%", &[]),
    ("loss_at", "1.5s+100ms", &[]),
    ("reorder", "1%,15ms", &[]),
    ("jitter_ms", "2.5", &[]),
    ("seed", "18446744073709551615", &[]),
    ("codec", "conventional", &[]),
    ("menu", "serial", &[]),
    ("fit_passes", "2", &[]),
    ("preset", "quality", &[]),
    ("controller", "fixed:700kbps", &[]),
    ("latency", "low", &[]),
    (
        "model",
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../python/lockstep/learn/models/lockstep.onnx"),
        &[("controller", "lockstep")],
    ),
    ("max_bitrate", "3mbps", &[]),
    ("tuning", "loss.weight=0.01,silence.margin=0.2", &[]),
    ("grace_period", "none", &[("controller", "salsify")]),
    ("as_published", "salsify", &[]),
    ("estimator", "BandwidthEstimator.py", &[]),
    ("python", "python3.11", &[("estimator", "mine.py")]),
    ("estimator_limit", "2.5", &[("estimator", "mine.py")]),
    ("modelled", "true", &[]),
    ("seconds", "12.3", &[]),
    ("encode_time", concat!(env!("CARGO_MANIFEST_DIR"), "/../sim/src/encode_time.json"), &[]),
    ("encode_ms", "4.35", &[]),
    ("decode_ms", "1.1", &[]),
    ("feedback_ms", "0", &[]),
    ("two_way", "true", &[]),
    ("audio", "silence", &[]),
    ("vmaf", "true", &[]),
    ("bound", "true", &[("modelled", "true")]),
];

#[test]
fn every_option_reaches_the_settings_and_round_trips() {
    for option in CallArguments::TABLE {
        let (name, word, needed) = OTHERS
            .iter()
            .find(|(name, ..)| *name == option.name)
            .unwrap_or_else(|| panic!("give OTHERS a value of `{}` that is not its default", option.name));
        let given = [*needed, &[(*name, *word)]].concat();
        let (usual, other) = (settings(needed).options(), settings(&given).options());
        assert_ne!(usual, other, "{name} makes no difference");
        assert_eq!(other.settings().unwrap().options(), other, "{name}");
        // As words, and as values of Python and reports.
        for group in OptionGroup::ALL {
            let words = other.words(group);
            assert_eq!(words.iter().any(|said| said.starts_with(&option.flag())), group == option.group, "{words:?}");
        }
        let mut again = CallArguments::default();
        for (option, value) in other.values() {
            again.set_value(option.name, &value).unwrap();
        }
        assert_eq!(again, other, "{name}");
    }
}

#[test]
fn call_round_trips_through_a_report() {
    for (name, word, needed) in OTHERS {
        let call = settings(&[*needed, &[(*name, *word)]].concat());
        let text = serde_json::to_string(&call).unwrap();
        let again: CallSettings = serde_json::from_str(&text).unwrap();
        assert_eq!(serde_json::to_string(&again).unwrap(), text);
    }
    let record = serde_json::to_value(settings(&[])).unwrap();
    let recorded = record.as_object().unwrap();
    for option in CallArguments::TABLE {
        let of_this_machine = ["python", "estimator_limit"].contains(&option.name);
        assert_eq!(recorded.contains_key(option.name), !of_this_machine, "{}", option.name);
    }
    for (wrong, message) in [
        (json!({"nosuch": 1}), "unknown option `nosuch`"),
        (json!({"loss": 2}), "loss: "),
        (json!({"trace": "nosuch.up"}), "no such file"),
        (json!({"menu": "serial", "fit_passes": 2}), "`fit_passes` cannot be used with `menu`"),
        (json!([]), "the options of a call by name"),
    ] {
        let error = serde_json::from_value::<CallSettings>(wrong.clone()).unwrap_err().to_string();
        assert!(error.contains(message), "{wrong}: {error}");
    }
}

#[test]
fn defaults_of_the_table_are_those_of_the_library() {
    for option in CallArguments::TABLE {
        for word in option.default_values() {
            assert_eq!(option.check(&word), Ok(()), "{}", option.name);
        }
        assert!(!option.help().is_empty() && !option.help().ends_with('.'));
    }
    let usual = settings(&[]);
    assert_eq!(usual.control.menu, MenuMode::default());
    assert_eq!(usual.control.menu, MenuMode::Fit { passes: usize::from(FIT_PASSES) });
    assert_eq!(usual.control.controller, ControllerChoice::from(Algorithm::default()));
}

#[test]
fn unknown_controller_is_refused() {
    for word in ["salsifi", "", "fixed:", "fixed:fast", "Salsify", "program:"] {
        // A name that may be registered is looked up with the settings.
        let error = said(&[("controller", word)]).map_or_else(Into::into, |said| said.settings().unwrap_err());
        let error = error.downcast::<OptionError>().unwrap();
        assert!(matches!(error, OptionError::Value { name: "controller", .. }), "{error}");
    }
    let all = Algorithm::NAMES.map(|(name, _)| name.replace("RATE", "1mbps"));
    for name in all {
        let controller = settings(&[("controller", &name)]).control.controller;
        assert_eq!(Ok(controller.algorithm().clone()), name.parse());
    }
}

#[test]
fn options_of_other_controllers_are_refused() {
    let new = ControllerChoice::new;
    assert_eq!(new(Algorithm::Sprout, Some(Latency::Low), None).unwrap().latency(), Some(Latency::Low));
    let without = new(Algorithm::Salsify(GracePeriod::LinkIdle), None, Some(GracePeriod::None)).unwrap();
    assert_eq!(*without.algorithm(), Algorithm::Salsify(GracePeriod::None));
    for (controller, option, word) in
        [("gcc", "latency", "low"), ("gcc", "grace_period", "none"), ("salsify-no-grace", "grace_period", "link-idle")]
    {
        let said = refusal(&[("controller", controller), (option, word)]);
        assert!(said.contains(option) && said.contains(controller), "{said}");
    }
}

#[test]
fn contradicting_options_are_refused_by_name() {
    for (one, other) in [
        (("estimator", "a.py"), ("controller", "salsify")),
        (("queue_bytes", "5000"), ("queue_packets", "256")),
        (("fit_passes", "2"), ("menu", "serial")),
        (("controller", "gcc"), ("as_published", "salsify")),
        (("codec", "conventional"), ("as_published", "salsify")),
        (("feedback_ms", "20"), ("as_published", "salsify")),
        (("menu", "fit"), ("as_published", "salsify")),
        (("estimator", "a.py"), ("as_published", "salsify")),
        (("controller", "gcc"), ("as_published", "bob")),
    ] {
        let error = said(&[one, other]).unwrap().check().unwrap_err();
        assert_eq!(error, OptionError::Contradiction { name: one.0, other: other.0 });
        let flag = |name: &str| format!("--{}", name.replace('_', "-"));
        assert_eq!(
            error.message_for_command(),
            format!("the argument '{}' cannot be used with '{}'", flag(one.0), flag(other.0))
        );
        said(&[one]).unwrap().check().unwrap();
        said(&[other]).unwrap().check().unwrap();
    }
}

#[test]
fn bob_as_published_has_the_rules_of_the_paper() {
    let printed = |words: &[(&str, &str)]| {
        let given = settings(&[&[("as_published", "bob")], words].concat());
        // The options of the settings give the same settings.
        assert_eq!(
            given.options().settings().unwrap().control.controller.algorithm(),
            given.control.controller.algorithm()
        );
        given.control.controller.algorithm().to_string()
    };
    assert_eq!(printed(&[]), "bob-printed");
    assert_eq!(printed(&[("controller", "bob")]), "bob-printed");
    assert_eq!(printed(&[("controller", "bob-heuristic")]), "bob-heuristic-printed");
    assert_eq!(settings(&[("controller", "bob")]).control.controller.algorithm().to_string(), "bob");
}

#[test]
fn options_of_an_estimator_are_refused_without_one() {
    for one in [("python", "python3.9"), ("estimator_limit", "5")] {
        let error = said(&[one]).unwrap().check().unwrap_err();
        assert_eq!(error, OptionError::Alone { name: one.0, needs: "estimator" });
        assert!(error.message_for_command().ends_with("requires '--estimator'"), "{}", error.message_for_command());
        said(&[one, ("estimator", "a.py")]).unwrap().check().unwrap();
    }
}

#[test]
fn length_that_rounds_to_zero_is_refused() {
    for nothing in [json!(0), json!(1e-10), json!(-1), json!(86_401)] {
        let error = CallArguments::default().set_value("seconds", &nothing).unwrap_err();
        assert!(error.to_string().contains("not a time of more than 0"), "{nothing}: {error}");
    }
    CallArguments::default().set_value("seconds", &json!(1e-9)).unwrap();
}

#[test]
fn invalid_link_is_refused_before_the_call() {
    let mut options = CallArguments::default();
    options.set_values("loss_at", &["2s+1s".to_owned(), "1s+1s".to_owned()]).unwrap();
    let error = format!("{:#}", options.settings().unwrap_err());
    assert!(error.contains("the link: interval 2 of the scheduled loss"), "{error}");
}

/// Any value of Python or of a report.
fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
        "[0-9.]{1,4}(ms|s|%|kbps)?[,+]?[0-9.]{0,4}(ms|s|%)?".prop_map(Value::from),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| prop::collection::vec(inner, 0..4).prop_map(Value::from))
}

proptest! {
    #[test]
    fn no_value_causes_a_panic_and_accepted_values_round_trip(
        index in 0..CallArguments::TABLE.len(),
        value in any_value(),
    ) {
        let option = &CallArguments::TABLE[index];
        let mut options = CallArguments::default();
        if options.set_value(option.name, &value).is_ok() {
            let mut again = CallArguments::default();
            for (option, value) in options.values() {
                again.set_value(option.name, &value).unwrap();
            }
            prop_assert_eq!(&again, &options);
            let mut message_for_command = CallArguments::default();
            let prefix = format!("{}=", option.flag());
            let said = options.words(option.group);
            let words: Vec<String> = match option.form {
                Form::Flag => vec![(!said.is_empty()).to_string()],
                _ => said.iter().filter_map(|word| Some(word.strip_prefix(&prefix)?.to_owned())).collect(),
            };
            // `false` means that an option with a value is not given, as null does.
            if !value.is_null() && (option.form == Form::Flag || value != Value::Bool(false)) {
                message_for_command.set_values(option.name, &words).unwrap();
                prop_assert_eq!(&message_for_command, &options);
            }
        }
    }

    #[test]
    fn no_word_causes_a_panic(index in 0..CallArguments::TABLE.len(), word in "\\PC{0,20}") {
        let _ = CallArguments::TABLE[index].check(&word);
    }
}
