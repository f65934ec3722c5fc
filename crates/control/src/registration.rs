//! A controller of a program outside this crate.

use std::fmt;
use std::sync::Arc;

use crate::controller::Controller;
use crate::estimator_kind::EstimatorKind;
use crate::inter_arrival::GracePeriod;
use crate::setup::ControllerSetup;

type MakeController = dyn Fn(&ControllerSetup) -> Box<dyn Controller> + Send + Sync;

/// A controller of a program outside this crate: its name, what it is, its estimator, its factory.
#[derive(Clone)]
pub struct Registration {
    name: String,
    about: String,
    estimator: EstimatorKind,
    heeds_marks: bool,
    is_missing: bool,
    make: Arc<MakeController>,
}

impl Registration {
    /// The controller `name`, described by `about` in one line, that `make` makes for each sending end. A controller that can
    /// fail leaves its error in [`ControllerSetup::failure`].
    #[must_use]
    pub fn new(
        name: impl Into<String>,
        about: impl Into<String>,
        make: impl Fn(&ControllerSetup) -> Box<dyn Controller> + Send + Sync + 'static,
    ) -> Self {
        let estimator = EstimatorKind::InterArrival(GracePeriod::LinkIdle);
        Self {
            name: name.into(),
            about: about.into(),
            estimator,
            heeds_marks: false,
            is_missing: false,
            make: Arc::new(make),
        }
    }

    /// The same with another estimator at the receiver than Salsify's inter-arrival average.
    #[must_use]
    pub fn with_estimator(self, estimator: EstimatorKind) -> Self {
        Self { estimator, ..self }
    }

    /// The same for a controller that answers marks of congestion ([`Algorithm::heeds_marks`](crate::Algorithm::heeds_marks)).
    #[must_use]
    pub fn heeding_marks(self) -> Self {
        Self { heeds_marks: true, ..self }
    }

    /// The same for a controller that this program does not have.
    pub(crate) fn marked_missing(self) -> Self {
        Self { is_missing: true, ..self }
    }

    /// Whether this program does not have it.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        self.is_missing
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it is, in one line.
    #[must_use]
    pub fn about(&self) -> &str {
        &self.about
    }

    pub(crate) fn estimator(&self) -> EstimatorKind {
        self.estimator
    }

    pub(crate) fn heeds_marks(&self) -> bool {
        self.heeds_marks
    }

    pub(crate) fn controller(&self, setup: &ControllerSetup) -> Box<dyn Controller> {
        (self.make)(setup)
    }
}

impl PartialEq for Registration {
    /// Whether they have the same name, which is unique in a registry.
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Registration {}

impl fmt::Debug for Registration {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Registration").field("name", &self.name).finish_non_exhaustive()
    }
}
