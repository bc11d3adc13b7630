//! The screens with one part that a module loads again, by their paths.

/// A screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Screen {
    Observed,
    Pools,
    Kiosk,
}

impl Screen {
    /// The path of a screen of one namespace, or of all.
    pub(crate) fn path(self, namespace: Option<&str>) -> String {
        let word = match self {
            Self::Observed => "observed",
            Self::Pools => "pools",
            Self::Kiosk => "kiosk",
        };
        let query = namespace.map(|namespace| {
            let mut query = form_urlencoded::Serializer::for_suffix(String::from("?"), 1);
            query.append_pair("namespace", namespace).finish()
        });
        format!("/{word}{}", query.unwrap_or_default())
    }

    /// The path of its part.
    pub(crate) fn part(self, namespace: Option<&str>) -> String {
        format!("/fragment{}", self.path(namespace))
    }
}

/// How much of a screen is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    Page,
    Part,
}
