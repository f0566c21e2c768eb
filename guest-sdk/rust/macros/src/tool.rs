use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::{
    Attribute, Error, Expr, ExprLit, FnArg, Ident, ItemFn, Lit, LitStr, Meta, Path, Result,
    ReturnType, Type, spanned::Spanned,
};

use crate::attributes::Arguments;

/// Generates, beside the function, an empty type of the same name that implements `Tool`, and a macro that tells
/// `toolkit!` whether this tool checks values.
pub(crate) fn expand(arguments: TokenStream, item: TokenStream) -> Result<TokenStream> {
    let arguments: Arguments = syn::parse2(arguments)?;
    let function: ItemFn = syn::parse2(item)?;
    let (input, call) = input(&function)?;
    let (answer, call) = match &function.sig.output {
        ReturnType::Type(_, answer) if is_result(answer) => {
            let fallible =
                quote_spanned!(answer.span()=> <#answer as ::toolcell_guest::__private::Fallible>);
            let whole =
                quote!(::core::result::Result<#fallible::Answer, ::toolcell_guest::ToolError>);
            let whole = quote_spanned!(answer.span()=> <#whole as ::toolcell_guest::__private::IntoOutcome<_>>);
            (whole, quote!(#fallible::or_failure(#call)))
        }
        ReturnType::Type(_, answer) => (
            quote_spanned!(answer.span()=> <#answer as ::toolcell_guest::__private::IntoOutcome<_>>),
            call,
        ),
        ReturnType::Default => {
            return Err(Error::new(
                function.sig.ident.span(),
                "a tool must return something: its result",
            ));
        }
    };
    let name = &function.sig.ident;
    let visibility = &function.vis;
    let attributes = attributes(&function, &arguments)?;
    // A tool without file access must not even import the file system.
    let enter_cwd = arguments
        .touches_files
        .then(|| quote!(::toolcell_guest::__private::enter_cwd()?;));
    let validate = check("validate", &input, arguments.validate.as_ref());
    let preflight = check("preflight", &input, arguments.preflight.as_ref());
    let classify = classify(&input, arguments.classify.as_ref());
    let exports = exports_more(
        name,
        [
            (
                "validation",
                arguments.validate.is_some() || arguments.preflight.is_some(),
            ),
            ("classification", arguments.classify.is_some()),
        ],
    );
    Ok(quote! {
        #function

        #[doc(hidden)]
        #[allow(non_camel_case_types, dead_code)]
        #visibility struct #name {}

        impl ::toolcell_guest::Tool for #name {
            const ATTRIBUTES: ::toolcell_guest::Attributes = #attributes;

            fn input_schema() -> ::toolcell_guest::serde_json::Value {
                ::toolcell_guest::__private::of_input::<#input>()
            }

            fn structured_schema() -> ::core::option::Option<::toolcell_guest::serde_json::Value> {
                #answer::structured_schema()
            }

            fn content_types() -> &'static [&'static str] {
                #answer::content_types()
            }

            fn run(input: &str) -> ::toolcell_guest::Outcome {
                let prepare = || -> ::core::result::Result<#input, ::toolcell_guest::ToolError> {
                    #enter_cwd
                    ::toolcell_guest::__private::parse(input)
                };
                match prepare() {
                    ::core::result::Result::Ok(_input) => #answer::into_outcome(#call),
                    ::core::result::Result::Err(error) => ::toolcell_guest::Outcome::Failure(error),
                }
            }
            #validate
            #preflight
            #classify
        }

        #exports
    })
}

/// Whether a type is written as a `Result` of something, such as `io::Result<String>`.
fn is_result(answer: &Type) -> bool {
    let Type::Path(path) = answer else {
        return false;
    };
    path.path
        .segments
        .last()
        .is_some_and(|last| last.ident == "Result" && !last.arguments.is_none())
}

/// Returns the type of the one argument, and the call.
fn input(function: &ItemFn) -> Result<(TokenStream, TokenStream)> {
    let signature = &function.sig;
    let name = &signature.ident;
    let refuse = |span: Span, what: &str| Err(Error::new(span, what));
    if let Some(word) = &signature.asyncness {
        return refuse(
            word.span(),
            "a tool is a plain function: it may block, because nothing else runs in its instance",
        );
    }
    if !signature.generics.params.is_empty() {
        return refuse(
            signature.generics.span(),
            "a tool has no generic parameters: its schema must be known",
        );
    }
    let mut arguments = signature.inputs.iter();
    let first = match (arguments.next(), arguments.next()) {
        (None, _) => return Ok((quote!(::toolcell_guest::NoInput), quote!(#name()))),
        (Some(first), None) => first,
        (Some(_), Some(second)) => {
            return refuse(
                second.span(),
                "a tool takes one argument: a struct with a field for each of its parameters",
            );
        }
    };
    let FnArg::Typed(argument) = first else {
        return refuse(first.span(), "a tool is a plain function, not a method");
    };
    if let Type::Reference(reference) = &*argument.ty {
        return refuse(reference.span(), "a tool takes its input by value");
    }
    let ty = &argument.ty;
    Ok((quote_spanned!(ty.span()=> #ty), quote!(#name(_input))))
}

fn attributes(function: &ItemFn, arguments: &Arguments) -> Result<TokenStream> {
    let function_name = function.sig.ident.to_string();
    let name = match &arguments.name {
        Some(name) => name.value(),
        None => function_name.trim_start_matches("r#").to_owned(),
    };
    let description = description(&function.attrs);
    if description.is_empty() {
        let message = "a tool needs a doc comment: it is the description that a model reads";
        return Err(Error::new(function.sig.ident.span(), message));
    }
    let fields = &arguments.fields;
    // `..` is redundant only if every field is stated.
    Ok(
        quote!(::toolcell_guest::Attributes { #(#fields,)* ..::toolcell_guest::Attributes::new(#name, #description) }),
    )
}

/// The doc comment, without the space that follows each `///`.
fn description(attributes: &[Attribute]) -> String {
    let lines: Vec<String> = attributes.iter().filter_map(doc_line).collect();
    let lines: Vec<&str> = lines
        .iter()
        .flat_map(|line| line.split('\n'))
        .map(|line| line.strip_prefix(' ').unwrap_or(line))
        .collect();
    lines.join("\n").trim().to_owned()
}

fn doc_line(attribute: &Attribute) -> Option<String> {
    let Meta::NameValue(meta) = &attribute.meta else {
        return None;
    };
    match &meta.value {
        Expr::Lit(ExprLit {
            lit: Lit::Str(text),
            ..
        }) if meta.path.is_ident("doc") => Some(LitStr::value(text)),
        _ => None,
    }
}

fn check(name: &str, input: &TokenStream, path: Option<&Path>) -> TokenStream {
    let name = format_ident!("{name}");
    let Some(path) = path else {
        return TokenStream::new();
    };
    quote_spanned! {path.span()=>
        fn #name(input: &str) -> ::core::result::Result<(), ::toolcell_guest::ToolError> {
            #path(&::toolcell_guest::__private::parse::<#input>(input)?)
        }
    }
}

fn classify(input: &TokenStream, path: Option<&Path>) -> TokenStream {
    let Some(path) = path else {
        return TokenStream::new();
    };
    quote_spanned! {path.span()=>
        fn classify(input: &str) -> ::toolcell_guest::Facts {
            // What cannot be read is not run either.
            ::toolcell_guest::__private::parse::<#input>(input)
                .map_or_else(|_| ::core::default::Default::default(), |input| #path(&input))
        }
    }
}

/// `toolkit!` sees names only, so it chains these macros: the first tool that checks values generates the export of that, and
/// the others pass the question on; the same with classification. This is decided before types are known, because an export
/// exists or not whatever runs.
fn exports_more(name: &Ident, kinds: [(&str, bool); 2]) -> TokenStream {
    let public = marker(name);
    let private = format_ident!("__toolcell_ask_{}", bare(name));
    let rules = kinds.map(|(kind, exports)| {
        let kind = format_ident!("{kind}");
        if exports {
            quote!((#kind $others:tt { $($export:tt)* }) => { $($export)* };)
        } else {
            quote! {
                (#kind [($($next:tt)*) $($others:tt)*] $export:tt) => { $($next)*! { #kind [$($others)*] $export } };
                (#kind [] $export:tt) => {};
            }
        }
    });
    quote! {
        #[doc(hidden)]
        #[allow(unused_macros)]
        macro_rules! #private { #(#rules)* }
        #[doc(hidden)]
        #[allow(unused_imports)]
        pub(crate) use #private as #public;
    }
}

/// The name under which `toolkit!` finds the macro of the tool `name`.
pub(crate) fn marker(name: &Ident) -> Ident {
    format_ident!("__toolcell_tool_{}", bare(name), span = name.span())
}

fn bare(name: &Ident) -> String {
    name.to_string().trim_start_matches("r#").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(function: TokenStream) -> String {
        expand(TokenStream::new(), function)
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default()
    }

    #[test]
    fn functions_that_cannot_be_tools_are_refused() {
        for (function, reason) in [
            (
                quote!(
                    fn f(input: Text) -> String {
                        String::new()
                    }
                ),
                "a tool needs a doc comment",
            ),
            (
                quote!(
                    #[doc = " It."]
                    fn f(input: Text) {}
                ),
                "a tool must return something",
            ),
            (
                quote!(
                    #[doc = " It."]
                    async fn f(input: Text) -> String {
                        String::new()
                    }
                ),
                "a tool is a plain function",
            ),
            (
                quote!(
                    #[doc = " It."]
                    fn f<T>(input: T) -> String {
                        String::new()
                    }
                ),
                "a tool has no generic parameters",
            ),
            (
                quote!(
                    #[doc = " It."]
                    fn f(a: A, b: B) -> String {
                        String::new()
                    }
                ),
                "a tool takes one argument",
            ),
            (
                quote!(
                    #[doc = " It."]
                    fn f(input: &Text) -> String {
                        String::new()
                    }
                ),
                "a tool takes its input by value",
            ),
        ] {
            assert!(refusal(function).starts_with(reason), "{reason}");
        }
    }

    #[test]
    fn the_doc_comment_keeps_its_lines_and_loses_its_margin() {
        let function: ItemFn = syn::parse2(quote! {
            #[doc = " Counts."]
            #[doc = ""]
            #[doc = "   Indented."]
            fn f() -> String { String::new() }
        })
        .unwrap();
        assert_eq!(description(&function.attrs), "Counts.\n\n  Indented.");
    }
}
