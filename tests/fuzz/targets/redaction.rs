//! The redactor and the scrubber: no value is left in what they give, however a stream of it is cut.

#![no_main]

use std::sync::Arc;

use toolcell::secret::{Redactor, ScrubStream, Scrubber, SecretValue, Secrets, Term, Terms};
use toolcell_fuzz::halves;

/// A value that is shorter is looked for as a whole word only.
const VALUE_BYTES_MIN: usize = 8;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((value, text)) = halves(data) else { return };
    let secret = SecretValue::new(value.to_owned());
    let mut terms = Terms::default();
    let _ = terms.add(vec![Term::secret("FUZZ", &secret), Term::sensitive(value)]);
    let mut clean = text.to_owned();
    Redactor::new(&terms, &[], false).redact_text(&mut clean);
    // A value that is part of what stands in its place cannot be told from it.
    if value.len() >= VALUE_BYTES_MIN && !"[redacted: secret FUZZ]".contains(value) {
        assert!(!clean.contains(value), "the value is left in {clean:?}");
    }
    let Ok(scrubber) = Scrubber::of_secrets(&Secrets::new(vec![("FUZZ".to_owned(), secret)])) else { return };
    let scrubber = Arc::new(scrubber);
    let cut = usize::from(data.first().copied().unwrap_or_default()) % (text.len() + 1);
    let (head, tail) = text.as_bytes().split_at(cut);
    let scrub = |chunks: &[&[u8]]| {
        let mut stream = ScrubStream::new(Arc::clone(&scrubber));
        let mut whole: Vec<u8> = chunks.iter().flat_map(|chunk| stream.push(chunk)).collect();
        whole.extend(stream.finish());
        whole
    };
    assert_eq!(scrub(&[head, tail]), scrub(&[text.as_bytes()]), "cut at {cut}");
});
