use serde::{Serialize, Serializer};

use super::ErrorClass;

include!(concat!(env!("OUT_DIR"), "/error_code.rs"));

struct CodeEntry {
    classes: &'static [ErrorClass],
    problem: Option<u16>,
    exit: Option<u8>,
    http: Option<u16>,
}

#[derive(Clone, Copy, Debug)]
pub struct Explanation {
    pub code: ErrorCode,
    /// Class that the Python and JavaScript clients raise; `None` if they raise none.
    pub client: Option<ErrorClass>,
    /// `replay` or `schema validate`.
    pub printed_by: Option<&'static str>,
    pub means: &'static str,
    pub cause: &'static str,
    pub remedy: &'static str,
}

impl ErrorCode {
    pub fn explanations() -> &'static [Explanation] {
        &EXPLANATIONS
    }

    pub const fn as_str(self) -> &'static str {
        name(self)
    }

    /// `None` for a code that a tool chose.
    pub fn from_name(name: &str) -> Option<Self> {
        let found = EXPLANATIONS.binary_search_by_key(&name, |known| known.code.as_str());
        Some(EXPLANATIONS.get(found.ok()?)?.code)
    }

    /// Empty if only answers of the HTTP API, a client or a report have the code.
    pub const fn classes(self) -> &'static [ErrorClass] {
        entry(self).classes
    }

    /// `true` if no tool may choose the code, because it alone decides on an exit code or a status.
    pub const fn is_reserved(self) -> bool {
        let entry = entry(self);
        entry.exit.is_some() || entry.http.is_some()
    }

    /// Status of an HTTP API answer outside of any call.
    pub const fn problem_status(self) -> Option<u16> {
        entry(self).problem
    }

    pub fn exit_code(self, class: ErrorClass) -> u8 {
        entry(self).exit.unwrap_or_else(|| class.exit_code())
    }

    /// Status of the plain HTTP API (requirements 3.4).
    pub fn http_status(self, class: ErrorClass) -> u16 {
        entry(self).http.unwrap_or_else(|| class.http_status())
    }
}

impl ErrorClass {
    pub fn exit_code(self) -> u8 {
        exit_of_class(self)
    }

    /// Status of the plain HTTP API (requirements 3.4).
    pub fn http_status(self) -> u16 {
        status_of_class(self)
    }
}

impl std::fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

// Records have codes as text, because tools choose some.
impl PartialEq<ErrorCode> for String {
    fn eq(&self, code: &ErrorCode) -> bool {
        self == code.as_str()
    }
}

impl PartialEq<ErrorCode> for str {
    fn eq(&self, code: &ErrorCode) -> bool {
        self == code.as_str()
    }
}

impl Serialize for ErrorCode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::ErrorCode;

    #[test]
    fn each_code_is_found_by_its_name() {
        for explanation in ErrorCode::explanations() {
            let code = explanation.code;
            assert_eq!(ErrorCode::from_name(code.as_str()), Some(code));
        }
        assert_eq!(ErrorCode::from_name("of_a_tool"), None);
    }
}
