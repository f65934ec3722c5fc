//! Reads files with families of traces, which `lockstep data fit` writes.

use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context, Error, Result};

use lockstep_link::Families;

use crate::regular_file::read_regular_text;

/// Reads the families in the file `path`; `None` if the file does not exist.
///
/// # Errors
/// If the file cannot be read, or contains no families.
pub fn read_families(path: &Path) -> Result<Option<Families>> {
    let named = || format!("families {}", path.display());
    match read_regular_text(path) {
        Ok(text) => Families::from_json(&text).map(Some).map_err(Error::msg).with_context(named),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(named),
    }
}

/// Reads the families in the existing file `path`.
///
/// # Errors
/// As [`read_families`], and if the file does not exist.
pub(crate) fn open_families(path: &Path) -> Result<Families> {
    let missing = || format!("families {}: file not found; `lockstep data fit --output` writes one", path.display());
    read_families(path)?.with_context(missing)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use crate::{TraceName, open_trace};

    use super::*;

    /// A file `name` in `folder` with the `chosen` built-in families.
    fn written(folder: &Path, name: &str, chosen: &[&str]) -> String {
        let mut families = Families::built_in();
        families.families.retain(|family| chosen.contains(&family.name.as_str()));
        fs::write(folder.join(name), serde_json::to_string(&families).unwrap()).unwrap();
        folder.join(name).to_str().unwrap().to_owned()
    }

    #[test]
    fn family_file_gives_the_trace_of_the_built_in_family() {
        let folder = tempfile::tempdir().unwrap();
        let (one, many) =
            (written(folder.path(), "one.json", &["lte"]), written(folder.path(), "many", &["lte", "umts"]));
        let lte = open_trace("fitted:family=lte,seed=3").unwrap();
        assert_eq!(open_trace(&format!("fitted:family={one},seed=3")).unwrap(), lte);
        assert_eq!(open_trace(&format!("fitted:{many},name=lte,seed=3")).unwrap(), lte);
        assert_ne!(open_trace(&format!("fitted:{many},name=umts,seed=3")).unwrap(), lte);
    }

    #[test]
    fn error_of_a_family_file_names_file_and_problem() {
        let folder = tempfile::tempdir().unwrap();
        let refusal = |path: &str| format!("{:#}", open_trace(&format!("fitted:family={path}")).unwrap_err());
        let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let said = refusal(&path("none.json"));
        assert!(said.contains("none.json: file not found; `lockstep data fit --output` writes one"), "{said}");
        for (content, why) in [
            (&b""[..], "not families of traces"),
            (b"10\n20\n", "not families of traces"),
            (b"\xff\xfe", "not text"),
            (b"{\"families\": []}", "there is no family of traces in it"),
        ] {
            fs::write(path("bad.json"), content).unwrap();
            let said = refusal(&path("bad.json"));
            assert!(said.contains("bad.json") && said.contains(why), "{said}");
        }
        // Too large for a file of families: it must neither fill memory nor block.
        fs::File::create(path("huge.json")).unwrap().set_len(1 << 40).unwrap();
        assert!(refusal(&path("huge.json")).contains("bytes"));
        let said = refusal(&written(folder.path(), "many.json", &["lte", "umts"]));
        assert!(said.contains("many.json: there are several families; say which with name="), "{said}");
        for other in [folder.path().to_str().unwrap(), "/dev/zero"] {
            assert!(refusal(other).contains("not a regular file"), "{other}");
        }
    }

    #[test]
    fn path_of_a_fitted_trace_is_its_family_file() {
        let path = |name: &str| TraceName::from(name).as_path().to_owned();
        assert_eq!(path("fitted:family=a/mine.json,seed=3"), Path::new("a/mine.json"));
        assert_eq!(path("a/mine.json"), Path::new("a/mine.json"));
        assert_eq!(path("fitted:family=lte"), Path::new("fitted:family=lte"));
    }
}
