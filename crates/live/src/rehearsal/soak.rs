//! Hours of a call in which anything may happen at any time.
