//! The clips of a benchmark.

use anyhow::{Result, bail};
use md5::{Digest, Md5};

use lockstep_media::{SourceOptions, VideoFormat, open_source};
use lockstep_vp8::Picture;

/// The first pictures of a clip.
pub struct Clip {
    pub name: String,
    pub pictures: Vec<Picture>,
    pub format: VideoFormat,
    /// Hash of the format and all samples, which identifies measurements of the clip.
    pub content: String,
}

/// Splits an argument into name and clip. Examples are `bunny=bigbuckbunny.mp4` and `bigbuckbunny.mp4`, whose name is
/// `bigbuckbunny`.
pub fn named(typed: &str) -> (String, String) {
    // A file name may contain `=`, but a clip name contains no folder.
    if let Some((name, clip)) = typed.split_once('=')
        && !name.is_empty()
        && !name.contains(['/', '\\', ':', '.'])
    {
        return (name.to_owned(), clip.to_owned());
    }
    let file = typed.rsplit(['/', '\\']).next().unwrap_or(typed);
    let stem = file.split(['.', ':']).next().filter(|stem| !stem.is_empty()).unwrap_or(file);
    (stem.to_owned(), typed.to_owned())
}

/// Applies [`named`] to all arguments. Equal names are refused, since names identify results.
pub fn all_named(typed: &[String]) -> Result<Vec<(String, String)>> {
    let clips: Vec<(String, String)> = typed.iter().map(|typed| named(typed)).collect();
    if let Some(twice) = clips.iter().enumerate().find(|(at, one)| clips[..*at].iter().any(|other| other.0 == one.0)) {
        bail!("two clips are called `{}`: give one another name with NAME=CLIP", twice.1.0);
    }
    Ok(clips)
}

fn content(pictures: &[Picture], format: &VideoFormat) -> String {
    let mut hash = Md5::new();
    hash.update(format.to_string());
    for row in pictures.iter().flat_map(Picture::planes).flat_map(|plane| plane.rows()) {
        hash.update(row);
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Clip {
    /// A clip of these pictures.
    pub fn new(name: &str, pictures: Vec<Picture>, format: VideoFormat) -> Self {
        Self { name: name.to_owned(), content: content(&pictures, &format), pictures, format }
    }

    /// The first `most` pictures of the clip `typed`.
    pub fn open(typed: &str, most: usize) -> Result<Self> {
        let (name, clip) = named(typed);
        let mut source = open_source(&clip, &SourceOptions::default())?;
        let mut pictures = Vec::new();
        while pictures.len() < most
            && let Some(picture) = source.next()?
        {
            pictures.push(picture);
        }
        if pictures.len() < 2 {
            bail!("{clip}: fewer than two pictures");
        }
        Ok(Self::new(&name, pictures, source.format()))
    }

    /// Bit rate of all pictures coded in `bytes`, kb/s.
    pub fn kbps(&self, bytes: usize) -> f64 {
        bytes as f64 * 8e-3 / self.format.time_of(self.pictures.len() as u64).as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clip_name_is_given_or_comes_from_the_file() {
        for (typed, name, clip) in [
            ("bunny=clips/bigbuckbunny.mp4", "bunny", "clips/bigbuckbunny.mp4"),
            ("clips/bigbuckbunny.mp4", "bigbuckbunny", "clips/bigbuckbunny.mp4"),
            ("generated:640x360@30", "generated", "generated:640x360@30"),
            ("clips/a=b.mp4", "a=b", "clips/a=b.mp4"),
        ] {
            assert_eq!(named(typed), (name.to_owned(), clip.to_owned()));
        }
    }

    #[test]
    fn equal_clip_names_are_refused() {
        let all = |typed: [&str; 2]| all_named(&typed.map(str::to_owned));
        assert_eq!(all(["a/x.y4m", "y=b/x.y4m"]).unwrap().len(), 2);
        let error = all(["generated:64x64@10", "generated:640x360@5"]).unwrap_err().to_string();
        assert!(error.contains("two clips are called `generated`"), "{error}");
    }

    #[test]
    fn hash_changes_with_samples_and_length() {
        let clip = |count| Clip::open("generated:32x16", count).unwrap();
        assert_eq!(clip(3).content, clip(3).content);
        assert_ne!(clip(3).content, clip(4).content);
        let mut pictures = clip(3).pictures;
        let mut samples = pictures[2].to_i420();
        *samples.last_mut().unwrap() ^= 1;
        pictures[2] = Picture::from_i420(32, 16, samples).unwrap();
        assert_ne!(Clip::new("generated", pictures, clip(3).format).content, clip(3).content);
    }
}
