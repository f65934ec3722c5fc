//! Settings of a call, and the links and ends made from them.
//!
//! [`CallArguments`] is the table of all options, shared by the command line and Python. [`CallSettings`] are the typed
//! and checked settings, so that both run the same calls.
#![forbid(unsafe_code)]

mod as_published;
mod coding_time;
mod content_hash;
mod counters;
mod document;
mod ends;
#[cfg(feature = "simulation")]
mod estimator;
mod family_file;
#[cfg(feature = "simulation")]
mod job_times;
mod max_bitrate;
mod model_file;
#[cfg(feature = "simulation")]
mod modelled;
mod options;
mod regular_file;
#[cfg(feature = "simulation")]
mod room;
#[cfg(feature = "simulation")]
mod run;
#[cfg(feature = "simulation")]
mod scenario;
mod settings;
#[cfg(feature = "simulation")]
mod simulate;
mod words;

pub use coding_time::EncodeTimeSettings;
pub use content_hash::content_hash;
pub use counters::counters;
pub use document::document;
pub use family_file::read_families;
pub use max_bitrate::MaxBitrate;
pub use model_file::{ModelFile, sender_model_hash};
#[cfg(feature = "simulation")]
pub use modelled::{GccCall, PROGRESS_INTERVAL, simulate_gcc, simulate_modelled, simulate_modelled_with};
pub use options::{
    AsPublished, CallArguments, CallRecord, ClipName, CodecKind, ControllerName, Form, Milliseconds, OptionDescription,
    OptionError, OptionGroup, OptionValue, Overrides, Passes, QueueKind, Seconds, Share, SoundName, TraceName,
};
pub use regular_file::{open_regular_file, read_regular_file, read_regular_file_within, read_regular_text};
#[cfg(feature = "simulation")]
pub use room::{PEOPLE, PersonTrace, RoomSettings, simulate_room};
#[cfg(feature = "simulation")]
pub use run::{Observers, Simulated, SimulationStatus};
#[cfg(feature = "simulation")]
pub use scenario::{ScenarioArguments, ScenarioSession, run_scenario};
pub use settings::{
    CallSettings, ControlSettings, ControllerChoice, EstimatorFile, LinkSettings, NamedTrace, QueueMemory, open_trace,
};
#[cfg(feature = "simulation")]
pub use simulate::{simulate, simulate_coded_by, simulate_with};
pub use words::{ControlArguments, LinkArguments, SimulateArguments, value_of};
