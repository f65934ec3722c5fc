//! `lockstep testbed`.

use anyhow::Result;

use super::python_module::{self, ModuleArguments};

/// `lockstep testbed`.
pub fn run(arguments: &ModuleArguments) -> Result<()> {
    python_module::run("lockstep.testbed.__main__", "main", "testbed", &arguments.words)
}
