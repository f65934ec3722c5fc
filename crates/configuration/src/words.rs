//! Command-line arguments of the options table, for clap.

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};

use clap::builder::{PossibleValue, PossibleValuesParser, StringValueParser, TypedValueParser, ValueParser};
use serde::{Serialize, Serializer};

use lockstep_control::Controllers;

use crate::options::{CallArguments, Form, OptionDescription, OptionGroup, OptionValue};
use crate::settings::{CallSettings, ControlSettings, LinkSettings};

/// Argument of clap for `option`.
fn argument(option: &'static OptionDescription) -> Arg {
    let argument = Arg::new(option.name).long(option.name.replace('_', "-")).help(option.help());
    let argument = argument.help_heading(option.group.heading());
    if option.form == Form::Flag {
        return argument.action(ArgAction::SetTrue);
    }
    let many = option.form == Form::Many;
    let argument = argument.action(if many { ArgAction::Append } else { ArgAction::Set });
    let value_name = option.value_name.map_or_else(|| option.name.to_uppercase(), str::to_owned);
    let argument = argument.value_name(value_name).default_values(option.default_values());
    let argument = match option.implied_value {
        Some(implied_value) => argument.num_args(0..=1).default_missing_value(implied_value),
        None => argument,
    };
    if option.choices.is_empty() {
        argument.value_parser(move |word: &str| option.check(word).map(|()| word.to_owned()))
    } else {
        argument.value_parser(one_of(option.choices))
    }
}

/// Parser of a word that is one of `choices`.
fn one_of(choices: &[(&'static str, &'static str)]) -> PossibleValuesParser {
    PossibleValuesParser::new(choices.iter().map(|&(name, meaning)| PossibleValue::new(name).help(meaning)))
}

/// Parser of an option value, for a command with a separate option of this type.
#[must_use]
pub fn value_of<T: OptionValue + Clone + Send + Sync + 'static>() -> ValueParser {
    let read = |word: String| T::from_word(&word);
    match T::CHOICES {
        [] => StringValueParser::new().try_map(read).into(),
        choices => one_of(choices).try_map(read).into(),
    }
}

/// Adds the options of `groups` to `command`.
fn add(command: Command, groups: &[OptionGroup]) -> Command {
    command.args(CallArguments::TABLE.iter().filter(|option| groups.contains(&option.group)).map(argument))
}

/// Given options of `groups`.
fn read(matches: &ArgMatches, groups: &[OptionGroup]) -> Result<CallArguments, Error> {
    let mut options = CallArguments::default();
    let wrong = |kind, error: &crate::OptionError| Error::raw(kind, format!("{}\n", error.message_for_command()));
    for option in CallArguments::TABLE.iter().filter(|option| groups.contains(&option.group)) {
        if matches.value_source(option.name) != Some(ValueSource::CommandLine) {
            continue;
        }
        let words: Vec<String> = match option.form {
            Form::Flag => vec![matches.get_flag(option.name).to_string()],
            Form::One | Form::Many => matches.get_many::<String>(option.name).into_iter().flatten().cloned().collect(),
        };
        options.set_values(option.name, &words).map_err(|error| wrong(ErrorKind::ValueValidation, &error))?;
    }
    options.check().map_err(|error| wrong(ErrorKind::ArgumentConflict, &error))?;
    Ok(options)
}

/// Arguments for the options of some groups.
macro_rules! words {
    ($($(#[doc = $help:literal])+ $name:ident: $groups:expr;)*) => {$(
        $(#[doc = $help])+
        #[derive(Debug, Clone)]
        pub struct $name(Box<CallArguments>);

        impl $name {
            /// Groups of the options that it parses.
            pub const GROUPS: &'static [OptionGroup] = &$groups;

            /// Given options.
            #[must_use]
            pub fn given(&self) -> &CallArguments {
                &self.0
            }
        }

        impl Args for $name {
            fn augment_args(command: Command) -> Command {
                add(command, Self::GROUPS)
            }

            fn augment_args_for_update(command: Command) -> Command {
                add(command, Self::GROUPS)
            }
        }

        impl FromArgMatches for $name {
            fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
                read(matches, Self::GROUPS).map(Box::new).map(Self)
            }

            fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
                *self.0 = read(matches, Self::GROUPS)?.or((*self.0).clone());
                Ok(())
            }
        }
    )*};
}

words! {
    /// All options of a call in virtual time.
    SimulateArguments: OptionGroup::ALL;
    /// Options of the emulated link.
    LinkArguments: [OptionGroup::Link];
    /// Options of the codec and its control.
    ControlArguments: [OptionGroup::Control];
}

impl SimulateArguments {
    /// Settings of the call.
    ///
    /// # Errors
    /// As [`CallArguments::settings`].
    pub fn settings(&self) -> anyhow::Result<CallSettings> {
        self.0.settings()
    }

    /// The same settings; the program knows `controllers` by name.
    ///
    /// # Errors
    /// As [`CallArguments::settings`].
    pub fn settings_with(&self, controllers: &Controllers) -> anyhow::Result<CallSettings> {
        self.0.settings_with(controllers)
    }
}

impl LinkArguments {
    /// Settings of the link.
    ///
    /// # Errors
    /// As [`CallArguments::link_settings`].
    pub fn settings(&self) -> anyhow::Result<LinkSettings> {
        self.0.link_settings()
    }
}

impl ControlArguments {
    /// Settings of the codec and its control.
    ///
    /// # Errors
    /// As [`CallArguments::control_settings`].
    pub fn settings(&self) -> anyhow::Result<ControlSettings> {
        self.0.control_settings()
    }

    /// The same settings; the program knows `controllers` by name.
    ///
    /// # Errors
    /// As [`CallArguments::control_settings`].
    pub fn settings_with(&self, controllers: &Controllers) -> anyhow::Result<ControlSettings> {
        self.0.control_settings_with(controllers)
    }
}

impl Serialize for ControlArguments {
    /// Serializes the options as in reports of a call, with defaults for those not given.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let settings = self.0.settings_with(&self.0.named_controllers()).map_err(serde::ser::Error::custom)?;
        settings.options().record(Self::GROUPS).serialize(serializer)
    }
}
