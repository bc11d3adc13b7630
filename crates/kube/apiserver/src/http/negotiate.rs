//! The shape in which the client wants the response.

use http::{HeaderMap, StatusCode, header};

use super::status::ApiError;

/// The shapes in which objects are served. The encoding is always JSON: every Kubernetes client that prefers protobuf
/// accepts JSON as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Whole objects.
    Object,
    /// `meta.k8s.io/v1` `Table`, for printing.
    Table,
    /// `meta.k8s.io/v1` `PartialObjectMetadata`.
    Metadata,
}

/// The first shape in the `Accept` header that can be served.
pub(crate) fn shape(headers: &HeaderMap) -> Result<Shape, ApiError> {
    let mut any = false;
    for value in headers.get_all(header::ACCEPT) {
        for choice in value.to_str().unwrap_or_default().split(',') {
            any = true;
            let mut parts = choice.split(';').map(str::trim);
            let media_type = parts.next().unwrap_or_default();
            if !matches!(media_type, "application/json" | "application/*" | "*/*" | "") {
                continue;
            }
            let mut wanted = None;
            let mut version = None;
            let mut group = None;
            for (name, value) in parts.filter_map(|part| part.split_once('=')) {
                match name {
                    "as" => wanted = Some(value),
                    "v" => version = Some(value),
                    "g" => group = Some(value),
                    _ => {}
                }
            }
            let v1 = version == Some("v1") && group == Some("meta.k8s.io");
            match wanted {
                None => return Ok(Shape::Object),
                Some("Table") if v1 => return Ok(Shape::Table),
                Some("PartialObjectMetadata" | "PartialObjectMetadataList") if v1 => {
                    return Ok(Shape::Metadata);
                }
                Some(_) => {}
            }
        }
    }
    if any {
        Err(not_acceptable())
    } else {
        Ok(Shape::Object)
    }
}

/// Whether the client prefers aggregated discovery to plain JSON.
pub(crate) fn wants_aggregated_discovery(headers: &HeaderMap) -> bool {
    let accept = headers
        .get_all(header::ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok());
    let mut choices = accept.flat_map(|value| value.split(','));
    let first_json = choices.find(|choice| choice.trim().starts_with("application/json"));
    first_json.is_some_and(|choice| {
        ["g=apidiscovery.k8s.io", "v=v2", "as=APIGroupDiscoveryList"]
            .iter()
            .all(|wanted| choice.split(';').any(|part| part.trim() == *wanted))
    })
}

fn not_acceptable() -> ApiError {
    ApiError::new(
        StatusCode::NOT_ACCEPTABLE,
        "NotAcceptable",
        "only the following media types are accepted: application/json",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accept(value: &str) -> HeaderMap {
        HeaderMap::from_iter([(header::ACCEPT, value.parse().unwrap())])
    }

    #[test]
    fn shape_is_the_first_acceptable_one() {
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        let metadata = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
        assert_eq!(shape(&accept(table)), Ok(Shape::Table));
        assert_eq!(shape(&accept(metadata)), Ok(Shape::Metadata));
        assert_eq!(
            shape(&accept("application/vnd.kubernetes.protobuf, */*")),
            Ok(Shape::Object)
        );
        assert_eq!(shape(&HeaderMap::new()), Ok(Shape::Object));
        assert_eq!(
            shape(&accept("application/vnd.kubernetes.protobuf"))
                .unwrap_err()
                .code
                .as_u16(),
            406
        );
        assert!(wants_aggregated_discovery(&accept(
            "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
        )));
        assert!(!wants_aggregated_discovery(&accept("application/json")));
    }
}
