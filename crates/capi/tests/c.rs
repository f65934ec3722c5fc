//! Tests that the header matches the sources, and that the examples in C and C++ compile and run.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const PACKAGE: &str = env!("CARGO_MANIFEST_DIR");

/// The folder with the build results of this test.
fn built() -> PathBuf {
    let program = env::current_exe().expect("a test program");
    program.ancestors().nth(2).expect("target/PROFILE/deps/PROGRAM").to_owned()
}

/// Variables that Cargo sets for a test. Build scripts that read them would run again, here and in the next build
/// outside of a test.
fn is_of_test(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    ["CARGO_MANIFEST_", "CARGO_PKG_", "CARGO_CRATE_", "CARGO_PRIMARY_"].iter().any(|prefix| name.starts_with(prefix))
}

/// Builds the library in the profile of this test, because Cargo builds no C library for tests; returns its folder.
///
/// Built beside the command, it has the features of the other builds, so that the dependencies are compiled once.
fn library() -> PathBuf {
    let built = built();
    let profile = built.file_name().and_then(OsStr::to_str).expect("a profile").to_owned();
    let profile = if profile == "debug" { "dev".to_owned() } else { profile };
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    env::vars_os().filter(|(name, _)| is_of_test(name)).for_each(|(name, _)| {
        cargo.env_remove(name);
    });
    cargo.args(["build", "--package", "lockstep-capi", "--package", "lockstep-cli", "--lib"]);
    // What the Makefile adds to all builds.
    cargo.args(["--features", &env::var("LOCKSTEP_FEATURES").unwrap_or_default()]);
    cargo.args(["--profile", &profile, "--target-dir"]);
    cargo.arg(built.parent().expect("a target folder")).current_dir(PACKAGE);
    assert!(cargo.status().expect("cargo runs").success(), "the library is built");
    built
}

fn compile_and_run(compiler: &str, source: &str, options: &[&str]) {
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("example");
    let built = library();
    let mut compile = Command::new(compiler);
    compile.args(options).args(["-Wall", "-Wextra", "-Werror", "-I"]).arg(Path::new(PACKAGE).join("include"));
    compile.arg(Path::new(PACKAGE).join("examples").join(source)).arg("-o").arg(&program);
    compile.arg("-L").arg(&built).arg("-llockstep").arg(format!("-Wl,-rpath,{}", built.display()));
    match compile.output() {
        Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            eprintln!("no {compiler}: {source} is skipped");
            return;
        }
        Err(error) => panic!("{compiler}: {error}"),
    }
    let output = Command::new(&program).env("ASAN_OPTIONS", "detect_leaks=1").output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{source}: {said}{}", String::from_utf8_lossy(&output.stdout));
}

/// Whether the compiler finds the run-time library of AddressSanitizer.
fn has_asan(compiler: &str) -> bool {
    let folder = tempfile::tempdir().expect("a folder");
    let source = folder.path().join("empty.c");
    fs::write(&source, "int main(void) { return 0; }\n").expect("a file");
    let program = folder.path().join("empty");
    let compiled = Command::new(compiler).arg("-fsanitize=address").arg(&source).arg("-o").arg(&program).output();
    compiled.is_ok_and(|output| output.status.success())
        && Command::new(&program).status().is_ok_and(|status| status.success())
}

#[test]
fn header_is_generated_from_the_sources() {
    let config = cbindgen::Config::from_file(Path::new(PACKAGE).join("cbindgen.toml")).expect("it is a configuration");
    let bindings = cbindgen::Builder::new().with_src(Path::new(PACKAGE).join("src/lib.rs")).with_config(config);
    let mut generated = Vec::new();
    bindings.generate().expect("it parses").write(&mut generated);
    let generated = String::from_utf8(generated).expect("text");
    let header = Path::new(PACKAGE).join("include/lockstep.h");
    if env::var_os("LOCKSTEP_BLESS").is_some() {
        fs::write(&header, &generated).expect("it is written");
    }
    let current = fs::read_to_string(&header).unwrap_or_default();
    assert!(current == generated, "include/lockstep.h is out of date: LOCKSTEP_BLESS=1 cargo test -p lockstep-capi");
}

#[test]
#[ignore = "slow"]
fn example_in_c_runs_with_address_sanitizer() {
    let options: &[&str] = if has_asan("cc") { &["-std=c11", "-g", "-fsanitize=address"] } else { &["-std=c11"] };
    compile_and_run("cc", "loopback.c", options);
}

#[test]
#[ignore = "slow"]
fn streams_have_their_names_in_c() {
    compile_and_run("cc", "two_cameras.c", &["-std=c11"]);
}

#[test]
#[ignore = "slow"]
fn example_in_cpp_runs() {
    compile_and_run("c++", "callbacks.cpp", &["-std=c++17", "-pthread"]);
}
