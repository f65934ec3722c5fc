//! `lockstep testbed`.

use anyhow::Result;

use super::python_module::{self, ModuleWords};

/// `lockstep testbed`.
pub fn run(arguments: &ModuleWords) -> Result<()> {
    python_module::run("lockstep.testbed.__main__", "main", "testbed", &arguments.words)
}
