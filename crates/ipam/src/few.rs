//! A set that nearly always has one element.

/// Never empty, sorted, without repetition. One element costs no allocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Few<T> {
    least: T,
    /// Greater than `least`, ascending.
    others: Box<[T]>,
}

impl<T: Ord> Few<T> {
    pub(crate) fn one(element: T) -> Self {
        Self { least: element, others: Box::default() }
    }

    pub(crate) fn least(&self) -> &T {
        &self.least
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        std::iter::once(&self.least).chain(&self.others)
    }

    pub(crate) fn is_one(&self) -> bool {
        self.others.is_empty()
    }

    pub(crate) fn contains(&self, element: &T) -> bool {
        self.least == *element || self.others.binary_search(element).is_ok()
    }

    pub(crate) fn insert(&mut self, mut element: T) {
        if self.contains(&element) {
            return;
        }
        if element < self.least {
            std::mem::swap(&mut element, &mut self.least);
        }
        let mut others = std::mem::take(&mut self.others).into_vec();
        let at = others.partition_point(|other| *other < element);
        others.insert(at, element);
        self.others = others.into();
    }

    /// Without `element`; `None` when that leaves nothing.
    pub(crate) fn without(self, element: &T) -> Option<Self> {
        let mut left: Vec<T> =
            std::iter::once(self.least).chain(self.others).filter(|other| other != element).collect();
        if left.is_empty() {
            return None;
        }
        let least = left.remove(0);
        Some(Self { least, others: left.into() })
    }
}
