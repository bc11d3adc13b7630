//! The screens Pools and Observed, and the kiosk: each has one part that a module loads again.

use axum::body::Body;
use http::{Response, StatusCode};
use maud::Markup;

use super::{Server, markup};
use crate::{
    board::Board, html::Frame, kiosk_html, objects::Objects, observed::Observed, observed_html,
    pool_grid::Grids, pools_html, screen::Extent,
};

impl Server {
    /// The pools of the namespace that a query asks for, or of all.
    pub(super) async fn pools(&self, extent: Extent, query: &str) -> Response<Body> {
        let whose = self.whose;
        self.screen(query, move |objects, namespace| {
            let grids = Grids::new(objects, namespace);
            match extent {
                Extent::Page => pools_html::page(&grids, namespace, whose),
                Extent::Part => pools_html::part(&grids),
            }
        })
        .await
    }

    /// What is observed in the namespace that a query asks for, or in all.
    pub(super) async fn observed(&self, extent: Extent, query: &str) -> Response<Body> {
        let whose = self.whose;
        self.screen(query, move |objects, namespace| {
            let observed = Observed::new(objects, namespace);
            match extent {
                Extent::Page => observed_html::page(&observed, namespace, whose),
                Extent::Part => observed_html::part(&observed),
            }
        })
        .await
    }

    /// The cloud with nothing to select, and what happened last.
    pub(super) async fn kiosk(&self, extent: Extent) -> Response<Body> {
        let (shown, version) = match self.shown(None).await {
            Ok(found) => found,
            Err(refusal) => return refusal,
        };
        let board = Board::new(&shown.objects.scenarios);
        let journal = shown.objects.journal.iter().map(AsRef::as_ref);
        let part = kiosk_html::part(&board, journal);
        let frame = Frame {
            namespace: None,
            version,
            whose: self.whose,
        };
        let made = match extent {
            Extent::Page => kiosk_html::page(&shown.elements, &frame, &part),
            Extent::Part => part,
        };
        markup(StatusCode::OK, made)
    }

    /// What is made of the objects in the namespace that a query asks for.
    async fn screen(
        &self,
        query: &str,
        make: impl FnOnce(&Objects, Option<&str>) -> Markup + Send + 'static,
    ) -> Response<Body> {
        let mut fields = form_urlencoded::parse(query.as_bytes());
        let namespace = fields
            .find(|(name, value)| name == "namespace" && !value.is_empty())
            .map(|(_, value)| value.into_owned());
        let made = move |objects: &Objects| markup(StatusCode::OK, make(objects, namespace.as_deref()));
        self.made_of_objects(made).await
    }
}
