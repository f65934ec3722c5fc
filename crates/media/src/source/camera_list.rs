//! Lists the cameras of this machine.

use std::path::{Path, PathBuf};

use super::SourceError;
use crate::device_name::chosen;

/// A camera of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Camera {
    /// Its device: `/dev/video0` on Linux, its name on Windows, its number on macOS.
    pub path: PathBuf,
    /// Name for people. Two cameras may have the same.
    pub name: String,
    /// Formats of its pictures; none where ffmpeg reads it.
    pub formats: Vec<CameraFormat>,
}

/// A format of a camera.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CameraFormat {
    /// Name of the driver, such as `YUYV`.
    pub coding: String,
    /// Whether calls can use it.
    pub is_supported: bool,
    /// Widths and heights, pixels. A camera that scales has its smallest and its largest size.
    pub sizes: Vec<(u32, u32)>,
}

/// Lists the cameras, in the order of their devices. Devices without pictures are skipped, such as those of metadata,
/// and devices that this user may not open.
///
/// # Errors
/// If this system or this program reads no cameras.
pub fn cameras() -> Result<Vec<Camera>, SourceError> {
    found()
}

/// Device of the camera that is used without a choice.
///
/// # Errors
/// If cameras cannot be listed, where they have no known device.
pub(super) fn default_device() -> Result<PathBuf, SourceError> {
    if cfg!(target_os = "linux") {
        return Ok("/dev/video0".into());
    }
    let first = cameras()?.into_iter().next();
    first
        .map(|camera| camera.path)
        .ok_or_else(|| SourceError::Camera { device: "camera".into(), reason: "ffmpeg finds none".to_owned() })
}

/// Device of the camera that `wanted` names: a path, a name, or a part of one name.
pub(super) fn find(wanted: &str) -> Result<PathBuf, SourceError> {
    if Path::new(wanted).is_absolute() {
        return Ok(wanted.into());
    }
    let mut cameras = cameras()?;
    let names: Vec<[String; 2]> =
        cameras.iter().map(|camera| [camera.path.display().to_string(), camera.name.clone()]).collect();
    if let Some(number) = chosen(wanted, &names) {
        return Ok(cameras.swap_remove(number).path);
    }
    let there: Vec<String> = names.iter().map(|[path, name]| format!("{name} ({path})")).collect();
    let there = if there.is_empty() { "none".to_owned() } else { there.join(", ") };
    Err(SourceError::Camera {
        device: wanted.into(),
        reason: format!("no single camera has this name; there are: {there}"),
    })
}

#[cfg(not(all(feature = "camera", any(target_os = "linux", windows, target_os = "macos"))))]
fn found() -> Result<Vec<Camera>, SourceError> {
    Err(super::camera::unsupported(Path::new("camera")))
}

#[cfg(all(feature = "camera", any(windows, target_os = "macos")))]
fn found() -> Result<Vec<Camera>, SourceError> {
    let cameras = super::ffmpeg_camera::OF_THIS_SYSTEM.cameras()?.into_iter();
    Ok(cameras.map(|(device, name)| Camera { path: device.into(), name, formats: Vec::new() }).collect())
}

#[cfg(all(feature = "camera", target_os = "linux"))]
fn found() -> Result<Vec<Camera>, SourceError> {
    let failed = |error: std::io::Error| SourceError::Camera { device: "camera".into(), reason: error.to_string() };
    let listed = linuxvideo::list().map_err(failed)?;
    let mut cameras: Vec<Camera> = listed.filter_map(|device| described(&device.ok()?)).collect();
    // /dev/video10 follows /dev/video9.
    cameras.sort_by_key(|camera| (camera.path.as_os_str().len(), camera.path.clone()));
    Ok(cameras)
}

#[cfg(all(feature = "camera", target_os = "linux"))]
fn described(device: &linuxvideo::Device) -> Option<Camera> {
    use linuxvideo::BufType;
    use linuxvideo::format::FrameSizes;

    let formats: Vec<CameraFormat> = device
        .formats(BufType::VIDEO_CAPTURE)
        .filter_map(Result::ok)
        .map(|format| {
            let coding = format.pixel_format();
            let sizes = match device.frame_sizes(coding) {
                Ok(FrameSizes::Discrete(sizes)) => sizes.iter().map(|size| (size.width(), size.height())).collect(),
                Ok(FrameSizes::Stepwise(sizes) | FrameSizes::Continuous(sizes)) => {
                    vec![(sizes.min_width(), sizes.min_height()), (sizes.max_width(), sizes.max_height())]
                }
                Err(_) => Vec::new(),
            };
            let is_supported = super::camera::is_supported(coding);
            CameraFormat { coding: coding.to_string(), is_supported, sizes }
        })
        .collect();
    let (path, name) = (device.path().ok()?, device.capabilities().ok()?.card().to_owned());
    (!formats.is_empty()).then_some(Camera { path, name, formats })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_needs_no_camera_and_a_wrong_name_lists_them() {
        assert_eq!(find("/dev/video7").unwrap(), Path::new("/dev/video7"));
        let error = find("no such camera").unwrap_err().to_string();
        assert!(error.starts_with("no camera at "), "{error}");
    }
}
