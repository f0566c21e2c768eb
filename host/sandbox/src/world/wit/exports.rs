//! The functions that a component exports: at its root, and in its interfaces.

use wasmtime::Engine;
use wasmtime::component::Component;
use wasmtime::component::types::{
    ComponentExtern, ComponentFunc, ComponentInstance, ComponentItem,
};

use super::shape::{FunctionSignature, PARTS_MAX};
use crate::world::foreign_tool::{self, LeftOut};

/// A toolkit with so many functions is refused.
const FUNCTIONS_MAX: usize = 257;
const LEFT_OUT_MAX: usize = 1_000;

/// Start a runtime: componentize-qjs adds the first, componentize-py the second.
const HELPERS: [(Option<&str>, &str); 2] = [(None, "init"), (Some("exports"), "init")];
const WASI: &str = "wasi:";

#[derive(Debug, Default)]
pub(in crate::world) struct ExportedFunctions {
    pub(in crate::world) functions: Vec<ExportedFunction>,
    /// No tool can be made of them.
    pub(super) left_out: Vec<LeftOut>,
}

#[derive(Debug)]
pub(in crate::world) struct ExportedFunction {
    pub(in crate::world) tool: String,
    pub(super) interface: Option<String>,
    pub(super) name: String,
    pub(super) signature: FunctionSignature,
}

impl ExportedFunctions {
    /// Always the same order and the same names.
    pub(in crate::world) fn from_component(component: &Component) -> Self {
        let engine = component.engine();
        Self::among(component.component_type().exports(engine), engine)
    }

    fn among<'a>(
        items: impl Iterator<Item = (&'a str, ComponentExtern<'a>)>,
        engine: &Engine,
    ) -> Self {
        let mut found = Self::default();
        let mut parts = PARTS_MAX;
        for (name, item) in items {
            match item.ty {
                ComponentItem::ComponentFunc(function) => {
                    found.add(None, name, &function, &mut parts)
                }
                ComponentItem::ComponentInstance(instance) if !name.starts_with(WASI) => {
                    found.add_all(name, &instance, engine, &mut parts);
                }
                _ => {}
            }
        }
        let labels: Vec<String> = found
            .functions
            .iter()
            .map(ExportedFunction::label)
            .collect();
        let tools = foreign_tool::names(labels.iter().map(String::as_str));
        for (function, tool) in found.functions.iter_mut().zip(tools) {
            function.tool = tool;
        }
        found
    }

    fn add_all(
        &mut self,
        interface: &str,
        instance: &ComponentInstance,
        engine: &Engine,
        parts: &mut usize,
    ) {
        for (name, item) in instance.exports(engine) {
            if let ComponentItem::ComponentFunc(function) = item.ty {
                self.add(Some(interface), name, &function, parts);
            }
        }
    }

    fn add(
        &mut self,
        interface: Option<&str>,
        name: &str,
        function: &ComponentFunc,
        parts: &mut usize,
    ) {
        if self.functions.len() >= FUNCTIONS_MAX {
            return;
        }
        // Constructors and methods of resources are named `[constructor]..`, `[method]..` and `[static]..`.
        let signature = match name {
            _ if HELPERS.contains(&(interface, name)) => {
                Err("by its name, it starts the runtime of its toolchain".to_owned())
            }
            _ if name.starts_with('[') => {
                Err("it belongs to a resource, for which JSON has no value".to_owned())
            }
            _ => FunctionSignature::from_function(function, parts),
        };
        let interface = interface.map(str::to_owned);
        let name = name.to_owned();
        match signature {
            Ok(signature) => self.functions.push(ExportedFunction {
                tool: String::new(),
                interface,
                name,
                signature,
            }),
            Err(reason) if self.left_out.len() < LEFT_OUT_MAX => {
                let name = interface
                    .map_or_else(|| name.clone(), |interface| format!("{interface}#{name}"));
                self.left_out.push(LeftOut { name, reason });
            }
            Err(_) => {}
        }
    }

    /// Package of the first interface that has a function, such as `acme:docs`.
    pub(super) fn package(&self) -> Option<&str> {
        let mut interfaces = self
            .functions
            .iter()
            .filter_map(|function| function.interface.as_deref());
        interfaces
            .find_map(|interface| interface.rsplit_once('/'))
            .map(|(package, _)| package)
    }
}

impl ExportedFunction {
    pub(super) fn interface_name(&self) -> Option<&str> {
        self.interface.as_deref().map(short)
    }

    fn label(&self) -> String {
        match self.interface_name() {
            Some(interface) => format!("{interface}-{}", self.name),
            None => self.name.clone(),
        }
    }
}

fn short(interface: &str) -> &str {
    let name = interface
        .rsplit_once('/')
        .map_or(interface, |(_, name)| name);
    name.split_once('@').map_or(name, |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use wasmtime::component::Component;

    use super::{ExportedFunctions, PARTS_MAX, short};
    use crate::world::foreign_tool::LeftOut;
    use crate::world::wit::shape::{IntegerType, JsonShape};

    fn found(imports: &str) -> ExportedFunctions {
        let engine =
            wasmtime::Engine::new(&crate::engine::config(crate::engine::EngineKind::Pooled))
                .unwrap();
        let component = Component::new(
            &engine,
            wat::parse_str(format!("(component {imports})")).unwrap(),
        )
        .unwrap();
        ExportedFunctions::among(component.component_type().imports(&engine), &engine)
    }

    fn of_interface(functions: &[(&str, &str)]) -> ExportedFunctions {
        let exports: Vec<String> = functions
            .iter()
            .map(|(name, kind)| format!("(export \"{name}\" (func {kind}))"))
            .collect();
        found(&format!(
            "(import \"acme:docs/tools@1.2.0\" (instance {}))",
            exports.join(" ")
        ))
    }

    #[test]
    fn each_function_of_an_interface_is_a_tool() {
        let found = of_interface(&[("read", "(param \"a\" u8) (result string)"), ("stop", "")]);
        let named: Vec<_> = found
            .functions
            .iter()
            .map(|function| function.tool.as_str())
            .collect();
        assert_eq!(named, ["tools-read", "tools-stop"]);
        assert_eq!(found.package(), Some("acme:docs"));
        let [read, stop] = &found.functions[..] else {
            panic!()
        };
        assert_eq!(
            read.signature.input,
            JsonShape::Record(vec![("a".to_owned(), JsonShape::Int(IntegerType::U8))])
        );
        assert_eq!(
            (&read.signature.output, read.signature.results),
            (&Some(JsonShape::String), 1)
        );
        assert_eq!((&stop.signature.output, stop.signature.results), (&None, 0));
        assert_eq!(read.interface.as_deref(), Some("acme:docs/tools@1.2.0"));
    }

    #[test]
    fn types_are_read_with_all_that_they_hold() {
        let found = of_interface(&[(
            "f",
            "(param \"a\" (list u8)) (param \"b\" (tuple bool (option (option char)))) \
             (result (result (list s64) (error f32)))",
        )]);
        let [function] = &found.functions[..] else {
            panic!("{found:?}")
        };
        let nested = JsonShape::Option(Box::new(JsonShape::Option(Box::new(JsonShape::Char))));
        let fields = vec![
            ("a".to_owned(), JsonShape::Bytes),
            (
                "b".to_owned(),
                JsonShape::Tuple(vec![JsonShape::Bool, nested]),
            ),
        ];
        assert_eq!(function.signature.input, JsonShape::Record(fields));
        let list = JsonShape::List(Box::new(JsonShape::Int(IntegerType::S64)));
        assert_eq!(
            function.signature.output,
            Some(JsonShape::Result(
                Some(list.into()),
                Some(JsonShape::Float32.into())
            ))
        );
    }

    #[test]
    fn what_json_has_no_value_for_is_left_out_with_the_reason() {
        let found = found(
            "(import \"acme:docs/tools\" (instance
               (export \"thing\" (type $r (sub resource)))
               (export \"[method]thing.use\" (func (param \"self\" (borrow $r))))
               (export \"use\" (func (param \"r\" (list (borrow $r)))))))",
        );
        assert!(found.functions.is_empty());
        let left_out = |name: &str, reason: &str| LeftOut {
            name: name.to_owned(),
            reason: reason.to_owned(),
        };
        assert_eq!(
            found.left_out,
            [
                left_out(
                    "acme:docs/tools#[method]thing.use",
                    "it belongs to a resource, for which JSON has no value"
                ),
                left_out(
                    "acme:docs/tools#use",
                    "it uses a resource, for which JSON has no value"
                ),
            ]
        );
    }

    #[test]
    fn helpers_of_toolchains_and_interfaces_of_wasi_are_no_tools() {
        let found = found(
            "(import \"init\" (func))
             (import \"start\" (func))
             (import \"exports\" (instance (export \"init\" (func))))
             (import \"wasi:acme/run@0.1.0\" (instance (export \"run\" (func))))",
        );
        let named: Vec<_> = found
            .functions
            .iter()
            .map(|function| function.tool.as_str())
            .collect();
        assert_eq!(named, ["start"]);
        let left_out: Vec<_> = found
            .left_out
            .iter()
            .map(|left_out| left_out.name.as_str())
            .collect();
        assert_eq!(left_out, ["init", "exports#init"]);
        assert_eq!(found.package(), None);
    }

    #[test]
    fn types_that_are_too_large_or_too_deep_are_left_out() {
        // Each tuple has the one before it eight times: 8^6 parts.
        let tuples = (1..7).fold("(type $t0 u8)".to_owned(), |text, at| {
            format!(
                "{text} (type $t{at} (tuple{}))",
                format!(" $t{}", at - 1).repeat(8)
            )
        });
        let of = |types: &str, last: usize| {
            format!("{types} (import \"f\" (func (param \"p\" $t{last})))")
        };
        let large = found(&of(&tuples, 6));
        assert_eq!(
            large.left_out[0].reason,
            format!("the types of the component have more than {PARTS_MAX} parts")
        );
        let lists = (1..40).fold("(type $t0 bool)".to_owned(), |text, at| {
            format!("{text} (type $t{at} (list $t{}))", at - 1)
        });
        let deep = found(&of(&lists, 39));
        assert_eq!(
            deep.left_out[0].reason,
            "its types are nested more than 32 deep"
        );
        assert_eq!(found(&of(&lists, 30)).functions.len(), 1);
        let cases = |count: usize| {
            let names: String = (0..count).map(|at| format!(" \"c{at}\"")).collect();
            found(&of(
                &format!("(type $e (enum{names})) (import \"e\" (type $t0 (eq $e)))"),
                0,
            ))
        };
        assert_eq!(cases(1_000).functions.len(), 1);
        assert_eq!(
            cases(1_001).left_out[0].reason,
            "one of its types has more than 1000 cases"
        );
    }

    #[test]
    fn an_interface_is_named_without_its_package_and_version() {
        for (whole, name) in [
            ("acme:docs/tools@1.0.0", "tools"),
            ("a:b/c", "c"),
            ("plain", "plain"),
        ] {
            assert_eq!(short(whole), name);
        }
    }
}
