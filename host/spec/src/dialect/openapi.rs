//! OpenAPI documents of versions 3.0 and 3.1, as the routes of a server. References lead nowhere but into the document.

mod schema;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::routes::{
    PARAMETERS_MAX, Parameter, ParameterPlace, ParameterStyle, ROUTES_MAX, Route, RouteBody,
    RouteRequest, is_reserved_header,
};
use schema::{Direction, SchemaReader};

/// In bytes.
pub const OPENAPI_BYTES_MAX: usize = 4 << 20;
const METHODS: [&str; 7] = ["get", "put", "post", "delete", "options", "head", "patch"];
const FORM: &str = "application/x-www-form-urlencoded";
const JSON: &str = "application/json";
/// Parameters with these names are said otherwise in OpenAPI.
const IGNORED_HEADERS: [&str; 3] = ["accept", "content-type", "authorization"];

type Fields = Map<String, Value>;

/// What a document says of a server.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ApiRoutes {
    /// Of the API.
    pub title: String,
    pub routes: Vec<Route>,
    /// Operations that no tool can be made of, each with the reason.
    pub left_out: Vec<(String, String)>,
}

/// Fails if the document is not OpenAPI 3.0 or 3.1, or has no operation that can be a tool, or too many.
///
/// ```
/// use serde_json::json;
/// use toolcell_spec::dialect::openapi::routes;
///
/// let pet = json!({ "operationId": "getPet", "parameters": [{ "name": "id", "in": "path", "schema": { "type": "integer" } }] });
/// let api = json!({ "openapi": "3.1.0", "info": { "title": "Pets" }, "paths": { "/pets/{id}": { "get": pet } } });
/// let read = routes(&api)?;
/// assert_eq!((read.title.as_str(), read.routes[0].name.as_str()), ("Pets", "getPet"));
/// # Ok::<(), String>(())
/// ```
pub fn routes(document: &Value) -> Result<ApiRoutes, String> {
    let version = document.get("openapi").and_then(Value::as_str);
    if !version.is_some_and(|version| version.starts_with("3.0.") || version.starts_with("3.1.")) {
        return Err("it is not an OpenAPI document of version 3.0 or 3.1".to_owned());
    }
    let base = base(document)?;
    let paths = document.get("paths").and_then(Value::as_object);
    let mut schemas = SchemaReader::new(document);
    let mut found = ApiRoutes {
        title: text(document.pointer("/info/title")).to_owned(),
        ..ApiRoutes::default()
    };
    for (path, item) in paths.into_iter().flatten() {
        let item = match schemas.resolved(item) {
            Ok(item) => item,
            Err(why) => {
                found.left_out.push((path.clone(), why));
                continue;
            }
        };
        for method in METHODS {
            let Some(operation) = item.get(method).and_then(Value::as_object) else {
                continue;
            };
            if found.routes.len() + found.left_out.len() >= ROUTES_MAX {
                return Err(format!(
                    "it has more than {ROUTES_MAX} operations; leave out those that no agent needs"
                ));
            }
            match route(&base, (method, path), (item, operation), &mut schemas) {
                Ok(route) => found.routes.push(route),
                Err(why) => found.left_out.push((format!("{method} {path}"), why)),
            }
        }
    }
    if found.routes.is_empty() {
        let why = found.left_out.first();
        let why = why.map(|(name, why)| format!(": {name}: {why}"));
        return Err(format!(
            "no tool can be made of an operation of it{}",
            why.unwrap_or_default()
        ));
    }
    Ok(found)
}

/// The path of the server's address, which is before all others.
fn base(document: &Value) -> Result<String, String> {
    let url = text(document.pointer("/servers/0/url"));
    let path = match url.split_once("://") {
        Some((_, rest)) => rest
            .find('/')
            .and_then(|at| rest.get(at..))
            .unwrap_or_default(),
        None => url,
    };
    if path.contains('{') {
        return Err(format!(
            "the address {url:?} of its server has variables; write the path that the component serves"
        ));
    }
    let path = path.trim_end_matches('/');
    Ok(match path {
        "" => String::new(),
        path if path.starts_with('/') => path.to_owned(),
        path => format!("/{path}"),
    })
}

fn text(value: Option<&Value>) -> &str {
    value.and_then(Value::as_str).unwrap_or_default()
}

/// The arguments of one operation.
#[derive(Default)]
struct Arguments {
    properties: Fields,
    required: BTreeSet<String>,
    /// The name of each path parameter, and its argument.
    in_path: BTreeMap<String, String>,
    parameters: BTreeMap<String, Parameter>,
    body: Option<RouteBody>,
}

fn route(
    base: &str,
    (method, path): (&str, &str),
    (item, operation): (&Value, &Fields),
    schemas: &mut SchemaReader<'_>,
) -> Result<Route, String> {
    let mut arguments = Arguments::default();
    for parameter in parameters(item, operation, schemas)? {
        arguments.add(parameter, schemas)?;
    }
    if let Some(body) = operation.get("requestBody") {
        let body = schemas.resolved(body)?;
        arguments.add_body(body, schemas)?;
    }
    let operation_id = operation.get("operationId").and_then(Value::as_str);
    let description = [
        schemas.text(operation.get("summary"))?,
        schemas.text(operation.get("description"))?,
    ];
    let description: Vec<&str> = description
        .into_iter()
        .filter(|text| !text.is_empty())
        .collect();
    let output_schema = output(operation.get("responses"), schemas)?;
    let route = Route {
        name: operation_id.map_or_else(|| named(method, path), str::to_owned),
        description: Some(match description[..] {
            [] => format!("Sends {} {path}.", method.to_ascii_uppercase()),
            _ => description.join("\n\n"),
        }),
        request: RouteRequest {
            method: method.to_ascii_uppercase(),
            path: format!("{}{}", base, arguments.place_in(path)?),
            parameters: arguments.parameters,
            body: arguments.body,
        },
        input_schema: Some(json!({
            "type": "object",
            "properties": arguments.properties,
            "required": arguments.required,
            "additionalProperties": false,
        })),
        output_schema,
        operation_id: operation_id.map(str::to_owned),
    };
    route.schema()?;
    Ok(route)
}

/// Those of the path come first, so that they keep their names. One of the operation replaces one of its path.
fn parameters<'v, 'd: 'v>(
    item: &'v Value,
    operation: &'v Fields,
    schemas: &SchemaReader<'d>,
) -> Result<Vec<&'v Value>, String> {
    let mut found: Vec<&Value> = Vec::new();
    for list in [operation.get("parameters"), item.get("parameters")] {
        for parameter in list.and_then(Value::as_array).into_iter().flatten() {
            let parameter = schemas.resolved(parameter)?;
            let key = |value: &'v Value| [value.get("name"), value.get("in")];
            if !found.iter().any(|known| key(known) == key(parameter)) {
                found.push(parameter);
            }
            if found.len() > PARAMETERS_MAX {
                return Err(format!("it has more than {PARAMETERS_MAX} parameters"));
            }
        }
    }
    found.sort_by_key(|parameter| text(parameter.get("in")) != "path");
    Ok(found)
}

/// Of the only success, if that is an object in JSON.
fn output(
    responses: Option<&Value>,
    schemas: &mut SchemaReader<'_>,
) -> Result<Option<Value>, String> {
    let responses = responses.and_then(Value::as_object);
    let mut successes = responses
        .into_iter()
        .flatten()
        .filter(|(status, _)| status.starts_with('2'));
    let (Some((_, success)), None) = (successes.next(), successes.next()) else {
        return Ok(None);
    };
    let success = schemas.resolved(success)?;
    let Some((media_type, content)) = content(success.get("content"), &[JSON]) else {
        return Ok(None);
    };
    let Some(schema) = content.get("schema").filter(|_| media_type == JSON) else {
        return Ok(None);
    };
    let schema = schemas.read(schema, Direction::Output)?;
    Ok(Some(schema).filter(|schema| schema.get("type").is_some_and(|kind| kind == "object")))
}

impl Arguments {
    fn add(&mut self, parameter: &Value, schemas: &mut SchemaReader<'_>) -> Result<(), String> {
        let name = text(parameter.get("name"));
        let place = text(parameter.get("in"));
        let required = parameter.get("required").is_some_and(|it| it == true) || place == "path";
        let lower = name.to_ascii_lowercase();
        let is_header = place == "header";
        if name.is_empty() || (is_header && IGNORED_HEADERS.contains(&lower.as_str())) {
            return Ok(());
        }
        let closed = place == "cookie" || (is_header && is_reserved_header(name));
        if closed && required {
            return Err(format!(
                "it needs the {place} {name:?}, which no argument can be, because all arguments are on record"
            ));
        }
        if closed {
            return Ok(());
        }
        if content(parameter.get("content"), &[]).is_some() {
            return Err(format!(
                "its parameter {name:?} has a media type of its own"
            ));
        }
        let argument = if self.properties.contains_key(name) {
            format!("{place}_{name}")
        } else {
            name.to_owned()
        };
        let named = (argument != name).then(|| name.to_owned());
        match place {
            "path" => {
                self.in_path.insert(name.to_owned(), argument.clone());
            }
            "query" | "header" => {
                let place = if is_header {
                    ParameterPlace::Header
                } else {
                    ParameterPlace::Query
                };
                let style = style(parameter)?;
                let parameter = Parameter {
                    place,
                    name: named,
                    style,
                };
                self.parameters.insert(argument.clone(), parameter);
            }
            _ => {
                return Err(format!(
                    "its parameter {name:?} is in {place:?}, which is no place"
                ));
            }
        }
        let mut schema = match parameter.get("schema") {
            Some(schema) => schemas.read(schema, Direction::Input)?,
            None => json!({ "type": "string" }),
        };
        describe(&mut schema, schemas.text(parameter.get("description"))?);
        self.take(argument, schema, required);
        Ok(())
    }

    fn add_body(&mut self, body: &Value, schemas: &mut SchemaReader<'_>) -> Result<(), String> {
        let Some((media_type, content)) = content(body.get("content"), &[JSON, FORM]) else {
            return Ok(());
        };
        if media_type.starts_with("multipart/") {
            return Err(format!("its body is {media_type}"));
        }
        let is_data = media_type.ends_with("json") || media_type == FORM;
        let mut schema = match content.get("schema") {
            Some(schema) if is_data => schemas.read(schema, Direction::Input)?,
            _ if is_data => json!({}),
            _ => json!({
                "anyOf": [
                    { "type": "string" },
                    {
                        "type": "object",
                        "properties": { "base64": { "type": "string", "contentEncoding": "base64" } },
                        "required": ["base64"],
                        "additionalProperties": false,
                    },
                ],
            }),
        };
        describe(&mut schema, schemas.text(body.get("description"))?);
        let taken = self.properties.contains_key("body");
        let argument = if taken { "request_body" } else { "body" }.to_owned();
        let media_type = media_type.to_owned();
        self.body = Some(RouteBody {
            argument: argument.clone(),
            media_type,
        });
        self.take(
            argument,
            schema,
            body.get("required").is_some_and(|it| it == true),
        );
        Ok(())
    }

    fn take(&mut self, argument: String, schema: Value, required: bool) {
        if required {
            self.required.insert(argument.clone());
        }
        self.properties.insert(argument, schema);
    }

    /// The path with arguments in place of parameters.
    fn place_in(&self, path: &str) -> Result<String, String> {
        let mut placed = path.to_owned();
        for (name, argument) in &self.in_path {
            let parameter = format!("{{{name}}}");
            if !placed.contains(&parameter) {
                return Err(format!("its path has no place for the parameter {name:?}"));
            }
            placed = placed.replace(&parameter, &format!("{{{argument}}}"));
        }
        Ok(placed)
    }
}

fn style(parameter: &Value) -> Result<ParameterStyle, String> {
    let explode = parameter.get("explode").and_then(Value::as_bool);
    match (text(parameter.get("style")), explode) {
        ("" | "form", None | Some(true)) => Ok(ParameterStyle::Repeated),
        ("" | "form" | "simple", _) => Ok(ParameterStyle::Comma),
        ("deepObject", _) => Ok(ParameterStyle::Deep),
        (style, _) => Err(format!("a parameter of it has the style {style:?}")),
    }
}

/// One of the media types, by preference.
fn content<'v>(content: Option<&'v Value>, preferred: &[&str]) -> Option<(&'v str, &'v Value)> {
    let content = content.and_then(Value::as_object)?;
    let exact = preferred
        .iter()
        .find_map(|kind| content.get_key_value(*kind));
    let json = || content.iter().find(|(kind, _)| kind.contains("json"));
    let found = exact.or_else(json).or_else(|| content.iter().next());
    found.map(|(kind, content)| (kind.as_str(), content))
}

fn describe(schema: &mut Value, description: &str) {
    if let Some(fields) = schema.as_object_mut()
        && !description.is_empty()
    {
        fields.insert("description".to_owned(), description.into());
    }
}

/// Such as `get-pets-id` of `/pets/{id}`.
fn named(method: &str, path: &str) -> String {
    let words = path.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let words = words.filter(|word| !word.is_empty());
    std::iter::once(method)
        .chain(words)
        .collect::<Vec<_>>()
        .join("-")
}

#[cfg(test)]
mod tests;
