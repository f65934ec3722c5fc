//! `lockstep._lockstep`: the Rust part of the Python package.
#![deny(unsafe_code)]

mod alphartc;
mod barcode;
mod controller;
mod environment;
mod frame;
mod live;
mod measures;
mod paths;
mod pictures;
mod simulation;
mod table;

use mimalloc::MiMalloc;
use pyo3::prelude::*;

/// Calls in virtual time allocate and free many small blocks.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Rust part of Lockstep. Use it through the `lockstep` package.
#[pymodule]
mod _lockstep {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::alphartc::SteppedCall;
    #[pymodule_export]
    use crate::barcode::{barcode_regions, read_barcode, read_barcode_regions};
    #[pymodule_export]
    use crate::controller::OnnxModel;
    /// Maximum number of environments in one vector.
    #[pymodule_export]
    const MAX_ENVIRONMENTS: usize = lockstep_sim::environment::MAX_ENVIRONMENTS;
    #[pymodule_export]
    use crate::environment::VectorEnvironment;
    #[pymodule_export]
    use crate::frame::Frame;
    #[pymodule_export]
    use crate::live::{CallError, LiveCall};
    #[pymodule_export]
    use crate::measures::{freezes, luma_ssim, luma_text_ssim};
    #[pymodule_export]
    use crate::pictures::{TrainingSetting, training_layout};
    #[pymodule_export]
    use crate::simulation::{EstimatorError, simulate, simulate_options};
    #[pymodule_export]
    use crate::table::{Table, unpickled_table};

    /// Version of Lockstep that the extension was built from.
    #[pyfunction]
    fn version() -> &'static str {
        env!("CARGO_PKG_VERSION")
    }
}
