//! Tools of IronClaw: one, or several of a manifest in the component, which differ by a capability id in the call's
//! context.

mod records;

use std::collections::HashMap;

use serde_json::json;
use toolcell_spec::dialect::near::{Manifest, SECTION};
use toolcell_spec::dialect::sections;
use toolcell_spec::{ErrorCode, Refusal};
use toolcell_system::BoxFuture;
use wasmtime::Store;
use wasmtime::component::{InstancePre, types::ComponentItem};

use super::foreign_tool::toolkit;
use super::{Call, ComponentWorld, FirstLoad, Outcome, answer};
use crate::bindings::near::SandboxedToolPre;
use crate::bindings::near::exports::near::agent::tool::{
    ErrorKind, GuestFailure, Request, Response,
};
use crate::bindings::tool::toolcell::tool::types::ErrorClass;
use crate::call;
use crate::state::StoreState;

use records::{HostFunctions, capabilities};

pub(super) const INTERFACE: &str = "near:agent/tool@0.4.1";
pub(super) const CONTRACT: &str = "near:agent@0.4.1";
const HOST: &str = "near:agent/host@";

pub(super) struct NearWorld {
    component: SandboxedToolPre<StoreState>,
    /// The id, by tool name, is the context of the tool's calls.
    capabilities: HashMap<String, String>,
}

impl NearWorld {
    pub(super) fn new(instance: InstancePre<StoreState>) -> wasmtime::Result<Self> {
        Ok(Self {
            component: SandboxedToolPre::new(instance)?,
            capabilities: HashMap::new(),
        })
    }

    async fn ask(&self, examined: FirstLoad<'_>) -> Result<(String, String), Refusal> {
        let work = async |store: &mut Store<StoreState>| {
            let guest = self.component.instantiate_async(&mut *store).await?;
            let guest = guest.near_agent_tool();
            let schema = guest.call_schema(&mut *store).await?;
            Ok((schema, guest.call_description(store).await?))
        };
        call::examine(examined, work).await
    }
}

impl ComponentWorld for NearWorld {
    fn describe<'a>(&'a self, examined: FirstLoad<'a>) -> BoxFuture<'a, Result<String, Refusal>> {
        Box::pin(async move {
            let imported = imported(examined);
            Ok(match manifest(examined.bytes)? {
                Some(manifest) => {
                    let (tools, left_out) = records::of_manifest(&manifest, imported);
                    let own = records::namespace_of(&manifest);
                    toolkit(examined.namespace.unwrap_or(&own), &tools, &left_out)
                }
                None => {
                    let (schema, description) = self.ask(examined).await?;
                    let tool = records::single(examined.bytes, &schema, description, imported);
                    let refused = |why| {
                        let message = format!(
                            "cannot use what schema of the tool returns: {why}; ask its author to correct it"
                        );
                        Refusal::new(ErrorCode::DescriptionInvalid, message)
                    };
                    toolkit(
                        examined.namespace.unwrap_or(records::NAMESPACE),
                        &[tool.map_err(refused)?],
                        &[],
                    )
                }
            })
        })
    }

    fn described(&mut self, toolkit: &str) {
        self.capabilities = capabilities(toolkit);
    }

    fn invoke<'a>(
        &'a self,
        store: &'a mut Store<StoreState>,
        call: &'a Call,
    ) -> BoxFuture<'a, wasmtime::Result<Outcome>> {
        Box::pin(async move {
            let context = |id: &String| json!({ "capability_id": id }).to_string();
            let request = Request {
                params: call.input.clone(),
                context: self.capabilities.get(&call.tool).map(context),
            };
            let guest = self.component.instantiate_async(&mut *store).await?;
            let response = guest
                .near_agent_tool()
                .call_execute(store, &request)
                .await?;
            Ok(match response {
                Response::Success(json) => answer::success(json),
                Response::Failure(failure) => failed(failure),
            })
        })
    }
}

fn imported(examined: FirstLoad<'_>) -> HostFunctions {
    let engine = examined.engine.wasmtime();
    let kind = examined.component.component_type();
    let mut imported = HostFunctions::default();
    for (name, item) in kind.imports(engine) {
        if let ComponentItem::ComponentInstance(host) = item.ty
            && name.starts_with(HOST)
        {
            host.exports(engine)
                .for_each(|(function, _)| imported.add(function));
        }
    }
    imported
}

fn manifest(bytes: &[u8]) -> Result<Option<Manifest>, Refusal> {
    let refused = |why: &str| {
        let message = format!(
            "cannot use the custom section {SECTION} of the component: {why}; write it again with `toolcell wrap`"
        );
        Refusal::new(ErrorCode::DescriptionInvalid, message)
    };
    let Some(section) = sections::custom(bytes, SECTION).map_err(|why| refused(&why))? else {
        return Ok(None);
    };
    let text = std::str::from_utf8(section).map_err(|_| refused("it is not UTF-8"))?;
    Manifest::read(text).map(Some).map_err(|why| refused(&why))
}

fn failed(failure: GuestFailure) -> Outcome {
    let GuestFailure {
        kind,
        code,
        message,
    } = failure;
    let (class, otherwise) = match kind {
        ErrorKind::AuthRequired => (ErrorClass::CredentialMissing, "the tool lacks a credential"),
        ErrorKind::Input => (
            ErrorClass::InvalidArguments,
            "the tool does not accept its arguments",
        ),
        ErrorKind::OutputTooLarge => (
            ErrorClass::ResultTooLarge,
            "the output of the tool is too large",
        ),
        // A denial by the host itself gets its verdict.
        ErrorKind::NetworkDenied => (
            ErrorClass::DependencyUnavailable,
            "a request of the tool was denied",
        ),
        ErrorKind::Executor | ErrorKind::Client | ErrorKind::OperationFailed => {
            (ErrorClass::ExecutionFailed, "the tool does not say why")
        }
    };
    let message = message
        .filter(|message| !message.is_empty())
        .unwrap_or_else(|| otherwise.to_owned());
    answer::failure(class, code.unwrap_or_default(), message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_of_a_failure_is_a_class_of_errors() {
        let of = |kind, message: Option<&str>| {
            let failure = GuestFailure {
                kind,
                code: Some("c".to_owned()),
                message: message.map(str::to_owned),
            };
            match failed(failure) {
                Outcome::Failure(error) => (error.class, error.code, error.message),
                other => panic!("{other:?}"),
            }
        };
        for (kind, class) in [
            (ErrorKind::AuthRequired, "CredentialMissing"),
            (ErrorKind::Input, "InvalidArguments"),
            (ErrorKind::OutputTooLarge, "ResultTooLarge"),
            (ErrorKind::NetworkDenied, "DependencyUnavailable"),
            (ErrorKind::Executor, "ExecutionFailed"),
            (ErrorKind::Client, "ExecutionFailed"),
            (ErrorKind::OperationFailed, "ExecutionFailed"),
        ] {
            let (found, code, message) = of(kind, Some("why"));
            assert!(format!("{found:?}").ends_with(class), "{found:?}");
            assert_eq!((code.as_str(), message.as_str()), ("c", "why"));
            assert!(!of(kind, None).2.is_empty() && !of(kind, Some("")).2.is_empty());
        }
    }

    #[test]
    fn a_manifest_that_cannot_be_read_is_refused() {
        let component =
            |text: &[u8]| sections::with_custom(b"\0asm\x0d\0\x01\0", SECTION, text).unwrap();
        assert_eq!(manifest(b"\0asm\x0d\0\x01\0").unwrap(), None);
        let two = [component(b"{"), component(b"{")[8..].to_vec()].concat();
        for (component, why) in [
            (two, "two custom sections"),
            (component(b"{"), "EOF"),
            (component(b"\xff"), "UTF-8"),
            (
                component(br#"{"id": "a", "tools": []}"#),
                "tools: there are 0",
            ),
        ] {
            let refusal = manifest(&component).unwrap_err();
            assert_eq!(refusal.code, ErrorCode::DescriptionInvalid);
            assert!(refusal.message.contains(why), "{}", refusal.message);
        }
    }
}
