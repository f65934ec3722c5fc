//! Simulated calls over AV1, where libaom and dav1d are installed.

use lockstep_av1::Av1;
use lockstep_configuration::{CallArguments, simulate};
use lockstep_measure::CallReport;

fn given(words: &[(&str, &str)]) -> CallArguments {
    let mut options = CallArguments::default();
    let usual = [("codec", "av1"), ("clip", "generated:160x96@30"), ("seconds", "6"), ("trace", "constant:400kbps")];
    for (name, word) in usual.iter().chain(words) {
        options.set_values(name, &[(*word).to_owned()]).unwrap();
    }
    options
}

/// The report of a call; none without the libraries.
fn report(words: &[(&str, &str)]) -> Option<CallReport<lockstep_configuration::CallSettings>> {
    Av1::check().inspect_err(|error| eprintln!("skipped: {error}")).ok()?;
    Some(simulate(&given(words).settings().unwrap(), |_| Ok(())).unwrap().report)
}

#[test]
fn pictures_are_equal_at_both_ends_on_bad_networks() {
    let networks: [&[(&str, &str)]; 4] = [
        &[],
        &[("loss", "10%"), ("reverse_loss", "10%")],
        &[("reorder", "5%,30ms"), ("burst_loss", "2%,30%")],
        &[("loss_at", "2s+1s"), ("delay_ms", "150")],
    ];
    for (network, least) in networks.into_iter().zip([150, 60, 60, 40]) {
        for menu in ["fit", "serial"] {
            let words = [network, &[("menu", menu)]].concat();
            let Some(report) = report(&words) else { return };
            let decoder = &report.counters["decoder"];
            assert_eq!(decoder["mismatched"], 0, "{words:?}: {decoder:?}");
            assert!(decoder["decoded"] >= least, "{words:?}: {decoder:?}");
            // A late frame may find its source overwritten.
            assert!(decoder["undecodable"] <= decoder["decoded"] / 20, "{words:?}: {decoder:?}");
        }
    }
}

#[test]
fn equal_seeds_give_equal_calls() {
    let words = [("loss", "5%"), ("seconds", "2")];
    let Some(first) = report(&words) else { return };
    let second = report(&words).unwrap();
    assert_eq!(serde_json::to_string(&first).unwrap(), serde_json::to_string(&second).unwrap());
}

#[test]
fn two_way_calls_have_a_codec_each() {
    let Some(report) = report(&[("two_way", "true"), ("seconds", "2")]) else { return };
    assert!(report.opposite.is_some());
    assert_eq!(report.counters["decoder"]["mismatched"], 0);
}

#[test]
fn what_av1_lacks_is_refused() {
    let error = given(&[("fit_passes", "4")]).settings().unwrap_err().to_string();
    assert_eq!(error, "fit_passes: the codec av1 has slots for 3 candidates of a picture, got 4");
    let settings = given(&[("modelled", "true")]).settings().unwrap();
    let error = simulate(&settings, |_| Ok(())).unwrap_err().to_string();
    assert!(error.contains("codec av1: it has no model"), "{error}");
    let settings = given(&[]).settings().unwrap();
    let format = lockstep_media::source_format("generated:64x48@30", &Default::default()).unwrap();
    let error = settings.control.check_live(&format).unwrap_err().to_string();
    assert!(error.contains("codec av1: only `lockstep simulate`"), "{error}");
}
