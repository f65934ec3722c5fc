//! Value of `--source`, which may be repeated: a video source and its stream.

use std::str::FromStr;

use anyhow::{Result, bail};

use lockstep_live::{MAX_STREAMS, StreamName};
use lockstep_media::SCREEN_MARK;

/// A video source and its stream: `SOURCE[,content=screen][,name=NAME][,priority=NUMBER]`, with the options in any order.
#[derive(Debug, Clone, PartialEq)]
pub struct SourceArgument {
    /// The source, with its content.
    pub specification: String,
    /// Name of its stream, if given.
    pub name: Option<StreamName>,
    /// Share of the budget, relative to the priorities of the other streams.
    pub priority: f64,
}

impl FromStr for SourceArgument {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut source = Self { specification: text.to_owned(), name: None, priority: 1.0 };
        let mut content = "";
        // Options stand at the end; other commas belong to the source.
        while let Some((rest, option)) = source.specification.rsplit_once(',') {
            if let Some(name) = option.strip_prefix("name=") {
                source.name = Some(name.parse().map_err(|error: lockstep_live::StreamNameError| error.to_string())?);
            } else if let Some(priority) = option.strip_prefix("priority=") {
                let number = priority.parse().ok().filter(|number: &f64| number.is_finite() && *number > 0.0);
                source.priority =
                    number.ok_or_else(|| format!("priority: expected a number above 0, found {priority:?}"))?;
            } else if source.specification.ends_with(SCREEN_MARK) {
                content = SCREEN_MARK;
            } else {
                break;
            }
            source.specification = rest.to_owned();
        }
        source.specification.push_str(content);
        Ok(source)
    }
}

/// Stream names of `sources`: those given, otherwise their numbers. A single stream needs no name.
///
/// # Errors
/// If there are too many streams, or two have the same name.
pub fn stream_names(sources: &[SourceArgument]) -> Result<Vec<StreamName>> {
    if sources.len() > MAX_STREAMS {
        bail!("--source: expected at most {MAX_STREAMS} video streams, got {}", sources.len());
    }
    let mut names = Vec::new();
    for (number, source) in sources.iter().enumerate() {
        let name = match &source.name {
            Some(name) => name.clone(),
            None if sources.len() == 1 => StreamName::default(),
            None => number.to_string().parse()?,
        };
        if names.contains(&name) {
            bail!("--source: two video streams are named {name}; give each its own with ,name=NAME");
        }
        names.push(name);
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> SourceArgument {
        text.parse().expect("a source")
    }

    #[test]
    fn options_of_a_stream_stand_after_its_source() {
        let front = parsed("my,clip.y4m,name=front,priority=3");
        assert_eq!((front.specification.as_str(), front.name.as_deref()), ("my,clip.y4m", Some("front")));
        assert!((front.priority - 3.0).abs() < f64::EPSILON);
        assert_eq!(parsed("camera"), SourceArgument { specification: "camera".to_owned(), name: None, priority: 1.0 });
        for text in ["a.y4m,content=screen,name=desk", "a.y4m,name=desk,content=screen"] {
            let desk = parsed(text);
            assert_eq!((desk.specification.as_str(), desk.name.as_deref()), ("a.y4m,content=screen", Some("desk")));
        }
        for wrong in ["camera,priority=0", "camera,priority=x", "camera,name=a/b"] {
            assert!(wrong.parse::<SourceArgument>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn streams_without_names_have_their_numbers() {
        let names = |texts: &[&str]| {
            let sources: Vec<_> = texts.iter().map(|text| parsed(text)).collect();
            stream_names(&sources).map(|names| names.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "))
        };
        assert_eq!(names(&["camera"]).ok().as_deref(), Some(""));
        assert_eq!(names(&["camera", "b.y4m,name=rear"]).ok().as_deref(), Some("0 rear"));
        assert!(names(&["camera", "b.y4m,name=0"]).is_err());
        assert!(names(&["camera"; 9]).is_err());
    }
}
