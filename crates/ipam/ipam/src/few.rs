//! A set that nearly always has one element.

/// Never empty, sorted, without repetition. One element costs no allocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Few<T> {
    least: T,
    others: Box<[T]>,
}

impl<T: Ord> Few<T> {
    pub(crate) fn one(element: T) -> Self {
        Self {
            least: element,
            others: Box::default(),
        }
    }

    pub(crate) fn least(&self) -> &T {
        &self.least
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        std::iter::once(&self.least).chain(&self.others)
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

    /// Removes `element`, unless it is the only one: then returns false.
    #[must_use]
    pub(crate) fn remove(&mut self, element: &T) -> bool {
        let mut others = std::mem::take(&mut self.others).into_vec();
        if self.least == *element {
            if others.is_empty() {
                return false;
            }
            self.least = others.remove(0);
        } else {
            others.retain(|other| other != element);
        }
        self.others = others.into();
        true
    }
}
