//! The timeline: the screen, the part of it that changes, and its files.

use std::sync::Arc;

use axum::body::Body;
use http::{HeaderValue, Response, StatusCode, header};

use super::{Server, markup, text};
use crate::{
    html::Whose,
    objects::Objects,
    timeline::{Timeline, window::Asked},
    timeline_html,
};

/// What is sent of a timeline.
#[derive(Clone, Copy, Debug)]
enum Part {
    Page(Whose),
    Lanes,
    Picture,
    Records,
}

impl Server {
    /// The screen that a query asks for.
    pub(super) async fn timeline(&self, query: &str) -> Response<Body> {
        self.part(Part::Page(self.whose), query).await
    }

    /// What the module puts in the place of what it was sent before.
    pub(super) async fn timeline_lanes(&self, query: &str) -> Response<Body> {
        self.part(Part::Lanes, query).await
    }

    /// The lanes as a file.
    pub(super) async fn timeline_picture(&self, query: &str) -> Response<Body> {
        self.part(Part::Picture, query).await
    }

    /// The records as JSON lines.
    pub(super) async fn timeline_records(&self, query: &str) -> Response<Body> {
        self.part(Part::Records, query).await
    }

    async fn part(&self, part: Part, query: &str) -> Response<Body> {
        let asked = match Asked::of(query) {
            Ok(asked) => asked,
            Err(error) => {
                return markup(
                    StatusCode::BAD_REQUEST,
                    timeline_html::refused(&error.to_string()),
                );
            }
        };
        let clock = Arc::clone(&self.clock);
        let made = move |objects: &Objects| {
            let now = clock().as_millisecond();
            made(part, &Timeline::new(objects, &asked, now), &asked)
        };
        self.made_of_objects(made).await
    }
}

fn made(part: Part, timeline: &Timeline, asked: &Asked) -> Response<Body> {
    match part {
        Part::Page(whose) => markup(StatusCode::OK, timeline_html::page(timeline, asked, whose)),
        Part::Lanes => markup(StatusCode::OK, timeline_html::lanes(timeline, asked)),
        Part::Picture => file("timeline.svg", "image/svg+xml", timeline_html::picture(timeline)),
        Part::Records => {
            let lines = timeline.records.iter();
            let lines = lines.filter_map(|line| serde_json::to_string(&**line).ok());
            let lines: String = lines.map(|line| line + "\n").collect();
            file("journal.jsonl", "application/jsonl", lines)
        }
    }
}

/// An answer that a browser saves.
fn file(name: &str, kind: &'static str, body: String) -> Response<Body> {
    let mut response = text(StatusCode::OK, kind, body);
    if let Ok(saved) = HeaderValue::from_str(&format!("attachment; filename=\"{name}\"")) {
        response.headers_mut().insert(header::CONTENT_DISPOSITION, saved);
    }
    response
}
