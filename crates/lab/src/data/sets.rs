//! The known public sets of traces. Lockstep contains none of them.
//!
//! This file has no hashes of them: the first download records the hash of a file, and later ones verify it. A URL with
//! a commit names constant content.

use anyhow::{Result, bail};

/// A data set.
pub struct DataSet {
    /// Its name for `lockstep data get`.
    pub name: &'static str,
    /// Description of the data set.
    pub about: &'static str,
    /// Licence, as its authors state it.
    pub licence: &'static str,
    /// Page of its authors.
    pub page: &'static str,
    /// Its files: names and URLs.
    pub files: &'static [(&'static str, &'static str)],
    /// Manual steps if no command can download it.
    pub by_hand: Option<&'static str>,
}

/// URL of a file in mahimahi's repository, at the commit that added it.
macro_rules! mahimahi {
    ($($name:literal at $commit:literal),+ $(,)?) => {
        &[$((
            $name,
            concat!("https://raw.githubusercontent.com/ravinet/mahimahi/", $commit, "/traces/", $name),
        )),+]
    };
}

/// All data sets.
pub const ALL: &[DataSet] = &[
    DataSet {
        name: "mahimahi",
        about: "delivery opportunities of LTE, UMTS and EVDO links in cars (Winstein et al. 2013; Netravali et al. 2015)",
        licence: "GPL-3.0, as the repository that they are in",
        page: "https://github.com/ravinet/mahimahi",
        files: mahimahi![
            "ATT-LTE-driving-2016.down" at "524fe6bda7ebe94de98d00fdbe5bf61df7a3b2d4",
            "ATT-LTE-driving-2016.up" at "cb0e884b107de6958cdf7d04a96e46051b5a0d13",
            "ATT-LTE-driving.down" at "1a775777d2f8e667c59447bf0ff268178b6ff4ad",
            "ATT-LTE-driving.up" at "1a775777d2f8e667c59447bf0ff268178b6ff4ad",
            "TMobile-LTE-driving.down" at "b024963136d0d4b43c9cee347e2478562eeafab3",
            "TMobile-LTE-short.down" at "c0613183586e6c71b7e13eb55cdd6aa1129bc882",
            "TMobile-LTE-short.up" at "c0613183586e6c71b7e13eb55cdd6aa1129bc882",
            "TMobile-UMTS-driving.down" at "1a775777d2f8e667c59447bf0ff268178b6ff4ad",
            "TMobile-UMTS-driving.up" at "1a775777d2f8e667c59447bf0ff268178b6ff4ad",
            "Verizon-EVDO-driving.down" at "1a775777d2f8e667c59447bf0ff268178b6ff4ad",
            "Verizon-EVDO-driving.up" at "1a775777d2f8e667c59447bf0ff268178b6ff4ad",
            "Verizon-LTE-short.down" at "1a775777d2f8e667c59447bf0ff268178b6ff4ad",
            "Verizon-LTE-short.up" at "1a775777d2f8e667c59447bf0ff268178b6ff4ad",
        ],
        by_hand: None,
    },
    DataSet {
        name: "belgium-4g",
        about: "4G/LTE in Ghent, a line a second (van der Hooft et al. 2016)",
        licence: "for research; its authors ask to be cited",
        page: "https://users.ugent.be/~jvdrhoof/dataset-4g/",
        files: &[("logs_all.zip", "https://users.ugent.be/~jvdrhoof/dataset-4g/logs/logs_all.zip")],
        by_hand: None,
    },
    DataSet {
        name: "norway-3g",
        about: "3G/HSDPA on buses, trams, trains, ferries and in cars, a line a second (Riiser et al. 2013)",
        licence: "for research; its authors ask to be cited",
        page: "https://datasets.simula.no/hsdpa-tcp-logs/",
        files: &[],
        by_hand: Some(
            "fetch the folders of logs that https://datasets.simula.no/hsdpa-tcp-logs/ links; `lockstep data convert` reads them",
        ),
    },
    DataSet {
        name: "nyu-lte",
        about: "LTE on New York's buses, trains and ferries (Mei et al. 2019)",
        licence: "see its repository",
        page: "https://github.com/NYU-METS",
        files: &[],
        by_hand: Some(
            "no lasting address of its files is known here; give its folder to `lockstep data convert`, which reads columns of seconds and Mb/s",
        ),
    },
    DataSet {
        name: "fcc",
        about: "fixed broadband in the United States, raw measurements of the FCC's Measuring Broadband America",
        licence: "public domain (a work of the United States government)",
        page: "https://www.fcc.gov/reports-research/reports/measuring-broadband-america",
        files: &[],
        by_hand: Some(
            "archives of gigabytes, a new one a year: fetch one from its page, cut it into traces of seconds and Mb/s, and give that folder to `lockstep data convert`",
        ),
    },
    DataSet {
        name: "mmsys21",
        about: "traces of the MMSys'21 challenge on bandwidth estimation, AlphaRTC's JSON",
        licence: "see its repository",
        page: "https://github.com/OpenNetLab/AlphaRTC",
        files: &[],
        by_hand: Some(
            "no lasting address of its files is known here; clone the challenge's repositories and give their traces to `lockstep data convert`",
        ),
    },
];

/// The data set `name`.
///
/// # Errors
/// If no such data set exists; the error lists all names.
pub fn named(name: &str) -> Result<&'static DataSet> {
    match ALL.iter().find(|set| set.name == name) {
        Some(set) => Ok(set),
        None => {
            let names: Vec<&str> = ALL.iter().map(|set| set.name).collect();
            bail!("unknown data set `{name}`; expected one of: {}", names.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_set_has_files_or_manual_steps() {
        for set in ALL {
            assert_eq!(set.files.is_empty(), set.by_hand.is_some(), "{}", set.name);
            assert!(!set.licence.is_empty() && set.files.iter().all(|(_, url)| url.starts_with("https://")));
        }
        assert!(named("norway").is_err_and(|error| error.to_string().contains("norway-3g")));
    }
}
