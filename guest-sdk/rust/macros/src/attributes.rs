use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::{
    Error, Ident, LitBool, LitInt, LitStr, Path, Result, Token, bracketed,
    parse::{Parse, ParseStream},
    punctuated::Punctuated,
};

const RISKS: &[&str] = &["low", "medium", "high", "critical"];
const ACCESS_KINDS: &[&str] = &[
    "file_read",
    "file_write",
    "network",
    "browser",
    "credential",
    "payment",
    "external_send",
    "code_execution",
];
const WRITE_EFFECTS: &[&str] = &[
    "none",
    "local_draft",
    "local_persistent",
    "remote_mutation",
    "irreversible",
];
const CONTENT: &[&str] = &[
    "text",
    "image",
    "audio",
    "video",
    "file",
    "resource_link",
    "embedded_resource",
    "log",
    "diff",
    "artifact_ref",
    "handoff_ref",
    "structured_content",
];
const CONTEXT_MODIFIER_POLICIES: &[&str] =
    &["allow_serial_only", "defer_until_batch_complete", "forbid"];
const LIFECYCLES: &[&str] = &[
    "draft",
    "available",
    "disabled",
    "requires_setup",
    "deferred",
    "deprecated",
    "retired",
];
const ARGUMENTS: &str = "name, title, kind, search_hint, aliases, lifecycle, risk, access, write_effects, network_scope, \
     credential_refs, credential_uses, env, tool_calls, approval, data_sensitivity, defaults, examples, sensitive_fields, \
     internal_fields, redaction_rules, paths, urls, resources, content, read_only, concurrency_safe, destructive, open_world, \
     should_defer, always_load, requires_background, context_modifier_policy, timeout_ms, \
     validate, preflight, classify";

/// The arguments of `#[tool(..)]`.
#[derive(Default)]
pub(crate) struct Arguments {
    pub(crate) name: Option<LitStr>,
    pub(crate) validate: Option<Path>,
    pub(crate) preflight: Option<Path>,
    pub(crate) classify: Option<Path>,
    pub(crate) touches_files: bool,
    /// `field: value` for every field of `Attributes` that is stated.
    pub(crate) fields: Vec<TokenStream>,
    seen: Vec<String>,
}

impl Parse for Arguments {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let mut arguments = Self::default();
        while !input.is_empty() {
            arguments.one(input)?;
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(arguments)
    }
}

impl Arguments {
    fn one(&mut self, input: ParseStream<'_>) -> Result<()> {
        let key: Ident = input.parse()?;
        let word = key.to_string();
        if self.seen.contains(&word) {
            return Err(Error::new(key.span(), format!("`{word}` is given twice")));
        }
        match word.as_str() {
            "name" => self.name = Some(name(input)?),
            "validate" => self.validate = Some(value(input)?),
            "preflight" => self.preflight = Some(value(input)?),
            "classify" => self.classify = Some(value(input)?),
            "kind" => self.text(&key, input)?,
            "title" | "search_hint" | "network_scope" | "approval" | "data_sensitivity"
            | "defaults" => self.optional_text(&key, input)?,
            "risk" => self.word(&key, input, RISKS)?,
            "lifecycle" => self.word(&key, input, LIFECYCLES)?,
            "aliases" | "credential_refs" | "credential_uses" | "env" | "tool_calls"
            | "examples" | "sensitive_fields" | "internal_fields" | "redaction_rules" | "paths"
            | "urls" | "resources" => self.list(&key, input, None)?,
            "access" => self.list(&key, input, Some(ACCESS_KINDS))?,
            "write_effects" => self.list(&key, input, Some(WRITE_EFFECTS))?,
            "content" => self.list(&key, input, Some(CONTENT))?,
            "read_only"
            | "concurrency_safe"
            | "destructive"
            | "open_world"
            | "should_defer"
            | "always_load"
            | "requires_background" => self.claim(&key, input)?,
            "context_modifier_policy" => {
                self.optional_word(&key, input, CONTEXT_MODIFIER_POLICIES)?
            }
            "timeout_ms" => self.milliseconds(&key, input)?,
            _ => {
                return Err(Error::new(
                    key.span(),
                    format!("`{word}` is not an argument of `tool`; there are: {ARGUMENTS}"),
                ));
            }
        }
        self.seen.push(word);
        Ok(())
    }

    fn text(&mut self, key: &Ident, input: ParseStream<'_>) -> Result<()> {
        let text = non_empty(value(input)?)?;
        self.fields.push(quote!(#key: #text));
        Ok(())
    }

    fn optional_text(&mut self, key: &Ident, input: ParseStream<'_>) -> Result<()> {
        let text = non_empty(value(input)?)?;
        self.fields
            .push(quote!(#key: ::core::option::Option::Some(#text)));
        Ok(())
    }

    fn optional_word(&mut self, key: &Ident, input: ParseStream<'_>, words: &[&str]) -> Result<()> {
        let word: LitStr = value(input)?;
        known(&word, words)?;
        self.fields
            .push(quote!(#key: ::core::option::Option::Some(#word)));
        Ok(())
    }

    fn word(&mut self, key: &Ident, input: ParseStream<'_>, words: &[&str]) -> Result<()> {
        let word: LitStr = value(input)?;
        known(&word, words)?;
        self.fields.push(quote!(#key: #word));
        Ok(())
    }

    fn list(&mut self, key: &Ident, input: ParseStream<'_>, words: Option<&[&str]>) -> Result<()> {
        input.parse::<Token![=]>()?;
        let inner;
        bracketed!(inner in input);
        let items = Punctuated::<LitStr, Token![,]>::parse_terminated(&inner)?;
        for item in &items {
            match words {
                Some(words) => known(item, words)?,
                None => drop(non_empty(item.clone())?),
            }
        }
        if key == "access" {
            self.touches_files = items.iter().any(|item| item.value().starts_with("file_"));
        }
        self.fields.push(quote!(#key: &[#items]));
        Ok(())
    }

    fn claim(&mut self, key: &Ident, input: ParseStream<'_>) -> Result<()> {
        let claim = if input.peek(Token![=]) {
            value(input)?
        } else {
            LitBool::new(true, Span::call_site())
        };
        self.fields
            .push(quote!(#key: ::core::option::Option::Some(#claim)));
        Ok(())
    }

    fn milliseconds(&mut self, key: &Ident, input: ParseStream<'_>) -> Result<()> {
        let literal: LitInt = value(input)?;
        let milliseconds: u64 = literal.base10_parse()?;
        if milliseconds == 0 {
            return Err(Error::new(literal.span(), "a tool needs more than 0 ms"));
        }
        self.fields
            .push(quote!(#key: ::core::option::Option::Some(#milliseconds)));
        Ok(())
    }
}

/// `= value`.
fn value<T: Parse>(input: ParseStream<'_>) -> Result<T> {
    input.parse::<Token![=]>()?;
    input.parse()
}

fn name(input: ParseStream<'_>) -> Result<LitStr> {
    let name: LitStr = value(input)?;
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if name.value().is_empty() || name.value().len() > 64 || !name.value().chars().all(fits) {
        return Err(Error::new(
            name.span(),
            "a tool's name has 1 to 64 letters, digits, `_` or `-`",
        ));
    }
    Ok(name)
}

fn non_empty(text: LitStr) -> Result<LitStr> {
    match text.value().trim() {
        "" => Err(Error::new(text.span(), "is empty")),
        _ => Ok(text),
    }
}

fn known(word: &LitStr, words: &[&str]) -> Result<()> {
    if words.contains(&word.value().as_str()) {
        return Ok(());
    }
    Err(Error::new(
        word.span(),
        format!("`{}` is not one of: {}", word.value(), words.join(", ")),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(arguments: TokenStream) -> String {
        syn::parse2::<Arguments>(arguments)
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default()
    }

    #[test]
    fn an_unknown_argument_is_refused_with_the_known_ones() {
        let message = refusal(quote!(colour = "red"));
        assert!(
            message.starts_with("`colour` is not an argument of `tool`; there are: name, title"),
            "{message}"
        );
    }

    #[test]
    fn words_that_the_contract_does_not_know_are_refused() {
        assert!(refusal(quote!(risk = "tiny")).starts_with("`tiny` is not one of: low, medium"));
        assert!(
            refusal(quote!(access = ["files"])).starts_with("`files` is not one of: file_read")
        );
        assert!(refusal(quote!(write_effects = ["all"])).starts_with("`all` is not one of: none"));
        assert!(refusal(quote!(lifecycle = "old")).starts_with("`old` is not one of: draft"));
        assert!(refusal(quote!(content = ["html"])).starts_with("`html` is not one of: text"));
        let message = refusal(quote!(context_modifier_policy = "never"));
        assert!(
            message.starts_with("`never` is not one of: allow_serial_only"),
            "{message}"
        );
    }

    #[test]
    fn mistakes_are_refused() {
        assert_eq!(
            refusal(quote!(read_only, read_only = false)),
            "`read_only` is given twice"
        );
        assert!(refusal(quote!(name = "two words")).starts_with("a tool's name has"));
        assert_eq!(refusal(quote!(title = " ")), "is empty");
        assert_eq!(
            refusal(quote!(timeout_ms = 0)),
            "a tool needs more than 0 ms"
        );
    }

    #[test]
    fn file_access_is_noticed() {
        let arguments: Arguments =
            syn::parse2(quote!(access = ["network", "file_read"], read_only)).unwrap();
        assert!(arguments.touches_files);
        assert_eq!(arguments.fields.len(), 2);
    }
}
