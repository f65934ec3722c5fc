//! Commands of a person in a call, and the state of the end that the other end sees.

/// What a person wants of a running call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// Silence one's own sound, or let it be heard again.
    Mute,
    /// Turn one's own camera off or on again.
    Camera,
    /// End the call.
    Leave,
}

/// What one end gives of itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Presence {
    /// Its sound is silenced.
    pub muted: bool,
    /// It captures no pictures: that they stand still is no fault of the path's.
    pub camera_off: bool,
}

impl Presence {
    /// As the other end is told, a bit for each.
    pub(crate) fn number(self) -> u8 {
        u8::from(self.muted) | (u8::from(self.camera_off) << 1)
    }

    /// Bits that a newer version may have are let be.
    pub(crate) fn from_number(number: u8) -> Self {
        Self { muted: number & 1 != 0, camera_off: number & 2 != 0 }
    }
}
