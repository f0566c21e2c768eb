//! Whom the user trusts to sign what.
