//! Rules about URLs and paths, and grants for the network: a pattern compiled from any words handles any URL and path,
//! and treats a URL alike after it was written and parsed again.

use std::path::Path;

use crate::shared::halves;
use toolcell::Grants;
use toolcell_policy::{PathPattern, UrlPattern};
use url::Url;

pub(crate) fn run(data: &[u8]) {
    let Some((words, subject)) = halves(data) else {
        return;
    };
    let mut grants = Grants::default();
    let _ = (grants.allow_net(words), grants.allow_secret(words));
    if let Ok(pattern) = PathPattern::compile(words, Path::new("/project")) {
        let path = Path::new("/").join(subject);
        let _ = (
            pattern.covers(&path),
            pattern.reaches_into(&path),
            pattern.survives_move(&path, Path::new("/other")),
        );
    }
    let (Ok(pattern), Ok(url)) = (UrlPattern::compile(words), Url::parse(subject)) else {
        return;
    };
    let Ok(again) = Url::parse(url.as_str()) else {
        panic!("{url} cannot be read again")
    };
    for plain in [false, true] {
        assert_eq!(
            pattern.touches(&url, plain),
            pattern.touches(&again, plain),
            "{url}"
        );
    }
}
