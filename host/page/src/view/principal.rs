//! What a principal of a server has and may use.

use axum::response::Response;
use maud::html;

use crate::Shown;
use crate::layout::{PageProblem, Place, fact};
use crate::text::line;

pub(crate) async fn show(Shown(state): Shown) -> Result<Response, PageProblem> {
    let work = |state: &crate::PageState| {
        let own = state.user.principal();
        let own = own.ok_or_else(|| PageProblem::unknown("there is nothing here"))?;
        let body = html! {
            h1 { "Principal " span class="said" { (line(&own.name)) } }
            section id="content" data-live="principal" {
                dl class="facts" {
                    @for (name, value) in &own.facts { (fact(name, &html! { span class="said" { (line(value)) } })) }
                }
            }
        };
        state.page("Principal", Place::Principal, &body)
    };
    state.aside(work).await
}
