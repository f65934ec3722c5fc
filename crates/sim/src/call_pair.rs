//! A call, optionally with a call in the opposite direction on the same connection. Feedback then shares packets with
//! the pictures and sound that go its way.

use lockstep_call::Codec;
use lockstep_transport::{PIGGYBACK_OVERHEAD, size_on_link};
use lockstep_units::{ByteCount, Timestamp};

use crate::call_flow::CallFlow;
use crate::flow::{Arrived, Direction, Flow};

/// One packet on a link: media of one call, feedback of the other call, or both.
#[derive(Debug, Clone)]
pub struct CallPacket<P> {
    media: Option<P>,
    /// Feedback and the bytes that it adds to the packet.
    feedback: Option<Box<(ByteCount, P)>>,
}

/// Both ends of the forward call, and of the reverse call if there is one.
pub(crate) struct CallPair<C: Codec> {
    pub(crate) first: CallFlow<C>,
    pub(crate) opposite: Option<CallFlow<C>>,
}

impl<C: Codec> CallPair<C> {
    pub(crate) fn has_failed(&self) -> bool {
        self.first.has_failed() || self.opposite.as_ref().is_some_and(CallFlow::has_failed)
    }

    /// Next packet of one end: media of the call that it sends, feedback of the call that it receives, or both.
    fn next_packet(
        now: Timestamp,
        mut media: Option<&mut CallFlow<C>>,
        mut feedback: Option<&mut CallFlow<C>>,
    ) -> Option<(ByteCount, CallPacket<C::Packet>)> {
        if let (Some(media), Some(feedback)) = (&media, &mut feedback) {
            feedback.thin_feedback(media.is_path_narrow(now));
        }
        if let Some(call) = &mut media
            && let Some(sent) = call.poll_media(now)
        {
            let piggybacked = feedback.and_then(|call| call.poll_piggybacked(now, &sent));
            let feedback = piggybacked.map(|piggybacked| {
                (piggybacked.size + ByteCount::new(PIGGYBACK_OVERHEAD), C::pack(piggybacked.datagram))
            });
            let adds = feedback.as_ref().map_or(ByteCount::ZERO, |&(adds, _)| adds);
            call.feedback_left(now, adds);
            let media = Some(C::pack(sent.datagram));
            return Some((size_on_link(sent.size) + adds, CallPacket { media, feedback: feedback.map(Box::new) }));
        }
        let alone = feedback?.poll_feedback(now)?;
        let size = size_on_link(alone.size);
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
        // Forward packets carry media of the forward call and feedback of the reverse call.
        let (media_of, feedback_of) = match arrival.direction {
            Direction::Forward => (Some(&mut self.first), self.opposite.as_mut()),
            Direction::Reverse => (self.opposite.as_mut(), Some(&mut self.first)),
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
        let forward = Self::next_packet(now, Some(&mut self.first), self.opposite.as_mut());
        if let Some((size, packet)) = forward {
            return Some((Direction::Forward, size, packet));
        }
        let (size, packet) = Self::next_packet(now, self.opposite.as_mut(), Some(&mut self.first))?;
        Some((Direction::Reverse, size, packet))
    }

    fn poll_timeout(&self) -> Option<Timestamp> {
        Timestamp::earliest([self.first.poll_timeout(), self.opposite.as_ref().and_then(Flow::poll_timeout)])
    }

    fn handle_timeout(&mut self, now: Timestamp) {
        for call in [Some(&mut self.first), self.opposite.as_mut()].into_iter().flatten() {
            if call.poll_timeout().is_some_and(|at| at <= now) {
                call.handle_timeout(now);
            }
        }
    }
}
