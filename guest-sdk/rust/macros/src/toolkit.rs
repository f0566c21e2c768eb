use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::{
    Error, Ident, LitStr, Path, Result, Token, Type, bracketed,
    parse::{Parse, ParseStream},
    punctuated::Punctuated,
    spanned::Spanned,
};

use crate::tool::marker;

/// `namespace: "text", tools: [count, upper]`, and `configuration: Settings` for tools that take settings.
struct Declared {
    namespace: LitStr,
    tools: Vec<Path>,
    configuration: Option<Type>,
}

impl Parse for Declared {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        key(input, "namespace")?;
        let namespace: LitStr = input.parse()?;
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        if namespace.value().is_empty() || !namespace.value().chars().all(fits) {
            return Err(Error::new(
                namespace.span(),
                "a namespace has letters, digits, `_`, `-` or `.`",
            ));
        }
        input.parse::<Token![,]>()?;
        key(input, "tools")?;
        let inner;
        let brackets = bracketed!(inner in input);
        let tools: Vec<Path> = Punctuated::<Path, Token![,]>::parse_terminated(&inner)?
            .into_iter()
            .collect();
        if tools.is_empty() {
            return Err(Error::new(
                brackets.span.join(),
                "a toolkit has at least one tool",
            ));
        }
        input.parse::<Option<Token![,]>>()?;
        let mut configuration = None;
        if !input.is_empty() {
            key(input, "configuration")?;
            configuration = Some(input.parse()?);
            input.parse::<Option<Token![,]>>()?;
        }
        Ok(Self {
            namespace,
            tools,
            configuration,
        })
    }
}

fn key(input: ParseStream<'_>, expected: &str) -> Result<()> {
    let key: Ident = input.parse()?;
    if key != expected {
        return Err(Error::new(
            key.span(),
            format!("expected `{expected}:`, as in `namespace: \"text\", tools: [count]`"),
        ));
    }
    input.parse::<Token![:]>().map(drop)
}

pub(crate) fn expand(input: TokenStream) -> Result<TokenStream> {
    let Declared {
        namespace,
        tools,
        configuration,
    } = syn::parse2(input)?;
    let configure = configuration.as_ref().map(|settings| {
        quote_spanned! {settings.span()=>
            fn configure(config: &str) -> ::core::result::Result<(), ::toolcell_guest::ToolError> {
                ::toolcell_guest::__private::configure::<#settings>(config)
            }
        }
    });
    let exports_configuration = configuration.as_ref().map(|_| {
        quote! {
            #[cfg(target_arch = "wasm32")]
            ::toolcell_guest::__private::configuring::export_configuration!(
                Toolkit with_types_in ::toolcell_guest::__private::configuring
            );
        }
    });
    let mut markers = tools.iter().map(marker_path).collect::<Vec<_>>();
    let first = markers.remove(0);
    let entries = tools
        .iter()
        .map(|tool| quote_spanned!(tool.span()=> ::toolcell_guest::Entry::of::<#tool>()));
    Ok(quote! {
        /// The tools that this component exports.
        pub struct Toolkit;

        impl ::toolcell_guest::Toolkit for Toolkit {
            const NAMESPACE: &'static str = #namespace;
            const TOOLS: &'static [::toolcell_guest::Entry] = &[#(#entries),*];

            #configure
        }

        const _: () = ::toolcell_guest::__private::assert_unique_names::<Toolkit>();

        #[cfg(target_arch = "wasm32")]
        ::toolcell_guest::__private::tool::export_tool!(Toolkit with_types_in ::toolcell_guest::__private::tool);
        #exports_configuration
        #first! {
            classification [#((#markers))*]
            {
                #[cfg(target_arch = "wasm32")]
                ::toolcell_guest::__private::classifying::export_classification!(
                    Toolkit with_types_in ::toolcell_guest::__private::classifying
                );
            }
        }
        #first! {
            validation [#((#markers))*]
            {
                #[cfg(target_arch = "wasm32")]
                ::toolcell_guest::__private::validating::export_validation!(
                    Toolkit with_types_in ::toolcell_guest::__private::validating
                );
            }
        }
    })
}

/// `words::count` becomes `words::__toolcell_tool_count`.
fn marker_path(tool: &Path) -> Path {
    let mut path = tool.clone();
    if let Some(last) = path.segments.last_mut() {
        last.ident = marker(&last.ident);
    }
    path
}
