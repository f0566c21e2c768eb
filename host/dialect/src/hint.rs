use toolcell_spec::ErrorClass;

pub fn hint(class: ErrorClass) -> &'static str {
    use ErrorClass::*;
    match class {
        UnknownTool => "list the tools, and call one of them by its name",
        InvalidArguments | SchemaValidationFailed => {
            "correct the arguments as the message says, and call again"
        }
        SchemaNotLoaded => "call load_tool with the name of the tool, then call the tool again",
        PermissionDenied | PolicyBlocked => {
            "the person who runs the server has to grant this; calling again does not help"
        }
        ApprovalRejected => "a person said no; ask them before you try again",
        HookBlocked => {
            "a rule of the host stopped the call; change the arguments as the message says"
        }
        CapabilityGap => "this host cannot do that; use another tool",
        SetupRequired => "something has to be set up first, as the message says",
        CredentialMissing => "the person who runs the server has to store a credential first",
        SandboxViolation => "the tool went beyond its limits; ask it for less",
        Timeout => "the tool took too long; ask it for less, or raise its time limit",
        RateLimited => "wait, and call again",
        DependencyUnavailable => "what the tool depends on does not answer; call again later",
        ExecutionFailed => "the tool itself failed, as the message says",
        PartialFailure => "part of it worked: look at the content, and call again for the rest",
        ResultTooLarge => "ask for less at once",
        ResultRedacted => "the answer holds what must not be shown",
        SiblingCanceled => "another call failed first; call again",
        StreamingFallbackDiscarded => "another attempt at the same call took its place",
        Canceled => "the call was canceled; call again if it is still needed",
    }
}

/// For a caller without `load_tool`, which has loaded each given tool.
pub(crate) fn hint_without_loading(class: ErrorClass) -> &'static str {
    match class {
        ErrorClass::SchemaNotLoaded => {
            "load it as the message says, or use one of the tools that you were given"
        }
        class => hint(class),
    }
}
