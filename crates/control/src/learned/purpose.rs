//! What a model says it is for.

use lockstep_nn::{Model, ModelError};

/// Checks that nothing says that `model` is for something else than `controller`: a name under `lockstep.controller`
/// must be its own. One that says nothing is taken, since models of one's own and of the MMSys'24 challenge do not.
///
/// # Errors
/// [`ModelError::Unfit`] if it says another name, or none that is a name.
pub(super) fn check_controller(model: &Model, controller: &str) -> Result<(), ModelError> {
    match model.metadata("lockstep.controller") {
        Some(other) if other != controller => Err(is_not_for(model, &format!("`{controller}`"))),
        _ => Ok(()),
    }
}

/// The error that `model` is none for `wanted`, by what it says of itself.
pub(crate) fn is_not_for(model: &Model, wanted: &str) -> ModelError {
    let said = printable(model.metadata("lockstep.controller").unwrap_or_default());
    ModelError::Unfit(format!("it is one for `{said}`, not for {wanted}"))
}

/// The beginning of a text of a file, in one line that a terminal shows as it is.
pub(super) fn printable(text: &str) -> String {
    lockstep_units::excerpt(text).chars().flat_map(char::escape_debug).collect()
}
