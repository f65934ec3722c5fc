//! The sending end alone, against a receiver made by hand.

use std::sync::Arc;
use std::time::Duration;

use lockstep_call::{FunctionalEncoder, MenuMode, SendingEnd, SerialMenu, Tuning, announced};
use lockstep_control::{Algorithm, ControllerSetup};
use lockstep_media::{FrameRate, VideoFormat};
use lockstep_sim::{ClipCurves, CodecModel, Modelled, ModelledClip};
use lockstep_transport::wire::{Acknowledgement, ReceivedFragment};
use lockstep_transport::{Datagram, Estimate, SenderConfig, StateId};
use lockstep_units::{ByteCount, Timestamp};

/// A frame that was sent: its number, its source and target, and the number of its picture.
type Sent = (u32, StateId, StateId, u32);

/// What a sending end of 30 small pictures a second sends over a path that takes 10 ms each way, to a receiver of which `decodes`
/// says which frames it can decode. While the pictures of which `moves` says so are coded, the receiver is found at another
/// address.
fn sources(pictures: u32, decodes: impl Fn(u32) -> bool, moves: impl Fn(u32) -> bool) -> Vec<Sent> {
    let model = CodecModel::built_in().expect("it is built in");
    let curves = Arc::new(ClipCurves::new(model.drawn(1), 64, 48));
    let interval = Duration::from_millis(33);
    let mut clip = ModelledClip::new(Arc::clone(&curves), interval, 1);
    let format = VideoFormat { width: 64, height: 48, frame_rate: FrameRate::new(30, 1).expect("it is one") };
    let algorithm: Algorithm = "fixed:500kbps".parse().expect("it is one");
    let controller =
        algorithm.controller(&ControllerSetup::new(ByteCount::new(1_200), interval)).expect("it needs no path");
    let encoder = Box::new(FunctionalEncoder::<Modelled>::new(curves, MenuMode::Serial, &Tuning::default()));
    let mut end =
        SendingEnd::<Modelled>::new(SenderConfig::new(1, announced(&format)), controller, encoder, &Tuning::default());
    let (mut sent, mut held, mut received) = (Vec::new(), Vec::new(), 0);
    for picture in 0..pictures {
        let now = Timestamp::from_millis(33 * u64::from(picture) + 100);
        end.handle_timeout(now);
        end.capture(now, now, clip.next_picture());
        let mut moved = !moves(picture);
        while let Some(job) = end.poll_encode(now) {
            if !std::mem::replace(&mut moved, true) {
                end.path_moved(now);
            }
            end.encoded(now, job.run(&SerialMenu));
        }
        let arrived_at = now + Duration::from_millis(10);
        let mut fragments = Vec::new();
        // Whatever the pace: 20 ms have room for all.
        for moment in 0..20 {
            let at = now + Duration::from_millis(moment);
            while let Some(transmit) = end.poll_transmit(at) {
                let Datagram::Data(data) = transmit.datagram else { continue };
                received += 1;
                let (frame, fragment) = (data.frame, data.fragment);
                fragments.push((
                    data.sequence,
                    at,
                    ReceivedFragment { frame, fragment, arrived_at, congestion_experienced: false },
                ));
                if fragment == 0 {
                    sent.push((frame, data.source, data.target, picture));
                    if decodes(frame) {
                        held.insert(0, frame);
                    }
                }
            }
        }
        let Some(&(highest, echo, _)) = fragments.last() else { continue };
        let back = now + Duration::from_millis(30);
        let acknowledgement = Acknowledgement {
            connection: 1,
            sequence: picture,
            sent_at: back,
            highest,
            echo,
            hold: Duration::ZERO,
            received,
            estimate: Estimate::default(),
            fragments: fragments.into_iter().map(|(_, _, listed)| listed).collect(),
            catalogue: held.iter().take(8).copied().collect(),
            refused: Vec::new(),
        };
        let taken = end.handle_datagram(back, Ok(Datagram::Acknowledgement(Box::new(acknowledgement))));
        assert!(taken, "an acknowledgement that can be true");
    }
    sent
}

#[test]
fn frames_that_come_but_are_never_decoded_are_not_built_upon_for_long() {
    // From frame 20 on the receiver has everything, and can decode nothing, and does not say so.
    let sent = sources(90, |frame| frame < 20, |_| false);
    let held = sent.iter().find(|(frame, ..)| *frame == 19).map(|&(_, _, target, _)| target).expect("it was sent");
    let first = sent.iter().find(|&&(frame, source, ..)| frame > 20 && source == held).map(|&(.., picture)| picture);
    // Half a second and three round trips are 20 pictures or so; those that come later than the receiver might decode them wait.
    assert!(first.is_some_and(|first| (30..50).contains(&first)), "{first:?}");
    let last = sent.last().expect("frames were sent");
    assert_eq!(last.1, held, "and so it stays as long as nothing else is known to be held");
}

#[test]
fn as_long_as_frames_are_decoded_each_is_built_on_the_last() {
    let sent = sources(90, |_| true, |_| false);
    assert!(sent.windows(2).all(|pair| pair[1].1 == pair[0].2));
}

#[test]
fn when_the_path_has_moved_nothing_is_built_on_what_went_the_old_way() {
    // What goes to the old address is never decoded, and that it is not is not known yet.
    let sent = sources(60, |frame| !(20..22).contains(&frame), |picture| picture == 22);
    let of = |frame: u32| *sent.iter().find(|(number, ..)| *number == frame).expect("it was sent");
    assert_eq!(of(21).1, of(20).2, "before, each is built on the last");
    assert_eq!(of(22).1, of(19).2, "the picture that was being coded is coded again, from what the receiver holds");
    assert_eq!(of(23).1, of(22).2, "one is enough");
    assert_eq!(sent.len(), 60, "no picture is left out");
}
