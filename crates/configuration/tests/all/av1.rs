//! Calls over AV1, where libaom and dav1d are installed.

use lockstep_av1::{Av1, Vp8OrAv1};
use lockstep_call::{ReceivingEnd, SendingEnd, SerialMenu, Vp8};
use lockstep_configuration::{CallArguments, CallSettings, ControlSettings, Observers, simulate, simulate_with};
use lockstep_measure::{CallReport, KeptFrames};
use lockstep_media::{FrameRate, GeneratedClip, VideoFormat};
use lockstep_units::Timestamp;

fn given(words: &[(&str, &str)]) -> CallArguments {
    let mut options = CallArguments::default();
    let usual = [("codec", "av1"), ("clip", "generated:160x96@30"), ("seconds", "6"), ("trace", "constant:400kbps")];
    for (name, word) in usual.iter().chain(words) {
        options.set_values(name, &[(*word).to_owned()]).unwrap();
    }
    options
}

/// The report of a call; none without the libraries.
fn report(words: &[(&str, &str)]) -> Option<CallReport<CallSettings>> {
    Av1::check_libraries().inspect_err(|error| eprintln!("skipped: {error}")).ok()?;
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

/// The effort levels of a call's frames; none without the libraries.
fn levels(words: &[(&str, &str)]) -> Option<Vec<u8>> {
    Av1::check_libraries().inspect_err(|error| eprintln!("skipped: {error}")).ok()?;
    let kept = KeptFrames::default();
    let observers = Observers::of_frames(Box::new(kept.clone()));
    simulate_with(&given(words).settings().unwrap(), None, observers, |_| Ok(())).unwrap();
    Some(kept.take().iter().filter_map(|frame| frame.record.effort).collect())
}

#[test]
fn effort_of_av1_follows_the_time_there_is() {
    let Some(slow) = levels(&[("encode_ms", "150"), ("preset", "auto")]) else { return };
    assert!(slow.len() > 30 && slow.iter().all(|&level| level == 0), "{slow:?}");
    let fast = levels(&[("encode_ms", "1"), ("preset", "auto")]).unwrap();
    let highest = Av1::EFFORTS.levels().count() as u8 - 1;
    assert_eq!((fast.first(), fast.iter().max(), fast.last()), (Some(&0), Some(&highest), Some(&highest)));
    let fixed = levels(&[("preset", "quality")]).unwrap();
    assert!(fixed.len() > 50 && fixed.iter().all(|&level| level == highest), "{fixed:?}");
}

#[test]
fn what_av1_lacks_is_refused() {
    let error = given(&[("fit_passes", "4")]).settings().unwrap_err().to_string();
    assert_eq!(error, "fit_passes: the codec av1 has slots for 3 candidates of a picture, got 4");
    let settings = given(&[("modelled", "true")]).settings().unwrap();
    let error = simulate(&settings, |_| Ok(())).unwrap_err().to_string();
    assert!(error.contains("codec av1: it has no model"), "{error}");
}

/// Numbers of pictures that a receiver shows in a call with `codec`, which it does not know before the hello.
fn shown(codec: &str) -> usize {
    let format = VideoFormat { width: 160, height: 96, frame_rate: FrameRate::new(30, 1).unwrap() };
    let clip = GeneratedClip::new(format, 1).unwrap();
    let control = given(&[("codec", codec)]).settings().unwrap().control;
    let mut sender: SendingEnd<Vp8OrAv1> = control.sending_end(&format, 7, None).unwrap();
    let mut receiver: ReceivingEnd<Vp8OrAv1> = ControlSettings::receiving_end();
    let mut shown = 0;
    for millisecond in 0..600 {
        let now = Timestamp::from_millis(100 + millisecond);
        if millisecond % 33 == 0 {
            sender.capture(now, now, clip.picture(millisecond / 33));
        }
        sender.handle_timeout(now);
        if let Some(job) = sender.poll_encode(now) {
            sender.encoded(now, job.run(&SerialMenu));
        }
        while let Some(sent) = sender.poll_transmit(now) {
            receiver.handle_datagram(now, Ok(sent.datagram), false);
        }
        while let Some(job) = receiver.poll_decode() {
            receiver.decoded(now, job.run());
            shown += usize::from(receiver.poll_display().is_some());
        }
        while let Some(reply) = receiver.poll_transmit(now) {
            sender.handle_datagram(now, Ok(reply.datagram));
        }
    }
    assert_eq!(receiver.refused_codec(), None);
    let counts = receiver.counts();
    assert_eq!((counts.undecodable, counts.mismatched), (0, 0), "{codec}: {counts:?}");
    shown
}

#[test]
fn receiver_decodes_the_codec_of_the_hello() {
    assert!(shown("functional") > 10);
    if Av1::check_libraries().is_ok() {
        assert!(shown("av1") > 10);
    }
}

#[test]
fn end_that_has_only_vp8_refuses_av1() {
    let control = given(&[]).settings().unwrap().control;
    let format = lockstep_media::source_format("generated:64x48@30", &Default::default()).unwrap();
    if Av1::check_libraries().is_ok() {
        let mut sender: SendingEnd<Vp8OrAv1> = control.sending_end(&format, 7, None).unwrap();
        let mut receiver: ReceivingEnd<Vp8> = ControlSettings::receiving_end();
        let hello = sender.poll_transmit(Timestamp::ZERO).unwrap();
        receiver.handle_datagram(Timestamp::ZERO, Ok(hello.datagram), false);
        assert_eq!(receiver.refused_codec(), Some(lockstep_transport::CodecId::AV1));
    }
}
