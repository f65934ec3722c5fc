//! Registration of a controller from outside this crate.

use std::fmt;
use std::sync::Arc;

use crate::controller::Controller;
use crate::estimator_kind::EstimatorKind;
use crate::inter_arrival::GracePeriod;
use crate::setup::ControllerSetup;

type MakeController = dyn Fn(&ControllerSetup) -> Box<dyn Controller> + Send + Sync;

/// Controller from outside this crate: its name, description, estimator and factory.
#[derive(Clone)]
pub struct Registration {
    name: String,
    about: String,
    estimator: EstimatorKind,
    responds_to_marks: bool,
    is_missing: bool,
    make: Arc<MakeController>,
}

impl Registration {
    /// The controller `name` with the one-line description `about`. `make` makes one for each sending end. A controller
    /// that fails stores its error in [`ControllerSetup::failure`].
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
            responds_to_marks: false,
            is_missing: false,
            make: Arc::new(make),
        }
    }

    /// The same registration with another estimator at the receiver. The default is Salsify's inter-arrival average.
    #[must_use]
    pub fn with_estimator(self, estimator: EstimatorKind) -> Self {
        Self { estimator, ..self }
    }

    /// The same registration for a controller that responds to congestion marks
    /// ([`Algorithm::responds_to_marks`](crate::Algorithm::responds_to_marks)).
    #[must_use]
    pub fn responding_to_marks(self) -> Self {
        Self { responds_to_marks: true, ..self }
    }

    /// The same registration for a controller that this program lacks.
    pub(crate) fn marked_missing(self) -> Self {
        Self { is_missing: true, ..self }
    }

    /// Whether this program lacks the controller.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        self.is_missing
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its description, in one line.
    #[must_use]
    pub fn about(&self) -> &str {
        &self.about
    }

    pub(crate) fn estimator(&self) -> EstimatorKind {
        self.estimator
    }

    pub(crate) fn responds_to_marks(&self) -> bool {
        self.responds_to_marks
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
