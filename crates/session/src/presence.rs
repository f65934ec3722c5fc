//! Commands of a person in a call, and the presence of an end.

/// A person's command for a running call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// Mutes or unmutes this end.
    Mute,
    /// Turns this end's camera off or on.
    Camera,
    /// Ends the call.
    Leave,
}

/// Media that one end currently provides.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Presence {
    /// The end is muted.
    pub muted: bool,
    /// The end captures no pictures, so a still picture is not the path's fault.
    pub camera_off: bool,
    /// The end records the call.
    pub recording: bool,
}

impl Presence {
    /// Wire format, one bit per field.
    pub fn number(self) -> u8 {
        u8::from(self.muted) | (u8::from(self.camera_off) << 1) | (u8::from(self.recording) << 2)
    }

    /// Decodes the wire format; bits of newer versions are ignored.
    pub fn from_number(number: u8) -> Self {
        Self { muted: number & 1 != 0, camera_off: number & 2 != 0, recording: number & 4 != 0 }
    }
}
