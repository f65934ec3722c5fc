//! Files that a browser loads, for programs that serve or copy them: the page, the module, and the package for other
//! pages.

/// File of the page.
#[derive(Debug, Clone, Copy)]
pub struct PageFile {
    /// Name in its folder.
    pub name: &'static str,
    /// Content type for HTTP.
    pub content_type: &'static str,
    /// Content.
    pub bytes: &'static [u8],
}

macro_rules! page_file {
    ($name:literal, $content_type:literal) => {
        PageFile {
            name: $name,
            content_type: $content_type,
            bytes: include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/page/", $name)),
        }
    };
}

/// All files of the page; the first is the page itself.
pub const FILES: &[PageFile] = &[
    page_file!("index.html", "text/html; charset=utf-8"),
    page_file!("style.css", "text/css; charset=utf-8"),
    page_file!("app.js", "text/javascript; charset=utf-8"),
    page_file!("lockstep.js", "text/javascript; charset=utf-8"),
    page_file!("worker.js", "text/javascript; charset=utf-8"),
    page_file!("socket.js", "text/javascript; charset=utf-8"),
    page_file!("sound.js", "text/javascript; charset=utf-8"),
    page_file!("lockstep.wasm", "application/wasm"),
    page_file!("icon.svg", "image/svg+xml"),
    page_file!("example.html", "text/html; charset=utf-8"),
    page_file!("example.js", "text/javascript; charset=utf-8"),
];

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn module_is_webassembly() {
        let module = FILES.iter().find(|file| file.name == "lockstep.wasm").expect("the module");
        assert_eq!(module.bytes.get(..4), Some(&b"\0asm"[..]));
    }

    #[test]
    fn every_file_that_a_browser_loads_is_listed() {
        let package = ["README.md", "package.json", "lockstep.d.ts"];
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("page");
        for entry in fs::read_dir(folder).expect("the folder of the page") {
            let name = entry.expect("an entry").file_name().into_string().expect("a plain name");
            let listed = FILES.iter().any(|file| file.name == name);
            assert!(listed != package.contains(&name.as_str()), "{name}");
        }
    }
}
