//! Paths and pictures from which environments and training calls are drawn, as Python arguments.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use lockstep_configuration::open_trace;
use lockstep_link::Trace;
use lockstep_sim::{ClipCurves, CodecModel};

/// ValueError with the message of `error`.
pub(crate) fn invalid(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

pub(crate) fn milliseconds(value: f64, what: &str) -> PyResult<Duration> {
    if (0.0..=60_000.0).contains(&value) {
        Ok(Duration::from_secs_f64(value / 1e3))
    } else {
        Err(invalid(format!("{what} is {value} ms, which is not between 0 and 60000")))
    }
}

/// Ranges of paths. The constructor of the environment or setting validates them.
pub(crate) struct Paths {
    pub(crate) traces: Vec<Trace>,
    pub(crate) delay: RangeInclusive<Duration>,
    pub(crate) queue_packets: RangeInclusive<u32>,
    pub(crate) loss: RangeInclusive<f64>,
}

impl Paths {
    /// Ranges over `traces`: minimum and maximum delay (ms), queue (packets) and share of lost packets.
    pub(crate) fn new(
        traces: &[String],
        delay_ms: (f64, f64),
        queue_packets: (u32, u32),
        loss: (f64, f64),
    ) -> PyResult<Self> {
        let traces = traces.iter().map(|text| open_trace(text)).collect::<anyhow::Result<_>>();
        Ok(Self {
            traces: traces.map_err(|error| invalid(format!("{error:#}")))?,
            delay: milliseconds(delay_ms.0, "the least delay")?..=milliseconds(delay_ms.1, "the most delay")?,
            queue_packets: queue_packets.0..=queue_packets.1,
            loss: loss.0..=loss.1,
        })
    }
}

/// The clips `names` (default: all) in each of `sizes`. They come from the built-in codec model or one in JSON.
pub(crate) fn clips(
    model: Option<&str>,
    names: Option<&[String]>,
    sizes: &[(usize, usize)],
) -> PyResult<Vec<Arc<ClipCurves>>> {
    let possible = 1..=16_383;
    if let Some((width, height)) = sizes.iter().find(|size| !possible.contains(&size.0) || !possible.contains(&size.1))
    {
        return Err(invalid(format!("expected pictures from 1x1 to 16383x16383, got {width}x{height}")));
    }
    let model = model.map_or_else(CodecModel::built_in, CodecModel::from_json).map_err(invalid)?;
    let chosen = match names {
        Some(names) => names.iter().map(|name| model.clip(name)).collect::<Result<Vec<_>, _>>().map_err(invalid)?,
        None => model.clips.iter().collect(),
    };
    let in_size = |&(width, height): &(usize, usize)| {
        chosen.iter().map(move |clip| Arc::new(ClipCurves::new(clip, width, height)))
    };
    Ok(sizes.iter().flat_map(in_size).collect())
}
