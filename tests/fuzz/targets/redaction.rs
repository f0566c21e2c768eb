//! The redactor and the scrubber: no value is left in their output, however a stream is split.

use std::sync::Arc;

use crate::shared::halves;
use toolcell_policy::secret::{
    RedactionTerm, RedactionTerms, Redactor, ScrubStream, Scrubber, SecretValue, Secrets,
};

/// A shorter value is redacted only if it is the whole text.
const VALUE_BYTES_MIN: usize = 8;

/// The labels that replace a value.
const MARKS: [&str; 2] = ["[secret FUZZ]", "[redacted]"];

/// Whether `mark` contains `value`, or the reverse, or could form one with the text beside it: then a value that was
/// left cannot be told apart.
fn meets(mark: &str, value: &str) -> bool {
    let mark = mark.as_bytes();
    let value = value.as_bytes();
    let inside =
        |one: &[u8], other: &[u8]| one.windows(other.len().max(1)).any(|part| part == other);
    let beside =
        |one: &[u8], other: &[u8]| (1..=other.len()).any(|length| one.ends_with(&other[..length]));
    inside(mark, value) || inside(value, mark) || beside(mark, value) || beside(value, mark)
}

pub(crate) fn run(data: &[u8]) {
    let Some((value, text)) = halves(data) else {
        return;
    };
    let secret = SecretValue::new(value.to_owned());
    let mut terms = RedactionTerms::default();
    let _ = terms.add(vec![
        RedactionTerm::secret("FUZZ", &secret),
        RedactionTerm::sensitive(value),
    ]);
    let mut clean = text.to_owned();
    Redactor::new(&terms, &[], false).redact_text(&mut clean);
    if value.len() >= VALUE_BYTES_MIN && !MARKS.iter().any(|mark| meets(mark, value)) {
        assert!(!clean.contains(value), "the value is left in {clean:?}");
    }
    let Ok(scrubber) = Scrubber::of_secrets(&Secrets::new(vec![("FUZZ".to_owned(), secret)]))
    else {
        return;
    };
    let cut = usize::from(data.first().copied().unwrap_or_default()) % (text.len() + 1);
    let (head, tail) = text.as_bytes().split_at(cut);
    let scrub = |chunks: &[&[u8]]| {
        let mut stream = ScrubStream::new(Arc::clone(&scrubber));
        let mut whole: Vec<u8> = chunks.iter().flat_map(|chunk| stream.push(chunk)).collect();
        whole.extend(stream.finish());
        whole
    };
    assert_eq!(
        scrub(&[head, tail]),
        scrub(&[text.as_bytes()]),
        "cut at {cut}"
    );
}
