//! Authentication by `AUTH` and `HELLO ... AUTH`, and the grant that each command needs.

use tidegate_policy::policy::authorization::Verb;
use tidegate_wire::Fault;

use super::command::Command;
use super::command_error::CommandError;
use crate::authorization::{AuthenticationError, Caller, Credentials};
use crate::config::ServerConfig;
use crate::protocol::RESP_NAMESPACE as NAMESPACE;

/// Why a login failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LoginError {
    /// The policy has no grants.
    NothingToLogInTo,
    /// The token is not one of the policy's.
    WrongToken,
}

impl From<LoginError> for CommandError {
    fn from(error: LoginError) -> Self {
        match error {
            LoginError::NothingToLogInTo => Self::err("Client sent AUTH, but no password is set".to_owned()),
            LoginError::WrongToken => {
                Self::Text("WRONGPASS", "the token is not one of the policy's".to_owned())
            }
        }
    }
}

/// The credentials of a connection and the caller that they authenticate.
#[derive(Debug)]
pub(super) struct LoginState {
    shown: Credentials,
    /// By the policy in force when the turn began.
    caller: Result<Caller, AuthenticationError>,
}

impl LoginState {
    pub(super) fn new(shown: Credentials, config: &ServerConfig) -> Self {
        let caller = shown.caller(config.authorization.as_ref());
        Self { shown, caller }
    }

    /// Looks the caller up again in the policy in force.
    pub(super) fn renew(&mut self, config: &ServerConfig) {
        self.caller = self.shown.caller(config.authorization.as_ref());
    }

    /// Logs in with the token of `AUTH` or `HELLO ... AUTH`. The user name is ignored.
    pub(super) fn log_in(&mut self, password: &[u8], config: &ServerConfig) -> Result<(), LoginError> {
        let authorization = config.authorization.as_ref().ok_or(LoginError::NothingToLogInTo)?;
        self.caller = Ok(self.shown.take(password, authorization).map_err(|_| LoginError::WrongToken)?);
        Ok(())
    }

    /// Forgets who logged in.
    pub(super) fn log_out(&mut self, config: &ServerConfig) {
        self.shown.forget();
        self.renew(config);
    }

    /// The caller, or the error for its commands.
    pub(super) fn caller(&self) -> Result<&Caller, CommandError> {
        self.caller.as_ref().map_err(|unknown| match unknown {
            AuthenticationError::Nothing => no_auth("Authentication required; send AUTH TOKEN"),
            AuthenticationError::Token => {
                no_auth("the token is no longer one of the policy's; send AUTH TOKEN")
            }
            AuthenticationError::Certificate => {
                no_auth("no grant is for a name in the client certificate; send AUTH TOKEN")
            }
        })
    }

    /// Whether it may send `command` at all. In which namespace, those that name one see.
    pub(super) fn may_send(&self, command: Command) -> Result<(), CommandError> {
        let verb = match command {
            // Commands that log in or end the connection.
            Command::Hello | Command::Auth | Command::Quit | Command::Reset => return Ok(()),
            Command::Throttle | Command::ThrottleMillis => Some(Verb::Check),
            Command::Del => Some(Verb::Reset),
            _ => None,
        };
        let caller = self.caller()?;
        match verb {
            Some(verb) => permitted(caller.may(verb, NAMESPACE)),
            None if command == Command::Release => permitted(caller.may_somewhere(Verb::Check)),
            None => Ok(()),
        }
    }
}

fn no_auth(text: &str) -> CommandError {
    CommandError::Text("NOAUTH", text.to_owned())
}

/// Turns a missing grant into Redis's error `NOPERM`.
pub(super) fn permitted(granted: Result<(), Fault>) -> Result<(), CommandError> {
    granted.map_err(|fault| CommandError::Text("NOPERM", fault.detail))
}
