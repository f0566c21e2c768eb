//! The page of each error code.

mod api;
mod calling;
mod clients;
mod components;
mod install;
mod policy;
mod replay;
mod running;

use super::page::Page;

/// All pages, by area.
const AREAS: [&[Page]; 8] = [
    calling::PAGES,
    policy::PAGES,
    running::PAGES,
    components::PAGES,
    api::PAGES,
    install::PAGES,
    replay::PAGES,
    clients::PAGES,
];

/// All pages, in alphabetical order of their codes.
pub(super) fn all() -> Vec<&'static Page> {
    let mut pages: Vec<&Page> = AREAS.into_iter().flatten().collect();
    pages.sort_unstable_by_key(|page| page.code);
    pages
}
