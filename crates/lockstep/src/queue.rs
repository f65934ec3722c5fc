//! Bounded queue between the call and the application.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

#[derive(Debug)]
struct Inside<T> {
    items: VecDeque<T>,
    is_closed: bool,
}

/// A queue that drops its oldest items beyond a limit, for both sides.
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
        self.push_among(item, |_| true);
    }

    /// Adds an item. If more than the limit of items are `among` its kind, the oldest of them is dropped.
    pub(crate) fn push_among(&self, item: T, among: impl Fn(&T) -> bool) {
        let mut inside = self.inside();
        inside.items.push_back(item);
        if inside.items.iter().filter(|other| among(other)).count() > self.limit
            && let Some(oldest) = inside.items.iter().position(among)
        {
            inside.items.remove(oldest);
        }
        // All threads wake, because one that only waits takes no item.
        self.shared.1.notify_all();
    }

    /// Marks the end of the items.
    pub(crate) fn close(&self) {
        self.inside().is_closed = true;
        self.shared.1.notify_all();
    }

    /// Waits up to `limit` for the next item; `None` if there was none, or after the last one.
    pub(crate) fn pop(&self, limit: Duration) -> Option<T> {
        self.wait_inside(limit).items.pop_front()
    }

    /// Waits up to `limit` for an item, without taking it. Returns whether an item waits or no more will follow.
    pub(crate) fn wait(&self, limit: Duration) -> bool {
        let inside = self.wait_inside(limit);
        inside.is_closed || !inside.items.is_empty()
    }

    fn wait_inside(&self, limit: Duration) -> MutexGuard<'_, Inside<T>> {
        let deadline = Instant::now().checked_add(limit);
        let mut inside = self.inside();
        while inside.items.is_empty() && !inside.is_closed {
            let wait = match deadline {
                Some(deadline) => deadline.saturating_duration_since(Instant::now()),
                None => Duration::from_secs(3_600),
            };
            if wait.is_zero() {
                break;
            }
            inside = self.shared.1.wait_timeout(inside, wait).unwrap_or_else(PoisonError::into_inner).0;
        }
        inside
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

    #[test]
    fn items_of_another_kind_are_not_dropped() {
        let queue = Queue::new(2);
        queue.push_among(100, |&item| item >= 100);
        (0..5).for_each(|item| queue.push_among(item, |&other| other < 100));
        queue.close();
        let items: Vec<i32> = std::iter::from_fn(|| queue.pop(Duration::MAX)).collect();
        assert_eq!(items, [100, 3, 4]);
    }

    #[test]
    fn waiting_takes_no_item() {
        let queue = Queue::new(2);
        assert!(!queue.wait(Duration::ZERO));
        queue.push(1);
        assert!(queue.wait(Duration::MAX));
        assert_eq!(queue.pop(Duration::ZERO), Some(1));
        queue.close();
        assert!(queue.wait(Duration::MAX));
    }
}
