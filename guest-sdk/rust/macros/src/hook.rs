use proc_macro2::TokenStream;
use quote::quote;
use syn::{Error, Ident, ItemFn, Result, Token, parse::Parser, punctuated::Punctuated};

/// The events' names in the specification, and in the SDK.
const EVENTS: [(&str, &str); 6] = [
    ("pre_tool_use", "PreToolUse"),
    ("permission_request", "PermissionRequest"),
    ("permission_decision", "PermissionDecision"),
    ("post_tool_use", "PostToolUse"),
    ("post_tool_use_failure", "PostToolUseFailure"),
    ("result_persistence", "ResultPersistence"),
];

/// Generates, beside the function, an empty type of the same name that implements `Hook`, and exports it.
pub(crate) fn expand(arguments: TokenStream, item: TokenStream) -> Result<TokenStream> {
    let words = Punctuated::<Ident, Token![,]>::parse_terminated.parse2(arguments)?;
    let function: ItemFn = syn::parse2(item)?;
    let name = &function.sig.ident;
    if words.is_empty() {
        return Err(Error::new(
            name.span(),
            "name the events that the hook wants to hear of: `#[hook(pre_tool_use)]`",
        ));
    }
    let events = words.iter().map(event).collect::<Result<Vec<Ident>>>()?;
    let id = name.to_string().replace('_', "-");
    Ok(quote! {
        #function

        #[doc(hidden)]
        #[allow(non_camel_case_types, dead_code)]
        pub struct #name {}

        impl ::toolcell_guest::hook::Hook for #name {
            const ID: &'static str = #id;
            const EVENTS: &'static [::toolcell_guest::hook::Event] = &[#(::toolcell_guest::hook::Event::#events),*];

            fn handle(
                call: ::toolcell_guest::hook::Call,
            ) -> ::core::result::Result<::std::vec::Vec<::toolcell_guest::hook::Output>, ::std::string::String> {
                ::toolcell_guest::hook::IntoAnswer::into_answer(#name(call))
            }
        }

        #[cfg(target_arch = "wasm32")]
        ::toolcell_guest::__private::hook::export_hook!(#name with_types_in ::toolcell_guest::__private::hook);
    })
}

fn event(word: &Ident) -> Result<Ident> {
    let found = EVENTS.iter().find(|(known, _)| word == known);
    found
        .map(|(_, variant)| Ident::new(variant, word.span()))
        .ok_or_else(|| {
            let known: Vec<&str> = EVENTS.iter().map(|(known, _)| *known).collect();
            Error::new(
                word.span(),
                format!("there is no such event; there are: {}", known.join(", ")),
            )
        })
}
