//! The sending end alone, with hand-made acknowledgements.

use std::sync::Arc;
use std::time::Duration;

use lockstep_call::{FunctionalEncoder, MenuMode, SendingEnd, SerialMenu, Tuning, announced};
use lockstep_control::{Algorithm, ControllerSetup};
use lockstep_media::{FrameRate, VideoFormat};
use lockstep_sim::{ClipCurves, CodecModel, Modelled, ModelledClip};
use lockstep_transport::wire::{Acknowledgement, ReceivedFragment};
use lockstep_transport::{Datagram, Estimate, SenderConfig, StateId};
use lockstep_units::{ByteCount, Timestamp};

/// A sent frame: its number, source state and target state, and the number of its picture.
type Sent = (u32, StateId, StateId, u32);

/// Sends `pictures` small pictures at 30 frames per second over a path of 10 ms in each direction. The receiver decodes
/// the frames for which `decodes` is true. While a picture with `moves` is coded, the receiver's address changes.
fn sources(pictures: u32, decodes: impl Fn(u32) -> bool, moves: impl Fn(u32) -> bool) -> Vec<Sent> {
    let model = CodecModel::built_in().expect("the built-in model is valid");
    let curves = Arc::new(ClipCurves::new(model.drawn(1), 64, 48));
    let interval = Duration::from_millis(33);
    let mut clip = ModelledClip::new(Arc::clone(&curves), interval, 1);
    let format = VideoFormat { width: 64, height: 48, frame_rate: FrameRate::new(30, 1).expect("a valid frame rate") };
    let algorithm: Algorithm = "fixed:500kbps".parse().expect("a valid controller");
    let controller = algorithm
        .controller(&ControllerSetup::new(ByteCount::new(1_200), interval))
        .expect("the controller needs no known path");
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
        // 20 ms suffice for all fragments at any pace.
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
        assert!(taken, "expected a plausible acknowledgement");
    }
    sent
}

#[test]
fn undecodable_frames_do_not_remain_references_for_long() {
    // From frame 20 on, the receiver acknowledges every fragment but reports no decoded state.
    let sent = sources(90, |frame| frame < 20, |_| false);
    let held =
        sent.iter().find(|(frame, ..)| *frame == 19).map(|&(_, _, target, _)| target).expect("frame 19 was sent");
    let first = sent.iter().find(|&&(frame, source, ..)| frame > 20 && source == held).map(|&(.., picture)| picture);
    // The limit of half a second and three round trips is about 20 pictures. Further pictures wait until the receiver
    // may have decoded earlier ones.
    assert!(first.is_some_and(|first| (30..50).contains(&first)), "{first:?}");
    let last = sent.last().expect("frames were sent");
    assert_eq!(last.1, held, "the source remains the last state known to be held");
}

#[test]
fn each_frame_uses_the_previous_state_while_all_are_decoded() {
    let sent = sources(90, |_| true, |_| false);
    assert!(sent.windows(2).all(|pair| pair[1].1 == pair[0].2));
}

#[test]
fn frames_before_a_path_change_are_not_used_as_references() {
    // Frames sent to the old address are never decoded, but the sender does not know it yet.
    let sent = sources(60, |frame| !(20..22).contains(&frame), |picture| picture == 22);
    let of = |frame: u32| *sent.iter().find(|(number, ..)| *number == frame).expect("the frame was sent");
    assert_eq!(of(21).1, of(20).2, "before the change, each frame uses the previous state");
    assert_eq!(of(22).1, of(19).2, "the picture in progress is coded again from a held state");
    assert_eq!(of(23).1, of(22).2, "the next frame uses the previous state again");
    assert_eq!(sent.len(), 60, "no picture is skipped");
}
