use serde_json::json;

use super::*;
use crate::{
    hooks::{
        AfterControlPlaneInitialized, BeforeClusterCreate, BeforeClusterCreateRequest,
        BeforeClusterCreateResponse, Discovery, DiscoveryRequest, ResponseStatus,
    },
    request, response,
    wire::Object,
};

request! {
    struct OldRequest {
        cluster: Object,
    }
}

response! {
    struct OldResponse: plain {
        first: String,
    }
}

request! {
    struct NewRequest {
        cluster: Object,
        reason: String,
    }
}

response! {
    struct NewResponse: retry {
        first: String,
        second: i32,
    }
}

macro_rules! own {
    ($type:ident, $name:literal, $version:literal, $group:literal, $request:ty, $response:ty) => {
        struct $type;

        impl Hook for $type {
            type Request = $request;
            type Response = $response;
            const GROUP: &'static str = $group;
            const VERSION: &'static str = $version;
            const NAME: &'static str = $name;
            const META: HookMeta = HookMeta::new("A hook of a test");
        }
    };
}

own!(
    Old,
    "Fake",
    "v1alpha1",
    "test.example.com",
    OldRequest,
    OldResponse
);
own!(
    New,
    "Fake",
    "v1alpha2",
    "test.example.com",
    NewRequest,
    NewResponse
);
own!(
    Impostor,
    "FAKE",
    "v1alpha1",
    "test.example.com",
    OldRequest,
    OldResponse
);
own!(NoGroup, "Fake", "v1", "", OldRequest, OldResponse);
own!(NoVersion, "Fake", "", "test.example.com", OldRequest, OldResponse);
own!(NoName, "", "v1", "test.example.com", OldRequest, OldResponse);
own!(
    PathName,
    "Fake/../Real",
    "v1",
    "test.example.com",
    OldRequest,
    OldResponse
);

impl Convert<Old> for New {
    fn request(request: NewRequest) -> Result<OldRequest, ConversionError> {
        if request.reason == "unsayable" {
            return Err(ConversionError::Unsaid("no reasons in v1alpha1".to_owned()));
        }
        Ok(OldRequest {
            settings: request.settings,
            cluster: request.cluster,
        })
    }

    fn response(response: OldResponse) -> Result<NewResponse, ConversionError> {
        Ok(NewResponse {
            status: response.status,
            message: response.message,
            first: response.first,
            ..NewResponse::default()
        })
    }
}

fn both() -> Catalog {
    let mut catalog = Catalog::empty();
    catalog
        .add::<Old>()
        .unwrap()
        .add::<New>()
        .unwrap()
        .add_conversion::<New, Old>()
        .unwrap();
    catalog
}

fn cluster() -> Object {
    Object::try_from(json!({ "kind": "Cluster", "metadata": { "name": "c" } })).unwrap()
}

/// CAT-1, CAT-4, CAT-5.
#[test]
fn a_hook_is_there_once_in_each_version() {
    let mut catalog = both();
    catalog.add::<Old>().unwrap();
    let ids: Vec<String> = catalog.ids().map(ToString::to_string).collect();
    assert_eq!(
        ids,
        [
            "test.example.com/v1alpha1, Hook=Fake",
            "test.example.com/v1alpha2, Hook=Fake"
        ]
    );
    assert!(Old::id().same_hook(&New::id()));
    assert!(!Old::id().same_hook(&Discovery::id()));
}

/// CAT-6. Unlike upstream, a hook of another type with the same path is refused too.
#[test]
fn a_hook_without_a_place_of_its_own_is_refused() {
    let mut catalog = both();
    assert!(matches!(
        catalog.add::<Impostor>(),
        Err(CatalogError::Taken { .. })
    ));
    assert!(matches!(catalog.add::<NoGroup>(), Err(CatalogError::Group(_))));
    assert!(matches!(
        catalog.add::<NoVersion>(),
        Err(CatalogError::Version(_))
    ));
    assert!(matches!(catalog.add::<NoName>(), Err(CatalogError::Name(_))));
    assert!(matches!(catalog.add::<PathName>(), Err(CatalogError::Name(_))));
    assert_eq!(catalog.ids().count(), 2);
    assert!(matches!(
        Catalog::empty().add_conversion::<New, Old>(),
        Err(CatalogError::Unknown(_))
    ));
}

/// CAT-7.
#[test]
fn a_request_goes_to_the_extensions_version() {
    let request = NewRequest {
        cluster: cluster(),
        reason: "why".to_owned(),
        ..NewRequest::default()
    };
    let written = both().write_request::<New>(&request, &Old::id()).unwrap();
    assert_eq!(
        serde_json::from_slice::<Value>(&written).unwrap(),
        json!({
            "apiVersion": "test.example.com/v1alpha1", "kind": "FakeRequest",
            "cluster": { "kind": "Cluster", "metadata": { "name": "c" } },
        })
    );
    let same = both().write_request::<New>(&request, &New::id()).unwrap();
    assert_eq!(
        serde_json::from_slice::<Value>(&same).unwrap(),
        json!({
            "apiVersion": "test.example.com/v1alpha2", "kind": "FakeRequest", "reason": "why",
            "cluster": { "kind": "Cluster", "metadata": { "name": "c" } },
        })
    );
    let request = NewRequest {
        reason: "unsayable".to_owned(),
        ..request
    };
    let error = both().write_request::<New>(&request, &Old::id()).unwrap_err();
    assert!(matches!(error, CatalogError::Conversion { .. }), "{error}");
}

/// CAT-8.
#[test]
fn a_response_is_in_the_callers_version() {
    let bytes = br#"{"kind": "other", "STATUS": "Success", "first": "a", "second": 2}"#;
    let response = both().read_response::<New>(bytes, &Old::id()).unwrap();
    assert_eq!(
        response,
        NewResponse {
            first: "a".to_owned(),
            ..NewResponse::default()
        }
    );
    let response = both().read_response::<New>(bytes, &New::id()).unwrap();
    assert_eq!(
        response,
        NewResponse {
            first: "a".to_owned(),
            second: 2,
            ..NewResponse::default()
        }
    );
    let response = both()
        .read_response::<New>(br#"{"first": "a"}"#, &Old::id())
        .unwrap();
    assert_eq!(response.status, ResponseStatus::absent());
}

/// CLI-2, CLI-3, and a conversion that exists only in the other direction.
#[test]
fn an_unknown_version_and_a_missing_conversion_are_errors() {
    let request = OldRequest::default();
    let catalog = Catalog::cluster_api();
    assert!(matches!(
        catalog.write_request::<Old>(&request, &Old::id()),
        Err(CatalogError::Unknown(_))
    ));
    assert!(matches!(
        catalog.read_response::<Old>(b"{}", &Old::id()),
        Err(CatalogError::Unknown(_))
    ));
    let error = both().write_request::<Old>(&request, &New::id()).unwrap_err();
    assert!(matches!(error, CatalogError::NoConversion { .. }), "{error}");
    let error = both().read_response::<Old>(b"{", &Old::id()).unwrap_err();
    assert!(matches!(error, CatalogError::Read { .. }), "{error}");
}

#[test]
fn releases_before_1_12_have_ten_hooks() {
    for (text, hooks) in [
        ("1.10", 10),
        ("v1.11.3", 10),
        ("1.12", 17),
        ("v1.14.2", 17),
        ("1.30", 17),
    ] {
        let release: Release = text.parse().unwrap();
        assert_eq!(Catalog::cluster_api_at(release).ids().count(), hooks, "{text}");
    }
    for text in ["", "1", "1.9", "2.0", "v1.x", "1.-1"] {
        assert_eq!(text.parse::<Release>(), Err(ReleaseError(text.to_owned())));
    }
    let before: Vec<String> = Catalog::cluster_api_at(Release::new(11))
        .ids()
        .map(|id| id.hook.to_string())
        .collect();
    assert_eq!(
        before,
        [
            "AfterClusterUpgrade",
            "AfterControlPlaneInitialized",
            "AfterControlPlaneUpgrade",
            "BeforeClusterCreate",
            "BeforeClusterDelete",
            "BeforeClusterUpgrade",
            "DiscoverVariables",
            "Discovery",
            "GeneratePatches",
            "ValidateTopology",
        ]
    );
}

#[test]
fn status_and_retry_are_always_written_and_empty_things_are_not() {
    let write = |value: Value| value.to_string();
    assert_eq!(
        write(serde_json::to_value(BeforeClusterCreateResponse::default()).unwrap()),
        r#"{"retryAfterSeconds":0,"status":"Success"}"#
    );
    assert_eq!(
        write(serde_json::to_value(BeforeClusterCreateResponse::retry_after(5, "busy")).unwrap()),
        r#"{"message":"busy","retryAfterSeconds":5,"status":"Success"}"#
    );
    assert_eq!(
        write(serde_json::to_value(<AfterControlPlaneInitialized as Hook>::Response::default()).unwrap()),
        r#"{"status":"Success"}"#
    );
    assert_eq!(
        write(serde_json::to_value(BeforeClusterCreateRequest::default()).unwrap()),
        r#"{"cluster":null}"#
    );
    assert_eq!(
        write(serde_json::to_value(DiscoveryRequest::default()).unwrap()),
        "{}"
    );
    let request = Catalog::cluster_api()
        .write_request::<BeforeClusterCreate>(
            &BeforeClusterCreateRequest::default(),
            &BeforeClusterCreate::id(),
        )
        .unwrap();
    assert_eq!(
        String::from_utf8(request).unwrap(),
        r#"{"kind":"BeforeClusterCreateRequest","apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1","cluster":null}"#
    );
}
