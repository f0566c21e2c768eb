//! The macros of toolcell-guest. Use them through that crate.

mod attributes;
mod hook;
mod tool;
mod toolkit;

use proc_macro::TokenStream;
use quote::quote;

/// Turns a typed function into a tool.
///
/// The name, the description (the doc comment) and both JSON Schemas come from the function. The function takes one
/// argument, or none. Arguments of the attribute, all optional:
///
/// | argument | value | absent means |
/// |---|---|---|
/// | `name` | the tool's name | the function's name |
/// | `title` | a name for people | none |
/// | `kind` | the `tool_kind` | `"function"` |
/// | `search_hint` | 3 to 10 words that a search should find | none |
/// | `aliases` | `["other_name", ..]` | none |
/// | `lifecycle` | `"draft"`, `"deprecated"`, .. | `"available"` |
/// | `risk` | `"low"`, `"medium"`, `"high"`, `"critical"` | `"low"` |
/// | `access` | access kinds: `["file_read", "network", ..]` | no access |
/// | `write_effects` | `["local_persistent", ..]` | `["none"]`, or with `file_write` `["local_persistent"]` |
/// | `network_scope` | origins, such as `"https://api.example.com"` | none |
/// | `credential_refs` | names of credentials | none |
/// | `credential_uses` | JSON of where a request carries each: `[r#"{"ref": "KEY", "header": "x-key"}"#]` | `Authorization: Bearer` |
/// | `env` | names of environment variables | none |
/// | `tool_calls` | tools that the tool calls, by qualified name or pattern: `["files.*", ..]` | none |
/// | `approval` | why each call needs an approval: a text for the approver | none is needed |
/// | `data_sensitivity` | a word; any but `"public"` and `"internal"` keeps arguments out of records | none |
/// | `defaults` | JSON of the values of absent arguments | none |
/// | `examples` | JSON of examples of the input | none |
/// | `sensitive_fields` | input fields to redact | none |
/// | `internal_fields` | input fields that no model sees or sets | none |
/// | `redaction_rules` | fields of the output to redact, or patterns: `["token", r#"{"pattern": "k-[0-9]+"}"#]` | none |
/// | `paths`, `urls`, `resources` | input fields that name what the call is about: the host decides on them, opens no other folder, and makes relative paths absolute | none |
/// | `content` | the block types that an `Output` may hold | any |
/// | `read_only`, `concurrency_safe`, `destructive`, `open_world` | a boolean; the bare word means true | unstated |
/// | `should_defer` | a boolean: whether a list of tools leaves the tool out until it is searched for | `false` |
/// | `always_load` | a boolean: whether a list of tools has the tool even if the list is full | `false` |
/// | `requires_background` | a boolean: whether the tool takes so long that only a client can call it that asks for the result later (MCP tasks) | `false` |
/// | `context_modifier_policy` | `"allow_serial_only"`, `"defer_until_batch_complete"` or `"forbid"`, for a tool that changes no context although another one of the package does | that of the batch |
/// | `timeout_ms` | milliseconds | the host's limit |
/// | `validate` | `fn(&Input) -> Result<(), ToolError>`: value checks before anything runs | none |
/// | `preflight` | the same, for whether the call could start at all | none |
/// | `classify` | `fn(&Input) -> Facts`: what one call would do, which may only narrow what the tool declares | none |
#[proc_macro_attribute]
pub fn tool(arguments: TokenStream, item: TokenStream) -> TokenStream {
    tool::expand(arguments.into(), item.into())
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}

/// Turns a function into a hook, and exports it: `#[hook(pre_tool_use, post_tool_use)]`.
///
/// The function takes a `Call` and returns outputs, one output or none, or a `Result` of them. A package has one hook.
#[proc_macro_attribute]
pub fn hook(arguments: TokenStream, item: TokenStream) -> TokenStream {
    hook::expand(arguments.into(), item.into())
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}

/// Exports the tools of a package: `toolkit! { namespace: "text", tools: [count, upper] }`.
///
/// A tool of another module is named by its path, `[words::count]`, not by an imported name. Generates a type
/// `Toolkit`, which tests can use.
///
/// `configuration: Settings`, at the end, lets the operator give all tools of the package settings: `Settings` is a type
/// with `#[data]`, and `toolcell_guest::configuration::<Settings>()` returns them.
#[proc_macro]
pub fn toolkit(input: TokenStream) -> TokenStream {
    toolkit::expand(input.into())
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}

/// Makes a type usable as the input or output of a tool: it can be read from JSON and written as JSON, has a JSON
/// Schema, and rejects unknown fields.
///
/// The same as deriving `serde::Serialize`, `serde::Deserialize` and `schemars::JsonSchema` with
/// `#[serde(deny_unknown_fields)]`, without those crates as dependencies. Attributes of serde and schemars work.
#[proc_macro_attribute]
pub fn data(arguments: TokenStream, item: TokenStream) -> TokenStream {
    if !arguments.is_empty() {
        let message = "`data` takes no arguments; attributes of serde go into `#[serde(..)]`";
        return syn::Error::new(proc_macro2::Span::call_site(), message)
            .into_compile_error()
            .into();
    }
    let item = proc_macro2::TokenStream::from(item);
    quote! {
        #[derive(
            ::toolcell_guest::serde::Serialize,
            ::toolcell_guest::serde::Deserialize,
            ::toolcell_guest::schemars::JsonSchema,
        )]
        #[serde(crate = "::toolcell_guest::serde", deny_unknown_fields)]
        #[schemars(crate = "::toolcell_guest::schemars")]
        #item
    }
    .into()
}
