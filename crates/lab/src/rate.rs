//! `lockstep rate`.

use anyhow::Result;

use super::python_module::{self, ModuleArguments};

/// `lockstep rate`.
pub fn run(arguments: &ModuleArguments) -> Result<()> {
    python_module::run("lockstep.rating.__main__", "main", "lab", &arguments.words)
}
