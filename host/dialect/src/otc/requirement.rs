use serde_json::{Map, Value, json};
use toolcell_spec::{CredentialUse, PermissionProfile, TypedFields};

use super::OtcMode;

/// `requirements.authorization` of a tool (OTC-D-13): each request has one of its credentials in
/// `context.authorization.token`.
///
/// An author writes `authorization` into an entry of `credential_uses`: the text `token`, or an object with
/// `provider_type`, and maybe `provider_id`, `id` and `oauth2.scopes`. The host runs no OAuth itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Requirement {
    pub credential: String,
    pub scopes: Vec<String>,
    demand: Value,
}

impl Requirement {
    /// The first one, because a request carries one token. A demand that the format cannot say is none.
    pub fn from_profile(profile: &PermissionProfile) -> Option<Self> {
        profile.credential_uses.iter().find_map(Self::of_use)
    }

    fn of_use(used: &CredentialUse) -> Option<Self> {
        let credential = used.credential_ref.clone();
        let demand = used.extra.get("authorization")?;
        if demand.as_str() == Some("token") {
            return Some(Self {
                credential,
                scopes: Vec::new(),
                demand: demand.clone(),
            });
        }
        let mut known = Map::new();
        for name in ["provider_id", "provider_type", "id"] {
            if let Some(text) = demand.text(name) {
                known.insert(name.to_owned(), text.into());
            }
        }
        known.get("provider_type")?;
        let scopes = demand.pointer("/oauth2/scopes").and_then(Value::as_array);
        let scopes: Vec<String> = scopes
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect();
        if demand.get("oauth2").is_some() {
            known.insert("oauth2".to_owned(), json!({ "scopes": scopes }));
        }
        Some(Self {
            credential,
            scopes,
            demand: Value::Object(known),
        })
    }

    /// Arcade knows no plain `token`, but providers of any type.
    pub(super) fn to_value(&self, mode: OtcMode) -> Value {
        match (mode, self.demand.as_str()) {
            (OtcMode::Arcade, Some(kind)) => json!({ "provider_type": kind }),
            _ => self.demand.clone(),
        }
    }
}

/// Secrets that a request may carry for a tool (OTC-D-12): its credentials except the token.
pub fn secrets(profile: &PermissionProfile) -> Vec<&str> {
    let token = Requirement::from_profile(profile).map(|requirement| requirement.credential);
    let is_secret = |name: &&str| token.as_deref() != Some(*name);
    profile
        .credential_refs
        .iter()
        .map(String::as_str)
        .filter(is_secret)
        .collect()
}
