use toolcell_spec::{ErrorClass, ErrorCode, ToolError, ToolResult};

/// Every status of [`status`], in ascending order.
pub const CALL_STATUSES: [u16; 16] = [
    200, 207, 401, 403, 404, 409, 413, 422, 424, 429, 451, 500, 501, 502, 503, 504,
];

/// The answer's status code (requirements 3.4).
pub fn status(result: &ToolResult) -> u16 {
    match &result.error {
        Some(error) if result.is_error => status_of(error),
        _ => 200,
    }
}

pub fn status_of(error: &ToolError) -> u16 {
    let class = error.error_class;
    // The sandbox names what stopped the tool: it crashed instead of answering. A failed request is an object.
    let is_crash = class == ErrorClass::ExecutionFailed
        && error
            .native_error_ref
            .as_ref()
            .is_some_and(|native| !native.is_object());
    match ErrorCode::from_name(&error.error_code) {
        Some(code @ ErrorCode::HostFault) => code.http_status(class),
        _ if is_crash => 502,
        Some(code) => code.http_status(class),
        None => class.http_status(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use toolcell_spec::{ErrorClass, ErrorCode, Refusal};

    use super::{CALL_STATUSES, status_of};

    const TABLE: [u16; 22] = [
        404, 422, 422, 409, 403, 403, 403, 403, 501, 424, 401, 403, 504, 429, 503, 200, 207, 413,
        451, 409, 409, 409,
    ];

    #[test]
    fn each_class_has_its_status() {
        let statuses = ErrorClass::ALL.map(ErrorClass::http_status);
        assert_eq!(statuses, TABLE);
        let error = |class| {
            Refusal::new(ErrorCode::ToolFailed, "message")
                .with_class(class)
                .to_error()
        };
        assert_eq!(ErrorClass::ALL.map(|class| status_of(&error(class))), TABLE);
    }

    #[test]
    fn a_failure_of_the_tool_a_crash_of_it_and_a_fault_of_the_host_differ() {
        let failed = Refusal::new(ErrorCode::ToolFailed, "no such file");
        assert_eq!(status_of(&failed.to_error()), 200);
        assert_eq!(status_of(&failed.native("unreachable").to_error()), 502);
        assert_eq!(
            status_of(&Refusal::host_fault("the disk is full").to_error()),
            500
        );
        assert_eq!(
            status_of(&Refusal::new(ErrorCode::HostStopped, "stopped").to_error()),
            503
        );
        assert_eq!(
            status_of(&Refusal::new(ErrorCode::Canceled, "stopped").to_error()),
            409
        );
    }

    #[test]
    fn the_list_has_every_status() {
        let all: BTreeSet<u16> = TABLE.into_iter().chain([200, 500, 502]).collect();
        assert!(all.iter().eq(&CALL_STATUSES));
    }
}
