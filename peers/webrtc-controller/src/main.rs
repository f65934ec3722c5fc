//! Registers webrtc-rs's Google Congestion Control (`rtc-interceptor`) as a controller. With arguments, this is the
//! command `lockstep` with that controller; without, it compares the controller with Lockstep's.

use std::process::ExitCode;
use std::time::Instant;

use lockstep_configuration::{CallArguments, simulate};
use lockstep_control::{
    ControllerHost, Controllers, Decision, FailureReason, HostedController, PathView, Registration, Sending,
};
use lockstep_transport::{Feedback, LostFragment};
use lockstep_units::{Bitrate, ByteCount, Timestamp};
use rtc_interceptor::{BandwidthEstimator, Gcc, PacketReport};

/// Estimator that receives our feedback in the form of transport-wide congestion control.
struct WebRtc {
    estimator: Gcc,
    /// Arbitrary time for the start of the call. Only differences from it matter.
    epoch: Instant,
    reported: u64,
}

impl WebRtc {
    fn moment(&self, at: Timestamp) -> Instant {
        self.epoch + at.saturating_since(Timestamp::ZERO)
    }

    fn report(&mut self, size: ByteCount, sent_at: Timestamp, arrived_at: Option<Timestamp>) -> PacketReport {
        self.reported += 1;
        PacketReport {
            ssrc: 1,
            id: self.reported,
            rtp_sequence_number: self.reported as u16,
            is_twcc: true,
            twcc_sequence_number: self.reported as u16,
            size: size.get() as usize,
            arrived: arrived_at.is_some(),
            departure: self.moment(sent_at),
            arrival: arrived_at.map(|at| at.saturating_since(Timestamp::ZERO)),
            ecn: Default::default(),
        }
    }

    fn pass(&mut self, now: Timestamp, mut reports: Vec<PacketReport>) {
        reports.sort_by_key(|report| report.departure);
        let now = self.moment(now);
        self.estimator.on_reports(now, &reports);
        self.estimator.handle_timeout(now);
    }
}

impl ControllerHost for WebRtc {
    fn on_feedback(&mut self, path: &PathView<'_>, feedback: &Feedback) -> Result<(), FailureReason> {
        let packets = feedback.acknowledged.iter();
        let reports = packets.map(|packet| self.report(packet.size, packet.sent_at, Some(packet.arrived_at))).collect();
        self.pass(path.now, reports);
        Ok(())
    }

    fn on_loss(&mut self, path: &PathView<'_>, lost: &[LostFragment]) -> Result<(), FailureReason> {
        let reports = lost.iter().map(|packet| self.report(packet.size, packet.sent_at, None)).collect();
        self.pass(path.now, reports);
        Ok(())
    }

    fn decide(&mut self, _path: &PathView<'_>, _sending: Sending) -> Result<Decision, FailureReason> {
        Ok(Decision::at(Bitrate::from_bps(self.estimator.target_bitrate() as u64)))
    }
}

/// All controllers of Lockstep, and `webrtc-rs`.
fn controllers() -> anyhow::Result<Controllers> {
    let webrtc = Registration::new("webrtc-rs", "GCC of rtc-interceptor 0.21", |setting| {
        let [initial, least, most] =
            [setting.bounds.initial, setting.bounds.min, setting.bounds.max].map(|rate| rate.as_bps() as f64);
        let host = WebRtc { estimator: Gcc::new(initial, least, most), epoch: Instant::now(), reported: 0 };
        Box::new(HostedController::new(Some(host), setting, setting.failure.clone()))
    });
    Ok(Controllers::default().with(webrtc)?)
}

fn compare(controllers: &Controllers) -> anyhow::Result<()> {
    for name in ["webrtc-rs", "gcc", "lockstep"] {
        let mut options = CallArguments { modelled: Some(true), ..CallArguments::default() };
        for (option, word) in [("controller", name), ("trace", "cellular:mean=4mbps,seed=1"), ("seconds", "60")] {
            options.set_values(option, &[word.to_owned()])?;
        }
        let report = simulate(&options.settings_with(controllers)?, |_| Ok(()))?.report;
        let delay = report.scores.video_delay_ms.map_or(0.0, |delay| delay.p95);
        println!("{name:10} QoE_d {:.3}   p95 of the video delay {delay:.0} ms", report.scores.qoe_d.unwrap_or(0.0));
    }
    Ok(())
}

fn main() -> anyhow::Result<ExitCode> {
    let controllers = controllers()?;
    if std::env::args_os().len() > 1 {
        return Ok(lockstep_cli::run(std::env::args_os(), &controllers));
    }
    compare(&controllers)?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use parquet::file::reader::{FileReader, SerializedFileReader};

    use super::*;

    #[test]
    fn rows_of_the_estimator_appear_in_a_sweep() {
        let folder = tempfile::tempdir().expect("a folder");
        let output = folder.path().join("rows.parquet");
        let controllers = controllers().expect("the name is free");
        let words =
            ["lockstep", "sweep", "--controllers=webrtc-rs,gcc", "--traces=constant:2mbps", "--codecs=modelled"];
        let words = words.into_iter().chain(["--seeds=1-2", "--seconds=3", "--workers=1", "--output"]).map(Into::into);
        assert_eq!(lockstep_cli::run(words.chain([output.clone().into()]), &controllers), ExitCode::SUCCESS);
        let rows = SerializedFileReader::new(File::open(output).expect("a file")).expect("a table");
        let rows: Vec<String> = rows.into_iter().map(|row| row.expect("a row").to_string()).collect();
        let of = |name: &str| rows.iter().filter(|row| row.contains(&format!("controller: \"{name}\""))).count();
        assert_eq!([of("webrtc-rs"), of("gcc")], [2, 2], "{rows:?}");
    }
}
