//! Errors that the clients for Python and JavaScript raise by themselves.

use toolcell_core::record::ErrorClass::*;

use crate::explain::page::Origin::Client;
use crate::explain::page::Page;

pub(super) const PAGES: &[Page] = &[
    Page {
        code: "answer_unreadable",
        origins: &[Client(ExecutionFailed)],
        means: "The client cannot read what the program answered.",
        cause: "The program is another one, or of another version than the client.",
        remedy: "Check which program is started: the argument `program`, the variable `TOOLCELL`, or the package.",
    },
    Page {
        code: "arguments_twice",
        origins: &[Client(InvalidArguments)],
        means: "A call of a model was passed together with arguments.",
        cause: "Such a call has its arguments in itself.",
        remedy: "Pass the call alone.",
    },
    Page {
        code: "canceled_by_client",
        origins: &[Client(Canceled)],
        means: "The caller canceled the call.",
        cause: "Its task, its signal or its object was canceled, or the program was interrupted.",
        remedy: "Call again if the result is needed.",
    },
    Page {
        code: "client_closed",
        origins: &[Client(Canceled)],
        means: "The client was closed before the call ended.",
        cause: "`close` was called, or the block of the client ended.",
        remedy: "Keep the client open until its calls have ended, or make another one.",
    },
    Page {
        code: "client_forked",
        origins: &[Client(SetupRequired)],
        means: "The client belongs to another process.",
        cause: "This process is a fork of the one that started the program.",
        remedy: "Make a client in this process, after the fork.",
    },
    Page {
        code: "dialect_unknown",
        origins: &[Client(InvalidArguments)],
        means: "The client does not know the dialect or the format.",
        cause: "The name is misspelt.",
        remedy: "Use `plain`, `openai`, `openai-responses` or `anthropic`.",
    },
    Page {
        code: "message_unreadable",
        origins: &[Client(InvalidArguments)],
        means: "The client cannot tell which API a message is of.",
        cause: "It is no response, message or call of an API, or it is nested too deep.",
        remedy: "Pass a response or a message, and its `dialect`.",
    },
    Page {
        code: "no_answer",
        origins: &[Client(Timeout)],
        means: "The program did not end a call in its time, or did not answer while a call waited for an approval.",
        cause: "The program, or the machine, is stuck: the program ends calls in time by itself.",
        remedy: "Read the standard error of the program, and start another client.",
    },
    Page {
        code: "option_invalid",
        origins: &[Client(InvalidArguments)],
        means: "An option of a client has a wrong value.",
        cause: "It is of another type, out of range, or has a comma where the command separates values.",
        remedy: "Correct the option that the message names.",
    },
    Page {
        code: "program_ended",
        origins: &[Client(ExecutionFailed)],
        means: "The program ended before it answered.",
        cause: "It was killed, could not start with these options, or failed. The message has what it printed.",
        remedy: "Start another client. A call may have had effects: read its record before it is repeated.",
    },
    Page {
        code: "program_not_found",
        origins: &[Client(SetupRequired)],
        means: "The client cannot find the program `toolcell`.",
        cause: "The package has no program for this platform, or `program` or `TOOLCELL` names none.",
        remedy: "Install toolcell, or name the program.",
    },
    Page {
        code: "program_not_started",
        origins: &[Client(SetupRequired)],
        means: "The program cannot be started.",
        cause: "The operating system refuses it, or its folder does not exist.",
        remedy: "Correct what the message names.",
    },
    Page {
        code: "request_refused",
        origins: &[Client(InvalidArguments)],
        means: "The program refused a request before it became a call.",
        cause: "The message of a model cannot be read, or has too many calls.",
        remedy: "Correct the request as the message says.",
    },
    Page {
        code: "request_too_large",
        origins: &[Client(InvalidArguments)],
        means: "A request is larger than the program reads.",
        cause: "A line has at most 16 MiB.",
        remedy: "Send less, or grant a file and pass its path.",
    },
    Page {
        code: "start_timeout",
        origins: &[Client(Timeout)],
        means: "The program did not answer at its start.",
        cause: "The program is another one, or the machine is busy.",
        remedy: "Check the program, or raise `start_timeout` (`startTimeoutMs` in JavaScript).",
    },
];
