//! Tests of the layers of crates and files. A crate depends only on crates before it in [`CRATES`]. Files of a crate do
//! not import each other in a circle.
//!
//! The tests parse every file below a `src`. An import counts for the file that defines the name, even through
//! re-exports. Paths in the code, such as `crate::tables::ZIGZAG`, and re-exports count as imports. Code for tests only
//! does not count; code for one kind of processor does.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use syn::punctuated::Punctuated;
use syn::visit::{self, Visit};

/// Imported files of each file.
type Imports = BTreeMap<String, BTreeSet<String>>;

/// A module: a file or a part of one.
#[derive(Default)]
struct Module {
    file: String,
    children: BTreeSet<String>,
    /// Names of its items.
    items: BTreeSet<String>,
    /// Imported names, and their paths.
    names: Vec<(String, Vec<String>)>,
    /// Modules with a glob import.
    globs: Vec<Vec<String>>,
    /// Paths in the code.
    paths: Vec<Vec<String>>,
}

/// Modules of a crate by path; the path of the root is empty.
#[derive(Default)]
struct Modules(BTreeMap<Vec<String>, Module>);

impl Modules {
    /// Reads `file` as the module `path`, and the files of its children. `source` returns the text of a file, if it
    /// exists.
    fn read(&mut self, path: &[String], file: &str, source: &dyn Fn(&str) -> Option<String>) {
        let text = source(file).unwrap_or_else(|| panic!("{file} is missing"));
        let parsed = syn::parse_file(&text).unwrap_or_else(|error| panic!("{file}: {error}"));
        let base = Path::new(file);
        let folder = match base.file_stem().and_then(|stem| stem.to_str()) {
            Some("lib" | "main" | "mod") => base.parent().map_or_else(PathBuf::new, Path::to_path_buf),
            _ => base.with_extension(""),
        };
        self.add(path, file, &folder, &parsed.items, source);
    }

    fn add(
        &mut self,
        path: &[String],
        file: &str,
        folder: &Path,
        items: &[syn::Item],
        source: &dyn Fn(&str) -> Option<String>,
    ) {
        let mut module = Module { file: file.to_owned(), ..Module::default() };
        for item in items.iter().filter(|item| !is_for_tests(attributes(item))) {
            if let Some(name) = name_of(item) {
                module.items.insert(name);
            }
            match item {
                syn::Item::Use(import) => module.import(&mut Vec::new(), &import.tree),
                syn::Item::Mod(child) => {
                    let name = child.ident.to_string();
                    module.children.insert(name.clone());
                    let path = [path, std::slice::from_ref(&name)].concat();
                    if let Some((_, items)) = &child.content {
                        self.add(&path, file, &folder.join(&name), items, source);
                        continue;
                    }
                    let candidates = [folder.join(format!("{name}.rs")), folder.join(&name).join("mod.rs")];
                    let found = candidates.iter().filter_map(|file| file.to_str()).find(|file| source(file).is_some());
                    self.read(&path, found.unwrap_or_else(|| panic!("{file}: no file for mod {name}")), source);
                }
                other => module.visit_item(other),
            }
        }
        self.0.insert(path.to_vec(), module);
    }

    /// Files that define `path` in the module `from`; several if they depend on the processor. Empty for local names
    /// and those of other crates.
    fn resolve(&self, from: &[String], path: &[String], depth: usize) -> BTreeSet<&str> {
        assert!(depth < 32, "{path:?} in {from:?} leads nowhere");
        let module = &self.0[from];
        let Some((first, rest)) = path.split_first() else { return BTreeSet::new() };
        match first.as_str() {
            "crate" => self.descend(&[], rest, depth),
            "self" => self.descend(from, rest, depth),
            "super" => {
                let parent = &from[..from.len() - 1];
                if rest.first().is_some_and(|next| next == "super") {
                    return self.resolve(parent, rest, depth + 1);
                }
                self.descend(parent, rest, depth)
            }
            name if module.children.contains(name) || module.imports_of(name).next().is_some() => {
                self.descend(from, path, depth)
            }
            _ => BTreeSet::new(),
        }
    }

    fn descend(&self, from: &[String], path: &[String], depth: usize) -> BTreeSet<&str> {
        let module = &self.0[from];
        let here = BTreeSet::from([&*module.file]);
        let Some((first, rest)) = path.split_first() else { return here };
        if module.children.contains(first) {
            return self.descend(&[from, std::slice::from_ref(first)].concat(), rest, depth);
        }
        if module.items.contains(first) {
            return here;
        }
        let mut targets = module.imports_of(first).peekable();
        if targets.peek().is_some() {
            return targets.flat_map(|target| self.resolve(from, &[target, rest].concat(), depth + 1)).collect();
        }
        let through = |glob: &Vec<String>| self.resolve(from, &[glob, path].concat(), depth + 1);
        module.globs.iter().map(through).find(|files| !files.is_empty()).unwrap_or(here)
    }

    /// All imports between files.
    fn imports(&self) -> Imports {
        let mut imports = Imports::new();
        for (at, module) in &self.0 {
            let of_file = imports.entry(module.file.clone()).or_default();
            let named = module.names.iter().map(|(_, target)| target);
            for path in named.chain(&module.globs).chain(&module.paths) {
                let files = self.resolve(at, path, 0);
                of_file.extend(files.into_iter().filter(|file| *file != module.file).map(str::to_owned));
            }
        }
        imports
    }
}

impl Module {
    /// Targets of an imported name; several if they depend on the processor.
    fn imports_of(&self, name: &str) -> impl Iterator<Item = &[String]> {
        self.names.iter().filter(move |(known, _)| known == name).map(|(_, target)| &target[..])
    }

    fn import(&mut self, before: &mut Vec<String>, tree: &syn::UseTree) {
        match tree {
            syn::UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.import(before, &path.tree);
                before.pop();
            }
            syn::UseTree::Name(name) => self.import_name(before, &name.ident.to_string(), None),
            syn::UseTree::Rename(rename) => {
                self.import_name(before, &rename.ident.to_string(), Some(rename.rename.to_string()));
            }
            syn::UseTree::Glob(_) => self.globs.push(before.clone()),
            syn::UseTree::Group(group) => group.items.iter().for_each(|tree| self.import(before, tree)),
        }
    }

    fn import_name(&mut self, before: &[String], name: &str, rename: Option<String>) {
        let mut target = before.to_vec();
        if name != "self" {
            target.push(name.to_owned());
        }
        let known = rename.or_else(|| target.last().cloned()).unwrap_or_default();
        // `use anyhow::{self, Context}` imports another crate, not a file.
        if target.first() != Some(&known) {
            self.names.push((known, target));
        }
    }
}

impl<'ast> Visit<'ast> for Module {
    fn visit_path(&mut self, path: &'ast syn::Path) {
        // A single word is a local or imported name.
        if path.segments.len() > 1 {
            self.paths.push(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        }
        visit::visit_path(self, path);
    }

    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {
        // The path in `pub(crate)` is not an import.
    }

    fn visit_item_use(&mut self, import: &'ast syn::ItemUse) {
        self.import(&mut Vec::new(), &import.tree);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        // Most macros take expressions. Arguments of other macros have no paths in this workspace.
        if let Ok(arguments) = call.parse_body_with(Punctuated::<syn::Expr, syn::Token![,]>::parse_terminated) {
            arguments.iter().for_each(|argument| {
                let mut inner = Module::default();
                inner.visit_expr(argument);
                self.paths.append(&mut inner.paths);
            });
        }
    }
}

fn attributes(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Const(item) => &item.attrs,
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

fn is_for_tests(attributes: &[syn::Attribute]) -> bool {
    let test = |attribute: &syn::Attribute| {
        attribute.path().is_ident("cfg") && attribute.parse_args::<syn::Path>().is_ok_and(|path| path.is_ident("test"))
    };
    attributes.iter().any(test)
}

fn name_of(item: &syn::Item) -> Option<String> {
    let name = match item {
        syn::Item::Const(item) => &item.ident,
        syn::Item::Enum(item) => &item.ident,
        syn::Item::Fn(item) => &item.sig.ident,
        syn::Item::Static(item) => &item.ident,
        syn::Item::Struct(item) => &item.ident,
        syn::Item::Trait(item) => &item.ident,
        syn::Item::Type(item) => &item.ident,
        _ => return None,
    };
    Some(name.to_string())
}

/// A circle of files: each imports the next, and the last imports the first. It is the shortest one from its first
/// file.
fn circle(imports: &Imports) -> Option<Vec<String>> {
    imports.keys().find_map(|start| {
        let mut came_from: BTreeMap<&String, &String> = BTreeMap::new();
        let mut reached = vec![start];
        let mut next = 0;
        while let Some(&file) = reached.get(next) {
            next += 1;
            for imported in imports.get(file).into_iter().flatten() {
                if imported == start {
                    let mut back = vec![file.clone()];
                    while let Some(&before) = came_from.get(back.last()?) {
                        back.push(before.clone());
                    }
                    back.reverse();
                    return Some(back);
                }
                if !came_from.contains_key(imported) {
                    came_from.insert(imported, file);
                    reached.push(imported);
                }
            }
        }
        None
    })
}

/// Every crate of the workspace, each before those that may depend on it.
const CRATES: [&str; 27] = [
    "units",
    "vp8",
    "media",
    "link",
    "transport",
    "sound",
    "nn",
    "control",
    "call",
    "libvpx",
    "av1",
    "hosted",
    "measure",
    "sim",
    "socket",
    "session",
    "emulator",
    "live",
    "web",
    "lockstep",
    "capi",
    "configuration",
    "features",
    "runner",
    "lab",
    "cli",
    "python",
];

/// Crates whose files import nothing from the modules around them. In others a module and those inside it are one layer.
const STRICT: [&str; 8] = ["configuration", "emulator", "hosted", "measure", "nn", "python", "socket", "vp8"];

fn folder_of(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name)
}

fn crates() -> Vec<String> {
    let entries = fs::read_dir(folder_of("")).expect("the folder of crates");
    let folders = entries.map(|entry| entry.expect("an entry").path());
    let mut names: Vec<String> = folders
        .filter(|folder| folder.join("Cargo.toml").exists())
        .filter_map(|folder| Some(folder.file_name()?.to_str()?.to_owned()))
        .collect();
    names.sort_unstable();
    names
}

/// The crates of the workspace that the crate `name` depends on, but for tests.
fn dependencies_of(name: &str) -> Vec<String> {
    let manifest = fs::read_to_string(folder_of(name).join("Cargo.toml")).expect("a manifest");
    let lines = manifest.lines().skip_while(|line| *line != "[dependencies]");
    let lines = lines.take_while(|line| *line != "[dev-dependencies]");
    lines.filter_map(|line| Some(line.strip_prefix("lockstep-")?.split(['.', ' ']).next()?.to_owned())).collect()
}

fn imports_of(root: &str, source: &dyn Fn(&str) -> Option<String>) -> Imports {
    let mut modules = Modules::default();
    modules.read(&[], root, source);
    modules.imports()
}

/// Path of the module in `file`, as a prefix of its children.
fn module_path(file: &str) -> String {
    let path = file.trim_end_matches(".rs");
    let path = path.strip_suffix("/mod").unwrap_or(path);
    if matches!(path, "lib" | "main") { String::new() } else { format!("{path}/") }
}

/// Removes imports between a module and its ancestors.
fn between_layers(imports: Imports) -> Imports {
    let is_nested = |one: &str, other: &str| {
        let (one, other) = (module_path(one), module_path(other));
        one.starts_with(&other) || other.starts_with(&one)
    };
    let mut imports = imports;
    imports.iter_mut().for_each(|(file, imported)| imported.retain(|other| !is_nested(file, other)));
    imports
}

/// Imports between the files of the crate `name`.
fn imports_in(name: &str) -> Imports {
    let sources = folder_of(name).join("src");
    let root = if sources.join("lib.rs").exists() { "lib.rs" } else { "main.rs" };
    let imports = imports_of(root, &|file| fs::read_to_string(sources.join(file)).ok());
    if STRICT.contains(&name) { imports } else { between_layers(imports) }
}

/// Imports between the given files of a crate.
fn imports_among(files: &[(&str, &str)]) -> Imports {
    imports_of("lib.rs", &|file| files.iter().find(|(name, _)| *name == file).map(|(_, text)| (*text).to_owned()))
}

#[test]
fn files_of_a_crate_have_no_circular_imports() {
    let mut circles = Vec::new();
    let mut counted = 0;
    for name in crates() {
        let imports = imports_in(&name);
        counted += imports.values().map(BTreeSet::len).sum::<usize>();
        if let Some(circle) = circle(&imports) {
            circles.push(format!("crates/{name}/src: {} -> {}", circle.join(" -> "), circle[0]));
        }
    }
    assert!(counted > 1_000, "{counted} imports among the files of all crates");
    assert!(circles.is_empty(), "files import each other in a circle:\n{}", circles.join("\n"));
}

#[test]
fn crates_depend_only_on_crates_before_them() {
    for name in crates() {
        let at = CRATES.iter().position(|&known| known == name);
        let at = at.unwrap_or_else(|| panic!("the crate {name} has no place in the list of this test"));
        for other in dependencies_of(&name) {
            assert!(CRATES[..at].contains(&&*other), "the crate {name} depends on {other}, which is above it");
        }
    }
}

#[test]
fn an_embedding_program_compiles_no_laboratory() {
    let mut reached = BTreeSet::new();
    let mut next = vec!["lockstep".to_owned()];
    while let Some(name) = next.pop() {
        next.extend(dependencies_of(&name));
        reached.insert(name);
    }
    for other in ["link", "measure", "sim", "emulator", "configuration"] {
        assert!(!reached.contains(other), "the crate lockstep reaches {other}, which a call does not need");
    }
    assert!(reached.contains("socket") && reached.contains("call"), "{reached:?}");
}

#[test]
fn joint_test_programs_contain_all_their_files() {
    let programs: Vec<PathBuf> =
        crates().iter().map(|name| folder_of(name).join("tests/all")).filter(|folder| folder.exists()).collect();
    assert!(!programs.is_empty());
    for folder in programs {
        let main = fs::read_to_string(folder.join("main.rs")).expect("main.rs");
        for entry in fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let name = path.file_stem().expect("a name").to_string_lossy();
            assert!(name == "main" || main.contains(&format!("mod {name};")), "no test of {} runs", path.display());
        }
    }
}

#[test]
fn codec_files_have_at_most_600_lines_except_tables() {
    fn visit(folder: &Path) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                visit(&path);
            } else if path.extension().is_some_and(|extension| extension == "rs")
                && !path.components().any(|part| part.as_os_str().to_string_lossy().starts_with("tables"))
            {
                let lines = fs::read_to_string(&path).unwrap().lines().count();
                assert!(lines <= 600, "{} has {lines} lines", path.display());
            }
        }
    }
    visit(&folder_of("vp8").join("src"));
}

#[test]
fn import_counts_for_the_file_that_defines_the_name() {
    let imports = imports_among(&[
        ("lib.rs", "mod a; mod b; pub use a::Thing;"),
        ("a/mod.rs", "mod inner; pub(crate) use inner::{Thing, other as renamed};"),
        ("a/inner.rs", "pub struct Thing; pub fn other() {}"),
        ("b.rs", "use crate::{Thing, a::renamed}; fn f() -> Thing { renamed() }"),
    ]);
    assert_eq!(imports["b.rs"], BTreeSet::from(["a/inner.rs".to_owned()]));
    assert_eq!(imports["lib.rs"], BTreeSet::from(["a/inner.rs".to_owned()]));
    assert_eq!(circle(&imports), None);
}

#[test]
fn circle_is_found_for_every_form_of_import() {
    let circles: [&[(&str, &str)]; 4] = [
        &[("lib.rs", "mod a; mod b;"), ("a.rs", "use crate::b::B; struct A;"), ("b.rs", "use super::a::A; struct B;")],
        &[
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "fn f() { assert!(crate::b::g()); }"),
            ("b.rs", "use crate::a; fn g() {}"),
        ],
        &[("lib.rs", "mod a;"), ("a.rs", "mod b; use b::B; struct A;"), ("a/b.rs", "impl super::A {} struct B;")],
        &[
            ("lib.rs", "mod a;"),
            ("a.rs", "mod b; fn f() { b::g() } struct A;"),
            ("a/b.rs", "use super::*; fn g(_: A) {}"),
        ],
    ];
    for files in circles {
        let found = circle(&imports_among(files)).unwrap_or_else(|| panic!("no circle in {files:?}"));
        assert_eq!(found, files[1..].iter().map(|(name, _)| (*name).to_owned()).collect::<Vec<_>>());
    }
}

#[test]
fn module_and_its_children_are_one_layer() {
    let files = [
        ("lib.rs", "mod a; mod c; pub use a::A;"),
        ("a.rs", "mod b; use b::B; pub struct A;"),
        ("a/b.rs", "use super::A; use crate::c::C; pub struct B;"),
        ("c.rs", "use crate::A; pub struct C;"),
    ];
    let imports = between_layers(imports_among(&files));
    assert_eq!(circle(&imports), None);
    let files = [files[0], files[1], files[2], ("c.rs", "use crate::a::b::B; pub struct C;")];
    let found = circle(&between_layers(imports_among(&files))).expect("a circle");
    assert_eq!(found, ["a/b.rs", "c.rs"]);
}

#[test]
fn test_code_does_not_close_a_circle() {
    let imports = imports_among(&[
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", "pub struct A; #[cfg(test)] mod tests { use crate::b::B; }"),
        ("b.rs", "use crate::a::A; struct B;"),
    ]);
    assert_eq!(circle(&imports), None);
}
