use toolcell_spec::Refusal;
use toolcell_system::BoxFuture;

/// Asked before a guest runs with its permit, as by a machine that holds a call for others.
///
/// ```
/// use toolcell_engine::pipeline::StartGate;
/// use toolcell_spec::{ErrorCode, Refusal};
/// use toolcell_system::BoxFuture;
///
/// /// Lets no call change anything.
/// struct Unchanging;
///
/// impl StartGate for Unchanging {
///     fn start(&self, changes: bool) -> BoxFuture<'_, Result<(), Refusal>> {
///         let refusal = Refusal::new(ErrorCode::NotGranted, "nothing may be changed");
///         Box::pin(async move { if changes { Err(refusal) } else { Ok(()) } })
///     }
/// }
/// ```
pub trait StartGate: Send + Sync {
    /// `changes`: the permit allows a lasting effect, or a request to a network. Asked again for each call that the tool
    /// makes.
    ///
    /// # Errors
    ///
    /// The refusal ends the call, and its guest does not run.
    fn start(&self, changes: bool) -> BoxFuture<'_, Result<(), Refusal>>;
}
