//! `lockstep train` and `lockstep export`.

use anyhow::Result;

use super::python_module::{self, ModuleWords};

/// Where both are done.
const MODULE: &str = "lockstep.learn.__main__";

/// `lockstep train`.
pub fn train(arguments: &ModuleWords) -> Result<()> {
    python_module::run(MODULE, "main", "learn", &arguments.words)
}

/// `lockstep export`.
pub fn export(arguments: &ModuleWords) -> Result<()> {
    python_module::run(MODULE, "export", "learn", &arguments.words)
}
