//! Check of the controller that a model's metadata names.

use lockstep_nn::{Model, ModelError};

/// Checks that the metadata entry `lockstep.controller` of `model` is `controller`. A model without this entry is
/// accepted, since user models and those of the MMSys'24 challenge lack it.
///
/// # Errors
/// [`ModelError::Unfit`] if the entry is another name.
pub(super) fn check_controller(model: &Model, controller: &str) -> Result<(), ModelError> {
    match model.metadata("lockstep.controller") {
        Some(other) if other != controller => Err(is_not_for(model, &format!("`{controller}`"))),
        _ => Ok(()),
    }
}

/// The error that the metadata of `model` names another purpose than `wanted`.
pub(crate) fn is_not_for(model: &Model, wanted: &str) -> ModelError {
    let found = printable(model.metadata("lockstep.controller").unwrap_or_default());
    ModelError::Unfit(format!("lockstep.controller is `{found}`, expected {wanted}"))
}

/// The beginning of a text from a file, with control characters escaped.
pub(super) fn printable(text: &str) -> String {
    lockstep_units::excerpt(text).chars().flat_map(char::escape_debug).collect()
}
