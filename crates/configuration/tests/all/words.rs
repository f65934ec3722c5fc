//! Command-line arguments of a call, and errors for wrong ones.

use clap::Parser;
use lockstep_configuration::{CallArguments, SimulateArguments};
use lockstep_control::Algorithm;

/// A command line with only these arguments.
#[derive(Debug, Parser)]
struct CommandLine {
    #[command(flatten)]
    words: SimulateArguments,
}

fn read(words: &[&str]) -> Result<CallArguments, clap::Error> {
    let words = std::iter::once("simulate").chain(words.iter().copied());
    CommandLine::try_parse_from(words).map(|line| line.words.given().clone())
}

fn refusal(words: &[&str]) -> String {
    read(words).unwrap_err().to_string()
}

#[test]
fn error_of_a_wrong_word_lists_the_choices() {
    let said = refusal(&["--queue=lifo"]);
    assert!(said.contains("invalid value 'lifo' for '--queue <QUEUE>'"), "{said}");
    assert!(said.contains("[possible values: droptail, codel, pie]"), "{said}");
    let similar = refusal(&["--menu=fitt"]);
    assert!(similar.contains("[possible values: fit, serial, parallel]") && similar.contains("'fit'"), "{similar}");
    assert!(refusal(&["--fit-passes=9"]).contains("9 is not in 1..=8"));
    assert!(refusal(&["--nosuch=1"]).contains("unexpected argument '--nosuch' found"));
    assert!(refusal(&["--controller=fixed:fast"]).contains("`fixed:fast`: expected a bit rate"));
    assert!(refusal(&["--controller=program:"]).contains("expected a file behind the colon, such as program:./mine"));
    let unknown = read(&["--controller=reno"]).unwrap().settings().unwrap_err().to_string();
    assert!(unknown.contains("unknown controller `reno`: choose one of salsify, "), "{unknown}");
}

#[test]
fn only_given_options_are_set() {
    assert_eq!(read(&[]).unwrap(), CallArguments::default());
    let given = read(&["--controller=gcc", "--loss-at=1s+1s", "--loss-at", "5s+100ms", "--vmaf"]).unwrap();
    assert_eq!(given.controller, Some(Algorithm::Gcc.into()));
    assert_eq!(given.loss_at.as_ref().map(Vec::len), Some(2));
    assert_eq!(CallArguments { controller: None, loss_at: None, vmaf: None, ..given }, CallArguments::default());
}

#[test]
fn model_takes_codec_options_and_estimator_no_controller() {
    for option in ["--preset=quality", "--menu=fit", "--fit-passes=2", "--codec=conventional"] {
        assert_eq!(read(&["--modelled", option]).unwrap().modelled, Some(true));
    }
    let said = refusal(&["--estimator=a.py", "--controller=salsify"]);
    assert!(said.contains("'--estimator' cannot be used with '--controller'"), "{said}");
}

#[test]
fn arguments_for_another_process_round_trip() {
    let given = read(&["--menu=serial", "--controller=salsify-no-grace", "--max-bitrate=2mbps"]).unwrap();
    let settings = given.settings().unwrap();
    let words = settings.options().words(lockstep_configuration::OptionGroup::Control);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    assert_eq!(read(&words).unwrap().settings().unwrap().options(), settings.options());
}
