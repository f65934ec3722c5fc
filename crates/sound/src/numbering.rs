//! Numbers captured frames, and leaves out the packets of announced silence.

use lockstep_transport::SoundPacket;
use lockstep_units::Timestamp;

use crate::FRAME_DURATION;

/// During silence, every 20th frame (400 ms) has an empty packet, as in Opus. It keeps the path measured.
const FRAMES_BETWEEN_SILENT_PACKETS: u32 = 20;

/// Numbers of captured frames, for the packets of any encoder.
#[derive(Debug, Clone, Default)]
pub struct FrameNumbering {
    next: u32,
    /// Number of silent frames in a row.
    silent: u32,
}

impl FrameNumbering {
    /// The number of the next captured frame. It counts even if the frame cannot be encoded.
    pub fn begin(&mut self) -> u32 {
        let frame = self.next;
        self.next = frame.wrapping_add(1);
        frame
    }

    /// The packet of `frame`, whose last sample was captured at `now`. `payload` is `None` if the frame is silent.
    /// Returns no packet in silence that is already announced.
    pub fn packet(&mut self, frame: u32, now: Timestamp, payload: Option<Vec<u8>>) -> Option<SoundPacket> {
        self.silent = if payload.is_some() { 0 } else { self.silent + 1 };
        let announces = payload.is_some() || self.silent % FRAMES_BETWEEN_SILENT_PACKETS == 1;
        let captured = Timestamp::from_nanos(now.as_nanos().saturating_sub(FRAME_DURATION.as_nanos() as u64));
        announces.then(|| SoundPacket { frame, captured, payload: payload.unwrap_or_default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_is_announced_once_per_400_ms() {
        let mut numbering = FrameNumbering::default();
        let announced = (0..60).filter_map(|frame| {
            let number = numbering.begin();
            numbering.packet(number, Timestamp::from_millis(20 * frame), (frame < 5).then(|| vec![1]))
        });
        let numbers: Vec<u32> = announced.map(|packet| packet.frame).collect();
        assert_eq!(numbers, [0, 1, 2, 3, 4, 5, 25, 45]);
    }
}
