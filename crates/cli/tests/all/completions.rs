//! Tests of `lockstep completions`.

use std::io::Write;
use std::process::{Command, Output};

fn completions(shell: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lockstep")).args(["completions", shell]).output().expect("the command starts")
}

#[test]
fn each_shell_gets_the_commands_and_their_options() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let output = completions(shell);
        assert!(output.status.success(), "{shell}");
        let script = String::from_utf8(output.stdout).expect("a script is text");
        for word in ["simulate", "completions", "burst-loss", "droptail"] {
            assert!(script.contains(word) || shell == "elvish" || shell == "powershell", "{shell}: {word}");
        }
        assert!(script.contains("lockstep") && script.contains("simulate"), "{shell}");
    }
    let wrong = completions("csh");
    assert!(!wrong.status.success());
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("[possible values: bash, elvish, fish, powershell, zsh]"));
}

#[test]
fn bash_completes_an_option_and_its_values() {
    let Ok(bash) = Command::new("bash").arg("--version").output() else {
        eprintln!("skipped: there is no bash");
        return;
    };
    assert!(bash.status.success());
    let script = String::from_utf8(completions("bash").stdout).expect("a script is text");
    let complete = |words: &[&str]| {
        let asked = format!(
            "{script}\nCOMP_WORDS=({}); COMP_CWORD={}; _lockstep lockstep '{}' '{}'; echo \"${{COMPREPLY[@]}}\"",
            words.join(" "),
            words.len() - 1,
            words[words.len() - 1],
            words[words.len() - 2],
        );
        // The script is in a file, because an argument has at most 128 kB and the script has more.
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        file.write_all(asked.as_bytes()).expect("it is written");
        let output = Command::new("bash").arg("--norc").arg(file.path()).output().expect("bash starts");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    assert_eq!(complete(&["lockstep", "sim"]), "simulate");
    assert_eq!(complete(&["lockstep", "simulate", "--fit"]), "--fit-passes");
    assert_eq!(complete(&["lockstep", "simulate", "--queue", "co"]), "codel");
}
