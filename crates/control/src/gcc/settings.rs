//! Settings of GCC, which enable its parts. The controller `gcc` enables all; studies disable some.

/// Times at which GCC probes the path beyond the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Probing {
    /// At the start, during an application limit, and after a drop that may be too large.
    #[default]
    Always,
    /// At the start only, as WebRTC did before it probed for limited applications.
    AtStart,
    /// Never, as in draft-ietf-rmcat-gcc-02.
    Never,
}

/// Enabled parts of GCC.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// Times of probes.
    pub probing: Probing,
    /// Whether 1.5 times the throughput bounds the rate's growth (draft-ietf-rmcat-gcc-02, section 5.5).
    pub throughput_bounds_growth: bool,
    /// Pacing rate over target (`kDefaultPaceMultiplier` in WebRTC). With 1, datagrams are spread evenly.
    pub pacing_factor: f64,
    /// Whether the bytes of 40 ms at the pacing rate may leave at once (`kDefaultBurstInterval` in WebRTC).
    pub bursts: bool,
    /// Whether the limits by path apply ([`crate::Traits::is_bounded`]), as for the other controllers here.
    pub bounded_by_path: bool,
}

impl Default for Settings {
    /// The settings of WebRTC today.
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
