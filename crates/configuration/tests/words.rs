//! The words of a call, and what is said of wrong ones.

use lockstep_configuration::SimulateArguments;

fn refusal(words: &[&str]) -> String {
    SimulateArguments::from_words(words.iter().map(|&word| word.to_owned())).unwrap_err().to_string()
}

#[test]
fn a_wrong_word_is_answered_in_one_line_with_the_choices_that_there_are() {
    assert_eq!(
        refusal(&["--queue=lifo"]),
        "invalid value 'lifo' for '--queue <QUEUE>' [possible values: droptail, codel, pie]"
    );
    let similar = refusal(&["--menu=fitt"]);
    assert!(similar.contains("[possible values: fit, serial, parallel]") && similar.ends_with("'fit'"), "{similar}");
    assert!(refusal(&["--fit-passes=9"]).ends_with("9 is not in 1..=8"));
    assert!(refusal(&["--nosuch=1"]).starts_with("unexpected argument '--nosuch' found"));
    let conflict = refusal(&["--estimator=a.py", "--controller=salsify"]);
    assert!(conflict.ends_with("cannot be used with '--controller <CONTROLLER>'"), "{conflict}");
    for words in [&["--queue=lifo"], &["--menu=fitt"], &["--nosuch=1"], &["talk.y4m"]] {
        let said = refusal(words);
        assert!(said.lines().count() == 1 && !said.contains("Usage") && !said.contains("--help"), "{said}");
    }
}
