//! A subcommand whose options are built only when they are needed, because building all takes longer than parsing the
//! command line.

use clap::builder::Resettable;
use clap::{ArgMatches, Args, Command, Error, FromArgMatches};

#[derive(Debug)]
pub(super) struct DeferredArgs<T>(pub(super) T);

impl<T: Args> Args for DeferredArgs<T> {
    fn augment_args(command: Command) -> Command {
        command.defer(|command| {
            // The text in the list of subcommands takes precedence over the subcommand's own.
            let about = command.get_about().cloned();
            let long_about = command.get_long_about().cloned();
            T::augment_args(command)
                .about(Resettable::from(about))
                .long_about(Resettable::from(long_about))
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        T::augment_args_for_update(command)
    }
}

impl<T: FromArgMatches> FromArgMatches for DeferredArgs<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        T::from_arg_matches(matches).map(Self)
    }

    fn from_arg_matches_mut(matches: &mut ArgMatches) -> Result<Self, Error> {
        T::from_arg_matches_mut(matches).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.0.update_from_arg_matches(matches)
    }

    fn update_from_arg_matches_mut(&mut self, matches: &mut ArgMatches) -> Result<(), Error> {
        self.0.update_from_arg_matches_mut(matches)
    }
}
