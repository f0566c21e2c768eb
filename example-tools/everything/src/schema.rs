//! A tool whose schema uses much of JSON Schema 2020-12, exactly as the conformance suite writes it.

use std::borrow::Cow;

use toolcell_guest::{
    schemars::{JsonSchema, Schema, SchemaGenerator, json_schema},
    serde::{self, Deserialize},
    tool,
};

#[derive(Deserialize)]
#[serde(crate = "self::serde", deny_unknown_fields, rename_all = "camelCase")]
pub struct Contact {
    name: Option<String>,
    address: Option<Address>,
    contact_method: Option<Method>,
    phone: Option<String>,
    email: Option<String>,
}

#[derive(Deserialize)]
#[serde(crate = "self::serde")]
struct Address {
    city: Option<String>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(crate = "self::serde", rename_all = "lowercase")]
enum Method {
    Phone,
    Email,
}

impl JsonSchema for Contact {
    fn schema_name() -> Cow<'static, str> {
        "Contact".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "$defs": {
                "address": {
                    "$anchor": "addressDef",
                    "type": "object",
                    "properties": { "street": { "type": "string" }, "city": { "type": "string" } },
                },
            },
            "properties": {
                "name": { "type": "string" },
                "address": { "$ref": "#/$defs/address" },
                "contactMethod": { "type": "string", "enum": ["phone", "email"] },
                "phone": { "type": "string" },
                "email": { "type": "string" },
            },
            "allOf": [{ "anyOf": [{ "required": ["phone"] }, { "required": ["email"] }] }],
            "if": { "properties": { "contactMethod": { "const": "phone" } }, "required": ["contactMethod"] },
            "then": { "required": ["phone"] },
            "else": { "required": ["email"] },
            "additionalProperties": false,
        })
    }
}

/// Says how a person is reached: by phone, or by mail.
#[tool(read_only, concurrency_safe)]
pub fn json_schema_2020_12_tool(input: Contact) -> String {
    let name = input.name.as_deref().unwrap_or("the person");
    let city = input
        .address
        .and_then(|address| address.city)
        .map(|city| format!(" in {city}"))
        .unwrap_or_default();
    let reached = match (input.contact_method, input.phone, input.email) {
        (Some(Method::Phone), Some(phone), _) | (_, Some(phone), None) => {
            format!("by phone at {phone}")
        }
        (_, _, Some(email)) => format!("by mail at {email}"),
        (_, None, None) => "not at all".to_owned(),
    };
    format!("{name}{city} is reached {reached}")
}
