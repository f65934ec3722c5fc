//! A bounded queue between the call and the application.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

#[derive(Debug)]
struct Inside<T> {
    items: VecDeque<T>,
    is_closed: bool,
}

/// A queue that drops its oldest items beyond a limit; both ends of it.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    shared: Arc<(Mutex<Inside<T>>, Condvar)>,
    limit: usize,
}

impl<T> Clone for Queue<T> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), limit: self.limit }
    }
}

impl<T> Queue<T> {
    /// An empty queue for `limit` items.
    pub(crate) fn new(limit: usize) -> Self {
        let inside = Inside { items: VecDeque::new(), is_closed: false };
        Self { shared: Arc::new((Mutex::new(inside), Condvar::new())), limit }
    }

    fn inside(&self) -> MutexGuard<'_, Inside<T>> {
        self.shared.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an item.
    pub(crate) fn push(&self, item: T) {
        let mut inside = self.inside();
        inside.items.push_back(item);
        if inside.items.len() > self.limit {
            inside.items.pop_front();
        }
        self.shared.1.notify_one();
    }

    /// No more items will come.
    pub(crate) fn close(&self) {
        self.inside().is_closed = true;
        self.shared.1.notify_all();
    }

    /// The next item; waits for it up to `limit`. None if none came, or none will.
    pub(crate) fn pop(&self, limit: Duration) -> Option<T> {
        let deadline = Instant::now().checked_add(limit);
        let mut inside = self.inside();
        loop {
            if let Some(item) = inside.items.pop_front() {
                return Some(item);
            }
            if inside.is_closed {
                return None;
            }
            let wait = match deadline {
                Some(deadline) => deadline.saturating_duration_since(Instant::now()),
                None => Duration::from_secs(3_600),
            };
            if wait.is_zero() {
                return None;
            }
            inside = self.shared.1.wait_timeout(inside, wait).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oldest_items_are_dropped_beyond_the_limit() {
        let queue = Queue::new(2);
        (0..5).for_each(|item| queue.push(item));
        queue.close();
        let items: Vec<i32> = std::iter::from_fn(|| queue.pop(Duration::MAX)).collect();
        assert_eq!(items, [3, 4]);
    }
}
