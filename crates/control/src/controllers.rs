//! Registry of controllers: those of this crate, and those that a program registers.
//!
//! A program makes one [`Controllers`], registers its own controllers, and passes the registry to readers of call
//! settings. [`Controllers::find`] maps a word such as `gcc`, `fixed:1mbps` or `mine` to an [`Algorithm`].
//!
//! ```
//! use lockstep_control::{Controllers, Fixed, Registration};
//! use lockstep_units::Bitrate;
//!
//! let mine = Registration::new("mine", "always 700 kb/s", |setup| {
//!     Box::new(Fixed::new(Bitrate::from_kbps(700), setup))
//! });
//! let controllers = Controllers::default().with(mine).unwrap();
//! assert_eq!(controllers.find("mine").unwrap().to_string(), "mine");
//! assert_eq!(controllers.find("gcc").unwrap().to_string(), "gcc");
//! ```

use crate::{Algorithm, AlgorithmError, Controller, ControllerSetup, Fixed, Registration};

/// Longest name of a registered controller, characters.
const MAX_NAME_CHARACTERS: usize = 64;

impl Registration {
    /// A placeholder for a controller that this program lacks but a report of another program names. A call with it
    /// fails at its start.
    #[must_use]
    pub fn missing(name: impl Into<String>) -> Self {
        let name = name.into();
        let error = Controllers::default().unknown(&name);
        let make = move |setup: &ControllerSetup| -> Box<dyn Controller> {
            setup.failure.set(Box::new(error.clone()));
            Box::new(Fixed::new(setup.bounds.min, setup))
        };
        Self::new(name, "", make).marked_missing()
    }
}

/// The controllers that a program knows by name. The default contains those of this crate.
#[derive(Debug, Clone, Default)]
pub struct Controllers {
    registered: Vec<Registration>,
}

impl Controllers {
    /// Adds a controller.
    ///
    /// # Errors
    /// [`AlgorithmError::Name`] if its name is not a word of letters, digits, `-`, `_` and `.`;
    /// [`AlgorithmError::Taken`] if another controller has this name.
    pub fn register(&mut self, registration: Registration) -> Result<(), AlgorithmError> {
        let name = registration.name();
        let is_allowed = |letter: u8| letter.is_ascii_alphanumeric() || b"-_.".contains(&letter);
        if name.is_empty() || name.len() > MAX_NAME_CHARACTERS || !name.bytes().all(is_allowed) {
            return Err(AlgorithmError::Name(name.to_owned()));
        }
        if self.find(name).is_ok() {
            return Err(AlgorithmError::Taken(name.to_owned()));
        }
        self.registered.push(registration);
        Ok(())
    }

    /// The same registry with one more controller.
    ///
    /// # Errors
    /// As [`Controllers::register`].
    pub fn with(mut self, registration: Registration) -> Result<Self, AlgorithmError> {
        self.register(registration)?;
        Ok(self)
    }

    /// The controller that `word` names.
    ///
    /// # Errors
    /// [`AlgorithmError::Unknown`], which lists all known names; [`AlgorithmError::Rate`] after `fixed:`.
    pub fn find(&self, word: &str) -> Result<Algorithm, AlgorithmError> {
        if let Some(found) = self.registered.iter().find(|registration| registration.name() == word) {
            return Ok(Algorithm::Registered(found.clone()));
        }
        word.parse().map_err(|error| match error {
            AlgorithmError::Unknown { .. } => self.unknown(word),
            error => error,
        })
    }

    fn unknown(&self, name: &str) -> AlgorithmError {
        let names: Vec<&str> = self.names().map(|(name, _)| name).collect();
        AlgorithmError::Unknown { name: name.to_owned(), names: names.join(", ") }
    }

    /// All names with their descriptions: first those of this crate, then the registered ones.
    pub fn names(&self) -> impl Iterator<Item = (&str, &str)> {
        let own = self.registered.iter().map(|registration| (registration.name(), registration.about()));
        Algorithm::NAMES.into_iter().chain(own)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lockstep_units::{Bitrate, ByteCount};

    use super::*;
    use crate::{BobRules, EstimatorKind, InFlight, PathView};

    fn mine(name: &str) -> Registration {
        Registration::new(name, "always 700 kb/s", |setup| Box::new(Fixed::new(Bitrate::from_kbps(700), setup)))
    }

    #[test]
    fn registered_controller_is_made_by_its_factory() {
        let registration =
            mine("mine").with_estimator(EstimatorKind::BobHeuristic(BobRules::Released)).responding_to_marks();
        let algorithm = Controllers::default().with(registration).unwrap().find("mine").unwrap();
        assert_eq!(algorithm.to_string(), "mine");
        assert!(algorithm.responds_to_marks() && !algorithm.takes_model() && !algorithm.takes_latency());
        assert_eq!(algorithm.estimator_kind(), EstimatorKind::BobHeuristic(BobRules::Released));
        let setup = ControllerSetup::new(ByteCount::new(1_200), Duration::from_millis(33));
        let controller = algorithm.controller(&setup).unwrap();
        let allowance = controller.allowance(&PathView::default(), InFlight::default());
        assert_eq!(allowance.target, Bitrate::from_kbps(700));
    }

    #[test]
    fn taken_and_malformed_names_are_refused() {
        let mut controllers = Controllers::default().with(mine("mine")).unwrap();
        for name in ["mine", "gcc", "lockstep"] {
            assert_eq!(controllers.register(mine(name)), Err(AlgorithmError::Taken(name.to_owned())));
        }
        for name in ["", "fixed:2mbps", "my controller", "a=b", "program:x", &"x".repeat(65)] {
            assert_eq!(controllers.register(mine(name)), Err(AlgorithmError::Name(name.to_owned())));
        }
    }

    #[test]
    fn unknown_name_lists_registered_controllers_too() {
        let error = Controllers::default().with(mine("mine")).unwrap().find("reno").unwrap_err().to_string();
        assert!(error.contains("`reno`") && error.contains("salsify") && error.ends_with(", mine"), "{error}");
        assert!(Controllers::default().find("fixed:fast").unwrap_err().to_string().contains("bit rate"));
    }

    #[test]
    fn missing_controller_fails_once_a_call_needs_it() {
        let setup = ControllerSetup::new(ByteCount::new(1_200), Duration::from_millis(33));
        assert!(Registration::missing("theirs").is_missing());
        drop(Registration::missing("theirs").controller(&setup));
        let error = setup.failure.check().unwrap_err().to_string();
        assert!(error.contains("unknown controller `theirs`"), "{error}");
    }
}
