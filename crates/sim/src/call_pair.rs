//! A call, and perhaps the one in the opposite direction that shares its connection: feedback then rides on the pictures
//! and the sound that go its way.

use lockstep_call::Codec;
use lockstep_transport::{RIDING, carried};
use lockstep_units::{ByteCount, Timestamp};

use crate::call_flow::CallFlow;
use crate::flow::{Arrived, Direction, Flow};

/// What a link carries at once: pictures or sound of one call, feedback of the other, or both.
#[derive(Debug, Clone)]
pub struct CallPacket<P> {
    media: Option<P>,
    /// With how much it adds to the packet.
    feedback: Option<Box<(ByteCount, P)>>,
}

/// Both ends of a call whose pictures go forward, and of one whose pictures come back.
pub(crate) struct CallPair<C: Codec> {
    pub(crate) there: CallFlow<C>,
    pub(crate) back: Option<CallFlow<C>>,
}

impl<C: Codec> CallPair<C> {
    pub(crate) fn has_failed(&self) -> bool {
        self.there.has_failed() || self.back.as_ref().is_some_and(CallFlow::has_failed)
    }

    /// What the end sends from which `direction` leads away: `media` of the one call, `feedback` of the other, whichever
    /// there are.
    fn from_an_end(
        now: Timestamp,
        mut media: Option<&mut CallFlow<C>>,
        mut feedback: Option<&mut CallFlow<C>>,
    ) -> Option<(ByteCount, CallPacket<C::Packet>)> {
        if let (Some(media), Some(feedback)) = (&media, &mut feedback) {
            feedback.thin_feedback(media.is_way_narrow(now));
        }
        if let Some(call) = &mut media
            && let Some(sent) = call.poll_media(now)
        {
            let riding = feedback.and_then(|call| call.poll_riding(now, &sent));
            let feedback = riding.map(|riding| (riding.size + ByteCount::new(RIDING), C::pack(riding.datagram)));
            let adds = feedback.as_ref().map_or(ByteCount::ZERO, |&(adds, _)| adds);
            call.feedback_left(now, adds);
            let media = Some(C::pack(sent.datagram));
            return Some((carried(sent.size) + adds, CallPacket { media, feedback: feedback.map(Box::new) }));
        }
        let alone = feedback?.poll_feedback(now)?;
        let size = carried(alone.size);
        if let Some(call) = media {
            call.feedback_left(now, size);
        }
        Some((size, CallPacket { media: None, feedback: Some(Box::new((size, C::pack(alone.datagram)))) }))
    }
}

impl<C: Codec> Flow for CallPair<C> {
    type Packet = CallPacket<C::Packet>;

    fn handle_packet(&mut self, now: Timestamp, arrived: Arrived<Self::Packet>) {
        let (packet, arrival) = arrived.take();
        let (feedback_size, feedback) = packet.feedback.map_or((ByteCount::ZERO, None), |feedback| {
            let (size, packet) = *feedback;
            (size, Some(packet))
        });
        // What goes forward is the pictures of the call there, and feedback of the one back.
        let (media_of, feedback_of) = match arrival.direction {
            Direction::Forward => (Some(&mut self.there), self.back.as_mut()),
            Direction::Reverse => (self.back.as_mut(), Some(&mut self.there)),
        };
        if let (Some(call), Some(packet)) = (media_of, packet.media) {
            let size = arrival.size.saturating_sub(feedback_size);
            call.handle_packet(now, Arrived { direction: Direction::Forward, size, ..arrival.with(packet) });
        }
        if let (Some(call), Some(packet)) = (feedback_of, feedback) {
            let arrived = arrival.with(packet);
            call.handle_packet(now, Arrived { direction: Direction::Reverse, size: feedback_size, ..arrived });
        }
    }

    fn poll_transmit(&mut self, now: Timestamp) -> Option<(Direction, ByteCount, Self::Packet)> {
        let forward = Self::from_an_end(now, Some(&mut self.there), self.back.as_mut());
        if let Some((size, packet)) = forward {
            return Some((Direction::Forward, size, packet));
        }
        let (size, packet) = Self::from_an_end(now, self.back.as_mut(), Some(&mut self.there))?;
        Some((Direction::Reverse, size, packet))
    }

    fn poll_timeout(&self) -> Option<Timestamp> {
        Timestamp::earliest([self.there.poll_timeout(), self.back.as_ref().and_then(Flow::poll_timeout)])
    }

    fn handle_timeout(&mut self, now: Timestamp) {
        for call in [Some(&mut self.there), self.back.as_mut()].into_iter().flatten() {
            if call.poll_timeout().is_some_and(|at| at <= now) {
                call.handle_timeout(now);
            }
        }
    }
}
