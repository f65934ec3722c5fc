//! Datagrams from outside a call only change counters.

use std::time::Duration;

use lockstep_call::{
    ConventionalEncoder, FrameEncoder, FunctionalEncoder, MenuMode, ReceivingEnd, SendingEnd, SerialMenu, Tuning,
};
use lockstep_control::{GracePeriod, InterArrival, SalsifyWindow};
use lockstep_media::{GeneratedClip, VideoFormat};
use lockstep_transport::{Datagram, ReceiverConfig, SenderConfig};
use lockstep_units::{ByteCount, Timestamp};
use lockstep_vp8::Parameters;
use proptest::prelude::*;

/// Format that the sender announces.
const FORMAT: lockstep_transport::VideoFormat =
    lockstep_transport::VideoFormat { width: 64, height: 48, frame_rate_numerator: 30, frame_rate_denominator: 1 };

/// Runs twelve frames over a lossless link of 10 ms. `disturb` is called for every datagram. Returns the sender's log
/// and the numbers of the displayed frames.
fn run(
    conventional: bool,
    mut disturb: impl FnMut(Timestamp, &mut SendingEnd, &mut ReceivingEnd, &[u8]),
) -> (String, Vec<u32>) {
    let transport = SenderConfig::new(7, FORMAT);
    let payload = ByteCount::new(transport.payload as u64);
    let encoder: Box<dyn FrameEncoder> = if conventional {
        Box::new(ConventionalEncoder::new(Parameters::default(), Duration::from_millis(33)))
    } else {
        Box::new(FunctionalEncoder::new(Parameters::default(), MenuMode::default(), &Tuning::default()))
    };
    let mut sender = SendingEnd::new(transport, Box::new(SalsifyWindow::new(payload)), encoder, &Tuning::default());
    let mut receiver = ReceivingEnd::new(ReceiverConfig::default(), Box::new(InterArrival::new(GracePeriod::LinkIdle)));
    let clip = GeneratedClip::new(VideoFormat { width: 64, height: 48, ..VideoFormat::default() }, 1).expect("valid");
    let mut shown = Vec::new();
    let (mut to_receiver, mut to_sender) = (Vec::new(), Vec::new());
    for step in 0..400u64 {
        let now = Timestamp::from_millis(step);
        if step % 33 == 0 {
            sender.capture(now, now, clip.picture(step / 33));
        }
        if let Some(job) = sender.poll_encode(now) {
            let menu = job.run(&SerialMenu);
            sender.encoded(now, menu);
        }
        sender.handle_timeout(now);
        while let Some(datagram) = sender.poll_transmit(now) {
            to_receiver.push((step + 10, datagram.to_bytes()));
        }
        for (_, datagram) in to_receiver.extract_if(.., |(due, _)| *due <= step) {
            receiver.handle_datagram(now, Datagram::decode(&datagram), false);
            disturb(now, &mut sender, &mut receiver, &datagram);
            while let Some(reply) = receiver.poll_transmit(now) {
                to_sender.push((step + 10, reply.to_bytes()));
            }
        }
        while let Some(job) = receiver.poll_decode() {
            receiver.decoded(now, job.run());
            shown.extend(receiver.poll_display().map(|display| display.frame));
        }
        while let Some(reply) = receiver.poll_transmit(now) {
            to_sender.push((step + 10, reply.to_bytes()));
        }
        for (_, reply) in to_sender.extract_if(.., |(due, _)| *due <= step) {
            disturb(now, &mut sender, &mut receiver, &reply);
            sender.handle_datagram(now, Datagram::decode(&reply));
        }
    }
    let records: Vec<_> = std::iter::from_fn(|| sender.poll_last_record()).collect();
    (format!("{records:?}"), shown)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn invalid_datagrams_change_nothing_at_either_end(
        garbage in proptest::collection::vec(any::<u8>(), 0..200),
        cut in 0.0f64..1.0,
        conventional: bool,
    ) {
        let calm = run(conventional, |_, _, _, _| {});
        let disturbed = run(conventional, |now, sender, receiver, datagram| {
            let truncated = &datagram[..(datagram.len() as f64 * cut) as usize];
            for bytes in [&garbage[..], truncated] {
                sender.handle_datagram(now, Datagram::decode(bytes));
                receiver.handle_datagram(now, Datagram::decode(bytes), false);
            }
        });
        prop_assert_eq!(calm, disturbed);
    }
}

#[test]
fn duplicated_datagrams_show_no_frame_twice() {
    for conventional in [false, true] {
        let calm = run(conventional, |_, _, _, _| {});
        let disturbed = run(conventional, |now, _, receiver, datagram| {
            receiver.handle_datagram(now, Datagram::decode(datagram), false);
        });
        assert_eq!(calm.1, disturbed.1);
        assert!(calm.1.len() >= 10, "shown: {:?}", calm.1);
    }
}
