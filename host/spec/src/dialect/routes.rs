//! The operations of a server in a component, each a tool, as `toolcell wrap` writes them into its profile. A route says
//! how arguments become a request; it grants nothing.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::{CONNECTION_HEADERS, CREDENTIAL_HEADERS};

/// A toolkit with more tools is refused.
pub const ROUTES_MAX: usize = 256;
pub(super) const PARAMETERS_MAX: usize = 64;
const PATH_BYTES_MAX: usize = 1_024;
const NAME_BYTES_MAX: usize = 128;
pub const METHOD_BYTES_MAX: usize = 32;
const JSON: &str = "application/json";

/// ```
/// use toolcell_spec::dialect::routes::Route;
///
/// let route: Route = serde_json::from_str(r#"{"name": "get-pet", "request": {"path": "/pets/{id}"}}"#)?;
/// assert_eq!(route.schema().unwrap()["required"], serde_json::json!(["id"]));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Route {
    pub name: String,
    pub description: Option<String>,
    pub request: RouteRequest,
    /// `None`: each argument is a required text.
    pub input_schema: Option<Value>,
    /// Of the body of a success.
    pub output_schema: Option<Value>,
    /// Of the OpenAPI document that the route is from.
    pub operation_id: Option<String>,
}

/// The places of all arguments.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RouteRequest {
    #[serde(default = "get")]
    pub method: String,
    /// Begins with `/`; `{NAME}` is the place of an argument.
    pub path: String,
    /// By argument.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, Parameter>,
    pub body: Option<RouteBody>,
}

fn get() -> String {
    "GET".to_owned()
}

#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameter {
    #[serde(rename = "in")]
    pub place: ParameterPlace,
    /// `None`: the name of the argument.
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "ParameterStyle::is_default")]
    pub style: ParameterStyle,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ParameterPlace {
    Query,
    Header,
}

/// How a list or an object is written in a query.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ParameterStyle {
    /// `a=1&a=2`; the fields of an object are parameters of their own.
    #[default]
    Repeated,
    /// `a=1,2`.
    Comma,
    /// `a[field]=1`.
    Deep,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RouteBody {
    pub argument: String,
    #[serde(default = "json_type")]
    pub media_type: String,
}

fn json_type() -> String {
    JSON.to_owned()
}

impl ParameterStyle {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// `true` if no caller may set the header: it belongs to the connection, the framing, or is a credential.
pub fn is_reserved_header(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let name = name.as_str();
    name == "content-length"
        || CONNECTION_HEADERS.contains(&name)
        || CREDENTIAL_HEADERS.contains(&name)
}

fn is_token(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(fits)
}

impl RouteRequest {
    /// The parts of the path: texts, and the arguments between them.
    ///
    /// ```
    /// use toolcell_spec::dialect::routes::{PathPart, RouteRequest};
    ///
    /// let request: RouteRequest = serde_json::from_str(r#"{"path": "/pets/{id}"}"#)?;
    /// assert_eq!(request.path_parts(), Ok(vec![PathPart::Text("/pets/"), PathPart::Argument("id")]));
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn path_parts(&self) -> Result<Vec<PathPart<'_>>, String> {
        let wrong = || format!("the path {:?} has a brace without its other one", self.path);
        let mut parts = Vec::new();
        let mut rest = self.path.as_str();
        while let Some((text, after)) = rest.split_once('{') {
            let (name, after) = after.split_once('}').ok_or_else(wrong)?;
            if name.is_empty() || name.contains('{') || text.contains('}') {
                return Err(wrong());
            }
            parts.push(PathPart::Text(text));
            parts.push(PathPart::Argument(name));
            rest = after;
        }
        if rest.contains('}') {
            return Err(wrong());
        }
        if !rest.is_empty() {
            parts.push(PathPart::Text(rest));
        }
        Ok(parts)
    }

    /// All arguments, sorted.
    fn arguments(&self) -> Result<BTreeSet<&str>, String> {
        let mut known = BTreeSet::new();
        let path = self.path_parts()?;
        let in_path = path.iter().filter_map(|part| match part {
            PathPart::Argument(name) => Some(*name),
            PathPart::Text(_) => None,
        });
        let parameters = self.parameters.keys().map(String::as_str);
        let body = self.body.as_ref().map(|body| body.argument.as_str());
        for name in in_path.chain(parameters).chain(body) {
            if name.len() > NAME_BYTES_MAX {
                return Err(format!(
                    "an argument's name is longer than {NAME_BYTES_MAX} bytes"
                ));
            }
            if !known.insert(name) {
                return Err(format!(
                    "the argument {name:?} has two places in the request"
                ));
            }
        }
        if known.len() > PARAMETERS_MAX {
            return Err(format!("it has more than {PARAMETERS_MAX} arguments"));
        }
        Ok(known)
    }

    fn check(&self) -> Result<(), String> {
        if !is_token(&self.method) || self.method.len() > METHOD_BYTES_MAX {
            return Err(format!("{:?} is not a method", self.method));
        }
        let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"?#\\".contains(&byte);
        if !self.path.starts_with('/')
            || self.path.len() > PATH_BYTES_MAX
            || !self.path.bytes().all(is_plain)
        {
            return Err(format!(
                "the path {:?} does not begin with /, is longer than {PATH_BYTES_MAX} bytes, or has a character that must be escaped",
                self.path
            ));
        }
        for (argument, parameter) in &self.parameters {
            let name = parameter.name.as_ref().unwrap_or(argument);
            let is_header = parameter.place == ParameterPlace::Header;
            if is_header && (!is_token(name) || is_reserved_header(name)) {
                return Err(format!("no argument can be the header {name:?}"));
            }
        }
        Ok(())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathPart<'a> {
    Text(&'a str),
    Argument(&'a str),
}

impl Route {
    /// The schema of the arguments. Fails if an argument has no place in the request, or a place no argument.
    pub fn schema(&self) -> Result<Value, String> {
        self.request.check()?;
        let arguments = self.request.arguments()?;
        let Some(schema) = &self.input_schema else {
            let text = |name: &&str| ((*name).to_owned(), json!({ "type": "string" }));
            let properties: Map<String, Value> = arguments.iter().map(text).collect();
            return Ok(json!({
                "type": "object",
                "properties": properties,
                "required": arguments,
                "additionalProperties": false,
            }));
        };
        let none = Map::new();
        let properties = schema.get("properties").and_then(Value::as_object);
        let properties = properties.unwrap_or(&none);
        if let Some(name) = properties
            .keys()
            .find(|name| !arguments.contains(name.as_str()))
        {
            return Err(format!("the argument {name:?} has no place in the request"));
        }
        if let Some(name) = arguments
            .iter()
            .find(|name| !properties.contains_key(**name))
        {
            return Err(format!(
                "the request needs {name:?}, which the input schema does not have"
            ));
        }
        Ok(schema.clone())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::Route;

    fn schema(route: Value) -> Result<Value, String> {
        serde_json::from_value::<Route>(route)
            .map_err(|error| error.to_string())?
            .schema()
    }

    #[test]
    fn arguments_without_a_schema_are_texts() {
        let route = json!({
            "name": "move",
            "request": {
                "method": "PUT",
                "path": "/a/{from}/b/{to}",
                "parameters": { "dry": { "in": "query" }, "trace": { "in": "header", "name": "x-trace" } },
                "body": { "argument": "why" },
            },
        });
        let schema = schema(route).unwrap();
        assert_eq!(
            schema["required"],
            json!(["dry", "from", "to", "trace", "why"])
        );
        assert_eq!(schema["additionalProperties"], false);
    }

    #[test]
    fn a_route_that_cannot_be_a_request_is_refused_with_the_reason() {
        let with = |request: Value| json!({ "name": "a", "request": request });
        let header = |name: &str| {
            with(json!({ "path": "/", "parameters": { "a": { "in": "header", "name": name } } }))
        };
        for (route, why) in [
            (with(json!({ "path": "a" })), "does not begin with /"),
            (with(json!({ "path": "/a?b" })), "escaped"),
            (with(json!({ "path": "/a b" })), "escaped"),
            (with(json!({ "path": "/{a" })), "brace"),
            (with(json!({ "path": "/a}" })), "brace"),
            (with(json!({ "path": "/{}" })), "brace"),
            (with(json!({ "path": "/{a}/{a}" })), "two places"),
            (
                with(json!({ "path": "/{a}", "body": { "argument": "a" } })),
                "two places",
            ),
            (
                with(json!({ "path": "/", "method": "GE T" })),
                "not a method",
            ),
            (header("Host"), "header"),
            (header("Authorization"), "header"),
            (header("content-length"), "header"),
            (header("a b"), "header"),
            (
                with(json!({ "path": "/", "parameters": { "a": { "in": "cookie" } } })),
                "cookie",
            ),
            (with(json!({ "path": "/", "other": 1 })), "other"),
        ] {
            let refusal = schema(route.clone()).unwrap_err();
            assert!(refusal.contains(why), "{route}: {refusal}");
        }
        for (properties, why) in [
            (json!({ "a": {}, "b": {} }), "\"b\" has no place"),
            (json!({}), "needs \"a\""),
        ] {
            let mut route = with(json!({ "path": "/{a}" }));
            route["input_schema"] = json!({ "type": "object", "properties": properties });
            let refusal = schema(route).unwrap_err();
            assert!(refusal.contains(why), "{refusal}");
        }
    }
}
