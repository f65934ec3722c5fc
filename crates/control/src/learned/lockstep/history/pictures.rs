//! Bytes sent for the present and for the last picture.

/// The bytes of pictures, and the time between them.
#[derive(Debug)]
pub(super) struct Pictures {
    /// Bytes sent since the present picture began.
    present: f64,
    /// Bytes sent for the picture before the present one.
    pub(super) last: f64,
    /// Time between pictures, seconds.
    pub(super) interval: f64,
}

impl Pictures {
    pub(super) fn new(interval: f64) -> Self {
        Self { present: 0.0, last: 0.0, interval }
    }

    pub(super) fn sent(&mut self, bytes: f64) {
        self.present += bytes;
    }

    /// Begins the next picture.
    pub(super) fn next(&mut self) {
        self.last = std::mem::take(&mut self.present);
    }
}
