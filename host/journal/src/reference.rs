//! Resolves references in records, to payloads or texts of a call (AT-FS).

use std::ops::ControlFlow;

use serde_json::Value;

use toolcell_policy::secret::REDACTED;
use toolcell_spec::digest;

use super::payload::is_name;
use super::{CallLog, LogError};

/// Without `_ref` at the end.
const INPUTS: [&str; 4] = [
    "model_input",
    "observable_input",
    "permission_input",
    "call_input",
];
const MARKS: [&str; 2] = [REDACTED, "[secret "];
const CALLS_MAX: usize = 20;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reference {
    Digest(String),
    Partial(String),
    /// A keyed hash, for an input with sensitive values.
    Concealed(String),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReferenceInfo {
    /// At most 20 ids.
    pub calls: Vec<String>,
    pub media_type: Option<String>,
    pub text: Option<String>,
    /// `true` if the text was redacted, and so is nowhere.
    pub redacted: bool,
}

impl Reference {
    /// `toolcell:payload/sha256:<hex>`, `sha256:<hex>`, `partial:sha256:<hex>` or `blake3-keyed:<hex>`; else `None`.
    pub fn parse(text: &str) -> Option<Self> {
        if let Some(hex) = text.strip_prefix("blake3-keyed:") {
            return is_name(hex).then(|| Self::Concealed(text.to_owned()));
        }
        if let Some(digest) = text.strip_prefix("partial:") {
            return is_digest(digest).then(|| Self::Partial(text.to_owned()));
        }
        let digest = match text.strip_prefix("toolcell:") {
            Some(path) => path.rsplit_once('/')?.1,
            None => text,
        };
        is_digest(digest).then(|| Self::Digest(digest.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        let (Self::Digest(text) | Self::Partial(text) | Self::Concealed(text)) = self;
        text
    }

    fn look(&self, record: &Value) -> Option<ReferenceInfo> {
        let known = match self {
            Self::Digest(digest) => payload(record, digest)
                .or_else(|| input(record, digest))
                .or_else(|| passing(record, digest)),
            Self::Concealed(hash) => input(record, hash).or_else(|| passing(record, hash)),
            Self::Partial(reference) => partial(record, reference),
        };
        let id = record
            .pointer("/invocation/invocation_id")
            .and_then(Value::as_str)
            .unwrap_or_default();
        known.map(|known| ReferenceInfo {
            calls: vec![id.to_owned()],
            ..known
        })
    }
}

impl CallLog {
    pub fn look_up(&self, reference: &Reference) -> Result<Option<ReferenceInfo>, LogError> {
        let mut found: Option<ReferenceInfo> = None;
        self.scan(reference.as_str(), |record| {
            let Some(one) = reference.look(record) else {
                return ControlFlow::Continue(());
            };
            let all = found.get_or_insert_default();
            all.calls.extend(one.calls);
            all.media_type = all.media_type.take().or(one.media_type);
            all.text = all.text.take().or(one.text);
            all.redacted |= one.redacted;
            if all.calls.len() < CALLS_MAX {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        })?;
        Ok(found)
    }
}

fn is_digest(text: &str) -> bool {
    text.strip_prefix("sha256:").is_some_and(is_name)
}

fn payload(record: &Value, digest: &str) -> Option<ReferenceInfo> {
    let stored = record["persistence"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|stored| &stored["persisted_ref"]);
    let result = &record["result"];
    let others = [
        &result["resource_refs"],
        &result["artifact_refs"],
        record
            .pointer("/invocation/artifact_refs")
            .unwrap_or(&Value::Null),
    ];
    let others = others.into_iter().filter_map(Value::as_array).flatten();
    let found = stored
        .chain(others)
        .find(|reference| reference["digest"] == digest)?;
    let media_type = found["media_type"].as_str().map(str::to_owned);
    Some(ReferenceInfo {
        media_type,
        ..ReferenceInfo::default()
    })
}

/// Text is known if it matches the digest, which sensitive values prevent.
fn input(record: &Value, reference: &str) -> Option<ReferenceInfo> {
    let invocation = &record["invocation"];
    let name = INPUTS
        .iter()
        .find(|name| invocation[format!("{name}_ref")] == reference)?;
    let sent = invocation["model_input_text"]
        .as_str()
        .filter(|_| *name == "model_input")
        .map(str::to_owned);
    let value = invocation.get(*name).map(Value::to_string);
    let text = [sent, value]
        .into_iter()
        .flatten()
        .find(|text| digest(text.as_bytes()) == reference);
    let shows = |value: &Value| MARKS.iter().any(|mark| value.to_string().contains(mark));
    let marked = || invocation.get(*name).is_some_and(shows);
    let redacted = text.is_none() && (!reference.starts_with("sha256:") || marked());
    Some(ReferenceInfo {
        media_type: Some("application/json".to_owned()),
        redacted,
        text,
        ..ReferenceInfo::default()
    })
}

/// An input that a later change replaced (AT-MUT-06).
fn passing(record: &Value, reference: &str) -> Option<ReferenceInfo> {
    let of = |list: &str| {
        let found = record.pointer(list).and_then(Value::as_array);
        found.cloned().unwrap_or_default()
    };
    let changes = of("/result/input_mutations");
    let is_meant = |change: &Value| {
        [&change["from_input_ref"], &change["to_input_ref"]].contains(&&reference.into())
    };
    changes.iter().find(|change| is_meant(change))?;
    let makers = [of("/hooks"), of("/decisions")].concat();
    let replaced = of("/invocation/replaced_inputs");
    let mut texts = makers
        .iter()
        .filter_map(|maker| maker.get("updated_input"))
        .chain(&replaced)
        .map(Value::to_string);
    let marked = texts
        .clone()
        .any(|text| MARKS.iter().any(|mark| text.contains(mark)));
    let text = texts.find(|text| digest(text.as_bytes()) == reference);
    Some(ReferenceInfo {
        media_type: Some("application/json".to_owned()),
        redacted: text.is_none() && (!reference.starts_with("sha256:") || marked),
        text,
        ..ReferenceInfo::default()
    })
}

/// The tool's text of sensitive data is nowhere.
fn partial(record: &Value, reference: &str) -> Option<ReferenceInfo> {
    let mut all = record["progress"].as_array()?.iter();
    let has = |progress: &&Value| {
        let mut references = progress["partial_result_refs"]
            .as_array()
            .into_iter()
            .flatten();
        references.any(|one| one == reference)
    };
    let content = &all.find(has)?["partial_content"];
    let redacted = content.as_array().is_some_and(Vec::is_empty);
    let text = content
        .is_array()
        .then(|| content.to_string())
        .filter(|_| !redacted);
    Some(ReferenceInfo {
        media_type: Some("application/json".to_owned()),
        redacted,
        text,
        ..ReferenceInfo::default()
    })
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use serde_json::json;

    use super::*;
    use crate::{PayloadStore, StoredPayload};
    use toolcell_system::private;

    const HEX: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    #[test]
    fn every_form_of_a_reference_is_read_and_no_path_is_one() {
        let digest = Some(Reference::Digest(format!("sha256:{HEX}")));
        for text in [
            "sha256:",
            "toolcell:payload/sha256:",
            "toolcell:artifact/sha256:",
            "toolcell://payload/sha256:",
        ] {
            assert_eq!(Reference::parse(&format!("{text}{HEX}")), digest, "{text}");
        }
        assert!(matches!(
            Reference::parse(&format!("partial:sha256:{HEX}")),
            Some(Reference::Partial(_))
        ));
        assert!(matches!(
            Reference::parse(&format!("blake3-keyed:{HEX}")),
            Some(Reference::Concealed(_))
        ));
        for text in [
            "",
            HEX,
            "sha256:",
            "sha256:../../etc/passwd",
            "toolcell:payload",
            "/etc/passwd",
        ] {
            assert_eq!(Reference::parse(text), None, "{text}");
        }
        assert_eq!(
            Reference::parse(&format!("sha256:{}", HEX.to_uppercase())),
            None
        );
    }

    #[test]
    fn an_input_is_known_only_with_the_bytes_of_its_digest() {
        let text = r#"{"a":1}"#;
        let reference = digest(br#"{"a":1}"#);
        let record = |input: Value| {
            let invocation =
                json!({ "invocation_id": "01", "call_input": input, "call_input_ref": reference });
            json!({ "invocation": invocation })
        };
        let look = |input| {
            Reference::parse(&reference)
                .unwrap()
                .look(&record(input))
                .unwrap()
        };
        assert_eq!(look(json!({ "a": 1 })).text.as_deref(), Some(text));
        assert_eq!(look(json!({ "a": "[redacted]" })).text, None);
        let other = Reference::parse(&digest(b"other")).unwrap();
        assert_eq!(other.look(&record(json!({ "a": 1 }))), None);
        let hash = format!("blake3-keyed:{HEX}");
        let record =
            json!({ "invocation": { "model_input": "[redacted]", "model_input_ref": hash } });
        assert!(
            Reference::parse(&hash)
                .unwrap()
                .look(&record)
                .unwrap()
                .redacted
        );
    }

    #[test]
    fn a_payload_is_opened_only_as_it_was_stored() {
        let folder = tempfile::tempdir().unwrap();
        let store = PayloadStore::new(folder.path().to_owned());
        let digest = digest(b"content");
        let file = folder.path().join(digest.trim_start_matches("sha256:"));
        assert!(matches!(
            store.open(&digest).unwrap(),
            StoredPayload::Missing
        ));
        assert!(matches!(
            store.open("sha256:../x").unwrap(),
            StoredPayload::Missing
        ));
        private::write_atomically(&file, &[b"content"], private::OnDisk::Later).unwrap();
        let StoredPayload::Whole(mut open, 7) = store.open(&digest).unwrap() else {
            panic!("it is whole")
        };
        let mut read = String::new();
        open.read_to_string(&mut read).unwrap();
        assert_eq!(read, "content");
        private::write_atomically(&file, &[b"changed"], private::OnDisk::Later).unwrap();
        assert!(matches!(
            store.open(&digest).unwrap(),
            StoredPayload::Changed
        ));
    }
}
