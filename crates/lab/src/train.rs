//! `lockstep train` and `lockstep export`.

use anyhow::Result;

use super::python_module::{self, ModuleArguments};

/// Python module of both commands.
const MODULE: &str = "lockstep.learn.__main__";

/// `lockstep train`.
pub fn train(arguments: &ModuleArguments) -> Result<()> {
    python_module::run(MODULE, "main", "learn", &arguments.words)
}

/// `lockstep export`.
pub fn export(arguments: &ModuleArguments) -> Result<()> {
    python_module::run(MODULE, "export", "learn", &arguments.words)
}
