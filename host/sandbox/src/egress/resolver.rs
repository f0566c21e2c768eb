//! Looks names up. Every address is vetted afterwards, whoever found it (`gate.rs`).
//!
//! The C library's resolver blocks until its name servers answer or its own timeout ends, and cannot be stopped; so the
//! feature `resolver` brings one that asks the name servers itself.

#[cfg(not(feature = "resolver"))]
mod c_library;
#[cfg(feature = "resolver")]
mod name_servers;

use std::fmt::Debug;
use std::io;
use std::net::IpAddr;

use toolcell_system::BoxFuture;

#[cfg(not(feature = "resolver"))]
pub use c_library::SystemResolver;
#[cfg(feature = "resolver")]
pub use name_servers::SystemResolver;

/// Read from one answer; few are ever tried.
const ADDRESSES_MAX: usize = 32;

/// Looks names up.
///
/// ```
/// use std::io;
/// use std::net::IpAddr;
///
/// use toolcell_system::BoxFuture;
/// use toolcell_sandbox::Resolver;
///
/// /// Knows one name. Its address is vetted like any other.
/// #[derive(Debug)]
/// struct OneName;
///
/// impl Resolver for OneName {
///     fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
///         let address = IpAddr::from([192, 0, 2, 7]);
///         let found = if name == "api.example.com" { vec![address] } else { Vec::new() };
///         Box::pin(async move { Ok(found) })
///     }
/// }
/// ```
pub trait Resolver: Debug + Send + Sync {
    /// `name` is in lower case, without a final dot. Dropping the future ends the look-up.
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>>;
}
