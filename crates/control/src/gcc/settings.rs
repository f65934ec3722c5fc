//! Which parts of GCC are at work. The controller `gcc` has them all; studies leave some out to see what they do.

/// When the path is probed beyond the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Probing {
    /// At the start, while the application is limited, and after a drop that may not have been justified.
    #[default]
    Always,
    /// At the start only, as WebRTC did before it probed for applications that are limited.
    AtStart,
    /// Not at all, as in draft-ietf-rmcat-gcc-02.
    Never,
}

/// Which parts of GCC are at work.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// When it probes.
    pub probing: Probing,
    /// Whether the rate does not grow beyond 1.5 times what comes through (draft-ietf-rmcat-gcc-02, section 5.5).
    pub throughput_bounds_growth: bool,
    /// Pacing rate over target (`kDefaultPaceMultiplier` in WebRTC); 1 spreads datagrams evenly.
    pub pacing_factor: f64,
    /// Whether what leaves in 40 ms at that rate may leave at once (`kDefaultBurstInterval` in WebRTC).
    pub bursts: bool,
    /// Whether the limits by path apply ([`crate::Traits::is_bounded`]), as to every controller here.
    pub bounded_by_path: bool,
}

impl Default for Settings {
    /// As WebRTC has it today.
    fn default() -> Self {
        Self {
            probing: Probing::Always,
            throughput_bounds_growth: true,
            pacing_factor: 2.5,
            bursts: true,
            bounded_by_path: true,
        }
    }
}
