//! The issuers of the configuration, whose access tokens a server accepts.

use std::path::Path;
use std::sync::Arc;

use toolcell_config::ConfigLayers;
use toolcell_install::tls;
use toolcell_install::web::WebSource;
use toolcell_server::{DocumentUrl, FetchFn, TokenIssuers};
use toolcell_spec::{ErrorCode, Refusal};
use url::Url;

/// Metadata, or keys.
const DOCUMENT_BYTES_MAX: u64 = 1 << 20;

/// `None` without an issuer. Trusts the certificates of `tls_ca`, too.
pub(crate) fn issuers(
    layers: &ConfigLayers,
    tls_ca: Option<&Path>,
) -> anyhow::Result<Option<TokenIssuers>> {
    let principals = layers.principals.iter();
    let principals = principals.filter_map(|one| Some((one.name.as_str(), one.jwt.clone()?)));
    let principals: Vec<_> = principals.collect();
    if layers.issuers.is_empty() && principals.is_empty() {
        return Ok(None);
    }
    TokenIssuers::new(layers.issuers.clone(), principals, fetcher(tls_ca)?).map(Some)
}

fn fetcher(tls_ca: Option<&Path>) -> anyhow::Result<FetchFn> {
    let roots: Vec<_> = tls_ca.map(Path::to_owned).into_iter().collect();
    let web = Arc::new(WebSource::new(tls::client(&roots)?));
    Ok(Arc::new(move |from: DocumentUrl| {
        let web = Arc::clone(&web);
        Box::pin(async move { document(&web, &from).await })
    }))
}

async fn document(web: &WebSource, from: &DocumentUrl) -> Result<Option<Vec<u8>>, String> {
    let parsed =
        |url: &str| Url::parse(url).map_err(|error| format!("{url} is not a URL: {error}"));
    let (url, first) = (parsed(&from.url)?, parsed(&from.first)?);
    let told = |refusal: Refusal| match refusal.code {
        ErrorCode::ComponentTooLarge => format!("{url} has more than 1 MiB"),
        _ => refusal.message,
    };
    let found = web.document((&url, &first), "application/json", DOCUMENT_BYTES_MAX);
    found.await.map_err(told)
}
