//! Live page: one HTML file that requests new samples a few times per second.

use super::Published;
use super::http::Answer;

/// The page.
const PAGE: &str = include_str!("monitor.html");

/// Answer to a request for the page or its samples.
pub fn page(published: &Published, path: &str, query: &str) -> Answer {
    match path {
        "/" => Answer::of("text/html; charset=utf-8", PAGE.to_owned()),
        "/samples" => {
            let since = query.split('&').find_map(|pair| pair.strip_prefix("since=")?.parse().ok());
            let (next, samples) = published.since(since.unwrap_or(0));
            Answer::of("application/json", format!("{{\"next\":{next},\"samples\":[{}]}}\n", samples.join(",")))
        }
        _ => Answer::refused("404 Not Found"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use lockstep_runner::live_stats::Sample;

    use super::*;

    #[test]
    fn page_gets_new_samples_and_loads_nothing_foreign() {
        let published = Published::default();
        (0..3).for_each(|at| published.take(&Sample { timestamp: f64::from(at), ..Sample::default() }));
        let times = |query: &str| {
            let answer: Value = serde_json::from_slice(&page(&published, "/samples", query).body).expect("JSON");
            let times = answer["samples"].as_array().expect("an array").iter();
            (answer["next"].as_u64(), times.filter_map(|sample| sample["timestamp"].as_f64()).collect::<Vec<_>>())
        };
        assert_eq!(times("since=0"), (Some(3), vec![0.0, 1.0, 2.0]));
        assert_eq!(times("since=2"), (Some(3), vec![2.0]));
        // The call was restarted while the page stayed open.
        assert_eq!(times("since=999"), (Some(3), vec![0.0, 1.0, 2.0]));
        assert_eq!(times("nonsense").1.len(), 3);
        assert_eq!(page(&published, "/other", "").status, "404 Not Found");
        for foreign in ["http://", "https://", "//cdn", "src=\"", "@import", "url("] {
            assert!(!PAGE.contains(foreign), "{foreign}");
        }
    }
}
