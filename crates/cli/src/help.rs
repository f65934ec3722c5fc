//! Help of the command: commands in groups, the usual options on `--help`, every option by sections on `--help-all`.

use clap::{Arg, ArgAction, Command};

/// Options that only `--help-all` shows, by their names in clap.
pub const ADVANCED: [&str; 35] = [
    "ecn",
    "queue_packets",
    "queue_bytes",
    "reverse_loss",
    "burst_loss",
    "loss_at",
    "reorder",
    "jitter_ms",
    "menu",
    "fit_passes",
    "grace_period",
    "as_published",
    "tuning",
    "python",
    "estimator_limit",
    "encode_time",
    "encode_ms",
    "decode_ms",
    "feedback_ms",
    "bound",
    "codec_model",
    "max_pixels",
    "address",
    "relay_only",
    "show_ticket",
    "web_certificate",
    "wait_seconds",
    "idle_seconds",
    "log",
    "send_log",
    "receive_log",
    "decisions",
    "qlog",
    "labels",
    "sound_processing",
];

/// Maximum characters of a brief text, two lines next to the name of an option.
const MAX_CHARACTERS: usize = 100;

/// `command` with the `groups` of its subcommands in its help, and brief help for each.
pub fn arranged(command: Command, groups: &[(&str, Command)]) -> Command {
    let template =
        format!("{{about-with-newline}}\n{{usage-heading}} {{usage}}\n{}\nOptions:\n{{options}}", list(groups));
    command.mut_subcommands(brief).help_template(template)
}

/// Text with a heading for each group and a line for each of its commands.
fn list(groups: &[(&str, Command)]) -> String {
    let names = groups.iter().flat_map(|(_, commands)| commands.get_subcommands().map(Command::get_name));
    let widest = names.map(str::len).max().unwrap_or(0);
    let mut text = String::new();
    for (heading, commands) in groups {
        text += &format!("\n{heading}:\n");
        for command in commands.get_subcommands() {
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            text += &format!("  {:widest$}  {about}\n", command.get_name());
        }
    }
    #[cfg(not(feature = "lab"))]
    {
        text += &format!("\nLaboratory:\n  not in this build; {}\n", crate::no_laboratory::REMEDY);
    }
    text
}

/// `command` with brief help on `--help`, and the full help on `--help-all` if that has more.
fn brief(command: Command) -> Command {
    let command = command.mut_subcommands(brief);
    if command.is_disable_help_flag_set() {
        return command;
    }
    let command = command.mut_args(|argument| {
        let advanced = ADVANCED.contains(&argument.get_id().as_str());
        shortened(argument).hide_short_help(advanced)
    });
    let says_more = |argument: &Arg| argument.is_hide_short_help_set() || argument.get_long_help().is_some();
    let has_more = command.get_long_about().is_some() || command.get_arguments().any(says_more);
    let help = Arg::new("help").short('h').long("help").action(ArgAction::HelpShort).help_heading(None::<&str>);
    let help = help.help(if has_more { "Print the usual options" } else { "Print help" });
    let all = Arg::new("help-all").long("help-all").action(ArgAction::HelpLong).help_heading(None::<&str>);
    let all = all.help("Print every option in full");
    let command = command.disable_help_flag(true).arg(help);
    if has_more { command.arg(all) } else { command }
}

/// `argument` with brief help; its long help has the whole text.
fn shortened(argument: Arg) -> Arg {
    let Some(help) = argument.get_help().map(ToString::to_string) else { return argument };
    let all = argument.get_long_help().map_or_else(|| help.clone(), ToString::to_string);
    let first = brief_text(&help).to_owned();
    if first == all { argument } else { argument.help(first).long_help(all) }
}

/// First sentence of `text`. If that is too long, the part before its list or second clause.
fn brief_text(text: &str) -> &str {
    let first = text.split_once(". ").map_or(text, |(first, _)| first);
    if first.chars().count() <= MAX_CHARACTERS {
        return first;
    }
    let ends = [": ", "; ", " ("].into_iter().filter_map(|end| first.find(end)).min();
    ends.map_or(first, |end| &first[..end])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command_line;

    /// Maximum lines of brief help, which fit on a screen.
    const MAX_LINES: usize = 59;
    const WIDTH: usize = 100;

    /// Every command below `command`, with the words that call it.
    fn all(command: &Command, words: &str) -> Vec<(String, Command)> {
        let mut found = vec![(words.to_owned(), command.clone())];
        for below in command.get_subcommands().filter(|below| below.get_name() != "help") {
            found.extend(all(below, &format!("{words} {}", below.get_name())));
        }
        found
    }

    fn every_command() -> Vec<(String, Command)> {
        let mut command = command_line().term_width(WIDTH);
        command.build();
        all(&command, "lockstep")
    }

    fn one(words: &str) -> Command {
        every_command().into_iter().find(|(name, _)| name == words).map(|(_, command)| command).expect("the command")
    }

    #[test]
    fn brief_help_of_every_command_fits_on_a_screen() {
        for (words, mut command) in every_command() {
            let help = command.render_help().to_string();
            assert!(help.lines().count() <= MAX_LINES, "{words}: {} lines\n{help}", help.lines().count());
        }
    }

    #[test]
    fn help_has_one_line_for_each_command_in_its_group() {
        let help = one("lockstep").render_help().to_string();
        let headings: Vec<&str> = help.lines().filter(|line| !line.starts_with(' ') && line.ends_with(':')).collect();
        let mut expected = vec!["Calls:", "Files and codec:", "Simulation:", "Laboratory:", "Other:", "Options:"];
        if cfg!(not(feature = "lab")) {
            // The last group explains how to get it.
            expected.swap(3, 4);
        }
        assert_eq!(headings, expected);
        assert!(help.lines().all(|line| line.chars().count() <= WIDTH), "{help}");
        for command in command_line().get_subcommands() {
            let begins = format!("  {} ", command.get_name());
            assert_eq!(help.lines().filter(|line| line.starts_with(&begins)).count(), 1, "{begins}");
        }
    }

    #[test]
    fn advanced_options_are_in_the_long_help_by_sections() {
        let mut simulate = one("lockstep simulate");
        let (brief, long) = (simulate.render_help().to_string(), simulate.render_long_help().to_string());
        assert!(!brief.contains("--burst-loss") && brief.contains("--help-all"), "{brief}");
        let section = |heading: &str| long.find(&format!("\n{heading}:\n")).expect("the section");
        let option = long.find("--burst-loss").expect("the option");
        assert!(section("Link") < option && option < section("Codec and control"), "{long}");
    }

    #[test]
    fn each_advanced_option_is_one_of_a_command() {
        let commands = every_command();
        for name in ADVANCED {
            let has =
                |(_, command): &(String, Command)| command.get_arguments().any(|argument| argument.get_id() == name);
            assert!(commands.iter().any(has), "{name}");
        }
    }

    #[test]
    fn brief_text_is_the_first_sentence_or_its_first_clause() {
        assert_eq!(brief_text("One thing. Another"), "One thing");
        assert_eq!(brief_text("a rate; or `none`. More"), "a rate; or `none`");
        assert_eq!(brief_text("1.5 at most"), "1.5 at most");
        let long = format!("Where it goes: {}", "a file, ".repeat(20));
        assert_eq!(brief_text(&long), "Where it goes");
    }
}
