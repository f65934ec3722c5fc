//! External controllers in simulated calls.

use lockstep_configuration::{CallArguments, CallSettings, simulate};
use lockstep_control::{Controllers, Fixed, Registration};
use lockstep_units::Bitrate;

#[path = "../../examples/registered_controller.rs"]
mod example;

/// A modelled call of a few seconds with these options.
fn options(words: &[(&str, &str)]) -> CallArguments {
    let mut options = CallArguments { modelled: Some(true), ..CallArguments::default() };
    let usual = [("trace", "constant:2mbps"), ("clip", "generated:320x240@30"), ("seconds", "4")];
    for (name, word) in usual.iter().chain(words) {
        options.set_values(name, &[(*word).to_owned()]).unwrap();
    }
    options
}

fn report(settings: &CallSettings) -> String {
    serde_json::to_string(&simulate(settings, |_| Ok(())).unwrap().report).unwrap()
}

#[test]
fn example_of_an_own_controller_runs() {
    example::main().unwrap();
}

#[test]
fn registered_controller_decides_as_the_one_it_wraps() {
    let rate = Bitrate::from_kbps(600);
    let mine = Registration::new("mine", "", move |setup| Box::new(Fixed::new(rate, setup)));
    let controllers = Controllers::default().with(mine).unwrap();
    let own = report(&options(&[("controller", "mine")]).settings_with(&controllers).unwrap());
    let built_in = report(&options(&[("controller", "fixed:600kbps")]).settings().unwrap());
    assert!(own.contains("\"controller\":\"mine\""));
    assert_eq!(own.replace("\"mine\"", "\"fixed:600000bps\""), built_in);
}

#[test]
fn report_of_an_unknown_controller_is_read_and_not_run() {
    let mine = Registration::new("mine", "", |setup| Box::new(Fixed::new(setup.bounds.initial, setup)));
    let controllers = Controllers::default().with(mine).unwrap();
    let settings = options(&[("controller", "mine")]).settings_with(&controllers).unwrap();
    let text = serde_json::to_string(&settings).unwrap();
    let mut read: CallSettings = serde_json::from_str(&text).unwrap();
    assert_eq!(serde_json::to_string(&read).unwrap(), text);
    let error = simulate(&read, |_| Ok(())).unwrap_err().to_string();
    assert!(error.contains("unknown controller `mine`"), "{error}");
    read.control.controller = read.control.controller.found_in(&controllers).unwrap();
    assert_eq!(report(&read), report(&settings));
}

#[cfg(unix)]
mod programs {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    use clap::Parser;
    use lockstep_configuration::{ScenarioArguments, run_scenario};
    use lockstep_control::FlowGroup;
    use lockstep_sim::CodecModel;
    use lockstep_sim::scenario::Scenario;

    use super::*;

    /// A command line with only these arguments.
    #[derive(Parser)]
    struct CommandLine {
        #[command(flatten)]
        arguments: ScenarioArguments,
    }

    /// Writes the program of the protocol's page, which fails at the time `end_ms`, and returns its controller name.
    fn program(folder: &Path, end_ms: u32) -> String {
        let page = include_str!("../../../../docs/reference/controller-protocol.md");
        let source = page.split("```python\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
        let end = format!(
            "    if event.get('path', {{}}).get('now_ms', 0) > {end_ms}: sys.exit('enough')\n    answer = {{}}\n"
        );
        let path = folder.join("mine");
        fs::write(&path, source.replace("    answer = {}\n", &end)).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        format!("program:{}", path.display())
    }

    #[test]
    fn program_controls_a_call_the_same_each_time() {
        let folder = tempfile::tempdir().unwrap();
        let word = program(folder.path(), 1_000_000);
        for two_way in ["false", "true"] {
            let settings = options(&[("controller", &word), ("two_way", two_way)]).settings().unwrap();
            let simulated = simulate(&settings, |_| Ok(())).unwrap().report;
            assert!(simulated.scores.qoe_d.is_some_and(|qoe| qoe > 3.0), "{:?}", simulated.scores.qoe_d);
            assert_eq!(serde_json::to_string(&simulated).unwrap(), report(&settings));
        }
    }

    #[test]
    fn program_that_exits_ends_call_and_scenario() {
        let folder = tempfile::tempdir().unwrap();
        let word = program(folder.path(), 1_500);
        let wanted = |error: anyhow::Error| {
            let said = format!("{error:#}");
            assert!(said.contains("/mine: event `") && said.contains("standard error ends: enough"), "{said}");
        };
        wanted(simulate(&options(&[("controller", &word)]).settings().unwrap(), |_| Ok(())).unwrap_err());
        let arguments = CommandLine::parse_from(["run", "--controller", &word, "--seconds", "5"]).arguments;
        let control = arguments.control.settings().unwrap();
        let (scenario, model) = (Scenario::named("same-controller").unwrap(), CodecModel::built_in().unwrap());
        wanted(run_scenario(scenario, &arguments, &control, &model, false, |_, _| {}).unwrap_err());
    }

    #[test]
    fn live_call_refuses_a_program() {
        let folder = tempfile::tempdir().unwrap();
        let settings = options(&[("controller", &program(folder.path(), 0))]).settings().unwrap();
        let format = lockstep_media::source_format("generated:64x48@30", &Default::default()).unwrap();
        let checked = settings.control.check_live(&format).unwrap_err();
        let made = settings.control.recorded_sending_end(&format, 0, None).err().expect("it is refused");
        let stream = settings.control.stream_end(&format, 0, &FlowGroup::new(), 1.0).err().expect("it is refused");
        for error in [checked.to_string(), made.to_string(), stream.to_string()] {
            assert!(error.contains("programs decide in virtual time only"), "{error}");
        }
    }
}
